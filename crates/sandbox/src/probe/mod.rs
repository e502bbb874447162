//! Tests on this machine whether cells withstand attacks, for `handfast doctor`: each probe is an
//! attempt from inside a cell to overstep its limits, and its finding is the result of the attempt.
//!
//! A refused attempt proves something only if the same attempt works without a cell. So each
//! attempt has a control, and if the control fails, the verdict is unknown.

mod amount;
mod attempt;
mod cases;
mod facts;
mod finding;
mod scene;

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::SandboxError;
use crate::home::KeptHome;
use crate::isolation::{CellHost, Isolation, IsolationChoice};
use crate::outcome::{EndReason, Exit, Outcome};
use crate::run::run;
use crate::spec::{CellSpec, Command, Overlay, Placeholder, Program};
use crate::stopper::Stopper;
use attempt::{Answer, LOOK, OUTPUT};
use cases::{Case, Reading};
use finding::finding;
use scene::Scene;

pub use attempt::{MARKER, attempt};
pub use finding::{Attempter, Probe, Verdict};

/// Maximum duration of an attempt before it counts as not made.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Makes all attempts with `attempter`. Takes about a second; blocks.
///
/// Creates the files, sockets and processes that it needs below the folder for temporary files, and
/// removes them before it returns.
pub fn probe(attempter: &Attempter) -> Vec<Probe> {
    match examine(attempter) {
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
        _ => "no known setting causes this; report it with the detail above".to_owned(),
    };
    Probe {
        name: "cell",
        promise: Some("command-in-cell"),
        verdict: Verdict::Fails,
        enforced_by: "nothing runs".to_owned(),
        detail,
        hint: Some(hint),
    }
}

fn examine(attempter: &Attempter) -> Result<Vec<Probe>, SandboxError> {
    let mut scene = Scene::new(attempter)
        .map_err(|source| SandboxError::Io { doing: "making what probes are tried on", source })?;
    let isolation = Isolation::of(IsolationChoice::Auto, attempter.entrance.clone());
    let host = CellHost { isolation, ..CellHost::default() };
    let cell = Cell { spec: scene.spec(attempter), host, attempter };
    let (looked, _) = cell.attempt(&[LOOK.into()], TIMEOUT)?;
    let mut probes = facts::findings(&looked);
    for case in cases::all(&scene) {
        let (made, _) = cell.attempt(&case.inside, TIMEOUT)?;
        let inside = inside(&case, &made);
        let untouched = !scene.outside(cases::MADE).exists() && scene.victims[0].is_alive();
        let by = case.enforced_by.of(&made.enforcement);
        probes.push(judge(&case, by, inside, untouched, || control(attempter, &case)));
    }
    probes.push(workspace(&cell, &scene)?);
    probes.push(snapshot(&cell, &scene)?);
    probes.extend(placeholder(&cell, &scene)?);
    probes.extend(home(&cell, &scene)?);
    probes.push(deadline(&cell, &scene)?);
    probes.push(output(&cell)?);
    Ok(probes)
}

/// The cell in which attempts are made.
struct Cell<'a> {
    spec: CellSpec,
    host: CellHost,
    attempter: &'a Attempter,
}

impl Cell<'_> {
    /// Makes one attempt in a new cell.
    fn attempt(&self, attempt: &[OsString], deadline: Duration) -> Result<(Outcome, String), SandboxError> {
        let program = [self.attempter.program.clone().into_os_string()];
        let whole = program.iter().chain(&self.attempter.arguments).chain(attempt);
        let command = Command {
            program: Program::Argv(whole.cloned().collect()),
            working_directory: self.spec.workspace.clone(),
        };
        let outcome =
            run(&self.spec, &self.host, &command, Some(deadline), &Stopper::new()?, &mut |_, _| {})?;
        let output = String::from_utf8_lossy(&outcome.stdout.head).into_owned();
        Ok((outcome, output))
    }
}

/// The answer of an attempt, or a description of why there is no answer.
type AttemptResult = Result<Answer, String>;

fn inside(case: &Case, outcome: &Outcome) -> AttemptResult {
    let output = String::from_utf8_lossy(&outcome.stdout.head);
    match (Answer::parse(&output), outcome.exit) {
        (Some(answer), _) => Ok(answer),
        (None, Exit::Signal(signal)) if case.reading == Reading::MayKill => {
            Ok(Answer::Refused(format!("killed by signal {signal}")))
        }
        (None, exit) => {
            let said = String::from_utf8_lossy(&outcome.stderr.head);
            Err(format!("the attempt ended with {exit:?} and no answer: {}", said.trim()))
        }
    }
}

/// Makes the control outside of a cell.
fn control(attempter: &Attempter, case: &Case) -> AttemptResult {
    let output = attempter.outside().args(&case.outside).output().map_err(|error| error.to_string())?;
    Answer::parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
}

