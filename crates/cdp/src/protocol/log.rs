//! Domain `Log`: what the browser itself says about a page.

use serde::Deserialize;

bare_command!(
    /// Turns on the events of the domain.
    Enable,
    "Log.enable"
);

/// An entry was written.
#[derive(Debug, Clone, Deserialize)]
pub struct EntryAdded {
    /// The entry.
    pub entry: LogEntry,
}
event!(EntryAdded, "Log.entryAdded");

/// An entry of the browser.
#[derive(Debug, Clone, Deserialize)]
pub struct LogEntry {
    /// Subject: `network`, `security`, `javascript`, `violation`, ...
    pub source: String,
    /// Weight: `verbose`, `info`, `warning`, `error`.
    pub level: String,
    /// Text.
    pub text: String,
    /// Milliseconds since 1970.
    pub timestamp: f64,
    /// URL that it is about.
    #[serde(default)]
    pub url: Option<String>,
}
