//! The rest of a body after an interruption: the request for it, and the check that an answer is
//! that rest (RFC 9110, section 14).

use fetch::web::Answer;
use fetch::{HeaderMap, HeaderValue};
use jiff::fmt::rfc2822::DateTimeParser;
use tool::ToolError;

use crate::fetch_url::Method;
use crate::request::Exchange;

/// The identity of a body on its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Body {
    /// The server's validator of this state: a strong entity tag, or the time of the last change.
    pub(crate) validator: String,
    /// Length in bytes, if known.
    pub(crate) total: Option<u64>,
    /// Scheme, host, port and path of the body. A validator has no meaning elsewhere.
    pub(crate) place: String,
}

/// An answer to a request for the rest of a body.
pub(crate) enum Rest {
    /// The rest, and the total length. The rest is empty if the body was complete and is unchanged.
    Further(Answer, u64),
    /// Another answer, to a request for the whole body.
    Other(Answer),
}

/// Requests the bytes after those already received. If the answer could be mistaken for a part of a
/// body, requests the whole body.
pub(crate) async fn rest(exchange: &mut Exchange<'_>, body: &Body, written: u64) -> Result<Rest, ToolError> {
    let answer = exchange.answer(&question(body, written)?).await?;
    if place(exchange) == body.place
        && let Some(total) = goes_on(&answer, body, written)
    {
        return Ok(Rest::Further(answer, total));
    }
    if [206, 304, 416].contains(&answer.status) {
        return exchange.answer(&HeaderMap::new()).await.map(Rest::Other);
    }
    Ok(Rest::Other(answer))
}

/// Returns the identity of the answer's body, if its rest can be requested later and be
/// distinguished from that of another body.
pub(crate) fn resumable(exchange: &Exchange<'_>, answer: &Answer) -> Option<Body> {
    // A caller's own conditional or range request has an answer whose parts must not be mixed with
    // others.
    if answer.status != 200 || exchange.method() != Method::Get || exchange.is_conditional() {
        return None;
    }
    let validator = validator(answer)?.to_owned();
    let total = answer.header(fetch::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    Some(Body { validator, total, place: place(exchange) })
}

/// Returns the URL of the answer without its query, which is often a signature that changes with
/// each request.
fn place(exchange: &Exchange<'_>) -> String {
    let target = exchange.target();
    let path = target.path_and_query().split('?').next().unwrap_or_default();
    let scheme = if target.is_tls() { "https" } else { "http" };
    format!("{scheme}://{}{path}", target.authority())
}

/// Returns the validator that identifies a body byte for byte: a strong entity tag, else the time
/// of the last change. The time counts only if the `Date` of the answer is later (RFC 9110, section
/// 8.8.2.2).
fn validator(answer: &Answer) -> Option<&str> {
    let tag = answer.header(fetch::ETAG).filter(|tag| tag.starts_with('"'));
    tag.or_else(|| {
        let changed = answer.header(fetch::LAST_MODIFIED)?;
        let time = |text: &str| DateTimeParser::new().parse_timestamp(text).ok();
        (time(answer.header(fetch::DATE)?)? > time(changed)?).then_some(changed)
    })
}

fn question(body: &Body, written: u64) -> Result<HeaderMap, ToolError> {
    let value = |text: &str| {
        HeaderValue::try_from(text)
            .map_err(|error| ToolError::internal("the validator is not a header value").because(error))
    };
    let validator = value(&body.validator)?;
    let is_tag = body.validator.starts_with('"');
    let asked = if body.total == Some(written) {
        vec![(if is_tag { fetch::IF_NONE_MATCH } else { fetch::IF_MODIFIED_SINCE }, validator)]
    } else {
        vec![(fetch::RANGE, value(&format!("bytes={written}-"))?), (fetch::IF_RANGE, validator)]
    };
    Ok(asked.into_iter().collect())
}

/// Returns the total length, if the answer is the rest of the same body.
fn goes_on(answer: &Answer, body: &Body, written: u64) -> Option<u64> {
    // A server may omit a header, but must not send another value.
    let is_or_unsaid = |name: fetch::HeaderName, wanted: &str| {
        !answer.headers.contains_key(&name) || answer.header(name) == Some(wanted)
    };
    let validator = if body.validator.starts_with('"') { fetch::ETAG } else { fetch::LAST_MODIFIED };
    if !is_or_unsaid(validator, &body.validator) {
        return None;
    }
    if body.total == Some(written) {
        return body.total.filter(|_| answer.status == 304);
    }
    if answer.status != 206 || !is_or_unsaid(fetch::CONTENT_ENCODING, "identity") {
        return None;
    }
    let (first, last, said) = content_range(answer.header(fetch::CONTENT_RANGE)?)?;
    let total = body.total.or(said)?;
    let fits = first == written && last >= first && last < total && said.is_none_or(|said| said == total);
    fits.then_some(total)
}

/// Parses the first and the last byte, and the total length if it is given.
fn content_range(text: &str) -> Option<(u64, u64, Option<u64>)> {
    let (unit, range) = text.trim().split_once(' ')?;
    let (range, total) = range.trim().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_plain.then(|| text.parse::<u64>().ok()).flatten()
    };
    let total = if total == "*" { None } else { Some(number(total)?) };
    unit.eq_ignore_ascii_case("bytes").then_some((number(first)?, number(last)?, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_in_one_way() {
        for (text, expected) in [
            ("bytes 5-9/10", Some((5, 9, Some(10)))),
            ("Bytes 5-9/*", Some((5, 9, None))),
            ("bytes */10", None),
            ("bytes 5-/10", None),
            ("bytes +5-9/10", None),
            ("bytes 5-9", None),
            ("items 5-9/10", None),
            ("bytes=5-9/10", None),
            ("bytes 5-99999999999999999999/10", None),
        ] {
            assert_eq!(content_range(text), expected, "{text}");
        }
    }
}
