//! Pages that may be shared, by their URL. `extension/src/shareable.ts` has the same rule.

use std::net::Ipv4Addr;

use url::{Host, Url};

/// Returns the reason why a page of this URL is not shared with an agent; `None` if it may be.
///
/// Servers of this machine are left out: to the policy of a call, a loopback address is the network of
/// its own session, and in the user's browser it would be the user's machine.
pub(super) fn refusal(url: &str) -> Option<&'static str> {
    const SCHEME: &str = "only http and https pages are shared";
    const MACHINE: &str = "pages of servers on this machine are not shared";
    let Ok(url) = Url::parse(url) else { return Some(SCHEME) };
    match url.scheme() {
        "about" if url.path() == "blank" => return None,
        "http" | "https" => {}
        _ => return Some(SCHEME),
    }
    let is_here = match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_this_machine(address),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.to_ipv4_mapped().is_some_and(is_this_machine)
        }
        None => true,
    };
    is_here.then_some(MACHINE)
}

fn is_this_machine(address: Ipv4Addr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_are_shared_and_pages_of_this_machine_are_not() {
        for url in ["https://a.test/", "http://192.0.2.1:8080/x", "about:blank", "http://localhost.example/"]
        {
            assert_eq!(refusal(url), None, "{url}");
        }
        for url in [
            "http://localhost/",
            "http://LOCALHOST.:7600/",
            "http://a.localhost/",
            "http://127.0.0.1:7600/",
            "http://127.1/",
            "http://0x7f000001/",
            "http://2130706433/",
            "http://0/",
            "http://[::1]/",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "file:///etc/passwd",
            "chrome://settings",
            "data:text/html,x",
            "javascript:1",
            "view-source:http://a.test/",
            "about:srcdoc",
            "",
        ] {
            assert!(refusal(url).is_some(), "{url}");
        }
    }
}
