//! A connection of a command to a host on no list, or an action at a host where the command uses a
//! login, as questions and leases name it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A connection or an action that a human can allow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HostConnection {
    /// Host name or address, in normal form.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Path of the program that connects, in its cell.
    pub program: String,
    /// Action at the host, if the question is about that and not about the connection: no yes for a
    /// connection covers it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
}

impl HostConnection {
    /// Returns the host and the port, as a URL has them.
    pub fn place(&self) -> String {
        place(&self.host, self.port)
    }
}

/// Returns the host and the port, as a URL has them.
pub(crate) fn place(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl fmt::Display for HostConnection {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.action {
            Some(action) => write!(formatter, "at {}: {action}, from {}", self.place(), self.program),
            None => write!(formatter, "connect to {}, from {}", self.place(), self.program),
        }
    }
}

/// Returns the connections as the pattern of a lease.
pub(crate) fn to_pattern(connections: &[HostConnection]) -> Option<String> {
    serde_json::to_string(connections).ok()
}

/// Reads the pattern of a lease. A pattern that cannot be read covers nothing.
pub(crate) fn of_pattern(pattern: &str) -> Vec<HostConnection> {
    serde_json::from_str(pattern).unwrap_or_default()
}
