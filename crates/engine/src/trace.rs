//! Traces of calls: the beginning and duration of each stage, and short facts about the call.
//!
//! A trace holds no arguments and no responses, and every text of a client is redacted first.
//! Without a tracer, nothing is recorded.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::origin::{Origin, Parent};
use crate::request::Door;

/// Receiver of the traces of calls.
pub trait Tracer: Send + Sync {
    /// Receives the trace of a call that has ended. The response waits for this method, so it must
    /// not block.
    fn ended(&self, call: CallTrace);
    /// Returns the figures of the spans so far.
    fn figures(&self) -> TraceFigures;
}

/// Figures of the spans so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Number of spans that a collector accepted.
    pub sent: u64,
    /// Number of spans that were lost, because the queue was full or because the collector did not
    /// accept them.
    pub dropped: u64,
}

/// Stages of a call that take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Search for the tool, planning, and the decision of the policy.
    Decide,
    /// Wait for somebody's answer.
    Approve,
    /// Wait for admission.
    Admit,
    /// Recording of the intent.
    RecordIntent,
    /// Saving of the files that the call will change.
    Checkpoint,
    /// Run of the tool.
    Run,
    /// Commit of the changes to the workspace.
    SwapIn,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Approve => "approve",
            Self::Admit => "admit",
            Self::RecordIntent => "record intent",
            Self::Checkpoint => "checkpoint",
            Self::Run => "run",
            Self::SwapIn => "swap in",
        }
    }
}

/// Trace data that is collected during a call.
pub(crate) struct TraceDraft {
    pub(crate) origin: Origin,
    /// Name of the tool in the caller's dialect, and its canonical name.
    pub(crate) tool: Option<(String, &'static str)>,
    stages: Vec<StageRecord>,
}

/// Stage that the call has entered.
struct StageRecord {
    stage: Stage,
    began: Instant,
    /// End of the stage; `None` while the call is in it.
    ended: Option<Instant>,
    failed: bool,
}

impl TraceDraft {
    pub(crate) fn of(origin: Origin) -> Self {
        Self { origin, tool: None, stages: Vec::new() }
    }

    /// Ends the previous stage, and begins this one.
    pub(crate) fn enter(&mut self, stage: Stage) {
        self.leave(false);
        self.stages.push(StageRecord { stage, began: Instant::now(), ended: None, failed: false });
    }

    /// Ends the current stage, if there is one.
    pub(crate) fn leave(&mut self, failed: bool) {
        if let Some(last) = self.stages.last_mut().filter(|last| last.ended.is_none()) {
            last.ended = Some(Instant::now());
            last.failed = failed;
        }
    }

    /// Returns the stages of a call that began at `started` and ended with this error, if any.
    pub(crate) fn stages(&self, started: Instant, error: Option<&'static str>) -> Vec<StageTrace> {
        let stage = |passed: &StageRecord| StageTrace {
            name: passed.stage.name(),
            after: passed.began.duration_since(started),
            took: passed.ended.map_or(Duration::ZERO, |ended| ended.duration_since(passed.began)),
            error: error.filter(|_| passed.failed),
        };
        self.stages.iter().map(stage).collect()
    }
}

/// Trace of a call that has ended.
#[derive(Debug, Clone)]
pub struct CallTrace {
    /// Span of which the call is a part.
    pub parent: Option<Parent>,
    /// Span that carried the message.
    pub carrier: Option<Parent>,
    /// Door of the call.
    pub door: Door,
    /// Name of the request in the door's protocol.
    pub operation: Option<&'static str>,
    /// Name of the tool in the caller's dialect; `None` if the tool does not exist.
    pub tool: Option<String>,
    /// Time of arrival.
    pub began: Timestamp,
    /// Total duration.
    pub took: Duration,
    /// Facts about the call, under the names of OpenTelemetry's conventions if they exist,
    /// otherwise under `handfast`.
    pub facts: Vec<(&'static str, String)>,
    /// Code of the error with which the call ended.
    pub error: Option<&'static str>,
    /// Stages in order.
    pub stages: Vec<StageTrace>,
}

/// Stage of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTrace {
    /// Name of the stage.
    pub name: &'static str,
    /// Beginning of the stage, relative to the arrival of the call.
    pub after: Duration,
    /// Duration of the stage.
    pub took: Duration,
    /// Code of the error, if the call failed in this stage.
    pub error: Option<&'static str>,
}
