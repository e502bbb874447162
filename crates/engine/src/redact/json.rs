//! Redaction of secrets in JSON text, which leaves all other text unchanged.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

use super::KnownSecrets;

impl KnownSecrets {
    /// Redacts every secret in the strings, keys and numbers of a JSON text. Returns `None` if the
    /// text is not JSON. The text is not parsed into a value, because a value cannot hold every
    /// number.
    pub(super) fn json(&self, json: &str) -> Option<String> {
        serde_json::from_str::<IgnoredAny>(json).ok()?;
        let mut covered = String::with_capacity(json.len());
        let mut rest = json;
        while let Some(start) = rest.find(['"', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9']) {
            let (between, token) = rest.split_at(start);
            let (token, behind) = token.split_at(length(token.as_bytes()));
            let text = if token.starts_with('"') {
                Cow::Owned(serde_json::from_str::<String>(token).ok()?)
            } else {
                Cow::Borrowed(token)
            };
            covered.push_str(between);
            match self.text(&text) {
                Some(text) => covered.push_str(&Value::from(text).to_string()),
                None => covered.push_str(token),
            }
            rest = behind;
        }
        covered.push_str(rest);
        Some(covered)
    }
}

/// Returns the length of the string or number that a valid JSON text begins with.
fn length(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        let is_inside = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        return text.iter().position(|byte| !is_inside(byte)).unwrap_or(text.len());
    }
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}
