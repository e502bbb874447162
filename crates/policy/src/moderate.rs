//! `moderate_exec_command`: commands that the user states to be of level `moderate`.
//!
//! The level decides what a ceiling lets through and what people are told. No question is decided here: both levels have the same
//! row in the table of modes.

use tool::{Effect, Level};

use crate::{List, Policy, Request};

impl Policy {
    /// The level that the tool states, or `moderate` for a command of level `destructive` that the user's list says is.
    pub(crate) fn stated(&self, request: &Request<'_>) -> Level {
        if request.level != Level::Destructive || self.moderate.is_empty() {
            return request.level;
        }
        let listing = self.with_moderate_listed();
        let mut runs = false;
        for part in request.parts {
            if !matches!(part.effect, Effect::Run { .. }) {
                continue;
            }
            runs = true;
            // Every command of the line is listed or only reads, in the forms that `allowed_exec_command` takes.
            let Some(cause) = listing.judge(part).allowed else { return request.level };
            if cause.rule.key != List::ModerateExecCommand.key() && self.judge(part).allowed.is_some() {
                return request.level;
            }
        }
        if runs { Level::Moderate } else { request.level }
    }

    /// The same rules, where what the list names would pass.
    pub(crate) fn with_moderate_listed(&self) -> Policy {
        let mut listing = self.clone();
        for rule in &self.moderate {
            // What cannot be compiled was refused when the policy was.
            drop(listing.commands.allow(rule.clone()));
        }
        listing
    }
}
