//! The trace of one call: its stages, and the facts that its state tells.

use tool::{EffectState, Outcome};

use crate::call::Call;
use crate::origin::Origin;
use crate::redact::Redactor;
use crate::request::{Door, Internal};
use crate::trace::{CallTrace, Stage};

/// Maximum number of characters of one fact. Texts of clients may be longer.
const FACT_CHARACTERS: usize = 200;
impl Call {
    /// Ends the previous stage, and begins this one.
    pub(crate) fn enter(&mut self, stage: Stage) {
        if let Some(noted) = &mut self.noted {
            noted.enter(stage);
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
        let stages = noted.stages(self.started(), error);
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
            // The session of an agent is named after it.
            (
                "gen_ai.agent.id",
                (self.door == Door::Internal(Internal::Agent)).then(|| self.session.0.clone()),
            ),
            ("handfast.parent", self.parent.as_ref().map(|parent| parent.0.clone())),
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
