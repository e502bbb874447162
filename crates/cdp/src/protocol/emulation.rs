//! Domain `Emulation`: what a page is told about its screen.

use serde::Serialize;

/// Sets the size of the viewport.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetDeviceMetricsOverride {
    /// Width.
    pub width: u32,
    /// Height.
    pub height: u32,
    /// Number of pixels of the screen for one of the page.
    pub device_scale_factor: f64,
    /// True if the page is told that it is on a phone.
    pub mobile: bool,
}
command!(SetDeviceMetricsOverride, "Emulation.setDeviceMetricsOverride");

/// Lets a page believe that it has the focus, also behind others.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct SetFocusEmulationEnabled {
    /// True if it does.
    pub enabled: bool,
}
command!(SetFocusEmulationEnabled, "Emulation.setFocusEmulationEnabled");
