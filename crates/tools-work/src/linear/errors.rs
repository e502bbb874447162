//! Linear's error responses, and their conversion into tool errors.

use std::time::Duration;

use fetch::{HeaderMap, HeaderName, RETRY_AFTER};
use jiff::Timestamp;
use serde_json::{Value, json};
use tool::{Code, Retry, ToolError};

/// Limits that Linear counts (its documentation, "Rate limiting").
static LIMITS: [(&str, HeaderName, HeaderName); 3] = [
    (
        "requests",
        HeaderName::from_static("x-ratelimit-requests-remaining"),
        HeaderName::from_static("x-ratelimit-requests-reset"),
    ),
    (
        "complexity",
        HeaderName::from_static("x-ratelimit-complexity-remaining"),
        HeaderName::from_static("x-ratelimit-complexity-reset"),
    ),
    (
        "requests of this kind",
        HeaderName::from_static("x-ratelimit-endpoint-requests-remaining"),
        HeaderName::from_static("x-ratelimit-endpoint-requests-reset"),
    ),
];

/// Maximum number of characters of Linear's message that are repeated to callers.
const MAX_REPEATED: usize = 500;

/// The first error of an answer.
#[derive(Debug, Clone)]
pub(crate) struct Complaint {
    status: u16,
    /// Linear's `type`, such as `invalid input`.
    kind: String,
    /// Linear's `code`, such as `INPUT_ERROR`.
    code: String,
    said: String,
}

