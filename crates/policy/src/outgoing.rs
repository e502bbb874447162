//! Verdicts of the host lists on one connection, for the code that makes or carries it. At the
//! decision on the call it is not yet known where a command will connect, or where a name leads.

use std::net::IpAddr;

use crate::host::{AddressVerdict, HostRules, normal_host};
use crate::names::{NameRules, Shape};
use crate::{EffectKind, Origin, Policy, UnlistedHosts};

/// Verdict on one connection of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionVerdict {
    /// The connection goes on.
    Allowed,
    /// A human is asked. The value is the reason, as one sentence.
    Ask(String),
    /// The connection is refused. The value is the reason with advice, as one sentence.
    Denied(String),
}

impl Policy {
    /// Returns the verdict on a connection to the host at this port.
    pub fn connection_verdict(&self, host: &str, port: u16) -> ConnectionVerdict {
        match self.host_verdict(host, port) {
            Ok(()) => ConnectionVerdict::Allowed,
            Err(reason) if self.may_ask_about(host, Some(port)) => ConnectionVerdict::Ask(reason),
            Err(reason) => ConnectionVerdict::Denied(reason),
        }
    }

    /// Returns true if a connection to a host on no list becomes a question.
    pub fn asks_about_hosts(&self) -> bool {
        self.unlisted_hosts.0 == UnlistedHosts::Ask
            && self.bounds_allow(EffectKind::Connect)
            && self.bounds.as_ref().is_none_or(|bounds| bounds.ceiling.may_ask)
            && self.bounding().all(Policy::asks_about_hosts)
    }

    fn may_ask_about(&self, host: &str, port: Option<u16>) -> bool {
        let is_open = |policy: &Policy| policy.judge_host(String::new(), host, port).denied.is_none();
        self.asks_about_hosts()
            && is_open(self)
            && self.bounding().all(|policy| policy.may_ask_about(host, port))
    }

    /// Returns true if the name gets an address in the cells: the host may be reached at some port,
    /// or a connection to it becomes a question. A name that means this machine (RFC 6761) has to be
    /// listed, because programs mean the cell by it.
    pub fn resolves_host(&self, host: &str) -> bool {
        let means_the_cell = normal_host(host).is_some_and(|host| means_this_machine(&host));
        self.names_host(host) || (!means_the_cell && self.may_ask_about(host, None))
    }

    /// Checks whether the host may be reached at this port without a question.
    ///
    /// # Errors
    /// Returns the reason why not, with advice, as one sentence.
    pub fn host_verdict(&self, host: &str, port: u16) -> Result<(), String> {
        let judged = self.judge_host(String::new(), host, Some(port));
        if let Some(cause) = judged.denied.or(judged.unlisted) {
            return Err(match cause.hint {
                Some(hint) => format!("{}; {hint}", cause.reason),
                None => cause.reason,
            });
        }
        if !self.bounds_allow(EffectKind::Connect) {
            return Err("this caller may not connect to other machines".to_owned());
        }
        let less = match self.narrowing {
            Some(_) => "the workspace's configuration, which is not trusted, allows less",
            None => "this caller has fewer permissions than its creator",
        };
        let beyond = |reason| format!("{less}: {reason}");
        self.bounding().try_for_each(|policy| policy.host_verdict(host, port).map_err(beyond))
    }

    /// Returns true if the host may be reached at some port.
    pub fn names_host(&self, host: &str) -> bool {
        let Some(normal) = normal_host(host) else { return false };
        self.denied_hosts.find(&normal, None).is_none()
            && self.allowed_hosts.rules_for(&normal).next().is_some()
            && self.bounds_allow(EffectKind::Connect)
            && self.bounding().all(|policy| policy.names_host(host))
    }

