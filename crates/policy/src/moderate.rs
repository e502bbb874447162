//! `moderate_exec_command`: commands that the user declares to be of level `moderate`.
//!
//! The level decides which calls a ceiling allows and what people are told. It decides no question:
//! both levels have the same row in the table of modes.

use tool::{Effect, Level};

use crate::{List, Policy, Request};

impl Policy {
    /// Returns the level that the tool states, or `moderate` for a `destructive` command that the
    /// user's list declares moderate.
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
            // Every command of the line is listed or only reads, in the forms that
            // `allowed_exec_command` takes.
            let Some(cause) = listing.judge(part).allowed else { return request.level };
            if cause.rule.key != List::ModerateExecCommand.key() && self.judge(part).allowed.is_some() {
                return request.level;
            }
        }
        if runs { Level::Moderate } else { request.level }
    }

    /// Returns a policy under which the commands of this list would pass.
    pub(crate) fn with_moderate_listed(&self) -> Policy {
        let mut listing = self.clone();
        for rule in &self.moderate {
            // An entry that cannot be compiled was refused when the policy was compiled.
            drop(listing.commands.allow(rule.clone()));
        }
        listing
    }
}
