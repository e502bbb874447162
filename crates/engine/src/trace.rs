//! Traces of calls: the beginning and duration of each stage, and short facts about the call.
//!
//! A trace holds no arguments and no responses, and every text of a client is redacted first.
//! Without a tracer, nothing is recorded.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tool::{EffectState, Outcome};

use crate::Door;
use crate::call::Call;
use crate::redact::Redactor;

/// Maximum number of characters of one fact. Texts of clients may be longer.
const FACT_CHARACTERS: usize = 200;
/// Maximum number of characters of a `tracestate` that is passed on (W3C Trace Context, section
/// 3.3.1.5: at least 512).
const STATE_CHARACTERS: usize = 512;

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

/// Origin of a call. A door sets it if [`crate::Engine::is_traced`].
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// Span of which the call is a part.
    pub parent: Option<Parent>,
    /// Span that carried the message, if the message itself names another parent.
    pub carrier: Option<Parent>,
    /// Name of the request in the door's protocol, such as `tools/call`.
    pub operation: Option<&'static str>,
    /// Other facts of the door, under the names of OpenTelemetry's conventions.
    pub facts: Vec<(&'static str, String)>,
}

/// Span of the caller (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Id of the trace.
    pub trace: [u8; 16],
    /// Id of the span within the trace.
    pub span: [u8; 8],
    /// True if the caller records this trace.
    pub sampled: bool,
    /// State that the systems on the way have added, passed on unchanged.
    pub state: Option<String>,
}

impl Parent {
    /// Parses a `traceparent` with its `tracestate`. Returns `None` for a malformed `traceparent`,
    /// which must be treated as absent.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut fields = traceparent.split('-');
        let version = bytes::<1>(fields.next()?)?[0];
        let trace = bytes::<16>(fields.next()?)?;
        let span = bytes::<8>(fields.next()?)?;
        let flags = bytes::<1>(fields.next()?)?[0];
        // A later version may have more fields; version 255 is invalid.
        let is_known = version != 255 && (version > 0 || fields.next().is_none());
        if !is_known || trace == [0; 16] || span == [0; 8] {
            return None;
        }
        let is_good = |state: &&str| {
            let graphic = |byte: u8| (0x20..0x7f).contains(&byte);
            !state.is_empty() && state.len() <= STATE_CHARACTERS && state.bytes().all(graphic)
        };
        let state = tracestate.map(str::trim).filter(is_good).map(str::to_owned);
        Some(Self { trace, span, sampled: flags & 1 == 1, state })
    }
}

/// Decodes hexadecimal digits, in lower case alone.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits: Vec<u8> = text
        .bytes()
        .map(|byte| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| pair.iter().fold(0, |all, digit| all << 4 | digit)).collect();
    if digits.len() == 2 * N { bytes.try_into().ok() } else { None }
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
    origin: Origin,
    /// Name of the tool in the caller's dialect, and its canonical name.
    tool: Option<(String, &'static str)>,
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

    fn leave(&mut self, failed: bool) {
        if let Some(last) = self.stages.last_mut().filter(|last| last.ended.is_none()) {
            last.ended = Some(Instant::now());
            last.failed = failed;
        }
    }
}

impl Call {
    /// Ends the previous stage, and begins this one.
    pub(crate) fn enter(&mut self, stage: Stage) {
        self.leave();
        if let Some(noted) = &mut self.noted {
            noted.stages.push(StageRecord { stage, began: Instant::now(), ended: None, failed: false });
        }
    }

