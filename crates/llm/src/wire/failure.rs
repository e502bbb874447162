//! Failures that servers report, as a response or within a stream.
//!
//! Providers word them differently: `OpenAI` has `{"error": {"message", "type", "code"}}`, Anthropic
//! `{"type": "error", "error": {"type", "message"}}`, Google `{"error": {"code", "message", "status",
//! "details"}}`, and Ollama `{"error": "text"}`. Compatible servers mix these, so all are read alike.

use std::time::Duration;

use serde_json::Value;

use crate::error::{ModelError, shorten};
use crate::retry_after;
use crate::usage::Usage;

/// Words for a type or code, by what they mean. From the lists of errors that the providers publish.
const AUTH: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "UNAUTHENTICATED",
    "PERMISSION_DENIED",
    "API_KEY_INVALID",
];
const NO_CREDIT: &[&str] =
    &["billing_error", "insufficient_quota", "billing_hard_limit_reached", "insufficient_credits"];
const RATE: &[&str] = &["rate_limit_error", "rate_limit_exceeded", "RESOURCE_EXHAUSTED", "too_many_requests"];
const OVERLOADED: &[&str] = &[
    "overloaded_error",
    "api_error",
    "server_error",
    "timeout_error",
    "internal_server_error",
    "UNAVAILABLE",
    "INTERNAL",
    "DEADLINE_EXCEEDED",
];
const TOO_LONG: &[&str] =
    &["context_length_exceeded", "request_too_large", "string_above_max_length", "exceed_context_size_error"];
const REFUSED: &[&str] = &["content_filter", "content_policy_violation", "invalid_prompt"];

/// Parts of messages about a request that is too long, in lower case. Anthropic, Google and Ollama have no
/// type of their own for it.
const TOO_LONG_MESSAGES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "input token count exceeds the maximum",
    "input token count (",
    "maximum context length",
    "exceeds the context length",
    "exceeds the available context",
    "longer than the context length",
];

/// Report of a server about a failure.
#[derive(Default)]
struct Report {
    message: String,
    /// Types and codes in it.
    kinds: Vec<String>,
    retry_after: Option<Duration>,
}

/// Returns the failure that a response reports, whose status is no success.
pub(crate) fn of_response(status: u16, retry_after: Option<Duration>, body: &[u8]) -> ModelError {
    let mut report = match serde_json::from_slice::<Value>(body) {
        Ok(value) => read(&value),
        Err(_) => Report { message: shorten(&String::from_utf8_lossy(body)), ..Report::default() },
    };
    if report.message.is_empty() {
        report.message = format!("HTTP status {status}");
    }
    classify(status, retry_after, report)
}

/// Returns the failure that an event reports.
pub(super) fn of_event(event: &Value) -> ModelError {
    classify(200, None, read(event))
}

fn read(value: &Value) -> Report {
    // Google wraps the report in a list if the request asked for a list.
    let value = value.get(0).unwrap_or(value);
    let error = value.get("error").unwrap_or(value);
    let mut report = Report::default();
    if let Some(text) = error.as_str() {
        report.message = shorten(text);
        return report;
    }
    let text = |field: &str| error.get(field).and_then(Value::as_str);
    report.message = shorten(text("message").unwrap_or_default());
    report.kinds.extend(["type", "code", "status"].into_iter().filter_map(text).map(str::to_owned));
    for detail in error.get("details").and_then(Value::as_array).into_iter().flatten() {
        report.kinds.extend(detail.get("reason").and_then(Value::as_str).map(str::to_owned));
        let delay = detail.get("retryDelay").and_then(Value::as_str).and_then(retry_after::of_google);
        report.retry_after = report.retry_after.or(delay);
    }
    report
}

fn classify(status: u16, retry_after: Option<Duration>, report: Report) -> ModelError {
    let Report { message, kinds, retry_after: own } = report;
    let retry_after = retry_after.or(own);
    let is = |words: &[&str]| kinds.iter().any(|kind| words.contains(&kind.as_str()));
    let lower = message.to_lowercase();
    if is(TOO_LONG) || status == 413 || TOO_LONG_MESSAGES.iter().any(|part| lower.contains(part)) {
        ModelError::ContextTooLong { message }
    } else if is(NO_CREDIT) || status == 402 {
        ModelError::NoCredit { message }
    } else if is(AUTH) || matches!(status, 401 | 403) {
        ModelError::Auth { message }
    } else if is(RATE) || status == 429 {
        ModelError::RateLimited { retry_after, message }
    } else if is(REFUSED) {
        ModelError::Refused { message, usage: Usage::default() }
    } else if is(OVERLOADED) || status == 408 || status >= 500 {
        ModelError::Overloaded { status, retry_after, message }
    } else if status == 200 {
        // A failure within a stream that no list knows: the request was accepted, so the server failed.
        ModelError::Overloaded { status, retry_after, message }
    } else {
        ModelError::Invalid { message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> ModelError {
        of_response(status, None, body.as_bytes())
    }

    #[test]
    fn failures_of_all_providers_are_told_apart() {
        let message = "x".to_owned();
        let cases = [
            (
                401,
                r#"{"error":{"message":"x","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            ),
            (403, r#"{"type":"error","error":{"type":"permission_error","message":"x"}}"#),
            (
                400,
                r#"{"error":{"code":400,"message":"x","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            ),
        ];
        for (status, body) in cases {
            assert_eq!(of(status, body), ModelError::Auth { message: message.clone() }, "{body}");
        }
        let body = r#"{"error":{"message":"x","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}"#;
        assert_eq!(of(429, body), ModelError::NoCredit { message: message.clone() });
        let body = r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"48s"}]}}]"#;
        let retry_after = Some(Duration::from_secs(48));
        assert_eq!(of(429, body), ModelError::RateLimited { retry_after, message: message.clone() });
        let body = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"},"request_id":"r"}"#;
        let overloaded =
            |status| ModelError::Overloaded { status, retry_after: None, message: message.clone() };
        assert_eq!(of(529, body), overloaded(529));
        assert_eq!(of_event(&serde_json::from_str(body).unwrap()), overloaded(200));
        assert_eq!(of(502, r#"{"error":"x"}"#), overloaded(502));
        assert_eq!(of(404, r#"{"error":"x"}"#), ModelError::Invalid { message });
    }

    #[test]
    fn a_request_that_is_too_long_is_recognised_by_type_or_message() {
        for body in [
            r#"{"error":{"message":"m","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205000 tokens > 200000 maximum"}}"#,
            r#"{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}"#,
            r#"{"error":"the input length exceeds the context length"}"#,
        ] {
            assert!(matches!(of(400, body), ModelError::ContextTooLong { .. }), "{body}");
        }
    }

    #[test]
    fn a_body_that_is_no_json_is_quoted_and_cut() {
        let page = format!("<html>\u{7}<b>Bad Gateway</b>\n\n{}", "é".repeat(1_000));
        let ModelError::Overloaded { status: 502, message, .. } = of(502, &page) else { panic!() };
        assert!(message.starts_with("<html><b>Bad Gateway</b> é"), "{message}");
        assert!(message.ends_with("é..."));
        assert!(message.len() <= 603, "{}", message.len());
        assert_eq!(of(307, ""), ModelError::Invalid { message: "HTTP status 307".into() });
    }
}