fn judge(
    case: &Case,
    by: &str,
    inside: AttemptResult,
    untouched: bool,
    control: impl FnOnce() -> AttemptResult,
) -> Probe {
    let by_evidence = case.reading == Reading::ByEvidence;
    let (verdict, detail) = match inside {
        Ok(Answer::Done(what)) if !by_evidence => (Verdict::Fails, what),
        Ok(_) if by_evidence && !untouched => (Verdict::Fails, "the host was changed".to_owned()),
        Ok(Answer::Done(what)) => with_control(case, format!("{what}, and the host is untouched"), control),
        Ok(Answer::Refused(why)) => with_control(case, why, control),
        Err(problem) => (Verdict::Unknown, problem),
    };
    finding(case.name, case.promise, verdict, by, detail)
}

/// Returns the verdict on an attempt that was refused for this reason.
fn with_control(case: &Case, why: String, control: impl FnOnce() -> AttemptResult) -> (Verdict, String) {
    match control() {
        Ok(Answer::Done(_)) => (Verdict::Holds, why),
        Ok(Answer::Refused(_)) if case.reading == Reading::HostMayRefuse => {
            (Verdict::Holds, format!("{why}; this machine refuses it without a cell too"))
        }
        Ok(Answer::Refused(also)) => (Verdict::Unknown, format!("{why}; but without a cell as well: {also}")),
        Err(problem) => (Verdict::Unknown, format!("{why}; but the control failed: {problem}")),
    }
}

/// Tests that the workspace is writable, and that new files belong to its owner.
fn workspace(cell: &Cell<'_>, scene: &Scene) -> Result<Probe, SandboxError> {
    let path = scene.inside("plain/written");
    let (outcome, output) = cell.attempt(&["write".into(), path.clone().into_os_string()], TIMEOUT)?;
    let owner = |path: &Path| fs::metadata(path).ok().map(|found| found.uid());
    let (verdict, detail) = match (Answer::parse(&output), owner(&path), owner(&cell.spec.workspace)) {
        (Some(Answer::Done(_)), Some(file), Some(workspace)) if file == workspace => {
            (Verdict::Holds, format!("a new file belongs to user {file}, as the workspace does"))
        }
        (Some(Answer::Done(_)), Some(file), _) => {
            (Verdict::Fails, format!("a new file belongs to user {file}"))
        }
        (answer, ..) => (Verdict::Unknown, format!("no file could be written: {answer:?}")),
    };
    Ok(finding("workspace", Some("command-owner"), verdict, cases::OWNER.of(&outcome.enforcement), detail))
}

/// Tests that an overlay can store a command's changes apart from the workspace, on the file system
/// of temporary files.
fn snapshot(cell: &Cell<'_>, scene: &Scene) -> Result<Probe, SandboxError> {
    const NAME: &str = "plain/apart";
    let overlay = overlay_in(&scene.outside("changes"))?;
    let upper = overlay.upper.join(NAME);
    let spec = CellSpec { overlay: Some(overlay), ..cell.spec.clone() };
    let apart = Cell { spec, host: cell.host.clone(), attempter: cell.attempter };
    let path = scene.inside(NAME);
    let (verdict, detail) = match apart.attempt(&["write".into(), path.clone().into_os_string()], TIMEOUT) {
        Err(refused @ (SandboxError::Overlay { .. } | SandboxError::Unavailable { .. })) => {
            (Verdict::Fails, format!("commands write to the workspace directly: {refused}"))
        }
        Err(error) => return Err(error),
        Ok(_) if path.exists() => (Verdict::Fails, "a change reached the workspace at once".to_owned()),
        Ok(_) if upper.exists() => {
            (Verdict::Holds, "a change was isolated, and the workspace unchanged".to_owned())
        }
        Ok((_, output)) => (Verdict::Unknown, format!("no file could be written: {output}")),
    };
    Ok(finding("snapshot", Some("command-all-or-nothing"), verdict, "overlay", detail))
}

/// Makes the folders of an overlay.
fn overlay_in(folder: &Path) -> Result<Overlay, SandboxError> {
    let overlay = Overlay { upper: folder.join("upper"), work: folder.join("work") };
    for made in [folder, &overlay.upper, &overlay.work] {
        DirBuilder::new()
            .mode(0o700)
            .create(made)
            .map_err(|source| SandboxError::Io { doing: "making a folder for a probe", source })?;
    }
    Ok(overlay)
}

