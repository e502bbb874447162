//! Host rules: `example.com`, `*.example.com` (every host below it), `*`, each optionally with `:port`.
//!
//! This module resolves no name. The egress proxy judges the address that a name leads to.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv6Addr};

use crate::Rule;

/// Maximum length of a host name in DNS (RFC 1035, section 2.3.4), without its final dot.
const LONGEST_HOST: usize = 253;

/// Verdict of the lists on an address that a host leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressVerdict {
    /// `deny_hosts` names the address.
    Denied,
    /// `allowed_hosts` names the address literally, not by a wildcard. Also used if the address is
    /// this machine and the list contains the name that means it.
    Named,
    /// The address is neither denied nor named.
    Unnamed,
}

/// Entries of one or more lists, by their normal form.
#[derive(Debug, Clone, Default)]
pub(crate) struct HostRules {
    rules: HashMap<String, Rule>,
}

impl HostRules {
    /// Adds an entry.
    ///
    /// # Errors
    /// Returns a description of the problem if the entry is malformed.
    pub(crate) fn add(&mut self, rule: Rule) -> Result<(), String> {
        if let Some(host) = bare_host(&rule.entry) {
            return Err(format!("a host is expected here; did you mean `{host}`?"));
        }
        if rule.entry.contains('/') {
            return Err(NO_HOST.to_owned());
        }
        let (host, port) = split_port(&rule.entry)?;
        let (wildcard, name) = match host {
            "*" => ("*", ""),
            host => host.strip_prefix("*.").map_or(("", host), |rest| ("*.", rest)),
        };
        let name = if wildcard == "*" { String::new() } else { normal_host(name).ok_or(NO_HOST)? };
        let port = port.map(|port| format!(" {port}")).unwrap_or_default();
        self.rules.entry(format!("{wildcard}{name}{port}")).or_insert(rule);
        Ok(())
    }

    /// Returns the rule that names the host, which is in normal form.
    pub(crate) fn find(&self, host: &str, port: Option<u16>) -> Option<&Rule> {
        spellings(host).find_map(|name| {
            let with_port = port.and_then(|port| self.rules.get(&format!("{name} {port}")));
            with_port.or_else(|| self.rules.get(&name))
        })
    }

    /// Returns the rule that names exactly this host and no other. The host is in normal form.
    pub(crate) fn naming(&self, host: &str, port: u16) -> Option<&Rule> {
        self.rules.get(&format!("{host} {port}")).or_else(|| self.rules.get(host))
    }

    /// Returns true if a rule names the host of an example, `HOST` or `HOST:PORT`.
    ///
    /// # Errors
    /// Returns an error if the example is not a host.
    pub(crate) fn matches(&self, example: &str) -> Result<bool, String> {
        let (host, port) = split_port(example)?;
        let host = normal_host(host).ok_or("it is neither a host name nor an address")?;
        Ok(self.find(&host, port).is_some())
    }

    /// Returns the rule that names every host that this entry names. The entry is well-formed.
    pub(crate) fn covers(&self, entry: &str) -> Option<&Rule> {
        let (host, port) = split_port(entry).ok()?;
        if host == "*" {
            return self.rules.get("*");
        }
        match host.strip_prefix("*.") {
            // Some host below a wildcard is named only by a wildcard of the same width.
            Some(parent) => self
                .find(&format!("any.{}", normal_host(parent)?), port)
                .filter(|rule| rule.entry.starts_with('*')),
            None => self.find(&normal_host(host)?, port),
        }
    }

    /// Returns every rule that names the host, at any port. The host is in normal form.
    pub(crate) fn rules_for(&self, host: &str) -> impl Iterator<Item = &Rule> {
        let spelled: Vec<String> = spellings(host).collect();
        let about = move |key: &str| {
            let name = key.split(' ').next().unwrap_or_default();
            spelled.iter().any(|spelling| spelling == name)
        };
        self.rules.iter().filter(move |(key, _)| about(key)).map(|(_, rule)| rule)
    }

    /// Returns the ports that rules name, in order, each once.
    pub(crate) fn ports(&self) -> Vec<u16> {
        let named = self.rules.keys().filter_map(|key| key.split_once(' ')?.1.parse().ok());
        named.collect::<BTreeSet<u16>>().into_iter().collect()
    }