    /// Returns the verdict on an address that `host` leads to, after `host` was allowed. For names
    /// that mean this machine (RFC 6761) an entry for the name is enough, or for all names below
    /// one of them. Under a ceiling the strictest answer counts.
    ///
    /// `approved`: a human has allowed the connection, which counts like an entry for this host.
    pub fn address_verdict(&self, host: &str, address: IpAddr, port: u16, approved: bool) -> AddressVerdict {
        let own = self.own_address_verdict(host, address, port, approved);
        self.bounding().fold(own, |strictest, policy| {
            match (strictest, policy.address_verdict(host, address, port, approved)) {
                (AddressVerdict::Denied, _) | (_, AddressVerdict::Denied) => AddressVerdict::Denied,
                (AddressVerdict::Named, AddressVerdict::Named) => AddressVerdict::Named,
                _ => AddressVerdict::Unnamed,
            }
        })
    }

    fn own_address_verdict(&self, host: &str, address: IpAddr, port: u16, approved: bool) -> AddressVerdict {
        let address = address.to_canonical();
        let shown = address.to_string();
        if self.denied_hosts.find(&shown, Some(port)).is_some() {
            return AddressVerdict::Denied;
        }
        let normal = normal_host(host);
        let is_itself = normal.as_deref() == Some(&*shown);
        let here = normal.filter(|host| means_this_machine(host)).filter(|_| address.is_loopback());
        let listed = |host: &String| {
            let rule = self.allowed_hosts.find(host, Some(port));
            rule.is_some_and(|rule| !rule.entry.starts_with("*:") && rule.entry != "*")
        };
        let by_a_list =
            self.allowed_hosts.naming(&shown, port).is_some() || here.as_ref().is_some_and(listed);
        if by_a_list || approved && (is_itself || here.is_some()) {
            AddressVerdict::Named
        } else {
            AddressVerdict::Unnamed
        }
    }

    /// Returns true if a list hands this secret to the host without a question. Whether the host
    /// may be reached is a separate check.
    pub fn lists_secret(&self, name: &str, host: &str) -> bool {
        let Some(normal) = normal_host(host) else { return false };
        self.denied_secrets.find_at(name, Some(&normal)).is_none()
            && self.allowed_secrets.find_at(name, Some(&normal)).is_some()
            && self.bounds_allow(EffectKind::UseSecret)
            && self.bounding().all(|policy| policy.lists_secret(name, host))
    }

    /// Returns true if a list hands this secret to some host.
    pub fn names_secret(&self, name: &str) -> bool {
        self.denied_secrets.find_at(name, None).is_none()
            && self.allowed_secrets.names(name)
            && self.bounds_allow(EffectKind::UseSecret)
            && self.bounding().all(|policy| policy.names_secret(name))
    }

    /// Returns true if the profile lists hosts, so that its cells have a network, and the ceiling
    /// leaves any.
    pub fn allows_hosts(&self) -> bool {
        !self.allowed_hosts.is_empty()
            && self.bounds_allow(EffectKind::Connect)
            && self.bounding().all(Policy::allows_hosts)
    }

    /// Returns these rules with other lists of hosts and of secrets, for a ceiling over these rules. Hosts on
    /// no list are refused, and each secret may be sent to every listed host.
    ///
    /// # Errors
    /// Returns the problem if a host or a secret is malformed.
    pub fn limited_to(&self, hosts: &[String], secrets: &[String]) -> Result<Policy, String> {
        let mut limited = self.clone();
        limited.unlisted_hosts = (UnlistedHosts::Deny, Origin::Ceiling);
        limited.allowed_hosts = HostRules::default();
        limited.allowed_secrets = NameRules::new(Shape::Secret);
        for host in hosts {
            limited.allowed_hosts.add(self.setting("allowed_hosts", host, Origin::Ceiling))?;
            for secret in secrets {
                let entry = format!("{secret} at {host}");
                limited.allowed_secrets.add(self.setting("allowed_secrets", &entry, Origin::Ceiling))?;
            }
        }
        Ok(limited)
    }

    /// Returns the ports that entries of `allowed_hosts` name, in order.
    pub fn named_ports(&self) -> Vec<u16> {
        self.allowed_hosts.ports()
    }
}