impl Complaint {
    /// Returns the error in an answer; `None` for an answer without errors.
    pub(crate) fn read(status: u16, said: &Value) -> Option<Self> {
        let Some(error) = said["errors"].get(0) else {
            return (!(200..300).contains(&status)).then(|| Self::of_status(status));
        };
        let extensions = &error["extensions"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let for_people = extensions["userPresentableMessage"].as_str().filter(|text| !text.is_empty());
        let said = for_people.or(error["message"].as_str()).unwrap_or("nothing more");
        Some(Self {
            status,
            kind: text(&extensions["type"]).to_ascii_lowercase(),
            code: text(&extensions["code"]).to_ascii_uppercase(),
            said: said.chars().take(MAX_REPEATED).collect(),
        })
    }

    /// Creates the error for an answer that is not GraphQL.
    pub(crate) fn of_status(status: u16) -> Self {
        Self { status, kind: String::new(), code: String::new(), said: format!("status {status}") }
    }

    pub(crate) fn is_rate_limit(&self) -> bool {
        self.code == "RATELIMITED" || self.kind == "ratelimited" || self.status == 429
    }

    /// Returns true if the input is at fault. For a creation this may mean that the object exists
    /// already.
    pub(crate) fn is_about_input(&self) -> bool {
        ["invalid input", "user error"].contains(&self.kind.as_str())
            || ["INPUT_ERROR", "BAD_USER_INPUT", "CONFLICT"].contains(&self.code.as_str())
    }

    /// Returns true if a retry may succeed. The request may have been carried out.
    pub(crate) fn may_pass(&self) -> bool {
        self.status >= 500
            || ["internal error", "lock timeout"].contains(&self.kind.as_str())
            || self.code == "INTERNAL_SERVER_ERROR"
    }

    fn is_too_complex(&self) -> bool {
        self.code.contains("COMPLEX") || self.said.to_ascii_lowercase().contains("too complex")
    }

    fn is_about_the_key(&self) -> bool {
        self.status == 401 || self.kind == "authentication error" || self.code == "AUTHENTICATION_ERROR"
    }

    fn is_not_allowed(&self) -> bool {
        self.status == 403
            || ["forbidden", "feature not accessible"].contains(&self.kind.as_str())
            || ["FORBIDDEN", "FEATURE_NOT_ACCESSIBLE"].contains(&self.code.as_str())
    }
}

impl From<Complaint> for ToolError {
    fn from(complaint: Complaint) -> Self {
        let said = &complaint.said;
        let (code, message, hint) = if complaint.is_about_the_key() {
            (
                Code::Permission,
                format!("Linear rejects the key: {said}"),
                "the user stores a valid key: `handfast vault set linear_api_key --host api.linear.app`",
            )
        } else if complaint.is_not_allowed() {
            (
                Code::Permission,
                format!("Linear does not allow this for the key: {said}"),
                "the user creates a key with that permission, or acts in Linear",
            )
        } else if complaint.is_too_complex() {
            (
                Code::Validation,
                format!("`params.limit`: the query is too complex for Linear: {said}"),
                "request fewer issues at a time, and the rest with `cursor`",
            )
        } else if complaint.kind == "usage limit exceeded" || complaint.code == "USAGE_LIMIT_EXCEEDED" {
            (
                Code::Quota,
                format!("the Linear plan of the workspace allows no more: {said}"),
                "the user changes the plan, or archives issues",
            )
        } else if complaint.is_about_input() {
            (Code::Validation, format!("Linear refuses `params`: {said}"), "correct the named parameter")
        } else if (300..400).contains(&complaint.status) {
            (
                Code::Runtime,
                format!("the Linear endpoint redirects elsewhere: {said}"),
                "the user corrects `linear.endpoint` in the configuration",
            )
        } else {
            (Code::Runtime, format!("Linear returned an error: {said}"), "Linear may answer later")
        };
        let retry = if complaint.may_pass() { Retry::Now } else { Retry::Never };
        ToolError::new(code, message).hint(hint).retry(retry)
    }
}

/// Returns the delay that Linear requests.
pub(crate) fn wait_asked_for(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let number = |name: &HeaderName| headers.get(name)?.to_str().ok()?.trim().parse::<i64>().ok();
    if let Some(seconds) = number(&RETRY_AFTER) {
        return u64::try_from(seconds).ok().map(Duration::from_secs);
    }
    // Times are milliseconds since 1970.
    let resets = LIMITS.iter().filter(|(_, remaining, _)| number(remaining) == Some(0));
    let reset = resets.filter_map(|(.., reset)| number(reset)).max()?;
    let wait = reset.saturating_sub(now.as_millisecond()).max(0);
    u64::try_from(wait).ok().map(Duration::from_millis)
}

/// Returns the error for a delay that is too long or unknown.
pub(crate) fn limited(headers: &HeaderMap, wait: Option<Duration>, now: Timestamp) -> ToolError {
    let is_used_up = |remaining: &HeaderName| headers.get(remaining).is_some_and(|left| left == "0");
    let which =
        LIMITS.iter().find(|(_, remaining, _)| is_used_up(remaining)).map_or("requests", |(name, ..)| name);
    let message = format!("Linear's limit on {which} is used up");
    let error = ToolError::new(Code::Quota, message);
    match wait.and_then(|wait| Some((wait, now.checked_add(wait).ok()?))) {
        Some((wait, at)) => error
            .hint(format!("try again after {at:.0}"))
            .retry(Retry::AfterMs(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
            .data(json!({"resets_at": format!("{at:.0}")})),
        None => error.hint("try again in an hour: the limit is per hour"),
    }
}

#[cfg(test)]
mod tests {
    use fetch::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn the_wait_is_that_of_the_limit_which_is_used_up() {
        let now = Timestamp::from_millisecond(1_000_000).unwrap();
        let requests = ("x-ratelimit-requests-remaining", "0");
        let resets = ("x-ratelimit-requests-reset", "1003500");
        for (given, expected) in [
            (vec![], None),
            (vec![("retry-after", "7")], Some(Duration::from_secs(7))),
            (vec![("retry-after", "-7")], None),
            (vec![requests, resets], Some(Duration::from_millis(3_500))),
            (vec![("x-ratelimit-requests-remaining", "5"), resets], None),
            (vec![requests, ("x-ratelimit-requests-reset", "5")], Some(Duration::ZERO)),
            (vec![requests, ("x-ratelimit-requests-reset", "soon")], None),
            (
                vec![
                    requests,
                    resets,
                    ("x-ratelimit-complexity-remaining", "0"),
                    ("x-ratelimit-complexity-reset", "1009000"),
                ],
                Some(Duration::from_secs(9)),
            ),
        ] {
            assert_eq!(wait_asked_for(&headers(&given), now), expected, "{given:?}");
        }
        let far = headers(&[requests, ("x-ratelimit-requests-reset", "9223372036854775807")]);
        assert_eq!(limited(&far, wait_asked_for(&far, now), now).code, Code::Quota);
    }

    #[test]
    fn each_complaint_has_its_code() {
        for (status, kind, code, expected) in [
            (400, "authentication error", "AUTHENTICATION_ERROR", Code::Permission),
            (401, "", "", Code::Permission),
            (403, "forbidden", "FORBIDDEN", Code::Permission),
            (400, "invalid input", "INPUT_ERROR", Code::Validation),
            (400, "graphql error", "QUERY_TOO_COMPLEX", Code::Validation),
            (400, "usage limit exceeded", "USAGE_LIMIT_EXCEEDED", Code::Quota),
            (500, "internal error", "INTERNAL_SERVER_ERROR", Code::Runtime),
            (302, "", "", Code::Runtime),
        ] {
            let said = json!({"errors": [{"message": "no", "extensions": {"type": kind, "code": code}}]});
            let error = ToolError::from(Complaint::read(status, &said).unwrap());
            assert_eq!(error.code, expected, "{kind} {}", error.message);
            assert!(error.hint.is_some());
        }
        assert!(Complaint::read(200, &json!({"data": {}})).is_none());
    }
}
