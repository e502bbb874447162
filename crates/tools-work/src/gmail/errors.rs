//! Gmail's error responses, and their conversion into tool errors.

use std::time::Duration;

use fetch::{HeaderMap, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::{Value, json};
use tool::{Code, Retry, ToolError};

/// Maximum number of characters of Gmail's message that are repeated to callers.
const MAX_REPEATED: usize = 500;
/// First delay if Gmail names none. Each further delay is twice as long (Google's guide "Resolve
/// errors").
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Maximum number of retries of a request because of a limit.
pub(crate) const MAX_WAITS: u32 = 5;

/// Reasons of Gmail for limits over a short time.
const PASSING: [&str; 4] =
    ["rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED", "concurrentLimitExceeded"];
/// Reasons of Gmail for limits over a day, or limits that must be raised for money.
const LASTING: [&str; 3] = ["dailyLimitExceeded", "quotaExceeded", "limitExceeded"];
/// Reasons of Gmail for a login without the required scope.
const SCOPE: [&str; 2] = ["insufficientPermissions", "ACCESS_TOKEN_SCOPE_INSUFFICIENT"];

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct Complaint {
    pub(crate) status: u16,
    /// All reasons in the response, such as `rateLimitExceeded`.
    reasons: Vec<String>,
    said: String,
}

impl Complaint {
    /// Parses the body of an error response.
    pub(crate) fn read(status: u16, body: &[u8]) -> Self {
        let said: Value = serde_json::from_slice(body).unwrap_or_default();
        let error = &said["error"];
        let listed = |name: &str| error[name].as_array().cloned().unwrap_or_default();
        let reasons = listed("errors").into_iter().chain(listed("details"));
        let reasons = reasons.filter_map(|one| one["reason"].as_str().map(str::to_owned)).collect();
        let said = error["message"].as_str().map_or_else(|| format!("status {status}"), str::to_owned);
        Self { status, reasons, said: said.chars().take(MAX_REPEATED).collect() }
    }

    fn names(&self, reasons: &[&str]) -> bool {
        self.reasons.iter().any(|reason| reasons.contains(&reason.as_str()))
    }

    /// Returns true if the token was refused, so that another token may work.
    pub(crate) fn is_about_the_token(&self) -> bool {
        self.status == 401
    }

    /// Returns true if a limit is exhausted. The request was not carried out.
    pub(crate) fn is_limit(&self) -> bool {
        self.status == 429 || self.names(&PASSING) || self.names(&LASTING)
    }

    /// Returns true if a retry may succeed. The request may have been carried out.
    pub(crate) fn may_pass(&self) -> bool {
        self.status >= 500
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.status == 404
    }

    /// Returns the delay before this attempt, or `None` for a limit that lasts longer than moments.
    pub(crate) fn wait(&self, headers: &HeaderMap, now: Timestamp, attempt: u32) -> Option<Duration> {
        if let Some(said) = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()) {
            return until(said.trim(), now);
        }
        // Example: "User-rate limit exceeded.  Retry after 2026-03-01T00:00:00.000Z"
        if let Some((_, at)) = self.said.split_once("Retry after ") {
            let at = at.split_whitespace().next().unwrap_or_default();
            return until(at.trim_end_matches('.'), now);
        }
        (!self.names(&LASTING)).then(|| FIRST_WAIT * 2_u32.saturating_pow(attempt))
    }

    /// Returns the error for a limit that the call does not wait for.
    pub(crate) fn limited(&self, wait: Option<Duration>, now: Timestamp) -> ToolError {
        let error = ToolError::new(Code::Quota, format!("Gmail's limit is used up: {}", self.said));
        match wait.and_then(|wait| Some((wait, now.checked_add(wait).ok()?))) {
            Some((wait, at)) => error
                .hint(format!("try again after {at:.0}"))
                .retry(Retry::AfterMs(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
                .data(json!({"resets_at": format!("{at:.0}")})),
            None => error.hint("try again tomorrow: the limit is per day"),
        }
    }
}

/// Returns the duration until a point in time, given as seconds, as a timestamp or as an HTTP date.
fn until(text: &str, now: Timestamp) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let at = text
        .parse::<Timestamp>()
        .ok()
        .or_else(|| jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok())?;
    Some(at.duration_since(now).try_into().unwrap_or(Duration::ZERO))
}

impl From<Complaint> for ToolError {
    fn from(complaint: Complaint) -> Self {
        let said = &complaint.said;
        let (code, message, hint) = if complaint.is_about_the_token() {
            (
                Code::Permission,
                format!("Gmail rejects the login: {said}"),
                "the user logs in again: `handfast login gmail`",
            )
        } else if complaint.is_limit() {
            (Code::Quota, format!("Gmail's limit is used up: {said}"), "try again later")
        } else if complaint.names(&SCOPE) {
            (
                Code::Permission,
                format!("the Gmail login lacks a permission: {said}"),
                "the user logs in again and grants it: `handfast login gmail`, with `--scope` for further permissions",
            )
        } else if complaint.names(&["accessNotConfigured", "SERVICE_DISABLED"]) {
            (
                Code::Unavailable,
                format!("the Gmail API is not enabled for this client: {said}"),
                "the user enables it in Google's console, for the project of the client",
            )
        } else if complaint.status == 403 {
            (
                Code::Permission,
                format!("Gmail does not allow this for the login: {said}"),
                "the user or the administrator of the account can allow it",
            )
        } else if complaint.is_not_found() {
            (Code::NotFound, format!("Gmail finds no such item: {said}"), "`gmail_search` finds ids")
        } else if complaint.status == 413 {
            (
                Code::Validation,
                format!("`attachments`: the message is too large for Gmail: {said}"),
                "send less, or send a link",
            )
        } else if (300..400).contains(&complaint.status) {
            (
                Code::Runtime,
                format!("the Gmail endpoint redirects elsewhere: {said}"),
                "the user corrects `gmail.endpoint` in the configuration",
            )
        } else if (400..500).contains(&complaint.status) {
            (Code::Validation, format!("Gmail refuses the request: {said}"), "correct the named argument")
        } else {
            (Code::Runtime, format!("Gmail returned an error: {said}"), "Gmail may answer later")
        };
        let retry = if complaint.may_pass() { Retry::Now } else { Retry::Never };
        ToolError::new(code, message).hint(hint).retry(retry)
    }
}

#[cfg(test)]
mod tests {
    use fetch::HeaderValue;

    use super::*;

    fn complaint(status: u16, reason: &str, message: &str) -> Complaint {
        let body = json!({"error": {"code": status, "message": message, "errors": [{"reason": reason}]}});
        Complaint::read(status, body.to_string().as_bytes())
    }

    #[test]
    fn the_wait_is_what_gmail_says_in_whatever_place_and_else_doubles() {
        let now = Timestamp::from_second(1_000).unwrap();
        let header =
            |value: &'static str| [(RETRY_AFTER, HeaderValue::from_static(value))].into_iter().collect();
        let seconds = Duration::from_secs;
        let limit = complaint(429, "rateLimitExceeded", "Slow down.");
        for (headers, attempt, expected) in [
            (HeaderMap::new(), 0, Some(seconds(1))),
            (HeaderMap::new(), 3, Some(seconds(8))),
            (header("7"), 3, Some(seconds(7))),
            (header("Thu, 01 Jan 1970 00:16:50 GMT"), 0, Some(seconds(10))),
            (header("Thu, 01 Jan 1970 00:00:00 GMT"), 0, Some(seconds(0))),
            (header("soon"), 0, None),
        ] {
            assert_eq!(limit.wait(&headers, now, attempt), expected, "{headers:?}");
        }
        let said = complaint(429, "userRateLimitExceeded", "Limit.  Retry after 1970-01-01T00:16:45.500Z");
        assert_eq!(said.wait(&HeaderMap::new(), now, 0), Some(Duration::from_millis(5_500)));
        let daily = complaint(403, "dailyLimitExceeded", "Daily limit.");
        assert!(daily.is_limit() && daily.wait(&HeaderMap::new(), now, 0).is_none());
        let far = complaint(429, "", "Retry after 9999-12-31T00:00:00Z");
        assert_eq!(far.limited(far.wait(&HeaderMap::new(), now, 0), now).code, Code::Quota);
    }

    #[test]
    fn each_complaint_has_its_code() {
        for (status, reason, expected) in [
            (400, "invalidArgument", Code::Validation),
            (401, "authError", Code::Permission),
            (403, "insufficientPermissions", Code::Permission),
            (403, "rateLimitExceeded", Code::Quota),
            (403, "accessNotConfigured", Code::Unavailable),
            (403, "domainPolicy", Code::Permission),
            (404, "notFound", Code::NotFound),
            (413, "uploadTooLarge", Code::Validation),
            (429, "", Code::Quota),
            (302, "", Code::Runtime),
            (500, "backendError", Code::Runtime),
        ] {
            let error = ToolError::from(complaint(status, reason, "no"));
            assert_eq!((error.code, error.hint.is_some()), (expected, true), "{status} {reason}");
        }
        let plain = Complaint::read(502, b"<h1>Bad gateway</h1>");
        assert!(plain.may_pass() && ToolError::from(plain).message.ends_with("status 502"));
    }
}
