//! What the lists of hosts say to one connection, for who makes it or carries it: the decision on the call does not know yet where
//! a command will connect to, or where a name leads.

use std::net::IpAddr;

use crate::Policy;
use crate::host::{AddressVerdict, normal_host};

impl Policy {
    /// Whether the host may be reached at this port without anybody being asked.
    ///
    /// # Errors
    /// Why not, and what to do about it, as one sentence.
    pub fn host_verdict(&self, host: &str, port: u16) -> Result<(), String> {
        let judged = self.judge_host(String::new(), host, Some(port));
        match judged.denied.or(judged.unlisted) {
            None => Ok(()),
            Some(cause) => Err(match cause.hint {
                Some(hint) => format!("{}; {hint}", cause.reason),
                None => cause.reason,
            }),
        }
    }

    /// Whether the host may be reached at any port.
    pub fn names_host(&self, host: &str) -> bool {
        let Some(host) = normal_host(host) else { return false };
        self.denied_hosts.find(&host, None).is_none() && self.allowed_hosts.rules_for(&host).next().is_some()
    }

    /// What the lists say to an address that `host`, a host that was decided on, leads to. For names that mean this machine
    /// (RFC 6761) the name will do, also by an entry for all below one of these.
    pub fn address_verdict(&self, host: &str, address: IpAddr, port: u16) -> AddressVerdict {
        let address = address.to_canonical();
        let shown = address.to_string();
        if self.denied_hosts.find(&shown, Some(port)).is_some() {
            return AddressVerdict::Denied;
        }
        let means_this_machine = |host: &String| host == "localhost" || host.ends_with(".localhost");
        let here = normal_host(host).filter(means_this_machine).filter(|_| address.is_loopback());
        let listed = |host: String| {
            let rule = self.allowed_hosts.find(&host, Some(port));
            rule.is_some_and(|rule| !rule.entry.starts_with("*:") && rule.entry != "*")
        };
        if self.allowed_hosts.naming(&shown, port).is_some() || here.is_some_and(listed) {
            AddressVerdict::Named
        } else {
            AddressVerdict::Unnamed
        }
    }

    /// Whether a list hands this secret to the host without anybody being asked. Whether the host may be reached is asked beside it.
    pub fn lists_secret(&self, name: &str, host: &str) -> bool {
        let Some(host) = normal_host(host) else { return false };
        self.denied_secrets.find_at(name, Some(&host)).is_none()
            && self.allowed_secrets.find_at(name, Some(&host)).is_some()
    }

    /// Whether a list hands this secret to any host.
    pub fn names_secret(&self, name: &str) -> bool {
        self.denied_secrets.find_at(name, None).is_none() && self.allowed_secrets.names(name)
    }

    /// The ports that entries of `allowed_hosts` name, in order.
    pub fn named_ports(&self) -> Vec<u16> {
        self.allowed_hosts.ports()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Dialect, Origin, Profiles, Programs, Setup, Source, Trust};

    use super::*;

    fn policy(profile: &serde_json::Value) -> Policy {
        let profiles: Profiles = serde_json::from_value(serde_json::json!({ "normal": profile })).unwrap();
        let origin = Origin::User(Path::new("/home/ann/config.yaml").into());
        Policy::compile(&Setup {
            sources: &[Source::new(origin, Trust::Trusted, profiles)],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace: Path::new("/w"),
            home: None,
            protected: &[],
            closed: &[],
            programs: Programs::Presumed,
            tools: &[],
        })
        .unwrap()
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_host_is_reached_where_a_list_names_it_and_none_denies_it() {
        let policy = policy(&serde_json::json!({
            "allowed_hosts": ["api.example.com", "*.example.org:8443", "10.0.0.1:80"],
            "deny_hosts": ["bad.example.org"],
        }));
        assert_eq!(policy.host_verdict("API.example.com.", 443), Ok(()));
        assert_eq!(policy.host_verdict("a.example.org", 8443), Ok(()));
        for (host, port, why) in [
            ("a.example.org", 443, "not listed"),
            ("bad.example.org", 8443, "denied"),
            ("example.com", 443, "not listed"),
            ("api.example.com.evil.example", 443, "not listed"),
            ("10.0.0.1", 81, "not listed"),
            ("0x0a.1", 80, "no host name"),
        ] {
            let reason = policy.host_verdict(host, port).unwrap_err();
            assert!(reason.contains(why), "{host}: {reason}");
        }
        for (host, known) in [
            ("api.example.com", true),
            ("a.b.example.org", true),
            ("bad.example.org", false),
            ("example.org", false),
            ("10.0.0.1", true),
        ] {
            assert_eq!(policy.names_host(host), known, "{host}");
        }
        assert_eq!(policy.named_ports(), [80, 8443]);
    }

    #[test]
    fn a_secret_goes_where_a_list_hands_it_and_none_denies_it() {
        let policy = policy(&serde_json::json!({
            "allowed_secrets": ["api_key at api.example.com", "other", "third"],
            "deny_secrets": ["other at b.example", "third"],
        }));
        assert!(policy.lists_secret("api_key", "API.example.com."));
        assert!(!policy.lists_secret("api_key", "b.example"));
        assert!(policy.lists_secret("other", "a.example") && !policy.lists_secret("other", "b.example"));
        assert!(!policy.lists_secret("third", "a.example") && !policy.lists_secret("fourth", "a.example"));
        for (name, named) in [("api_key", true), ("other", true), ("third", false), ("fourth", false)] {
            assert_eq!(policy.names_secret(name), named, "{name}");
        }
    }

    #[test]
    fn an_address_that_is_not_public_is_named_itself_and_by_no_wildcard() {
        let lists = |entries: &[&str], host: &str, port: u16, to: &str| {
            let policy = policy(&serde_json::json!({ "allowed_hosts": entries }));
            policy.address_verdict(host, address(to), port) == AddressVerdict::Named
        };
        assert!(!lists(&["inner.example"], "inner.example", 443, "10.1.2.3"));
        assert!(lists(&["inner.example", "10.1.2.3"], "inner.example", 443, "::ffff:10.1.2.3"));
        assert!(lists(&["10.1.2.3:443"], "10.1.2.3", 443, "10.1.2.3"));
        assert!(!lists(&["10.1.2.3:443"], "10.1.2.3", 80, "10.1.2.3"));
        assert!(!lists(&["*"], "10.1.2.3", 80, "10.1.2.3"));
        assert!(!lists(&["*:80"], "10.1.2.3", 80, "10.1.2.3"));
        assert!(lists(&["*.localhost"], "a.localhost", 80, "127.0.0.1"));
        assert!(!lists(&["*"], "a.localhost", 80, "127.0.0.1"));
        assert!(!lists(&["a.localhost"], "a.localhost", 80, "10.0.0.1"));
        assert!(!lists(&["alocalhost"], "alocalhost", 80, "127.0.0.1"));
        let denying = policy(&serde_json::json!({
            "allowed_hosts": ["10.1.2.3"], "deny_hosts": ["10.1.2.3", "93.184.216.34"],
        }));
        for denied in ["10.1.2.3", "::ffff:93.184.216.34"] {
            assert_eq!(denying.address_verdict("a.example", address(denied), 1), AddressVerdict::Denied);
        }
    }
}
