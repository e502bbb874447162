//! Headers of requests over streamable HTTP.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

use crate::core::Outgoing;
use crate::revision::{Era, Revision};

/// Keyword of a schema that asks for a header.
const ANNOTATION: &str = "x-mcp-header";

/// Maximum length of a session's id, in bytes.
const LONGEST_SESSION: usize = 1024;

/// Maximum number of arguments that become headers.
const MOST_PARAMETERS: usize = 32;

/// Depth up to which arguments are looked at for headers.
const DEEPEST: usize = 8;

/// Returns the headers of every message.
pub(crate) fn basic(revision: Option<Revision>, session: Option<&str>) -> Vec<(String, String)> {
    let mut headers = Vec::new();
    if let Some(revision) = revision.filter(|revision| revision.has_version_header()) {
        headers.push(("mcp-protocol-version".to_owned(), revision.as_str().to_owned()));
    }
    if let Some(session) = session {
        headers.push(("mcp-session-id".to_owned(), session.to_owned()));
    }
    headers
}

/// Returns true for a header that only the protocol sets, and never the configuration.
pub(crate) fn is_of_protocol(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("mcp-") || matches!(name.as_str(), "accept" | "content-type" | "last-event-id")
}

/// Returns the headers that repeat parts of a request, in the revision that has them.
pub(crate) fn repeated(revision: Option<Revision>, request: &Outgoing) -> Vec<(String, String)> {
    if revision.is_none_or(|revision| revision.era() != Era::Stateless) {
        return Vec::new();
    }
    let mut headers = vec![("mcp-method".to_owned(), request.method.clone())];
    if matches!(request.method.as_str(), "tools/call" | "prompts/get" | "resources/read") {
        headers.extend(request.subject.as_deref().map(|name| ("mcp-name".to_owned(), encoded(name))));
    }
    headers.extend(request.headers.iter().cloned());
    headers
}

/// Returns the headers for arguments whose schema asks for one (`x-mcp-header`).
pub(crate) fn parameters(schema: &Value, arguments: &Map<String, Value>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(schema, arguments, 0, &mut found);
    found.truncate(MOST_PARAMETERS);
    found
}

// BOUNDED: by `DEEPEST`.
fn collect(schema: &Value, arguments: &Map<String, Value>, depth: usize, found: &mut Vec<(String, String)>) {
    let properties = schema.get("properties").and_then(Value::as_object);
    for (name, property) in properties.into_iter().flatten().filter(|_| depth < DEEPEST) {
        let Some(argument) = arguments.get(name) else { continue };
        if let Value::Object(inner) = argument {
            collect(property, inner, depth + 1, found);
        }
        let header = property.get(ANNOTATION).and_then(Value::as_str).filter(|header| is_token(header));
        let value = match argument {
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => argument.to_string(),
            _ => continue,
        };
        if let Some(header) = header {
            found.push((format!("mcp-param-{}", header.to_ascii_lowercase()), encoded(&value)));
        }
    }
}

/// Checks the annotations for headers in an input schema. A tool with a fault must not be called over HTTP.
///
/// # Errors
/// The fault, in words.
pub(crate) fn check(schema: &Value) -> Result<(), String> {
    let mut names = BTreeSet::new();
    check_part(schema, Reach::Root, &mut names)
}

/// Way to a part of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Root,
    /// Through properties alone, so that the argument is found by its path.
    Properties,
    Elsewhere,
}

// BOUNDED: by the depth of JSON that is parsed, 128.
fn check_part(part: &Value, reach: Reach, names: &mut BTreeSet<String>) -> Result<(), String> {
    let Some(part) = part.as_object() else {
        let parts = part.as_array().map(Vec::as_slice).unwrap_or_default();
        return parts.iter().try_for_each(|part| check_part(part, Reach::Elsewhere, names));
    };
    if let Some(header) = part.get(ANNOTATION) {
        let name = header.as_str().filter(|name| is_token(name));
        let name = name.ok_or_else(|| format!("`{ANNOTATION}` is {header}, which is no name of a header"))?;
        if reach != Reach::Properties {
            return Err(format!("`{ANNOTATION}` {name:?} is not at a property"));
        }
        if !matches!(part.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
            return Err(format!(
                "`{ANNOTATION}` {name:?} is at a property of another type than text, integer or boolean"
            ));
        }
        if !names.insert(name.to_ascii_lowercase()) {
            return Err(format!("`{ANNOTATION}` {name:?} occurs twice"));
        }
    }
    for (keyword, inner) in part {
        match keyword.as_str() {
            "properties" => {
                let within = if reach == Reach::Elsewhere { reach } else { Reach::Properties };
                let properties = inner.as_object();
                properties
                    .into_iter()
                    .flatten()
                    .try_for_each(|(_, inner)| check_part(inner, within, names))?;
            }
            // Values, and no schemas.
            "default" | "enum" | "const" | "examples" | ANNOTATION => {}
            _ => check_part(inner, Reach::Elsewhere, names)?,
        }
    }
    Ok(())
}

