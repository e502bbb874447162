//! The permission levels of calls.

use serde::{Deserialize, Serialize};

/// Permission level of a call, one of the four levels of the EloPhanto source.
///
/// The order is meaningful: a later variant is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Reads, without side effects.
    Safe,
    /// Writes data, creates files.
    Moderate,
    /// Deletes data, sends something, runs programs, changes the system.
    Destructive,
    /// Cannot be undone, or changes Handfast itself.
    Critical,
}

impl Level {
    /// Returns the name of the level in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Level::Safe => "safe",
            Level::Moderate => "moderate",
            Level::Destructive => "destructive",
            Level::Critical => "critical",
        }
    }
}

impl std::fmt::Display for Level {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}