/// Returns true for a name that means this machine (RFC 6761, section 6.3).
fn means_this_machine(host: &str) -> bool {
    host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{Dialect, Profiles, Programs, Setup, Source, Trust};

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
            ("0x0a.1", 80, "neither a host name"),
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
    fn a_limit_leaves_what_both_the_rules_and_the_limit_list() {
        use crate::Ceiling;
        use std::sync::Arc;

        let own = policy(&serde_json::json!({
            "allowed_hosts": ["a.example", "b.example"], "allowed_secrets": ["key", "other"],
        }));
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let limited = own.limited_to(&texts(&["a.example", "c.example"]), &texts(&["key"])).unwrap();
        let bounded = own.under(&Ceiling::default().with_policy(Arc::new(limited)));
        for (host, reached) in [("a.example", true), ("b.example", false), ("c.example", false)] {
            assert_eq!(bounded.host_verdict(host, 443).is_ok(), reached, "{host}");
            assert_eq!(bounded.lists_secret("key", host), host != "b.example", "{host}");
            assert!(!bounded.lists_secret("other", host), "{host}");
        }
        // A host that the limit names and no list does is refused without a question.
        assert!(!bounded.asks_about_hosts() && own.asks_about_hosts());
        assert!(own.limited_to(&texts(&["https://a.example/"]), &[]).is_err());
    }

    #[test]
    fn under_a_ceiling_every_list_has_to_agree() {
        use crate::{Ceiling, EffectKind, EffectKinds};
        use std::sync::Arc;

        let own = policy(&serde_json::json!({
            "allowed_hosts": ["a.example", "b.example", "10.0.0.1", "10.0.0.2"],
            "allowed_secrets": ["key at a.example", "key at b.example"],
        }));
        let narrow = Arc::new(policy(&serde_json::json!({
            "allowed_hosts": ["a.example", "c.example", "10.0.0.1"], "allowed_secrets": ["key at a.example"],
        })));
        let denying = Arc::new(policy(&serde_json::json!({
            "allowed_hosts": ["*", "10.0.0.1"], "deny_hosts": ["a.example"], "allowed_secrets": ["key"],
        })));
        let bounded = own.under(&Ceiling::default().with_policy(narrow));
        for (host, reached) in [("a.example", true), ("b.example", false), ("c.example", false)] {
            assert_eq!(bounded.host_verdict(host, 443).is_ok(), reached, "{host}");
            assert_eq!(bounded.names_host(host), reached, "{host}");
            assert_eq!(bounded.lists_secret("key", host), reached, "{host}");
        }
        assert!(bounded.names_secret("key") && bounded.allows_hosts());
        let named = |policy: &Policy, to| policy.address_verdict("a.example", address(to), 443, false);
        assert_eq!(named(&bounded, "10.0.0.1"), AddressVerdict::Named);
        assert_eq!(named(&bounded, "10.0.0.2"), AddressVerdict::Unnamed);
        // A chain of ceilings only ever removes rights.
        let both = bounded.under(&Ceiling::default().with_policy(denying));
        let reason = both.host_verdict("a.example", 443).unwrap_err();
        assert!(
            reason.contains("this caller has fewer permissions") && reason.contains("denied"),
            "{reason}"
        );
        assert!(!both.names_host("a.example") && !both.names_host("b.example"));
        for (kinds, hosts, secrets) in [
            (&[EffectKind::Run][..], false, false),
            (&[EffectKind::Connect], true, false),
            (&[EffectKind::UseSecret], false, true),
        ] {
            let policy = own.under(&Ceiling { effects: EffectKinds::of(kinds), ..Ceiling::default() });
            assert_eq!(policy.allows_hosts(), hosts, "{kinds:?}");
            assert_eq!(policy.host_verdict("a.example", 443).is_ok(), hosts, "{kinds:?}");
            assert_eq!(policy.names_host("a.example"), hosts, "{kinds:?}");
            assert_eq!(policy.lists_secret("key", "a.example"), secrets, "{kinds:?}");
            assert_eq!(policy.names_secret("key"), secrets, "{kinds:?}");
        }
        let listing_none = Arc::new(policy(&serde_json::json!({})));
        assert!(!own.under(&Ceiling::default().with_policy(listing_none)).allows_hosts());
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
            policy.address_verdict(host, address(to), port, false) == AddressVerdict::Named
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
            assert_eq!(
                denying.address_verdict("a.example", address(denied), 1, true),
                AddressVerdict::Denied
            );
        }
    }
}
