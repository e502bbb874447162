//! The rules of a call: those of the engine with its leases, under the ceiling of its caller.

use std::sync::Arc;
use std::time::Duration;

use policy::{Ceiling, Policy};
use tool::{Code, NetworkLimit, ToolError};
use watch::WatchMode;

use crate::Engine;
use crate::approvals::EffectivePolicy;
use crate::call::Call;
use crate::denied::DeniedFiles;
use crate::reach::AccessScope;

impl Engine {
    /// Puts the engine's rules under the call's ceiling, if it has one. Every later layer then asks
    /// these rules: the decision, the roots of file tools, the cell, and the check of a command's
    /// changes.
    pub(crate) fn stand_under_ceiling(&self, call: &mut Call) -> Result<(), ToolError> {
        if call.ceiling.is_unbounded() {
            return Ok(());
        }
        let now = self.clock.now();
        if call.ceiling.has_expired(now) {
            let message = "denied: the permissions of this caller have expired";
            return Err(ToolError::new(Code::Permission, message)
                .hint("the creator of this caller must make the call, or create a new caller"));
        }
        if let Some(end) = call.ceiling.expires_at {
            let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
            call.timeout = call.timeout.min(left);
        }
        call.leased = Some(self.bounded(call, &self.policy)?);
        Ok(())
    }

    /// Limits the network of the call's processes to hosts and secrets that its tool has declared, of those
    /// that the rules allow. Processes with other limits are in another network.
    pub(crate) fn limit_network(&self, call: &mut Call, limit: &NetworkLimit) -> Result<(), ToolError> {
        if limit.hosts.is_empty() {
            call.without_network = true;
            return Ok(());
        }
        let limited = self.networks.limited(&self.policy, limit).map_err(|problem| {
            ToolError::new(Code::Unavailable, format!("the tool declares a wrong host or secret: {problem}"))
        })?;
        call.ceiling = call.ceiling.meet(&Ceiling::default().with_policy(limited));
        Ok(())
    }

    /// Puts rules with leases under the call's ceiling. A lease answers questions and raises no
    /// ceiling.
    pub(crate) fn under_ceiling(
        &self,
        call: &Call,
        leased: Arc<EffectivePolicy>,
    ) -> Result<Arc<EffectivePolicy>, ToolError> {
        if call.ceiling.is_unbounded() { Ok(leased) } else { self.bounded(call, &leased.policy) }
    }

    fn bounded(&self, call: &Call, policy: &Policy) -> Result<Arc<EffectivePolicy>, ToolError> {
        let policy = Arc::new(policy.under(&call.ceiling));
        let denied = if call.ceiling.has_policies() {
            // The deny lists of the ceiling need a walk. The watch knows the entries of the
            // engine's lists only.
            Arc::new(DeniedFiles::new(policy.clone(), WatchMode::Once, None, self.threads.clone()))
        } else {
            self.denied.clone()
        };
        let reach = AccessScope::open(policy.clone(), denied, &self.place)
            .map_err(|error| ToolError::new(Code::Runtime, error.to_string()).because(error))?;
        Ok(Arc::new(EffectivePolicy { policy, reach }))
    }
}

impl Call {
    /// Returns the rules for this call: those of the engine with its leases, under its ceiling.
    pub(crate) fn rules(&self, engine: &Engine) -> Arc<Policy> {
        self.leased.as_ref().map_or_else(|| engine.policy.clone(), |leased| leased.policy.clone())
    }

    /// Returns the roots of these rules.
    pub(crate) fn reach<'a>(&'a self, engine: &'a Engine) -> &'a AccessScope {
        self.leased.as_ref().map_or(&engine.reach, |leased| &leased.reach)
    }
}