/// Tests that a placeholder stands in for a denied file that commands can remove. Returns `None`
/// without an overlay: then no command can remove a denied file.
fn placeholder(cell: &Cell<'_>, scene: &Scene) -> Result<Option<Probe>, SandboxError> {
    let denied = scene.inside("denied/file");
    let overlay = overlay_in(&scene.outside("hidden"))?;
    let made = overlay.upper.join("denied/file");
    let placeholder = Placeholder { mark: c"user.overlay.probe".to_owned(), content: Vec::new(), mode: 0 };
    let placeholders = BTreeMap::from([(denied.clone(), placeholder)]);
    let spec = CellSpec { overlay: Some(overlay), placeholders, ..cell.spec.clone() };
    let apart = Cell { spec, host: cell.host.clone(), attempter: cell.attempter };
    let (_, output) = match apart.attempt(&["read".into(), denied.into_os_string()], TIMEOUT) {
        Err(SandboxError::Overlay { .. } | SandboxError::Unavailable { .. }) => return Ok(None),
        attempt => attempt?,
    };
    let (verdict, detail) = match Answer::parse(&output) {
        Some(Answer::Done(_)) => (Verdict::Fails, "its content was read".to_owned()),
        Some(Answer::Refused(why)) if made.exists() => (Verdict::Holds, why),
        answer => (Verdict::Unknown, format!("no placeholder was there: {answer:?}")),
    };
    let (name, promise) = ("denied-file-on-snapshot", "hidden-files-removable");
    Ok(Some(finding(name, Some(promise), verdict, "a placeholder in its place", detail)))
}

/// Tests that a command finds the caches of the previous one's home, and no other files.
fn home(cell: &Cell<'_>, scene: &Scene) -> Result<[Probe; 2], SandboxError> {
    let kept = Arc::new(KeptHome::new(scene.outside("kept"), &cell.spec.workspace)?);
    let host = CellHost { kept_home: Some(kept), ..cell.host.clone() };
    let keeping = Cell { spec: cell.spec.clone(), host, attempter: cell.attempter };
    let mut found = Vec::new();
    for (path, is_cache) in [(".npm/probe", true), (".profile", false)] {
        let attempt = |what: &str| keeping.attempt(&[what.into(), path.into()], TIMEOUT);
        let (_, written) = attempt("write-in-home")?;
        let (_, read) = attempt("read-in-home")?;
        let (verdict, detail) = match (Answer::parse(&written), Answer::parse(&read)) {
            (Some(Answer::Done(_)), Some(read)) => {
                let is_there = matches!(read, Answer::Done(_));
                let verdict = if is_there == is_cache { Verdict::Holds } else { Verdict::Fails };
                (
                    verdict,
                    if is_there { "the next command found it" } else { "the next command did not find it" },
                )
            }
            _ => (Verdict::Unknown, "nothing could be written to the home"),
        };
        found.push((verdict, format!("~/{path}: {detail}")));
    }
    let [(cache, cached), (rest, gone)] = [found.remove(0), found.remove(0)];
    Ok([
        finding("home-caches", Some("home-caches-kept"), cache, "a folder of the workspace's own", cached),
        finding("home-rest", Some("home-fresh"), rest, "a home in memory", gone),
    ])
}

/// Tests that a command that ignores SIGTERM, and its descendants, are gone after the deadline.
fn deadline(cell: &Cell<'_>, scene: &Scene) -> Result<Probe, SandboxError> {
    let path = scene.inside("plain/survivor");
    let attempt = ["survive".into(), path.clone().into_os_string()];
    // The attempt must have started before its deadline. The time for that depends on the load of
    // the machine.
    for patience in [300, 1_000, 5_000].map(Duration::from_millis) {
        let (outcome, output) = cell.attempt(&attempt, patience)?;
        if output.trim() != attempt::WAITING {
            continue;
        }
        let file = File::open(&path)
            .map_err(|source| SandboxError::Io { doing: "opening the leftovers of a probe", source })?;
        let alone = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        let (verdict, detail) = match (outcome.ended, alone) {
            (EndReason::Deadline, true) => (Verdict::Holds, "killed without leftovers"),
            (_, false) => (Verdict::Fails, "one of its processes still runs"),
            (_, true) => (Verdict::Fails, "it ended in another way than by its deadline"),
        };
        return Ok(finding(
            "deadline",
            Some("command-ends"),
            verdict,
            cases::END.of(&outcome.enforcement),
            detail.to_owned(),
        ));
    }
    let detail = "the attempt did not begin within 5 s".to_owned();
    Ok(finding("deadline", Some("command-ends"), Verdict::Unknown, "", detail))
}

/// Tests that output past its limit is counted and dropped.
fn output(cell: &Cell<'_>) -> Result<Probe, SandboxError> {
    let more = cell.spec.output_limit + 100_000;
    let (outcome, _) = cell.attempt(&[OUTPUT.into(), more.to_string().into()], TIMEOUT)?;
    let captured = &outcome.stdout;
    let detail = format!("{} bytes were written and {} kept", captured.bytes, captured.whole_bytes);
    let verdict = match (captured.bytes == more, captured.whole_bytes == cell.spec.output_limit) {
        (true, true) => Verdict::Holds,
        (true, false) => Verdict::Fails,
        (false, _) => Verdict::Unknown,
    };
    Ok(finding("output", Some("command-output-bounded"), verdict, "Handfast", detail))
}
