//! Facts that a process in a cell reports about itself.

use std::fs;
use std::path::Path;

use super::attempt::NAMESPACES;
use super::finding::{Probe, Verdict, finding};
use crate::enforcement::Degraded;
use crate::outcome::Outcome;

/// Derives findings about a cell from the report of one process in it.
pub(super) fn findings(outcome: &Outcome) -> Vec<Probe> {
    let output = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
    let facts = Facts(&output);
    let degraded = outcome.enforcement.degraded;
    vec![
        finding(
            "cell",
            Some("command-in-cell"),
            if facts.is("seccomp", "true") { Verdict::Holds } else { Verdict::Fails },
            "Handfast",
            outcome.enforcement.summary().join(" "),
        ),
        namespaces(&facts, degraded),
        privileges(&facts, degraded),
        landlock(outcome),
    ]
}

/// The report of a process in a cell.
struct Facts<'a>(&'a str);

impl<'a> Facts<'a> {
    fn first(&self, name: &str) -> &'a str {
        let mut values = self.0.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        values.next().unwrap_or_default()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.first(name) == value
    }
}

fn namespaces(facts: &Facts<'_>, degraded: Option<Degraded>) -> Probe {
    let shared: Vec<&str> = NAMESPACES
        .into_iter()
        .filter(|name| {
            let inside = facts.first(&format!("namespace.{name}"));
            let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            inside.is_empty() || Path::new(inside) == outside
        })
        .collect();
    let (verdict, detail) = if shared.is_empty() {
        (Verdict::Holds, "all seven differ from the host's".to_owned())
    } else {
        (Verdict::Fails, format!("shared with the host: {}", shared.join(", ")))
    };
    let mut found = finding("namespaces", Some("host-absent"), verdict, "the kernel", detail);
    if degraded.is_some() {
        found.hint = Some(
            "commands run with less isolation than Handfast promises, as each result reports; \
             `handfast setup sandbox` shows what this machine needs"
                .to_owned(),
        );
    }
    found
}

fn privileges(facts: &Facts<'_>, degraded: Option<Degraded>) -> Probe {
    let none = facts.is("capabilities", "none");
    // An unprivileged process cannot empty the bounding set, and cannot gain capabilities from it
    // under no-new-privileges.
    let bounded = degraded.is_some() || facts.is("bounding-set", "empty");
    let user = facts.first("user");
    let holds = none && bounded && facts.is("no-new-privileges", "true") && !user.is_empty() && user != "0";
    let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
    let detail = format!("no capabilities: {none}, user: {user}");
    let by = if degraded.is_some() { "no new privileges" } else { "user namespace, no new privileges" };
    finding("privileges", Some("command-unprivileged"), verdict, by, detail)
}

fn landlock(outcome: &Outcome) -> Probe {
    let version = outcome.enforcement.landlock_abi;
    let (verdict, detail) = match version {
        Some(version) => (Verdict::Holds, format!("version {version}")),
        None => {
            (Verdict::Fails, "not offered by this kernel; only mounts protect the file system".to_owned())
        }
    };
    let mut found = finding("landlock", None, verdict, "the kernel", detail);
    if version.is_none() {
        found.hint =
            Some("use Linux 5.19 or later, with `landlock` in its list of security modules".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_fact_does_not_hold() {
        let nothing = Facts("");
        for probe in [namespaces(&nothing, None), privileges(&nothing, None)] {
            assert!(probe.verdict == Verdict::Fails && probe.hint.is_some(), "{probe:?}");
        }
    }
}
