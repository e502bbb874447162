//! Query parameters.

use serde_json::Value;
use tool::ToolError;

/// Parameters of a query, with their values.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query with these parameters.
    ///
    /// # Errors
    /// `EVALIDATION` for an unknown or repeated parameter, and for invalid UTF-8.
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> Result<Self, ToolError> {
        let mut found: Vec<(String, String)> = Vec::new();
        for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (plain(name)?, plain(value)?);
            if !known.contains(&name.as_str()) {
                let problem = format!("unknown parameter; known: {}", known.join(", "));
                return Err(ToolError::validation(&tool::visible(&name), problem));
            }
            if found.iter().any(|(there, _)| *there == name) {
                return Err(ToolError::validation(&name, "it occurs twice"));
            }
            found.push((name, value));
        }
        Ok(Self(found))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
    }

    /// Parses the value as JSON other than text: a number, `true`.
    ///
    /// # Errors
    /// `EVALIDATION` that names the parameter and the expected form.
    pub(crate) fn parsed<T: serde::de::DeserializeOwned>(
        &self,
        name: &str,
        must_be: &str,
    ) -> Result<Option<T>, ToolError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let value: Option<Value> = text.parse().ok();
        let parsed = value.and_then(|value| serde_json::from_value(value).ok());
        parsed.map(Some).ok_or_else(|| ToolError::validation(name, format!("it must be {must_be}")))
    }
}

/// Decodes the escapes in a part of a path or query.
///
/// # Errors
/// `EVALIDATION` for an invalid escape or invalid UTF-8.
pub(crate) fn plain(escaped: &str) -> Result<String, ToolError> {
    let wrong = || ToolError::validation("query", "it has an invalid escape or is not UTF-8");
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let pair = digit(rest.next()).zip(digit(rest.next())).ok_or_else(wrong)?;
                u8::try_from(pair.0 * 16 + pair.1).map_err(|_| wrong())?
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_without_their_escapes() {
        let query =
            Query::read(Some("tool=a%20b&since=x%3Ay&limit=5&all="), &["tool", "since", "limit", "all"]);
        let query = query.unwrap();
        assert_eq!(
            (query.text("tool"), query.text("since"), query.text("all")),
            (Some("a b"), Some("x:y"), Some(""))
        );
        assert_eq!(query.parsed::<u32>("limit", "a number").unwrap(), Some(5));
        assert_eq!(query.parsed::<u32>("before", "a number").unwrap(), None);
        assert!(query.parsed::<u32>("tool", "a number").unwrap_err().message.contains("`tool`"));
        assert!(Query::read(None, &[]).unwrap().text("x").is_none());
    }

    #[test]
    fn what_is_unknown_doubled_or_broken_is_named() {
        for (query, word) in [
            ("colour=1", "colour"),
            ("limit=1&limit=2", "twice"),
            ("limit=%", "escape"),
            ("limit=%g0", "escape"),
            ("limit=%ff", "UTF-8"),
            ("=1", "unknown parameter"),
        ] {
            let error = Query::read(Some(query), &["limit"]).map(|_| ()).unwrap_err();
            assert!(error.message.contains(word), "{query}: {}", error.message);
        }
    }
}
