//! Forms of servers (`elicitation/create`), as the user of the caller's program sees them: bounded, cleaned, and
//! with a line that says whose words they are.

use mcp_client::{Refusal, text};
use serde_json::{Map, Value, json};

/// Maximum length of the message of a form, in bytes.
const LONGEST_MESSAGE: usize = 1_000;
/// Maximum length of any other text of a form, in bytes.
const LONGEST_TEXT: usize = 256;
/// Maximum number of fields of a form, and of choices of a field.
const MOST_FIELDS: usize = 16;
const MOST_CHOICES: usize = 64;
/// Maximum size of a form of a server, and of an answer, in bytes.
const LARGEST: usize = 32 * 1024;

/// Keys of a field that count, in revision 2025-11-25.
const KEYS: [&str; 14] = [
    "type",
    "title",
    "description",
    "default",
    "enum",
    "enumNames",
    "oneOf",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "items",
    "maxItems",
];
/// Types of fields.
const TYPES: [&str; 5] = ["string", "number", "integer", "boolean", "array"];

/// Returns the form to show for a request of a server.
///
/// # Errors
/// A [`Refusal`] if the form is too large, or is not one of plain fields.
pub(crate) fn shown(server: &str, params: &Value) -> Result<Value, Refusal> {
    if params.to_string().len() > LARGEST {
        return Err(Refusal::new(format!("a form has at most {LARGEST} bytes")));
    }
    let message = params.get("message").and_then(Value::as_str).unwrap_or_default();
    let schema = params.get("requestedSchema");
    let given = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let given = given.ok_or_else(|| Refusal::new("a form has fields in `requestedSchema.properties`"))?;
    if given.len() > MOST_FIELDS {
        return Err(Refusal::new(format!("a form has at most {MOST_FIELDS} fields")));
    }
    let mut properties = Map::new();
    for (name, field) in given {
        properties.insert(plain_name(name)?.to_owned(), self::field(field)?);
    }
    let required = schema.and_then(|schema| schema.get("required")).and_then(Value::as_array);
    let required: Vec<&Value> = required
        .into_iter()
        .flatten()
        .filter(|name| name.as_str().is_some_and(|name| properties.contains_key(name)))
        .collect();
    let message = format!(
        "The MCP server {server} asks, in its own words and not in Handfast's; give it no password and no key: {}",
        text::clean_line(message, LONGEST_MESSAGE)
    );
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Ok(json!({"message": message, "requestedSchema": schema}))
}

/// Returns the answer to hand to a server. `form` is the form that was shown.
///
/// # Errors
/// A [`Refusal`] if it is not an answer to the form.
pub(crate) fn answered(form: &Value, answer: &Value) -> Result<Value, Refusal> {
    let action = answer.get("action").and_then(Value::as_str);
    let action = action.filter(|action| ["accept", "decline", "cancel"].contains(action));
    let action = action.ok_or_else(|| Refusal::new("the caller's program gave no answer to the form"))?;
    let Some(content) = answer.get("content").and_then(Value::as_object).filter(|_| action == "accept")
    else {
        return Ok(json!({"action": action}));
    };
    let asked =
        |name: &str| form.pointer("/requestedSchema/properties").is_some_and(|all| all.get(name).is_some());
    let content: Map<String, Value> = content
        .iter()
        .filter(|(name, _)| asked(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let answer = json!({"action": action, "content": content});
    if answer.to_string().len() > LARGEST {
        return Err(Refusal::new("the answer to the form is too long"));
    }
    Ok(answer)
}

fn plain_name(name: &str) -> Result<&str, Refusal> {
    let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-.".contains(sign);
    let is_name = (1..=64).contains(&name.len()) && name.chars().all(is_plain);
    if is_name {
        Ok(name)
    } else {
        Err(Refusal::new("a field of a form has a plain name of at most 64 letters"))
    }
}

fn field(given: &Value) -> Result<Value, Refusal> {
    let kind = given.get("type").and_then(Value::as_str);
    if !kind.is_some_and(|kind| TYPES.contains(&kind)) {
        return Err(Refusal::new(format!("a field of a form has one of the types {}", TYPES.join(", "))));
    }
    let kept = KEYS.iter().filter_map(|key| Some(((*key).to_owned(), cleaned(given.get(*key)?))));
    Ok(Value::Object(kept.collect()))
}

/// Cleans every text of a value. The size of a form bounds its depth and its length.
fn cleaned(value: &Value) -> Value {
    match value {
        Value::String(words) => text::clean_line(words, LONGEST_TEXT).into(),
        Value::Array(items) => items.iter().take(MOST_CHOICES).map(plain).collect(),
        other => plain(other),
    }
}

/// Cleans a choice, or the description of choices. Nothing is nested further.
fn plain(value: &Value) -> Value {
    match value {
        Value::String(words) => text::clean_line(words, LONGEST_TEXT).into(),
        Value::Object(fields) => {
            let choices = |value: &Value| match value {
                Value::String(words) => text::clean_line(words, LONGEST_TEXT).into(),
                Value::Array(items) => items
                    .iter()
                    .take(MOST_CHOICES)
                    .filter_map(Value::as_str)
                    .map(|words| text::clean_line(words, LONGEST_TEXT))
                    .collect(),
                Value::Object(_) => Value::Null,
                other => other.clone(),
            };
            Value::Object(
                fields.iter().take(MOST_FIELDS).map(|(name, value)| (name.clone(), choices(value))).collect(),
            )
        }
        Value::Array(_) => Value::Null,
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asking(properties: &Value) -> Value {
        json!({"message": "Which one?\u{202e}\nReally", "requestedSchema": {"type": "object", "properties": properties, "required": ["a", "b"]}})
    }

    #[test]
    fn a_form_says_whose_words_it_has_and_is_bounded() {
        let form =
            shown("s", &asking(&json!({"a": {"type": "string", "title": "A\u{200b}", "x-secret": 1}})))
                .unwrap();
        let message = form["message"].as_str().unwrap();
        assert!(
            message.starts_with("The MCP server s asks, in its own words and not in Handfast's"),
            "{message}"
        );
        assert!(message.ends_with("Which one? Really"), "{message}");
        let expected = json!({"type": "object", "properties": {"a": {"type": "string", "title": "A"}}, "required": ["a"]});
        assert_eq!(form["requestedSchema"], expected);
        let many: Map<String, Value> =
            (0..17).map(|n| (format!("f{n}"), json!({"type": "string"}))).collect();
        for wrong in [
            json!({"a": {"type": "object"}}),
            json!({"a b": {"type": "string"}}),
            json!({"a": {"type": "string", "description": "x".repeat(LARGEST)}}),
            Value::Object(many),
        ] {
            assert!(shown("s", &asking(&wrong)).is_err(), "{wrong}");
        }
        assert!(shown("s", &json!({"message": "only this"})).is_err());
    }

    #[test]
    fn an_answer_has_the_fields_of_its_form_alone() {
        let form = shown("s", &asking(&json!({"a": {"type": "string"}}))).unwrap();
        let answer =
            json!({"action": "accept", "content": {"a": "x", "decision": "allow always"}, "_meta": {}});
        assert_eq!(answered(&form, &answer).unwrap(), json!({"action": "accept", "content": {"a": "x"}}));
        let declined = json!({"action": "decline", "content": {"a": "x"}});
        assert_eq!(answered(&form, &declined).unwrap(), json!({"action": "decline"}));
        assert!(answered(&form, &json!({"action": "allow"})).is_err());
    }
}
