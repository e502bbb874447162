//! Tries on this machine whether cells hold, for `handfast doctor`: each probe is an attempt from inside a cell,
//! and its finding is what the attempt came to.

use std::error::Error;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use crate::error::SandboxError;
use crate::outcome::{Ended, Outcome};
use crate::run::run;
use crate::spec::{CellSpec, Command, Program};
use crate::stopper::Stopper;

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Probe {
    /// What was tried, in a word.
    pub name: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// What was seen.
    pub detail: String,
    /// What to do, where it does not hold.
    pub hint: Option<String>,
}

/// The line that tells what a cell looks like from inside. Every fact is a line that begins with its name.
const LOOK_AROUND: &str = r#"
while read -r name value; do echo "status.$name $value"; done < /proc/self/status
for name in user mnt pid net ipc uts cgroup; do echo "namespace.$name $(readlink /proc/self/ns/$name)"; done
while IFS=: read -r device rest; do case $rest in *[0-9]*) echo "device $device";; esac; done < /proc/net/dev
for process in /proc/[0-9]*; do echo "process $(cat $process/comm 2>/dev/null)"; done
echo "inside $(cat "$INSIDE" 2>/dev/null)"
echo "outside $(cat "$OUTSIDE" 2>/dev/null)"
echo "written $(echo x > "$WRITTEN" && echo yes)"
"#;

/// How long a probe may take before it counts as failed.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs all probes. Takes some tens of milliseconds; blocks.
pub fn probe() -> Vec<Probe> {
    match look() {
        Ok(probes) => probes,
        Err(error) => vec![cannot(&error)],
    }
}

fn cannot(error: &SandboxError) -> Probe {
    let mut detail = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        detail = format!("{detail}: {cause}");
        source = cause.source();
    }
    let hint = match error {
        SandboxError::Unavailable { hint, .. } => hint.clone(),
        _ => "this is not a setting that is known to be wrong; report it with the detail above".to_owned(),
    };
    Probe { name: "cell", holds: false, detail, hint: Some(hint) }
}

fn look() -> Result<Vec<Probe>, SandboxError> {
    let folder = || {
        tempfile::tempdir()
            .map_err(|source| SandboxError::Io { doing: "making a folder for a probe", source })
    };
    let (workspace, elsewhere) = (folder()?, folder()?);
    let write = |path: &Path| {
        fs::write(path, "marker")
            .map_err(|source| SandboxError::Io { doing: "writing a file for a probe", source })
    };
    let inside = workspace.path().join("inside");
    let outside = elsewhere.path().join("outside");
    let written = workspace.path().join("written");
    write(&inside)?;
    write(&outside)?;
    let mut spec = CellSpec {
        workspace: workspace.path().to_owned(),
        spool_directory: elsewhere.path().to_owned(),
        ..CellSpec::default()
    };
    for (name, path) in [("INSIDE", &inside), ("OUTSIDE", &outside), ("WRITTEN", &written)] {
        spec.environment.insert(name.into(), path.into());
    }
    let run = |line: &str, deadline| {
        let command =
            Command { program: Program::Shell(line.to_owned()), working_directory: spec.workspace.clone() };
        run(&spec, &command, Some(deadline), &Stopper::new()?, &mut |_, _| {})
    };
    let outcome = run(LOOK_AROUND, PATIENCE)?;
    let output = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
    let facts = Facts(&output);
    let endless = run("trap '' TERM; while :; do :; done", Duration::from_millis(50))?;
    Ok(vec![
        Probe { name: "cell", holds: true, detail: outcome.enforcement.summary().join(" "), hint: None },
        namespaces(&facts),
        files(&facts, workspace.path(), &written),
        network(&facts),
        processes(&facts),
        privileges(&facts),
        finding(
            "system calls",
            facts.is("status.Seccomp:", "2"),
            format!("filters in force: {}", facts.first("status.Seccomp_filters:")),
        ),
        landlock(&outcome),
        finding(
            "deadline",
            endless.ended == Ended::Deadline,
            "a command that ignores SIGTERM was killed at its deadline".to_owned(),
        ),
    ])
}

/// What a cell has told of itself.
struct Facts<'a>(&'a str);

