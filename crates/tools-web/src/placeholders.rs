//! Request headers: as the caller gives them, with `$NAME` for a secret, and as they are sent.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use fetch::{HeaderMap, HeaderName, HeaderValue};
use tool::{Context, ToolError};
use tool_support::RequestPart;

/// Headers about the connection, the length of the body or the target host. A second value of these
/// enables request smuggling (RFC 9112, section 11.2).
const OWN: [&str; 13] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Maximum number of headers, and of their total bytes.
const MOST: usize = 100;
const MAX_BYTES: usize = 64 * 1024;

/// A part of a text that may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    Text(String),
    Secret(String),
}

/// The caller's headers, parsed.
pub(crate) struct CallerHeaders(Vec<(HeaderName, Vec<Part>)>);

impl CallerHeaders {
    /// Parses the headers.
    ///
    /// # Errors
    /// `EVALIDATION` naming the header.
    pub(crate) fn read(headers: &BTreeMap<String, String>) -> Result<Self, ToolError> {
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        if headers.len() > MOST || bytes > MAX_BYTES {
            let problem = format!("at most {MOST} headers with {MAX_BYTES} bytes in all");
            return Err(ToolError::validation("headers", problem));
        }
        let mut seen = HashSet::new();
        let mut given = Vec::new();
        for (name, value) in headers {
            let field = format!("headers.{}", name.chars().take(100).collect::<String>());
            let wrong = |problem: &str| Err(ToolError::validation(&field, problem));
            let Ok(name) = HeaderName::try_from(name.as_str()) else {
                return wrong("is not a valid header name");
            };
            if OWN.contains(&name.as_str()) {
                return wrong("is set from the URL, the body and the connection; omit it");
            }
            if !seen.insert(name.clone()) {
                return wrong("is given twice");
            }
            if HeaderValue::from_str(value).is_err() {
                return wrong("must not have control characters");
            }
            given.push((name, parts(value)));
        }
        Ok(Self(given))
    }

    /// Returns true if a header has this name.
    pub(crate) fn has(&self, name: &HeaderName) -> bool {
        self.0.iter().any(|(given, _)| given == name)
    }

    /// Returns the names of the secrets in the headers, each once.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<&str> =
            self.0.iter().flat_map(|(_, parts)| parts).filter_map(Part::name).collect();
        names.into_iter()
    }

    /// Returns the headers as they are sent to this host. No log shows their values.
    ///
    /// # Errors
    /// `EPERMISSION` if a secret must not be sent there, `EUNAVAILABLE` if the vault is locked.
    pub(crate) fn filled(&self, context: &Context, host: &str) -> Result<HeaderMap, ToolError> {
        let mut filled = HeaderMap::new();
        for (name, parts) in &self.0 {
            let mut bytes: Vec<u8> = Vec::new();
            for part in parts {
                match part {
                    Part::Text(text) => bytes.extend_from_slice(text.as_bytes()),
                    Part::Secret(secret) => {
                        bytes.extend_from_slice(&tool_support::secret(
                            context,
                            secret,
                            host,
                            RequestPart::Header,
                        )?);
                    }
                }
            }
            let made = HeaderValue::from_bytes(&bytes);
            // The copied secret must not stay in memory that is reused.
            bytes.fill(0);
            let mut made = made.map_err(|_| {
                let problem = "the secret in it has characters that a header cannot have";
                ToolError::validation(&format!("headers.{name}"), problem)
            })?;
            made.set_sensitive(parts.iter().any(|part| part.name().is_some()));
            filled.insert(name.clone(), made);
        }
        Ok(filled)
    }
}

impl CallerHeaders {
    /// Returns the headers with these names that contain no secret, for any host.
    pub(crate) fn plain(&self, names: &[&str]) -> HeaderMap {
        let text = |parts: &[Part]| match parts {
            [] => Some(String::new()),
            [Part::Text(text)] => Some(text.clone()),
            _ => None,
        };
        let kept = self.0.iter().filter(|(name, _)| names.contains(&name.as_str()));
        kept.filter_map(|(name, parts)| Some((name.clone(), HeaderValue::from_str(&text(parts)?).ok()?)))
            .collect()
    }
}

impl Part {
    fn name(&self) -> Option<&str> {
        match self {
            Self::Text(_) => None,
            Self::Secret(name) => Some(name),
        }
    }
}

/// Splits a value at `$NAME`, `${NAME}` for a name with dots and dashes, and `$$`. Any other dollar
/// sign is literal.
fn parts(value: &str) -> Vec<Part> {
    let mut parts = apart(value, true, |_| true);
    parts.retain(|part| *part != Part::Text(String::new()));
    parts
}

/// Splits a value at these names only. Any other dollar sign is literal, doubled or not.
pub(crate) fn listed(value: &str, names: &[String]) -> Vec<Part> {
    apart(value, false, |name| names.iter().any(|listed| listed == name))
}

fn apart(value: &str, doubled: bool, is_meant: impl Fn(&str) -> bool) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = value;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let plain = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let braced = behind.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let name = match braced {
            Some((name, after)) if vault::is_name(name) => Some((name, after)),
            _ => {
                let end = behind.find(|character| !plain(character)).unwrap_or(behind.len());
                let (name, after) = behind.split_at(end);
                let begins = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
                (begins && vault::is_name(name)).then_some((name, after))
            }
        };
        rest = match name.filter(|(name, _)| is_meant(name)) {
            Some((name, after)) => {
                parts.push(Part::Text(std::mem::take(&mut text)));
                parts.push(Part::Secret(name.to_owned()));
                after
            }
            None => {
                text.push('$');
                if doubled { behind.strip_prefix('$').unwrap_or(behind) } else { behind }
            }
        };
    }
    text.push_str(rest);
    parts.push(Part::Text(text));
    parts
}

#[cfg(test)]
mod tests {
    use tool::Code;

    use super::*;

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn secret(name: &str) -> Part {
        Part::Secret(name.to_owned())
    }

    #[test]
    fn a_name_behind_a_dollar_sign_is_a_secret_wherever_it_stands() {
        for (value, expected) in [
            ("$LINEAR_API_KEY", vec![secret("LINEAR_API_KEY")]),
            ("Bearer $a1.", vec![text("Bearer "), secret("a1"), text(".")]),
            ("$a$b", vec![secret("a"), secret("b")]),
            ("${github.com}x", vec![secret("github.com"), text("x")]),
            ("a$$b", vec![text("a$b")]),
            ("$$NAME", vec![text("$NAME")]),
            ("$5, ${}, ${a b}, $", vec![text("$5, ${}, ${a b}, $")]),
            ("", vec![]),
        ] {
            assert_eq!(parts(value), expected, "{value}");
        }
    }

    #[test]
    fn headers_by_which_requests_are_smuggled_are_refused() {
        let read = |name: &str, value: &str| {
            CallerHeaders::read(&BTreeMap::from([(name.to_owned(), value.to_owned())])).map(|_| ())
        };
        for name in
            ["Host", "content-length", "Transfer-Encoding", "Connection", "TE", "a b", "a:b", "", "a\r\nb"]
        {
            assert_eq!(read(name, "x").unwrap_err().code, Code::Validation, "{name}");
        }
        for value in ["a\r\nHost: b", "a\nb", "a\0b", "\u{7f}"] {
            assert!(read("X-A", value).is_err(), "{value:?}");
        }
        assert!(read("X-A", "a b\tc \u{e4}").is_ok());
        let twice = BTreeMap::from([("X-A".to_owned(), String::new()), ("x-a".to_owned(), String::new())]);
        assert!(CallerHeaders::read(&twice).is_err());
    }
}
