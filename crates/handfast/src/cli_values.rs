//! Parsers for times, ids and kinds of effects on the command line.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use policy::EffectKind;

use crate::moment::{Moment, TIMES, duration};

/// Examples at the end of the help of the whole program.
pub(crate) const EXAMPLES: &str = "\
Examples:
  handfast call file_list '{\"path\": \"src\"}'      one call, its result as JSON
  handfast check -- rm -rf build                 what the policy would decide, and why
  handfast up                                    serves agents over HTTP, and prints how they reach it
  handfast mcp                                   serves an agent over standard input and output
  handfast csp                                   answers CSP/1 requests over standard input and output
  handfast status                                who is served, and what waits
  handfast log                                   what was done, newest first
  handfast undo                                  lists the newest changes, and asks which to undo";

/// Start of an undo of several calls.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Since {
    Time(Moment),
    Call(String),
}

/// Minimum number of digits in the id of a call.
const LEAST_DIGITS: usize = 4;

/// Describes a value that is none of the known ones, and names the most similar one.
pub(crate) fn not_one_of(text: &str, known: &[&str]) -> String {
    let meant = tool::nearest(text, known.iter().copied());
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    format!("`{text}` is not one of {}{meant}", known.join(", "))
}

/// Parses a duration.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    duration(text)
}

/// Default address of `up`.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7411);

/// Parses the address to listen on: `ADDR:PORT`, `PORT`, `:PORT` or `ADDR`. `localhost` is this
/// machine's loopback address.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let wrong = || {
        format!(
            "`{}` is not an address to listen on; write an address, a port or both, such as \
             127.0.0.1:7411, 7411, 0.0.0.0 or [::1]:7411",
            tool::visible(text)
        )
    };
    let ip = |host: &str| match host {
        "" | "localhost" => Some(LISTEN.ip()),
        _ => host.trim_start_matches('[').trim_end_matches(']').parse().ok(),
    };
    if let Ok(port) = text.parse() {
        return Ok(SocketAddr::new(LISTEN.ip(), port));
    }
    if let Some(ip) = ip(text).filter(|_| !text.is_empty()) {
        return Ok(SocketAddr::new(ip, LISTEN.port()));
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    ip(host).map(|ip| SocketAddr::new(ip, port)).ok_or_else(wrong)
}

/// Parses a moment.
pub(crate) fn moment(text: &str) -> Result<Moment, String> {
    Moment::parse(text)
}

/// Parses a moment or the id of a call.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    let is_id = text.len() >= LEAST_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    match moment(text) {
        Ok(moment) => Ok(Since::Time(moment)),
        Err(_) if is_id => Ok(Since::Call(text.to_owned())),
        Err(_) => Err(format!(
            "`{text}` is neither a time nor the id of a call: {TIMES}; an id has 22 hexadecimal \
             digits, of which the last {LEAST_DIGITS} can be enough"
        )),
    }
}

/// Parses an id, or the beginning or the end of one. An empty id is refused, because it would match everything.
pub(crate) fn id(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !text.is_empty() && text.bytes().all(is_part) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` is not an id: an id consists of digits and letters, such as 019b2c3d4e5f60718293a4, \
         or is the beginning or the end of one, as listings show it",
        tool::visible(text)
    ))
}

/// Parses a kind of effects.
pub(crate) fn permission(text: &str) -> Result<EffectKind, String> {
    let named = EffectKind::ALL.into_iter().find(|kind| kind.as_str() == text);
    named.ok_or_else(|| {
        format!("`{text}` is not one of {}", EffectKind::ALL.map(EffectKind::as_str).join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_to_listen_at_is_an_address_a_port_or_both() {
        for (text, expected) in [
            ("127.0.0.1:9000", "127.0.0.1:9000"),
            ("7412", "127.0.0.1:7412"),
            (":7412", "127.0.0.1:7412"),
            ("0", "127.0.0.1:0"),
            ("localhost:9000", "127.0.0.1:9000"),
            ("localhost", "127.0.0.1:7411"),
            ("0.0.0.0", "0.0.0.0:7411"),
            ("[::1]:80", "[::1]:80"),
            ("::1", "[::1]:7411"),
            ("[::]", "[::]:7411"),
        ] {
            assert_eq!(listen(text).map(|address| address.to_string()).as_deref(), Ok(expected), "{text}");
        }
        for wrong in ["", "example.com:80", "localhost:", "localhost:http", "65536", "1.2.3:80", "a b", "-1"]
        {
            assert!(listen(wrong).unwrap_err().contains("such as 127.0.0.1:7411, 7411"), "{wrong}");
        }
    }

    #[test]
    fn a_time_and_an_id_are_told_from_what_is_neither() {
        assert!(matches!(since("30m"), Ok(Since::Time(Moment::Ago(_)))));
        assert!(matches!(since("2026-11-23T17:05:00Z"), Ok(Since::Time(Moment::At(_)))));
        assert!(matches!(since("yesterday 14:00"), Ok(Since::Time(Moment::Local(..)))));
        for call in ["019b2c3d4e5f", "93a4"] {
            assert_eq!(since(call), Ok(Since::Call(call.to_owned())));
        }
        for neither in ["", "10", "0", "abc", "-1h", "1e3m", " 30m", "93ag"] {
            let error = since(neither).unwrap_err();
            assert!(
                error.contains("`yesterday 14:00`") && error.contains("22 hexadecimal digits"),
                "{error}"
            );
        }
        for no_id in ["", " ", "*", "a b", "../x", "a/b", "\u{202e}"] {
            assert!(id(no_id).unwrap_err().contains("is not an id"), "{no_id}");
        }
        assert_eq!(id("a019b2c3d4e5fc"), Ok("a019b2c3d4e5fc".to_owned()));
    }
}
