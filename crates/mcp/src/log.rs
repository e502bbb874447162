//! How serious a message is that a client may want to hear.

use rmcp::model::RequestMetaObject;

/// The key under which a request of the revision of 2026-07-28 says what it wants to hear of.
const WANTED: &str = "io.modelcontextprotocol/logLevel";

/// The levels of syslog, as the protocol names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Debug,
    Info,
    Notice,
    Warning,
    Error,
    Critical,
    Alert,
    Emergency,
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

    /// The least that the sender of a request wants to hear of while it is answered; none where it wants to hear nothing.
    pub(crate) fn wanted(meta: &RequestMetaObject) -> Option<Self> {
        meta.get(WANTED).and_then(serde_json::Value::as_str).and_then(Self::named)
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