impl<'a> Facts<'a> {
    fn all(&self, name: &str) -> Vec<&'a str> {
        self.0.lines().filter_map(|line| Some(line.strip_prefix(name)?.strip_prefix(' ')?.trim())).collect()
    }

    fn first(&self, name: &str) -> &'a str {
        self.all(name).first().copied().unwrap_or_default()
    }

    fn is(&self, name: &str, value: &str) -> bool {
        self.first(name) == value
    }
}

/// A probe of something that the kernel promises whenever a cell can be built at all.
fn finding(name: &'static str, holds: bool, detail: String) -> Probe {
    let hint = (!holds)
        .then(|| "do not rely on the sandbox of this machine, and report this with the detail".to_owned());
    Probe { name, holds, detail, hint }
}

fn namespaces(facts: &Facts<'_>) -> Probe {
    let shared: Vec<&str> = ["user", "mnt", "pid", "net", "ipc", "uts", "cgroup"]
        .into_iter()
        .filter(|name| {
            let inside = facts.first(&format!("namespace.{name}"));
            let outside = fs::read_link(format!("/proc/self/ns/{name}")).unwrap_or_default();
            inside.is_empty() || Path::new(inside) == outside
        })
        .collect();
    let detail = if shared.is_empty() {
        "all seven differ from the host's".to_owned()
    } else {
        format!("shared with the host: {}", shared.join(", "))
    };
    finding("namespaces", shared.is_empty(), detail)
}

fn files(facts: &Facts<'_>, workspace: &Path, written: &Path) -> Probe {
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let kept = owner(written).is_some() && owner(written) == owner(workspace);
    let holds = facts.is("inside", "marker") && facts.is("outside", "") && facts.is("written", "yes") && kept;
    let detail = format!(
        "workspace read: {}, file outside read: {}, workspace written: {}, owner kept: {kept}",
        facts.is("inside", "marker"),
        facts.is("outside", "marker"),
        facts.is("written", "yes"),
    );
    finding("files", holds, detail)
}

fn network(facts: &Facts<'_>) -> Probe {
    let devices = facts.all("device");
    finding("network", devices == ["lo"], format!("devices: {}", devices.join(" ")))
}

fn processes(facts: &Facts<'_>) -> Probe {
    let seen = facts.all("process");
    // The shell itself and the substitution that lists it.
    let holds = (1..=2).contains(&seen.len());
    finding("processes", holds, format!("processes seen: {}", seen.len()))
}

fn privileges(facts: &Facts<'_>) -> Probe {
    let names = ["status.CapInh:", "status.CapPrm:", "status.CapEff:", "status.CapBnd:", "status.CapAmb:"];
    let none = names.iter().all(|name| facts.is(name, "0000000000000000"));
    let holds = none && facts.is("status.NoNewPrivs:", "1");
    // The kernel parts the four user ids by tabs, which a listing would show as escapes.
    let users = facts.first("status.Uid:").replace('\t', " ");
    finding("privileges", holds, format!("no capabilities: {none}, user: {users}"))
}

fn landlock(outcome: &Outcome) -> Probe {
    let version = outcome.enforcement.landlock_abi;
    Probe {
        name: "landlock",
        holds: version.is_some(),
        detail: version.map_or_else(
            || "not offered by this kernel; the file system is guarded by mounts alone".to_owned(),
            |version| format!("version {version}"),
        ),
        hint: version
            .is_none()
            .then(|| "use Linux 5.19 or later, with `landlock` in its list of security modules".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_probe_finds_what_its_name_promises_on_this_machine() {
        for probe in probe() {
            assert!(probe.holds, "{probe:?}");
        }
    }

    #[test]
    fn a_missing_fact_does_not_hold() {
        let nothing = Facts("");
        for probe in [namespaces(&nothing), network(&nothing), processes(&nothing), privileges(&nothing)] {
            assert!(!probe.holds && probe.hint.is_some(), "{probe:?}");
        }
    }

    #[test]
    fn an_unavailable_sandbox_is_reported_with_its_hint() {
        let probe = cannot(&SandboxError::Unavailable {
            what: "x".to_owned(),
            hint: "do y".to_owned(),
            source: std::io::ErrorKind::PermissionDenied.into(),
        });
        assert_eq!((probe.holds, probe.hint.as_deref()), (false, Some("do y")));
    }
}
