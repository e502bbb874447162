//! Calls on behalf of another caller: the rules of such a call are those of the engine under its ceiling.

use std::sync::Arc;
use std::time::Duration;

use tool::{Code, ToolError};
use watch::Keep;

use crate::Engine;
use crate::approvals::Leased;
use crate::call::Call;
use crate::denied::DeniedFiles;
use crate::reach::Reach;

impl Engine {
    /// Puts the engine's rules under the call's ceiling, where it has one, so that every later layer asks those: the decision, the
    /// roots of file tools, the cell, and what a command's changes are judged by.
    pub(crate) fn stand_under_ceiling(&self, call: &mut Call) -> Result<(), ToolError> {
        if call.ceiling.is_unbounded() {
            return Ok(());
        }
        let now = self.clock.now();
        if call.ceiling.has_expired(now) {
            let message = "denied: what this caller may do has expired";
            return Err(ToolError::new(Code::Permission, message)
                .hint("whoever made this caller has to make the call, or a new caller"));
        }
        if let Some(end) = call.ceiling.expires_at {
            let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            call.timeout = call.timeout.min(left);
        }
        call.leased = Some(self.bounded(call, &self.policy)?);
        Ok(())
    }

    /// Rules with leases, under the call's ceiling: a lease decides questions, and raises no ceiling.
    pub(crate) fn under_ceiling(&self, call: &Call, leased: Arc<Leased>) -> Result<Arc<Leased>, ToolError> {
        if call.ceiling.is_unbounded() { Ok(leased) } else { self.bounded(call, &leased.policy) }
    }

    fn bounded(&self, call: &Call, policy: &policy::Policy) -> Result<Arc<Leased>, ToolError> {
        let policy = Arc::new(policy.under(&call.ceiling));
        let denied = if call.ceiling.has_policies() {
            // Its own deny lists are looked for by a walk: what is kept known is what the engine's lists name.
            Arc::new(DeniedFiles::new(policy.clone(), Keep::Once, None))
        } else {
            self.denied.clone()
        };
        let reach = Reach::open(policy.clone(), denied, &self.place)
            .map_err(|error| ToolError::new(Code::Runtime, error.to_string()).because(error))?;
        Ok(Arc::new(Leased { policy, reach }))
    }
}