/// Returns the id of a session if it has the form that the protocol demands: visible ASCII.
pub(crate) fn session_id(value: Option<&str>) -> Option<String> {
    let is_valid = |id: &&str| {
        (1..=LONGEST_SESSION).contains(&id.len()) && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte))
    };
    value.filter(is_valid).map(ToOwned::to_owned)
}

/// Returns a value as a header can carry it.
fn encoded(value: &str) -> String {
    let is_plain = value.bytes().all(|byte| (0x20..=0x7e).contains(&byte))
        && value.trim_matches(' ').len() == value.len()
        && !(value.starts_with("=?base64?") && value.ends_with("?="));
    if is_plain { value.to_owned() } else { format!("=?base64?{}?=", BASE64_STANDARD.encode(value)) }
}

/// Returns true for a name that HTTP permits in a header (RFC 9110, section 5.6.2).
fn is_token(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_valid)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_that_a_header_cannot_carry_are_encoded() {
        assert_eq!(encoded("read_file"), "read_file");
        assert_eq!(encoded("dé\n"), "=?base64?ZMOpCg==?=");
        assert_eq!(encoded(" x"), "=?base64?IHg=?=");
        assert_eq!(encoded("=?base64?eA==?="), "=?base64?PT9iYXNlNjQ/ZUE9PT89?=");
    }

    #[test]
    fn arguments_become_headers_where_the_schema_asks_for_them() {
        let schema = json!({"properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "inner": {"properties": {"n": {"x-mcp-header": "N"}}},
            "evil": {"x-mcp-header": "a: b\r\nc"},
            "other": {},
        }});
        let arguments = json!({"region": "eu\r\nX: y", "inner": {"n": 4}, "evil": "x", "other": "z"});
        assert_eq!(
            parameters(&schema, arguments.as_object().unwrap()),
            [
                ("mcp-param-region".to_owned(), "=?base64?ZXUNClg6IHk=?=".to_owned()),
                ("mcp-param-n".to_owned(), "4".to_owned()),
            ]
        );
    }

    #[test]
    fn annotations_have_a_name_a_place_and_a_type() {
        let property = |property: Value| json!({"type": "object", "properties": {"a": property}});
        let good = json!({"type": "string", "x-mcp-header": "A", "default": {"x-mcp-header": 5}});
        assert_eq!(check(&property(good.clone())), Ok(()));
        assert_eq!(check(&property(json!({"type": "object", "properties": {"x-mcp-header": good}}))), Ok(()));
        for bad in [
            json!({"type": "string", "x-mcp-header": ""}),
            json!({"type": "string", "x-mcp-header": "a b"}),
            json!({"type": "string", "x-mcp-header": 1}),
            json!({"type": "number", "x-mcp-header": "A"}),
            json!({"type": "object", "x-mcp-header": "A"}),
            json!({"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}),
            json!({"anyOf": [{"type": "string", "x-mcp-header": "A"}]}),
        ] {
            assert!(check(&property(bad.clone())).is_err(), "{bad}");
        }
        let twice = json!({"properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": {"type": "string", "x-mcp-header": "a"}}});
        assert!(check(&twice).is_err());
        assert!(check(&json!({"type": "string", "x-mcp-header": "A"})).is_err());
    }

    #[test]
    fn a_session_has_an_id_that_a_header_can_carry() {
        assert_eq!(session_id(Some("abc-1")).as_deref(), Some("abc-1"));
        for bad in ["", "a b", "a\r\nx: y", "é", &"x".repeat(2_000)] {
            assert_eq!(session_id(Some(bad)), None);
        }
    }
}