    /// Returns true if no host is named.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

/// Returns the spellings of entries without a port that name the host, the closest first.
fn spellings(host: &str) -> impl Iterator<Item = String> {
    let parents = host.match_indices('.').filter_map(|(dot, _)| host.get(dot + 1..));
    let is_name = host.parse::<IpAddr>().is_err();
    std::iter::once(host.to_owned())
        .chain(parents.filter(move |_| is_name).map(|parent| format!("*.{parent}")))
        .chain(std::iter::once("*".to_owned()))
}

/// Returns the normal form of a host for comparison: lower case, without a final dot, addresses as
/// `std` prints them, and an IPv4 address in an IPv6 one as IPv4.
///
/// Returns `None` for text that is not a host, for example a name with a control character, a
/// percent sign or user information. Numbers that a resolver would read as an address (`127.1`,
/// `0x7f000001`) are refused too.
pub(crate) fn normal_host(host: &str) -> Option<String> {
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(address) = bare.parse::<Ipv6Addr>() {
        return Some(address.to_canonical().to_string());
    }
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    if name.parse::<IpAddr>().is_ok() {
        return Some(name);
    }
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let last = name.rsplit('.').next()?;
    let numeric = last.bytes().all(|byte| byte.is_ascii_digit()) || last.starts_with("0x");
    (name.len() <= LONGEST_HOST && !numeric && name.split('.').all(is_label)).then_some(name)
}

/// Hint for an entry that names no host.
const NO_HOST: &str = "neither a host name nor an address; write it as `example.com`, `*.example.com` \
     for all subdomains, or `example.com:8443`";

/// Returns the host of a URL, of a name with a path or a user, or of a wildcard without its sign.
/// Returns `None` for an entry that is spelled as hosts are.
fn bare_host(entry: &str) -> Option<String> {
    let rest = entry.split_once("://").map_or(entry, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let wildcard = if host.strip_prefix('.').is_some_and(|rest| !rest.starts_with('.')) { "*" } else { "" };
    let named = format!("{wildcard}{host}");
    let (name, _) = split_port(&named).ok()?;
    let is_host = normal_host(name.strip_prefix("*.").unwrap_or(name)).is_some();
    (named != entry && is_host).then_some(named)
}

fn split_port(entry: &str) -> Result<(&str, Option<u16>), String> {
    let after_address = entry.rfind(']').map_or(0, |end| end + 1);
    if after_address == 0 && entry.matches(':').count() > 1 {
        return Ok((entry, None));
    }
    match entry.get(after_address..).and_then(|rest| rest.rfind(':')).map(|colon| colon + after_address) {
        Some(colon) => {
            let (host, port) = entry.split_at(colon);
            let port = port
                .trim_start_matches(':')
                .parse()
                .map_err(|_| "the port is not a number up to 65535; write HOST or HOST:PORT")?;
            Ok((host, Some(port)))
        }
        None => Ok((entry, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Origin;

    fn rules(entries: &[&str]) -> HostRules {
        let mut rules = HostRules::default();
        for entry in entries {
            let rule = Rule {
                key: "deny_hosts",
                entry: (*entry).to_owned(),
                profile: "normal".into(),
                origin: Origin::BuiltIn,
            };
            rules.add(rule).unwrap();
        }
        rules
    }

    #[test]
    fn a_host_is_compared_in_one_form() {
        let normal = |host| normal_host(host).unwrap_or_default();
        assert_eq!(normal("Example.COM."), "example.com");
        assert_eq!(normal("[::FFFF:127.0.0.1]"), "127.0.0.1");
        assert_eq!(normal("[2001:DB8::1]"), "2001:db8::1");
        for bad in ["", "a..b", "a\0.com", "user@host", "a%2ecom", "127.1", "2130706433", "0x7f000001", "a b"]
        {
            assert_eq!(normal_host(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_is_no_host_is_told_the_host_that_it_holds() {
        let problem = |entry: &str| {
            let rule = Rule {
                key: "allowed_hosts",
                entry: entry.to_owned(),
                profile: "normal".into(),
                origin: Origin::BuiltIn,
            };
            HostRules::default().add(rule).unwrap_err()
        };
        for (entry, host) in [
            ("https://example.com/", "`example.com`"),
            ("http://example.com:8080/a?b", "`example.com:8080`"),
            ("HTTPS://example.com", "`example.com`"),
            ("example.com/path", "`example.com`"),
            ("me@example.com", "`example.com`"),
            ("https://*.example.com/x", "`*.example.com`"),
            ("https://[::1]:80/", "`[::1]:80`"),
            (".example.com", "`*.example.com`"),
        ] {
            assert!(problem(entry).contains(&format!("did you mean {host}?")), "{entry}: {}", problem(entry));
        }
        assert!(problem("example.com:https").contains("write HOST or HOST:PORT"));
        for entry in ["", "a b", "api.*.com", "https://", "127.1"] {
            assert!(
                problem(entry).contains("`*.example.com` for all subdomains"),
                "{entry}: {}",
                problem(entry)
            );
        }
    }

    #[test]
    fn a_wildcard_covers_hosts_below_and_a_port_narrows() {
        let rules = rules(&["*.example.com", "one.org:8443", "[::1]:80", "10.0.0.1"]);
        assert!(rules.find("a.b.example.com", Some(443)).is_some());
        assert!(rules.find("example.com", Some(443)).is_none());
        assert!(rules.find("one.org", Some(8443)).is_some());
        assert!(rules.find("one.org", Some(443)).is_none());
        assert!(rules.find("::1", Some(80)).is_some());
        assert!(rules.find("10.0.0.1", None).is_some());
        assert!(super::tests::rules(&["*"]).find("any.host", Some(1)).is_some());
    }
}
