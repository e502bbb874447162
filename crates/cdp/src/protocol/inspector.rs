//! Domain `Inspector`: the process behind a page.

use serde::Deserialize;

bare_command!(
    /// Turns on the events of the domain.
    Enable,
    "Inspector.enable"
);

/// The process of the page has crashed.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct TargetCrashed {}
event!(TargetCrashed, "Inspector.targetCrashed");
