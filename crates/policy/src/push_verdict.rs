//! Verdicts of `git_push` on one push, which is known only while a command runs.

use crate::{EffectKind, Policy, Rule};

/// A ref that a push changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PushedRef<'a> {
    /// Full name, such as `refs/heads/main`.
    pub name: &'a str,
    /// True if the push deletes the ref.
    pub is_deleted: bool,
}

/// Verdict on one push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PushVerdict {
    /// The push goes on. The value is the rule for its first ref.
    Allowed(String),
    /// A human is asked.
    Ask,
    /// The push is refused. The value is the reason, as one sentence.
    Denied(String),
}

impl Policy {
    /// Returns the verdict on a push to a host that may be reached. A push passes if every one of its
    /// refs is allowed and none is deleted.
    pub fn push_verdict(&self, refs: &[PushedRef<'_>]) -> PushVerdict {
        if let Some(rule) = refs.iter().find_map(|changed| self.pushes.denied_by(changed.name)) {
            return PushVerdict::Denied(format!("this push is denied by {rule}"));
        }
        let mut verdict = PushVerdict::Ask;
        if self.bounds_allow(EffectKind::Connect) && !refs.iter().any(|changed| changed.is_deleted) {
            let rules: Option<Vec<&Rule>> =
                refs.iter().map(|changed| self.pushes.allowed_by(changed.name)).collect();
            if let Some(first) = rules.as_deref().and_then(<[&Rule]>::first) {
                verdict = PushVerdict::Allowed(first.to_string());
            }
        }
        self.bounding().fold(verdict, |strictest, policy| match (strictest, policy.push_verdict(refs)) {
            (denied @ PushVerdict::Denied(_), _) | (_, denied @ PushVerdict::Denied(_)) => denied,
            (allowed @ PushVerdict::Allowed(_), PushVerdict::Allowed(_)) => allowed,
            _ => PushVerdict::Ask,
        })
    }

    /// Returns true if a request that writes at a forge becomes a question.
    pub fn asks_about_requests(&self) -> bool {
        self.bounds_allow(EffectKind::Connect)
            && self.bounds.as_ref().is_none_or(|bounds| bounds.ceiling.may_ask)
            && self.bounding().all(Policy::asks_about_requests)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use crate::{Ceiling, Dialect, EffectKinds, Origin, Profiles, Programs, Setup, Source, Trust};

    use super::*;

    fn compiled(sources: &[Source]) -> Result<Policy, crate::PolicyError> {
        Policy::compile(&Setup {
            sources,
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
    }

    fn source(push: &serde_json::Value, trust: Trust) -> Source {
        let profiles: Profiles =
            serde_json::from_value(serde_json::json!({ "normal": { "git_push": push } })).unwrap();
        let origin = match trust {
            Trust::Trusted => Origin::User(Path::new("/home/ann/config.yaml").into()),
            Trust::Untrusted => Origin::Workspace(Path::new("/w/handfast.yaml").into()),
        };
        Source::new(origin, trust, profiles)
    }

    fn policy(push: &serde_json::Value) -> Policy {
        compiled(&[source(push, Trust::Trusted)]).unwrap()
    }

    fn verdict(policy: &Policy, names: &[&str]) -> &'static str {
        let refs: Vec<PushedRef<'_>> = names
            .iter()
            .map(|name| PushedRef { name: name.trim_start_matches('-'), is_deleted: name.starts_with('-') })
            .collect();
        match policy.push_verdict(&refs) {
            PushVerdict::Allowed(rule) => {
                assert!(rule.starts_with("git_push.allow: "), "{rule}");
                "allowed"
            }
            PushVerdict::Ask => "ask",
            PushVerdict::Denied(reason) => {
                assert!(reason.contains("git_push.deny: "), "{reason}");
                "denied"
            }
        }
    }

    #[test]
    fn a_push_passes_if_every_ref_is_allowed_and_is_refused_if_one_is_denied() {
        let policy = policy(&serde_json::json!({
            "allow": [{"rule": "agent/*", "match": ["agent/x"], "not_match": ["main"]}, "refs/notes/*"],
            "deny": ["main", "release/*"],
        }));
        for (names, expected) in [
            (&["refs/heads/agent/a"][..], "allowed"),
            (&["refs/heads/agent/a/b", "refs/notes/x"], "allowed"),
            (&["refs/heads/agent/a", "refs/heads/other"], "ask"),
            (&["-refs/heads/agent/a"], "ask"),
            (&["refs/heads/agent/a", "-refs/heads/agent/b"], "ask"),
            (&["refs/heads/agent/a", "refs/heads/main"], "denied"),
            (&["-refs/heads/main"], "denied"),
            (&["refs/heads/Main"], "denied"),
            (&["refs/heads/release/1"], "denied"),
            (&["refs/heads/Agent/a"], "ask"),
            (&["refs/heads/agent"], "ask"),
            (&["refs/tags/agent/a"], "ask"),
            (&["refs/tags/main"], "ask"),
            (&["refs/heads/refs/notes/x"], "ask"),
            (&[], "ask"),
        ] {
            assert_eq!(verdict(&policy, names), expected, "{names:?}");
        }
    }

    #[test]
    fn without_the_key_every_push_asks() {
        let policy = policy(&serde_json::json!({}));
        assert_eq!(verdict(&policy, &["refs/heads/agent/a"]), "ask");
    }

    #[test]
    fn an_untrusted_file_and_a_ceiling_only_take_away() {
        let own = serde_json::json!({ "allow": ["agent/*", "x"], "deny": ["main"] });
        let theirs = serde_json::json!({ "allow": ["agent/*", "main", "y"], "deny": ["agent/z"] });
        let narrowed = compiled(&[source(&own, Trust::Trusted), source(&theirs, Trust::Untrusted)]).unwrap();
        let bounded = policy(&own).under(&Ceiling::default().with_policy(Arc::new(policy(&theirs))));
        for policy in [&narrowed, &bounded] {
            for (name, expected) in [
                ("agent/a", "allowed"),
                ("x", "ask"),
                ("y", "ask"),
                ("main", "denied"),
                ("agent/z", "denied"),
            ] {
                assert_eq!(verdict(policy, &[&format!("refs/heads/{name}")]), expected, "{name}");
            }
        }
        let without = Ceiling { effects: EffectKinds::of(&[EffectKind::Run]), ..Ceiling::default() };
        assert_eq!(verdict(&policy(&own).under(&without), &["refs/heads/x"]), "ask");
        assert!(policy(&own).asks_about_requests() && !policy(&own).under(&without).asks_about_requests());
    }

    #[test]
    fn an_entry_is_one_word_and_its_examples_are_checked() {
        for wrong in [
            serde_json::json!({ "allow": ["a b"] }),
            serde_json::json!({ "deny": [""] }),
            serde_json::json!({ "allow": [{"rule": "a/*", "match": ["b"]}] }),
        ] {
            assert!(compiled(&[source(&wrong, Trust::Trusted)]).is_err(), "{wrong}");
        }
    }
}
