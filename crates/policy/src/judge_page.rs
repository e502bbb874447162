//! Judgement of what a browser does on a page.

use std::net::IpAddr;

use tool::PageAccess;

use crate::judge::{Cause, Judgement};
use crate::suggest::MissingEntry;
use crate::{List, Origin, Policy};

impl Policy {
    /// Judges what a browser does on a page.
    ///
    /// A listed host is allowed to be opened and its pages to be used. Submitting also needs an entry
    /// for the origin, because it may act for the user.
    pub(crate) fn judge_page(
        &self,
        (origin, host, port): (&str, &str, u16),
        access: PageAccess,
        what: &str,
    ) -> Judgement {
        let mut judged = self.judge_host(format!("{what} on {origin}"), host, Some(port));
        if is_loopback(host) && judged.denied.is_none() && self.pages.denied_by(origin).is_none() {
            let rule = self.setting("browser", "servers of the session", Origin::BuiltIn);
            let reason =
                format!("{host} is in the network of this session, where only its own commands serve");
            return Judgement {
                part: judged.part,
                allowed: Some(Cause { rule, reason, hint: None }),
                ..Judgement::default()
            };
        }
        if judged.denied.is_some() {
            return judged;
        }
        if let Some(rule) = self.pages.denied_by(origin) {
            judged.denied = Some(Cause {
                reason: format!("pages of {origin} are denied by {rule}"),
                hint: Some(self.how_to_change(rule)),
                rule: rule.clone(),
            });
            return judged;
        }
        if access == PageAccess::Use {
            return self.listed_reading(judged, host, port);
        }
        match self.pages.submitted_by(origin) {
            Some(rule) => {
                let reason = format!("{origin} is listed by {rule}");
                judged.allowed = Some(Cause { rule: rule.clone(), reason, hint: None });
            }
            None => {
                judged.missing.push(MissingEntry::Entry(List::BrowserSubmit, origin.to_owned()));
                judged.not_allowed = Some(self.add_entry(List::BrowserSubmit.key(), origin));
            }
        }
        judged
    }
}

/// Returns true if the host is the machine of the one who connects. A browser is in the network of its
/// session, which has a loopback device of its own.
fn is_loopback(host: &str) -> bool {
    let is_address = host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    is_address || host == "localhost" || host.ends_with(".localhost")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tool::{Effect, Level};

    use crate::{
        Decision, Dialect, Origin, Part, Profiles, Programs, Request, Setup, Source, Trust, Verdict,
    };

    use super::*;

    fn decide(profile: &serde_json::Value, origin: &str, access: PageAccess) -> Decision {
        let profiles: Profiles = serde_json::from_value(serde_json::json!({ "normal": profile })).unwrap();
        let source =
            Source::new(Origin::User(Path::new("/home/ann/config.yaml").into()), Trust::Trusted, profiles);
        let policy = Policy::compile(&Setup {
            sources: &[source],
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
        .unwrap();
        let host = origin.split("//").nth(1).unwrap().split(':').next().unwrap().to_owned();
        let effect =
            Effect::Browse { origin: origin.to_owned(), host, port: 443, access, what: "act".to_owned() };
        let parts = [Part {
            effect,
            real: None,
            runs: None,
            states: None,
            impact: crate::Impact::Unasked,
            is_login: false,
        }];
        policy.decide(&Request {
            tool: "browser_interact",
            level: Level::Destructive,
            parts: &parts,
            undoable_in_force: false,
            background: false,
        })
    }

    #[test]
    fn a_listed_host_is_used_and_submitting_needs_its_origin() {
        let profile = serde_json::json!({
            "allowed_hosts": ["a.example", "b.example", "c.example"],
            "browser": {"submit": ["https://b.example", "https://d.example"], "deny": ["https://C.example"]},
        });
        for (origin, access, verdict) in [
            ("https://a.example", PageAccess::Use, Verdict::Pass),
            ("https://a.example", PageAccess::Submit, Verdict::Check),
            ("https://b.example", PageAccess::Submit, Verdict::Pass),
            ("http://b.example", PageAccess::Submit, Verdict::Check),
            ("https://b.example:8443", PageAccess::Submit, Verdict::Check),
            ("https://c.example", PageAccess::Use, Verdict::Deny),
            ("https://d.example", PageAccess::Submit, Verdict::Check),
            ("https://e.example", PageAccess::Use, Verdict::Check),
            ("http://127.0.0.1:3000", PageAccess::Submit, Verdict::Pass),
            ("http://app.localhost:3000", PageAccess::Use, Verdict::Pass),
            ("http://localhost.example", PageAccess::Use, Verdict::Check),
        ] {
            let decision = decide(&profile, origin, access);
            assert_eq!(decision.verdict, verdict, "{origin} {access:?}: {decision:?}");
        }
        let asked = decide(&profile, "https://a.example", PageAccess::Submit);
        assert!(asked.hint.unwrap().contains("browser.submit"));
    }
}
