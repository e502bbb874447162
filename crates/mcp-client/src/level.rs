//! Levels of foreign tools.
//!
//! A server's annotations are claims of a stranger. They may raise the configured level, and lower it only
//! if the configuration says so for this server.

use serde::{Deserialize, Serialize};
use tool::Level;

/// Claims of a server about one of its tools. `None` means that the server says nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Annotations {
    /// True if a call changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// True if a call may destroy existing data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// True if a second equal call changes nothing more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// True if a call reaches beyond the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
}

/// Weight of a server's claims, from the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnnotationTrust {
    /// Claims only raise the level.
    #[default]
    RaiseOnly,
    /// Claims also lower the level, because the user trusts the server's words.
    MayLower,
}

/// Returns the level of a foreign tool. `configured` is the level that the configuration gives it.
pub fn level_of(configured: Level, annotations: Annotations, trust: AnnotationTrust) -> Level {
    let raised = configured.max(claimed_minimum(annotations));
    match trust {
        AnnotationTrust::RaiseOnly => raised,
        AnnotationTrust::MayLower => claimed_level(annotations).unwrap_or(raised),
    }
}

/// Returns the lowest level that the claims admit to.
fn claimed_minimum(annotations: Annotations) -> Level {
    let changes = annotations.read_only_hint == Some(false);
    if annotations.destructive_hint == Some(true)
        // A change beyond the server is sent away, and nothing here takes it back.
        || changes && annotations.open_world_hint == Some(true)
    {
        Level::Destructive
    } else if changes {
        Level::Moderate
    } else {
        Level::Safe
    }
}

/// Returns the level that the claims amount to; `None` if they say too little or contradict each other.
fn claimed_level(annotations: Annotations) -> Option<Level> {
    match (annotations.read_only_hint, annotations.destructive_hint) {
        (Some(true), None | Some(false)) => Some(Level::Safe),
        (None | Some(false), Some(false)) => Some(claimed_minimum(annotations).max(Level::Moderate)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn annotations(read_only: Option<bool>, destructive: Option<bool>, open: Option<bool>) -> Annotations {
        Annotations {
            read_only_hint: read_only,
            destructive_hint: destructive,
            idempotent_hint: None,
            open_world_hint: open,
        }
    }

    const ALL: [Option<bool>; 3] = [None, Some(false), Some(true)];

    #[test]
    fn claims_of_an_untrusted_server_never_lower_the_configured_level() {
        for configured in [Level::Safe, Level::Moderate, Level::Destructive, Level::Critical] {
            for read_only in ALL {
                for destructive in ALL {
                    for open in ALL {
                        let claims = annotations(read_only, destructive, open);
                        assert!(
                            level_of(configured, claims, AnnotationTrust::RaiseOnly) >= configured,
                            "{claims:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn claims_raise_the_level() {
        let raised = |read_only, destructive, open| {
            level_of(Level::Safe, annotations(read_only, destructive, open), AnnotationTrust::RaiseOnly)
        };
        assert_eq!(raised(None, None, None), Level::Safe);
        assert_eq!(raised(None, Some(true), None), Level::Destructive);
        assert_eq!(raised(Some(false), None, None), Level::Moderate);
        assert_eq!(raised(Some(false), Some(false), Some(true)), Level::Destructive);
        assert_eq!(raised(Some(true), Some(true), None), Level::Destructive, "a contradiction raises");
    }

    #[test]
    fn claims_lower_the_level_where_the_user_trusts_them_and_they_are_clear() {
        let lowered = |read_only, destructive| {
            level_of(Level::Destructive, annotations(read_only, destructive, None), AnnotationTrust::MayLower)
        };
        assert_eq!(lowered(Some(true), None), Level::Safe);
        assert_eq!(lowered(Some(false), Some(false)), Level::Moderate);
        assert_eq!(lowered(None, None), Level::Destructive);
        assert_eq!(lowered(Some(true), Some(true)), Level::Destructive, "a contradiction lowers nothing");
    }
}
