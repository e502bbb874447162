//! Checks of a request's destination and origin: web pages that a user opens must not reach this server.
//!
//! A page can send requests to this machine. If its own name resolves to 127.0.0.1, it can even
//! read the responses (DNS rebinding). A page can forge neither the name in `Host` nor its own in
//! `Origin`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use hyper::header::{HOST, HeaderMap, HeaderName, ORIGIN, TRANSFER_ENCODING};
use hyper::http::request::Parts;

/// Header in which browsers report the relation between the page and the server.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Permitted host names and origins.
pub(crate) struct Guard {
    on_loopback: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Reason why a request is rejected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// The request has no `Host` header, or several.
    NoHost,
    /// The transfer encoding is not plain chunked, so that a proxy in front of this server could
    /// see another end of the body.
    Encoding,
    /// The request names an unknown host.
    Host(String),
    /// The request comes from a page with an unknown origin.
    Origin(String),
}

/// A host and a port, as in a URL.
#[derive(Debug, PartialEq, Eq)]
struct Authority {
    host: String,
    port: Option<u16>,
}

impl Guard {
    pub(crate) fn new(address: SocketAddr, hosts: &[String], origins: &[String]) -> Self {
        Self {
            on_loopback: address.ip().is_loopback(),
            hosts: hosts.iter().map(|host| normal(host)).collect(),
            origins: origins.iter().map(|origin| origin.trim_end_matches('/').to_ascii_lowercase()).collect(),
        }
    }

    /// Checks the destination and the origin of the request.
    pub(crate) fn check(&self, request: &Parts) -> Result<(), Rejection> {
        match only(&request.headers, &TRANSFER_ENCODING) {
            Ok(None) => {}
            Ok(Some(encoding)) if encoding.eq_ignore_ascii_case("chunked") => {}
            _ => return Err(Rejection::Encoding),
        }
        let named = only(&request.headers, &HOST).ok().flatten().ok_or(Rejection::NoHost)?;
        let host = self.known(named)?;
        if let Some(authority) = request.uri.authority() {
            // An absolute request target takes precedence over `Host` (RFC 9112, section 3.2.2).
            self.known(authority.as_str())?;
        }
        let site = only(&request.headers, &FETCH_SITE).map(Option::unwrap_or_default);
        let origin = match only(&request.headers, &ORIGIN) {
            Ok(None) if matches!(site, Ok("" | "same-origin" | "none")) => return Ok(()),
            Ok(None) => return Err(Rejection::Origin("another site".to_owned())),
            Ok(Some(origin)) => origin,
            Err(HeaderError) => return Err(Rejection::Origin("several".to_owned())),
        };
        let same = split_origin(origin).is_some_and(|(scheme, page)| {
            let usual = if scheme == "https" { 443 } else { 80 };
            page.host == host.host && page.port.unwrap_or(usual) == host.port.unwrap_or(usual)
        });
        if same || self.origins.contains(&origin.to_ascii_lowercase()) {
            Ok(())
        } else {
            Err(Rejection::Origin(origin.to_owned()))
        }
    }

    fn known(&self, named: &str) -> Result<Authority, Rejection> {
        let stranger = || Rejection::Host(named.to_owned());
        let authority = split(named).ok_or_else(stranger)?;
        let known = match address(&authority.host) {
            // An address cannot be rebound. Unless the server listens on loopback, any address may
            // be one of this machine's.
            Some(address) => address.is_loopback() || !self.on_loopback,
            None => authority.host == "localhost" || self.hosts.contains(&authority.host),
        };
        if known { Ok(authority) } else { Err(stranger()) }
    }
}

/// Error: a header occurs several times, or is not text.
struct HeaderError;

/// Returns the text of a header that may occur once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, HeaderError> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| HeaderError),
        (Some(_), Some(_)) => Err(HeaderError),
    }
}

fn split(named: &str) -> Option<Authority> {
    let (host, port) = match named.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
        _ => (named, None),
    };
    let host = normal(host);
    (!host.is_empty() && !host.contains(['@', '/', '\\', ' '])).then_some(Authority { host, port })
}

/// Splits an origin into its scheme and authority.
fn split_origin(origin: &str) -> Option<(&str, Authority)> {
    let (scheme, authority) = origin.split_once("://")?;
    let known = ["http", "https"].into_iter().find(|known| scheme.eq_ignore_ascii_case(known))?;
    Some((known, split(authority)?))
}

fn normal(host: &str) -> String {
    host.trim_end_matches('.').to_ascii_lowercase()
}

