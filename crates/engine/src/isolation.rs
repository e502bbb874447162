//! The isolation of commands, as the profile chooses it. The crate `sandbox` knows the kinds; this
//! one passes the name on and asks for abilities.

use std::collections::HashMap;

use parking_lot::Mutex;
use policy::Policy;
use sandbox::{Entrance, Isolation, IsolationChoice};
use tool::ToolError;

use crate::Engine;
use crate::snapshot::Snapshots;

/// The isolations that the profiles of one runtime have chosen. Each is made once, because it
/// remembers what this machine offers.
#[derive(Debug)]
pub(crate) struct Isolations {
    entrance: Option<Entrance>,
    made: Mutex<HashMap<&'static str, Isolation>>,
}

impl Isolations {
    pub(crate) fn new(entrance: Option<Entrance>) -> Self {
        Self { entrance, made: Mutex::default() }
    }

    /// Returns the isolation that a policy demands.
    pub(crate) fn of(&self, policy: &Policy) -> Result<Isolation, ToolError> {
        let name = policy.isolation().as_str();
        let mut made = self.made.lock();
        if let Some(isolation) = made.get(name) {
            return Ok(isolation.clone());
        }
        let choice = IsolationChoice::named(name).ok_or_else(|| {
            ToolError::internal(format!("the sandbox does not know the isolation `{name}`"))
        })?;
        let isolation = Isolation::of(choice, self.entrance.clone());
        made.insert(name, isolation.clone());
        Ok(isolation)
    }
}

impl Engine {
    /// Returns true if the cells of commands would change the workspace through an overlay alone,
    /// under this policy on this machine. Blocks for some milliseconds the first time.
    pub(crate) fn can_give_overlay(&self, snapshots: &Snapshots, policy: &Policy) -> bool {
        self.isolations.of(policy).is_ok_and(|isolation| snapshots.have_overlays(&isolation, policy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sandbox_knows_every_isolation_that_a_profile_can_name() {
        for isolation in policy::Isolation::ALL {
            assert!(IsolationChoice::named(isolation.as_str()).is_some(), "{isolation:?}");
        }
        assert_eq!(IsolationChoice::named("none"), None);
    }
}
