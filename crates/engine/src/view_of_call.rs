//! Files that the cell of one call shows in addition to the profile's list, if commands see listed
//! files alone.

use std::sync::Arc;

use tool::{Code, Lane, ToolError};

use crate::Engine;
use crate::approvals::EffectivePolicy;
use crate::call::Call;
use crate::reach::AccessScope;

impl Engine {
    /// Puts a command under rules that also show the files that the call concerns: the work tree
    /// for git, and the files that an approved command line names. A background command sees the
    /// listed files alone, because the rules of all calls watch its direct writes.
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
        let reach = AccessScope::open(policy.clone(), denied, &self.place)
            .map_err(|error| ToolError::new(Code::Runtime, error.to_string()).because(error))?;
        call.leased = Some(Arc::new(EffectivePolicy { policy, reach }));
        Ok(())
    }
}