fn address(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(host) => host.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok().filter(IpAddr::is_ipv4),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn checked(guard: &Guard, target: &str, headers: &[(&str, &str)]) -> Result<(), Rejection> {
        let mut request = Request::builder().uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap().into_parts().0)
    }

    fn local() -> Guard {
        let hosts = ["Tools.Example".to_owned()];
        let origins = ["https://console.example/".to_owned()];
        Guard::new("127.0.0.1:7411".parse().unwrap(), &hosts, &origins)
    }

    fn host(guard: &Guard, host: &str) -> bool {
        checked(guard, "/", &[("host", host)]).is_ok()
    }

    #[test]
    fn a_body_comes_whole_or_in_chunks_and_in_no_other_way() {
        let sent = |values: &[&str]| {
            let mut headers = vec![("host", "127.0.0.1:7411")];
            headers.extend(values.iter().map(|value| ("transfer-encoding", *value)));
            checked(&local(), "/", &headers)
        };
        assert_eq!((sent(&[]), sent(&["chunked"]), sent(&["Chunked"])), (Ok(()), Ok(()), Ok(())));
        for odd in
            ["identity, chunked", "identity", "chunked, chunked", "gzip, chunked", "xchunked", "", "chunked,"]
        {
            assert_eq!(sent(&[odd]), Err(Rejection::Encoding), "{odd}");
        }
        assert_eq!(sent(&["identity", "chunked"]), Err(Rejection::Encoding));
    }

    #[test]
    fn only_names_of_this_machine_are_answered_on_loopback() {
        for known in [
            "127.0.0.1:7411",
            "127.0.0.1",
            "127.5.0.1:1",
            "localhost:9000",
            "LOCALHOST",
            "localhost.",
            "[::1]:7411",
            "tools.example",
        ] {
            assert!(host(&local(), known), "{known}");
        }
        for stranger in [
            "evil.example",
            "evil.example:7411",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "192.168.0.1",
            "[fe80::1]",
            "[::1",
            "::1",
            "0x7f.1",
            "2130706433",
            "a@127.0.0.1",
            "127.0.0.1:port",
            "127.0.0.1:99999",
            "",
        ] {
            assert!(!host(&local(), stranger), "{stranger}");
        }
        assert_eq!(checked(&local(), "/", &[]), Err(Rejection::NoHost));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(checked(&local(), "/", &twice), Err(Rejection::NoHost));
    }

    #[test]
    fn elsewhere_every_address_is_answered_and_a_name_only_where_it_was_given() {
        let open = Guard::new("0.0.0.0:7411".parse().unwrap(), &[], &[]);
        for known in ["192.168.0.1:7411", "[2001:db8::1]:7411", "127.0.0.1", "localhost"] {
            assert!(host(&open, known), "{known}");
        }
        assert!(!host(&open, "evil.example:7411"));
    }

    #[test]
    fn a_target_that_is_named_whole_counts_beside_the_host() {
        let host = [("host", "localhost")];
        assert!(checked(&local(), "http://127.0.0.1/v1/tools", &host).is_ok());
        assert!(checked(&local(), "http://evil.example/v1/tools", &host).is_err());
    }

    #[test]
    fn a_page_is_let_in_where_it_is_this_servers_own_or_was_named() {
        let from = |origin: &str| checked(&local(), "/", &[("host", "127.0.0.1:7411"), ("origin", origin)]);
        for own in ["http://127.0.0.1:7411", "HTTP://127.0.0.1:7411", "https://console.example"] {
            assert_eq!(from(own), Ok(()), "{own}");
        }
        for foreign in [
            "http://evil.example",
            "http://127.0.0.1:3000",
            "http://127.0.0.1",
            "https://127.0.0.1",
            "http://localhost:7411",
            "ftp://127.0.0.1:7411",
            "http://127.0.0.1:7411/x",
            "http://127.0.0.1:7411@evil.example",
            "https://console.example.evil.example",
            "null",
            "",
        ] {
            assert!(from(foreign).is_err(), "{foreign}");
        }
        let twice =
            [("host", "localhost"), ("origin", "http://localhost"), ("origin", "http://evil.example")];
        assert!(checked(&local(), "/", &twice).is_err());
        assert!(checked(&local(), "/", &[("host", "localhost"), ("origin", "http://localhost")]).is_ok());
        let behind_tls = [("host", "tools.example"), ("origin", "https://tools.example")];
        assert!(checked(&local(), "/", &behind_tls).is_ok());
    }

    #[test]
    fn a_request_without_an_origin_that_a_browser_calls_foreign_is_refused() {
        let site = |site: &str| checked(&local(), "/", &[("host", "localhost"), ("sec-fetch-site", site)]);
        assert!(site("same-origin").is_ok() && site("none").is_ok());
        assert!(site("cross-site").is_err() && site("same-site").is_err());
    }
}
