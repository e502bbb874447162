//! The context that a tool gets to complete a plan.

use crate::{Place, Services};

/// Context of a plan that depends on a state outside of this process.
#[derive(Clone, Copy)]
pub struct PlanContext<'a> {
    /// Name under which the caller's long-lived resources are known. Callers under a ceiling have one
    /// of their own.
    pub owner: &'a str,
    /// Workspace to which relative paths refer.
    pub place: &'a Place,
    /// Services of the runtime, without those of one call.
    pub services: &'a Services,
}
