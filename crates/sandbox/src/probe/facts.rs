//! What a process in a cell sees of itself.

use std::fs;
use std::path::Path;

use super::attempt::NAMESPACES;
use super::{Probe, Verdict, finding};
use crate::outcome::Outcome;

/// What can be told of a cell from what one process in it has seen.
pub(super) fn findings(outcome: &Outcome) -> Vec<Probe> {
    let output = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
    let facts = Facts(&output);
    vec![
        finding(
            "cell",
            Some("command-in-cell"),
            if facts.is("status.Seccomp:", "2") { Verdict::Holds } else { Verdict::Fails },
            "Handfast",
            outcome.enforcement.summary().join(" "),
        ),
        namespaces(&facts),
        privileges(&facts),
        landlock(outcome),
    ]
}

/// What a cell has told of itself.
struct Facts<'a>(&'a str);

impl<'a> Facts<'a> {
    fn first(&self, name: &str) -> &'a str {
        let mut values = self.0.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']));
        values.next().unwrap_or_default().trim()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.first(name) == value
    }
}

fn namespaces(facts: &Facts<'_>) -> Probe {
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
    finding("namespaces", Some("host-absent"), verdict, "the kernel", detail)
}

fn privileges(facts: &Facts<'_>) -> Probe {
    let names = ["status.CapInh:", "status.CapPrm:", "status.CapEff:", "status.CapBnd:", "status.CapAmb:"];
    let none = names.iter().all(|name| facts.is(name, "0000000000000000"));
    let holds = none && facts.is("status.NoNewPrivs:", "1");
    // The kernel parts the four user ids by tabs, which a listing would show as escapes.
    let users = facts.first("status.Uid:").replace('\t', " ");
    let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
    let detail = format!("no capabilities: {none}, user: {users}");
    finding("privileges", Some("command-unprivileged"), verdict, "user namespace, no new privileges", detail)
}

fn landlock(outcome: &Outcome) -> Probe {
    let version = outcome.enforcement.landlock_abi;
    let (verdict, detail) = match version {
        Some(version) => (Verdict::Holds, format!("version {version}")),
        None => (
            Verdict::Fails,
            "not offered by this kernel; the file system is guarded by mounts alone".to_owned(),
        ),
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
        for probe in [namespaces(&nothing), privileges(&nothing)] {
            assert!(probe.verdict == Verdict::Fails && probe.hint.is_some(), "{probe:?}");
        }
    }
}
