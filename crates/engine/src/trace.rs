//! The life of a call as traces tell it: when each of its stages began, and short facts about it.
//!
//! Arguments and answers are no part of it, and every text of a client is covered first. Where nobody follows calls, nothing is noted.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use tool::{EffectState, Outcome};

use crate::Door;
use crate::call::Call;
use crate::redact::Redactor;

/// Characters of one fact; what a client says of itself may be longer.
const FACT_CHARACTERS: usize = 200;
/// Characters of a `tracestate` that are passed on (W3C Trace Context, section 3.3.1.5: at least 512).
const STATE_CHARACTERS: usize = 512;

/// Who follows the lives of calls.
pub trait Tracer: Send + Sync {
    /// Hears of a call that has ended. Its answer waits for this to return, so this waits for nothing.
    fn ended(&self, call: CallTrace);
    /// What became of what it heard.
    fn figures(&self) -> TraceFigures;
}

/// What became of the spans so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TraceFigures {
    /// Spans that a collector took.
    pub sent: u64,
    /// Spans that nobody gets: no room was left for them, or the collector did not take them.
    pub dropped: u64,
}

/// Where a call comes from. A door says so where [`crate::Engine::is_traced`].
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The span that the call is a part of.
    pub parent: Option<Parent>,
    /// A span that carried the message, where the message itself names its parent.
    pub carrier: Option<Parent>,
    /// What the door calls such a request, where its protocol has a word for it: `tools/call`.
    pub operation: Option<&'static str>,
    /// What else the door knows, by the names of OpenTelemetry's conventions.
    pub facts: Vec<(&'static str, String)>,
}

/// A span of the caller (W3C Trace Context).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// The trace.
    pub trace: [u8; 16],
    /// The span within it.
    pub span: [u8; 8],
    /// Whether the caller records this trace.
    pub sampled: bool,
    /// What the systems on the way here have noted, to be passed on as it is.
    pub state: Option<String>,
}

impl Parent {
    /// The parent that a `traceparent` names, with the `tracestate` beside it. None where it is malformed: then it has to be
    /// taken for absent.
    pub fn read(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut fields = traceparent.split('-');
        let version = bytes::<1>(fields.next()?)?[0];
        let trace = bytes::<16>(fields.next()?)?;
        let span = bytes::<8>(fields.next()?)?;
        let flags = bytes::<1>(fields.next()?)?[0];
        // A later version may have more fields; 255 is none.
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

/// Hexadecimal digits, small letters alone.
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

/// The stages of a call that take time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Finding the tool, planning, and asking the policy.
    Decide,
    /// Waiting for somebody's answer.
    Approve,
    /// Waiting for a place.
    Admit,
    /// Writing down what is about to happen.
    RecordIntent,
    /// Keeping what the call will change.
    Checkpoint,
    /// The tool at work.
    Run,
    /// Putting what changed into the workspace.
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

/// What is noted of a call on its way.
pub(crate) struct Noted {
    origin: Origin,
    /// What the caller calls the tool, and its canonical name.
    tool: Option<(String, &'static str)>,
    stages: Vec<Passed>,
}

/// A stage that the call has come to.
struct Passed {
    stage: Stage,
    began: Instant,
    /// None while the call is in it.
    ended: Option<Instant>,
    failed: bool,
}

impl Noted {
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
    /// The stage before has ended, and this one begins.
    pub(crate) fn enter(&mut self, stage: Stage) {
        self.leave();
        if let Some(noted) = &mut self.noted {
            noted.stages.push(Passed { stage, began: Instant::now(), ended: None, failed: false });
        }
    }

    /// The stage has ended well, and what follows is none.
    pub(crate) fn leave(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.leave(false);
        }
    }

    /// The call has failed in the stage that it is in, if it is in one.
    pub(crate) fn fail(&mut self) {
        if let Some(noted) = &mut self.noted {
            noted.leave(true);
        }
    }

    /// The tool was found.
    pub(crate) fn note_tool(&mut self, named: &str, canonical: &'static str) {
        if let Some(noted) = &mut self.noted {
            noted.tool = Some((named.to_owned(), canonical));
        }
    }

    /// The whole life, once it has come to this; none where nobody follows it.
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

/// A text as a trace may show it.
fn shortened(text: &str, redactor: &Redactor) -> String {
    // Covered before it is cut: a cut through a secret would leave a part that no longer matches.
    let covered = redactor.text(text);
    covered.as_deref().unwrap_or(text).chars().take(FACT_CHARACTERS).collect()
}

/// A call that has ended.
#[derive(Debug, Clone)]
pub struct CallTrace {
    /// The span that it is a part of.
    pub parent: Option<Parent>,
    /// A span that carried its message.
    pub carrier: Option<Parent>,
    /// The way in.
    pub door: Door,
    /// What its door calls such a request.
    pub operation: Option<&'static str>,
    /// The tool as the caller names it; none where there is no such tool.
    pub tool: Option<String>,
    /// When it arrived.
    pub began: Timestamp,
    /// How long it took in all.
    pub took: Duration,
    /// What is known of it, by the names of OpenTelemetry's conventions where there are such, else under `handfast`.
    pub facts: Vec<(&'static str, String)>,
    /// The code of the error that it ended with.
    pub error: Option<&'static str>,
    /// Its stages, one after the other.
    pub stages: Vec<StageTrace>,
}

/// A stage of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StageTrace {
    /// What it is called.
    pub name: &'static str,
    /// When it began, from the arrival of the call on.
    pub after: Duration,
    /// How long it took.
    pub took: Duration,
    /// The code of the error, where the call failed in it.
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
