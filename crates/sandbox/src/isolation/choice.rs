//! The choice of the isolation, from a profile's value and the backends that exist.

use std::sync::Arc;

use super::backend::{Isolation, IsolationChoice};
use super::bubblewrap::launch::Bubblewrap;
use super::landlock_only::launch::LandlockOnly;
use super::namespaces::backend::Namespaces;
use crate::spec::Entrance;

impl Isolation {
    /// Returns the isolation for a profile's choice. `entrance` is the way into cells that the
    /// system's bwrap makes; without it, bwrap is not used.
    pub fn of(choice: IsolationChoice, entrance: Option<Entrance>) -> Self {
        let (bubblewrap, landlock) = (Bubblewrap::new(entrance), LandlockOnly);
        match choice {
            IsolationChoice::Auto => {
                Self::in_order(Arc::new(Namespaces), vec![Arc::new(bubblewrap), Arc::new(landlock)])
            }
            IsolationChoice::Namespaces => Self::only(Arc::new(Namespaces)),
            IsolationChoice::Bubblewrap => Self::only(Arc::new(bubblewrap)),
            IsolationChoice::Landlock => Self::only(Arc::new(landlock)),
        }
    }
}

impl Default for Isolation {
    fn default() -> Self {
        Self::of(IsolationChoice::Auto, None)
    }
}
