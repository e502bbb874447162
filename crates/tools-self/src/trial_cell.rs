//! Running a script of self-development in the cell of its call.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use sandbox::{
    CapturedStream, CellHost, CellSpec, ChangeSource, Command, EndReason, Outcome, Program, SandboxError,
    Stopper,
};
use tool::{ChangeTreatment, Code, Context, EffectState, RunResult, SnapshotUse, StopReason, ToolError};

/// Maximum bytes of output that are read.
const MOST_OUTPUT: u64 = 32 * 1024 * 1024;

/// Files for the home of a cell, each with its name and its content.
pub(crate) type HomeFiles = Vec<(PathBuf, Vec<u8>)>;

/// A script that has run.
pub(crate) struct RanScript {
    /// Standard output.
    pub(crate) text: String,
    /// True if its time ran out.
    pub(crate) timed_out: bool,
    pub(crate) seconds: f64,
    outcome_facts: OutcomeFacts,
}

struct OutcomeFacts {
    sandbox: Vec<String>,
    snapshot: Option<SnapshotUse>,
}

impl RanScript {
    /// Returns the result of the call, with the facts of its cell. The changes in the cell's copy of the workspace
    /// are discarded, unless `keeps` is true and there is an output.
    pub(crate) fn result<T>(&self, output: Result<T, ToolError>, keeps: bool) -> RunResult<T> {
        let keeps = keeps && output.is_ok();
        let changes = if keeps { ChangeTreatment::Commit } else { ChangeTreatment::Discard };
        let OutcomeFacts { sandbox, snapshot } = &self.outcome_facts;
        let snapshot = snapshot.map(|used| SnapshotUse { changes, ..used });
        RunResult { sandbox: Some(sandbox.clone()), snapshot, ..output.into() }
    }
}

/// Runs a script in the cell of the call, on a copy of the workspace and on nothing else.
///
/// # Errors
/// `EUNAVAILABLE` if the changes of the script cannot be kept apart here; nothing is run then.
pub(crate) fn run(
    context: &Context,
    script: String,
    files: HomeFiles,
    at_most: Duration,
) -> Result<RanScript, ToolError> {
    let (cell, host) = (context.service::<CellSpec>()?, context.service::<CellHost>()?);
    if cell.overlay.is_none() {
        return Err(no_copy("this runtime does not isolate changes"));
    }
    let mut cell = CellSpec { overlay_only: true, ..CellSpec::clone(&cell) };
    // Folders outside the copy must not change either.
    let writable = std::mem::take(&mut cell.read_write);
    cell.read_only.extend(writable);
    cell.home_files.extend(files);
    let command =
        Command { program: Program::Shell(script), working_directory: context.place.workspace.clone() };
    let stopper = Stopper::new().map_err(failed)?;
    let at_request = stopper.clone();
    context.stop.on_request(move |_| at_request.stop());
    let outcome =
        sandbox::run(&cell, &host, &command, Some(at_most), &stopper, &mut |_, _| {}).map_err(failed)?;
    let stopped = context.stop.requested();
    match (outcome.ended, stopped) {
        (EndReason::Killed, _) => {
            return Err(ToolError::new(
                Code::Runtime,
                "the sandbox was killed from outside, perhaps because memory ran out",
            ));
        }
        (EndReason::Stopped, Some(cancelled @ StopReason::Cancelled)) => return Err(cancelled.into()),
        _ => {}
    }
    if let Some(limit) = outcome.exceeded {
        context.warn(format!("the tests reached a limit of their cell: {limit:?}"));
    }
    let timed_out = outcome.ended != EndReason::Finished;
    let seconds = outcome.duration.as_secs_f64();
    let Outcome { stdout, enforcement, changes, started_at, .. } = outcome;
    let snapshot = matches!(changes, ChangeSource::UpperFolder(_)).then(|| SnapshotUse {
        taken_at: started_at,
        nothing_else: enforcement.direct.is_empty(),
        changes: ChangeTreatment::Discard,
    });
    let text = whole(stdout)?;
    Ok(RanScript {
        text,
        timed_out,
        seconds,
        outcome_facts: OutcomeFacts { sandbox: enforcement.summary(), snapshot },
    })
}

/// Returns the whole text of a stream, up to a bound.
fn whole(stream: CapturedStream) -> Result<String, ToolError> {
    let CapturedStream { head, tail, bytes, whole, spool_error, .. } = stream;
    if let Some(error) = spool_error {
        let message = "the output of the tests could not be kept, so their result is unknown";
        return Err(ToolError::caused_by(message, error));
    }
    let mut all = Vec::new();
    match whole {
        Some(file) => {
            let read = file.take(MOST_OUTPUT).read_to_end(&mut all);
            read.map_err(|error| ToolError::caused_by("the output of the tests cannot be read", error))?;
        }
        None => {
            all = head;
            all.extend_from_slice(&tail);
        }
    }
    if (all.len() as u64) < bytes {
        let message = format!("the tests printed {bytes} bytes, more than can be read");
        return Err(ToolError::new(Code::Quota, message).hint("run fewer tests, or let them print less"));
    }
    Ok(String::from_utf8(all).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

fn no_copy(why: &str) -> ToolError {
    let message = format!("nothing was run: self-development needs a copy of the workspace, and {why}");
    ToolError::new(Code::Unavailable, message).hint("`handfast doctor` shows what is missing")
}

fn failed(error: SandboxError) -> ToolError {
    match error {
        SandboxError::Overlay { .. } => no_copy(&error.to_string()).because(error),
        SandboxError::Unavailable { ref hint, .. } => {
            let hint = hint.clone();
            ToolError::new(Code::Unavailable, error.to_string()).hint(hint).because(error)
        }
        other => ToolError::new(Code::Runtime, other.to_string()).effect(EffectState::None).because(other),
    }
}
