//! Revisions of the protocol, in their two eras.

use serde::{Deserialize, Serialize};

/// Revision of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Revision {
    /// 2024-11-05.
    #[serde(rename = "2024-11-05")]
    V20241105,
    /// 2025-03-26, the only one with batches.
    #[serde(rename = "2025-03-26")]
    V20250326,
    /// 2025-06-18.
    #[serde(rename = "2025-06-18")]
    V20250618,
    /// 2025-11-25, the last one with a handshake and sessions.
    #[serde(rename = "2025-11-25")]
    V20251125,
    /// 2026-07-28, the first one without.
    #[serde(rename = "2026-07-28")]
    V20260728,
}

/// Era of the protocol: the form of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    /// A handshake begins a session, and the server may send requests of its own.
    Sessions,
    /// Each request stands alone. A server that needs input returns, and is asked again.
    Stateless,
}

impl Revision {
    /// All revisions, the newest first.
    pub const ALL: [Self; 5] =
        [Self::V20260728, Self::V20251125, Self::V20250618, Self::V20250326, Self::V20241105];

    /// Newest revision with a handshake: the one that the handshake proposes.
    pub const NEWEST_WITH_HANDSHAKE: Self = Self::V20251125;

    /// Returns the revision in the form of the protocol: a date.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V20241105 => "2024-11-05",
            Self::V20250326 => "2025-03-26",
            Self::V20250618 => "2025-06-18",
            Self::V20251125 => "2025-11-25",
            Self::V20260728 => "2026-07-28",
        }
    }

    /// Parses a revision; `None` if it is unknown here.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|revision| revision.as_str() == text)
    }

    /// Returns the era of the revision.
    pub fn era(self) -> Era {
        if self >= Self::V20260728 { Era::Stateless } else { Era::Sessions }
    }

    /// Returns true if every request over HTTP names its revision in a header.
    pub(crate) fn has_version_header(self) -> bool {
        self >= Self::V20250618
    }

    /// Returns true if one message may be an array of messages.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::V20250326
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_read_as_they_are_written_and_belong_to_one_era() {
        for revision in Revision::ALL {
            assert_eq!(Revision::parse(revision.as_str()), Some(revision));
            assert_eq!(serde_json::to_value(revision).unwrap(), revision.as_str());
            assert_eq!(revision.era() == Era::Stateless, revision == Revision::V20260728);
        }
        assert_eq!(Revision::parse("2099-01-01"), None);
    }
}
