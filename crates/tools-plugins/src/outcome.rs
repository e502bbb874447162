//! The end of a plugin's run: its answer, or its failure.

use std::time::SystemTime;

use plugins::{Answer, AnswerFault, WorkspaceUse, read_answer};
use sandbox::{ChangeSource, EndReason, Exit, FoundProgram, Outcome, PipedProgram, SandboxError};
use tool::{
    ChangeTreatment, Code, Context, Data, EffectState, RunResult, SnapshotUse, StopReason, ToolError,
};

use crate::cell::Collector;
use crate::conversation::Broken;

/// Number of characters of error output that an error shows.
const SHOWN: usize = 2_000;

/// Reason of a process that serves and has ended.
const NO_ANSWER: &str = "its process ended without an answer";

/// Failure of a run.
pub(crate) struct Failed {
    pub(crate) code: Code,
    pub(crate) reason: String,
    /// End of the error output, as one visible line.
    pub(crate) stderr: String,
    /// True if the plugin is at fault, and not the caller.
    pub(crate) is_fault: bool,
}

impl Failed {
    /// Makes the failure of an answer that is none.
    pub(crate) fn by(fault: &AnswerFault) -> Self {
        Self { code: Code::Runtime, reason: fault.to_string(), stderr: String::new(), is_fault: true }
    }

    /// Adds the error output of the process.
    pub(crate) fn with_stderr(self, stderr: &str) -> Self {
        Self { stderr: shown(stderr.as_bytes()), ..self }
    }
}

/// Converts the end of a conversation into a failure of the call.
pub(crate) fn broken(context: &Context, broken: Broken) -> Failed {
    let fault = |code: Code, reason: String| Failed { code, reason, stderr: String::new(), is_fault: true };
    match broken {
        Broken::Stopped if context.stop.requested() == Some(StopReason::Cancelled) => {
            let reason = "the caller cancelled the call".to_owned();
            Failed { code: Code::Cancelled, reason, stderr: String::new(), is_fault: false }
        }
        Broken::Stopped => fault(Code::Timeout, late(context)),
        Broken::Ended | Broken::EndedBefore => fault(Code::Runtime, NO_ANSWER.to_owned()),
        Broken::TooLong => Failed::by(&AnswerFault::TooLong),
        Broken::Unasked(bytes) => Failed::by(&AnswerFault::more(&bytes)),
        Broken::Failed(errno) => fault(Code::Runtime, format!("a pipe to its process failed: {errno}")),
    }
}

/// Ends a process that gave no answer, and says why it gave none. `has_answered` is true if it answered an earlier call.
/// Blocks.
pub(crate) fn ended(program: &PipedProgram, found: FoundProgram, has_answered: bool) -> Failed {
    // Before its end, the limit and the last output may still be on their way.
    let left = program.exit().0;
    program.end();
    let (at_end, exceeded) = program.exit();
    let fault = |code: Code, reason: String| Failed { code, reason, stderr: String::new(), is_fault: true };
    if let Some(limit) = exceeded {
        return fault(Code::Quota, format!("it was killed at its {limit}"));
    }
    match left.or(at_end) {
        Some(Exit::Code(code @ (126 | 127))) if !has_answered => not_started(code, found),
        Some(Exit::Code(code)) => fault(Code::Runtime, format!("{NO_ANSWER}, with exit code {code}")),
        // A process that closed its output and ran on was ended here.
        Some(Exit::Signal(signal)) if left.is_some() => {
            fault(Code::Runtime, format!("{NO_ANSWER}: signal {signal} ended it"))
        }
        Some(Exit::Signal(_)) | None => fault(Code::Runtime, NO_ANSWER.to_owned()),
    }
}

/// Makes the failure of a program for which a shell reported this code. It is the plugin's own only if the program was
/// there.
fn not_started(code: i32, found: FoundProgram) -> Failed {
    let (tool_code, reason) = match found {
        FoundProgram::Denied => (Code::Permission, "a rule denies its program".to_owned()),
        FoundProgram::Missing => {
            (Code::Unavailable, format!("its program is not installed here (exit code {code})"))
        }
        FoundProgram::Shown => {
            (Code::Unavailable, format!("its program cannot be started (exit code {code})"))
        }
    };
    let is_fault = found == FoundProgram::Shown;
    Failed { code: tool_code, reason, stderr: String::new(), is_fault }
}

