//! What the cell of one call shows beyond the profile's list, where commands see what is listed alone.

use std::sync::Arc;

use tool::{Code, Lane, ToolError};

use crate::Engine;
use crate::approvals::Leased;
use crate::call::Call;
use crate::reach::Reach;

impl Engine {
    /// Puts a command under rules that also show what the call is about: to git the work tree, to an approved line what it names.
    /// What runs in the background sees the list alone, because what it writes at once is followed by the rules of all calls.
    pub(crate) fn show_what_it_is_about(&self, call: &mut Call, lane: Lane) -> Result<(), ToolError> {
        if lane != Lane::Command || call.background {
            return Ok(());
        }
        let rules = call.rules(self);
        let Some(policy) = rules.seeing_more(&call.effects, call.approved_by.is_some()) else {
            return Ok(());
        };
        let policy = Arc::new(policy);
        let denied = Arc::new(self.denied.for_one_call(policy.clone()));
        let reach = Reach::open(policy.clone(), denied, &self.place)
            .map_err(|error| ToolError::new(Code::Runtime, error.to_string()).because(error))?;
        call.leased = Some(Arc::new(Leased { policy, reach }));
        Ok(())
    }
}
