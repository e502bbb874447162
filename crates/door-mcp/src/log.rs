//! Severity of log messages for clients.

use rmcp::model::RequestMetaObject;
use serde_json::{Value, json};

/// Key in `_meta` with which a request of revision 2026-07-28 asks for log messages.
const WANTED: &str = "io.modelcontextprotocol/logLevel";

/// Syslog levels, with the protocol's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the protocol defines the levels")]
pub enum Severity {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
}

/// Returns a log message.
pub(crate) fn log_message(level: Severity, logger: &str, data: &Value) -> Value {
    let params = json!({"level": level.as_str(), "logger": logger, "data": data});
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": params})
}

impl Severity {
    const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }

    /// Returns the minimum severity of log messages that a request asks for; `None` if it asks for none.
    pub(crate) fn wanted(meta: &RequestMetaObject) -> Option<Self> {
        meta.get(WANTED).and_then(Value::as_str).and_then(Self::named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_each_has_a_name_that_leads_to_it() {
        assert!(Severity::ALL.is_sorted());
        for level in Severity::ALL {
            assert_eq!(Severity::named(level.as_str()), Some(level));
        }
        assert_eq!(Severity::named("Debug"), None);
    }
}