fn late(context: &Context) -> String {
    format!("it did not answer within its timeout of {} s", context.timeout.as_secs_f64())
}

/// Facts of a run that its result needs.
pub(crate) struct Facts {
    sandbox: Vec<String>,
    taken_at: SystemTime,
    nothing_else: bool,
    is_apart: bool,
    uses: WorkspaceUse,
}

impl Facts {
    pub(crate) fn of(ended: &Outcome, uses: WorkspaceUse) -> Self {
        Self {
            sandbox: ended.enforcement.summary(),
            taken_at: ended.started_at,
            nothing_else: ended.enforcement.direct.is_empty(),
            is_apart: matches!(ended.changes, ChangeSource::UpperFolder(_)),
            uses,
        }
    }

    /// Returns the effect of a run that gave no data. Its changes in a snapshot are discarded.
    pub(crate) fn effect_of_failure(&self) -> EffectState {
        let is_sure = self.uses < WorkspaceUse::Write || self.is_apart && self.nothing_else;
        if is_sure { EffectState::None } else { EffectState::Maybe }
    }

    pub(crate) fn result(self, output: Result<Data, ToolError>, changes: ChangeTreatment) -> RunResult<Data> {
        let snapshot = self.is_apart.then_some(SnapshotUse {
            taken_at: self.taken_at,
            nothing_else: self.nothing_else,
            changes,
        });
        RunResult { sandbox: Some(self.sandbox), snapshot, ..RunResult::from(output) }
    }
}

/// Reads the answer of a run that has ended.
pub(crate) fn read(
    context: &Context,
    ended: &Outcome,
    collector: &Collector,
    validator: &jsonschema::Validator,
    found: impl FnOnce() -> FoundProgram,
) -> Result<Answer, Failed> {
    let stderr = shown(&collector.stderr);
    let fault = |code: Code, reason: String| Failed { code, reason, stderr: stderr.clone(), is_fault: true };
    if collector.is_too_much() {
        return Err(fault(Code::Runtime, plugins::AnswerFault::TooLong.to_string()));
    }
    if let Some(limit) = ended.exceeded {
        return Err(fault(Code::Quota, format!("it was killed at its {limit}")));
    }
    match (ended.ended, context.stop.requested()) {
        (EndReason::Finished, _) => {}
        (_, Some(StopReason::Cancelled)) => {
            let reason = "the caller cancelled the call".to_owned();
            return Err(Failed { code: Code::Cancelled, reason, stderr, is_fault: false });
        }
        (EndReason::Killed, _) => return Err(fault(Code::Runtime, "its cell was killed".to_owned())),
        _ => return Err(fault(Code::Timeout, late(context))),
    }
    match ended.exit {
        Exit::Code(0) => {}
        // A shell reports these for a program that it cannot start.
        Exit::Code(code @ (126 | 127)) => {
            return Err(Failed { stderr, ..not_started(code, found()) });
        }
        Exit::Code(code) => return Err(fault(Code::Runtime, format!("it ended with exit code {code}"))),
        Exit::Signal(signal) => return Err(fault(Code::Runtime, format!("signal {signal} ended it"))),
    }
    read_answer(&collector.stdout, validator).map_err(|problem| fault(Code::Runtime, problem.to_string()))
}

fn shown(stderr: &[u8]) -> String {
    let text = tool::visible(String::from_utf8_lossy(stderr).trim());
    let excess = text.chars().count().saturating_sub(SHOWN);
    text.chars().skip(excess).collect()
}

/// Converts the error of a cell that could not be made. It says nothing of the plugin, except that a program is
/// missing.
pub(crate) fn cannot_start(error: SandboxError) -> ToolError {
    let message = error.to_string();
    let made = match &error {
        SandboxError::Unavailable { hint, .. } => {
            ToolError::new(Code::Unavailable, message).hint(hint.clone())
        }
        SandboxError::ProgramNotFound { .. } => ToolError::new(Code::Unavailable, message)
            .hint("install the program that the plugin's `command` names, or change the command"),
        SandboxError::Overlay { .. } => ToolError::new(Code::Unavailable, message)
            .hint("repeat the call: it is then decided on as one that cannot be undone"),
        _ => ToolError::new(Code::Runtime, message),
    };
    made.because(error)
}
