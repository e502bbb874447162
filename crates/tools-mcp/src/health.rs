//! The last failure of each server, so that lists of what does not work show it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tool::ToolError;

/// Name of the stored failures.
pub(crate) const FAILURES: &str = "failures.json";
/// Maximum length of a status, in bytes.
const LONGEST_STATUS: usize = 400;

/// Failures of servers, by their keys.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Failures(pub(crate) BTreeMap<String, Failure>);

/// Last failure of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// Configuration of the server at that time.
    pub(crate) identity: String,
    /// Time, in milliseconds since 1970.
    pub(crate) at: i64,
    /// Status, such as `not logged in: ...`.
    pub(crate) status: String,
}

impl Failures {
    /// Reads the stored text. A damaged one is empty, because the next call of a server tells its state.
    pub(crate) fn load(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// Returns the status of a server after a failure.
pub(crate) fn status(server: &str, error: &ToolError) -> String {
    let login = format!("`handfast login mcp {server}`");
    let asks_for_login = error.hint.as_ref().is_some_and(|hint| hint.contains(&login));
    let text = if asks_for_login {
        format!("not logged in: the user runs {login}; {}", error.message)
    } else {
        format!("failed: {}", error.message)
    };
    mcp_client::text::clean_line(&text, LONGEST_STATUS)
}

#[cfg(test)]
mod tests {
    use tool::Code;

    use super::*;

    #[test]
    fn a_status_tells_a_missing_login_from_a_failure() {
        let login = crate::login_use::not_logged_in("web");
        assert!(status("web", &login).starts_with("not logged in: the user runs `handfast login mcp web`"));
        let failed = ToolError::new(Code::Unavailable, "it\u{202e} ended\n".repeat(100));
        let status = status("web", &failed);
        assert!(status.starts_with("failed: it ended it"), "{status}");
        assert!(status.len() <= LONGEST_STATUS);
    }

    #[test]
    fn damaged_failures_are_none() {
        for text in [None, Some(""), Some("[]"), Some("{\"s\": 1}")] {
            assert!(Failures::load(text).0.is_empty(), "{text:?}");
        }
    }
}