    /// Ends the stage successfully, without beginning another.
    pub(crate) fn leave(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.leave(false);
        }
    }

    /// Marks the current stage as failed, if the call is in one.
    pub(crate) fn fail(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.leave(true);
        }
    }

    /// Records the tool that was found.
    pub(crate) fn note_tool(&mut self, named: &str, canonical: &'static str) {
        if let Some(noted) = &mut self.noted {
            noted.tool = Some((named.to_owned(), canonical));
        }
    }

    /// Returns the trace of a call that has ended, or `None` without a tracer.
    pub(crate) fn trace(&mut self, outcome: &Outcome, redactor: &Redactor) -> Option<CallTrace> {
        let mut noted = self.noted.take()?;
        let error = match outcome {
            Outcome::Ok(_) => None,
            Outcome::Err(error) => Some(error.code.as_str()),
        };
        let stages = noted.stages.iter().map(|passed| StageTrace {
            name: passed.stage.name(),
            after: passed.began.duration_since(self.started()),
            took: passed.ended.map_or(Duration::ZERO, |ended| ended.duration_since(passed.began)),
            error: error.filter(|_| passed.failed),
        });
        let stages = stages.collect();
        let (tool, canonical) = noted.tool.take().unzip();
        let Origin { parent, carrier, operation, facts } = noted.origin;
        let mut facts: Vec<(&'static str, String)> =
            facts.into_iter().map(|(name, fact)| (name, shortened(&fact, redactor))).collect();
        facts.extend(self.facts(canonical, outcome, redactor));
        Some(CallTrace {
            parent,
            carrier,
            door: self.door,
            operation,
            tool,
            began: self.started_at(),
            took: self.elapsed(),
            facts,
            error,
            stages,
        })
    }

    fn facts(
        &self,
        canonical: Option<&'static str>,
        outcome: &Outcome,
        redactor: &Redactor,
    ) -> impl Iterator<Item = (&'static str, String)> {
        let decided = self.decision.as_ref();
        let effect = match outcome {
            Outcome::Ok(_) if self.intent_recorded => EffectState::Done,
            Outcome::Ok(_) => EffectState::None,
            Outcome::Err(error) => error.effect,
        };
        let yes = |said: bool| said.then(|| "true".to_owned());
        [
            ("handfast.call", Some(self.id.0.clone())),
            ("handfast.session", Some(shortened(&self.session.0, redactor))),
            ("handfast.door", Some(self.door.as_str().to_owned())),
            ("handfast.dialect", Some(self.dialect.to_owned())),
            ("handfast.tool", canonical.map(str::to_owned)),
            ("handfast.level", canonical.map(|_| self.level.as_str().to_owned())),
            ("handfast.decision", decided.map(|decided| decided.verdict.as_str().to_owned())),
            ("handfast.rule", decided.map(|decided| shortened(&decided.rule.to_string(), redactor))),
            ("handfast.approved", yes(self.approved_by.is_some())),
            ("handfast.effect", Some(effect.as_str().to_owned())),
            ("handfast.checkpoint", self.checkpoint.clone()),
            ("handfast.sandbox", self.sandbox.as_ref().and_then(|facts| facts.first().cloned())),
            ("handfast.cached", yes(self.cached)),
            ("handfast.dry_run", yes(self.dry_run.is_some())),
        ]
        .into_iter()
        .filter_map(|(name, fact)| Some((name, fact?)))
    }
}

/// Returns a text in the form in which a trace may show it: redacted and shortened.
fn shortened(text: &str, redactor: &Redactor) -> String {
    // The text is redacted before it is cut, because a cut through a secret would leave a part that
    // no longer matches.
    let covered = redactor.text(text);
    covered.as_deref().unwrap_or(text).chars().take(FACT_CHARACTERS).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_parent_is_read_as_the_standard_has_it() {
        let parent = Parent::read(GOOD, Some(" rojo=00f067aa0ba902b7,congo=t61rcWkgMzE ")).unwrap();
        assert_eq!(
            (parent.trace[..2].to_vec(), parent.span[7], parent.sampled),
            (vec![0x4b, 0xf9], 0xb7, true)
        );
        assert_eq!(parent.state.as_deref(), Some("rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"));
        assert!(!Parent::read(&GOOD.replace("-01", "-00"), None).unwrap().sampled);
        assert!(Parent::read(&GOOD.replacen("00", "01", 1), None).is_some(), "a later version");
        assert!(Parent::read(&format!("01{}-what-may-come", &GOOD[2..]), None).is_some());
    }

    #[test]
    fn a_malformed_parent_is_none_and_a_malformed_state_is_left_out() {
        for bad in [
            "",
            "00",
            &GOOD[..54],
            &format!("{GOOD}-00"),
            &format!("{GOOD}0"),
            &GOOD.replacen("00", "ff", 1),
            &GOOD.to_uppercase(),
            &GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32)),
            &GOOD.replace("00f067aa0ba902b7", &"0".repeat(16)),
            &GOOD.replace("00f067aa0ba902b7", "ä0f067aa0ba902b"),
            &format!(" {GOOD}"),
        ] {
            assert_eq!(Parent::read(bad, None), None, "{bad:?}");
        }
        for bad in ["", " ", "a=\nb", "a=ä", &"x".repeat(513)] {
            assert_eq!(Parent::read(GOOD, Some(bad)).unwrap().state, None, "{bad:?}");
        }
    }
}
