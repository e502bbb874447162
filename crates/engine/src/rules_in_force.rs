//! The policy that the ways out obey, which may change while programs use them.

use std::sync::Arc;

use parking_lot::Mutex;
use policy::Policy;

/// Policy that a way out obeys. It changes when the configuration does, for connections of commands
/// that run already, too.
#[derive(Clone)]
pub(crate) struct RulesInForce(Arc<Mutex<Arc<Policy>>>);

impl RulesInForce {
    pub(crate) fn of(policy: Arc<Policy>) -> Self {
        Self(Arc::new(Mutex::new(policy)))
    }

    pub(crate) fn get(&self) -> Arc<Policy> {
        self.0.lock().clone()
    }

    pub(crate) fn set(&self, policy: Arc<Policy>) {
        *self.0.lock() = policy;
    }
}
