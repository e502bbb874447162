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

/// Words for what no form may ask for, in lower case without signs. The protocol forbids such forms to servers.
const SECRETS: [&str; 14] = [
    "password",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "credential",
    "apikey",
    "accesskey",
    "accesstoken",
    "authtoken",
    "bearertoken",
    "privatekey",
    "recoveryphrase",
    "creditcard",
];

/// Returns the form to show for a request of a server.
///
/// # Errors
/// A [`Refusal`] if the form is too large, is not one of plain fields, or asks for a password or a key.
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
        let (name, field) = (plain_name(name)?, self::field(field)?);
        if asks_for_secret(name, &field) {
            return Err(Refusal::new(
                "a form asks for no password and no key; take a secret from the environment",
            ));
        }
        properties.insert(name.to_owned(), field);
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
        .filter(|(name, value)| asked(name) && is_plain(value))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let answer = json!({"action": action, "content": content});
    if answer.to_string().len() > LARGEST {
        return Err(Refusal::new("the answer to the form is too long"));
    }
    Ok(answer)
}

/// Returns true for a value that a field of a form can have.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Object(_) | Value::Null => false,
        Value::Array(items) => items.iter().all(Value::is_string),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// Returns true if a field asks for a secret by its name, its title or its description.
fn asks_for_secret(name: &str, field: &Value) -> bool {
    let texts = ["title", "description"].map(|key| field.get(key).and_then(Value::as_str));
    texts.into_iter().flatten().chain([name]).any(|text| {
        let letters: String =
            text.chars().filter(|sign| sign.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        SECRETS.iter().any(|word| letters.contains(word))
    })
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
        let many = |count: usize| -> Value {
            let fields = (0..count).map(|n| (format!("f{n}"), json!({"type": "string"})));
            Value::Object(fields.collect())
        };
        assert!(shown("s", &asking(&many(MOST_FIELDS))).is_ok());
        for wrong in [
            json!({"a": {"type": "object", "properties": {"b": {"type": "string"}}}}),
            json!({"a": {"type": ["string", "null"]}}),
            json!({"a": {"$ref": "#/$defs/a"}}),
            json!({"a": "string"}),
            json!({"a b": {"type": "string"}}),
            json!({"a": {"type": "string", "description": "x".repeat(LARGEST)}}),
            many(MOST_FIELDS + 1),
            many(1_000),
        ] {
            assert!(shown("s", &asking(&wrong)).is_err(), "{wrong}");
        }
        assert!(shown("s", &json!({"message": "only this"})).is_err());
        // Values nested below the choices of a field are left out.
        let deep = json!({"a": {"type": "array", "items": {"anyOf": [{"const": "x", "title": {"b": {}}}]}}});
        let form = shown("s", &asking(&deep)).unwrap();
        assert!(!form.to_string().contains("\"b\":{"), "{form}");
    }

    #[test]
    fn no_form_asks_for_a_password_or_a_key() {
        for field in [
            json!({"password": {"type": "string"}}),
            json!({"API-key": {"type": "string"}}),
            json!({"a": {"type": "string", "title": "Your Pass Word"}}),
            json!({"a": {"type": "string", "description": "The access_token of your account."}}),
            json!({"a": {"type": "string", "title": "PASS\u{200b}PHRASE"}}),
        ] {
            let refused = shown("s", &asking(&field)).unwrap_err();
            assert!(refused.message.contains("password"), "{field}: {}", refused.message);
        }
        for field in [
            json!({"token_count": {"type": "integer", "title": "Maximum tokens"}}),
            json!({"key": {"type": "string", "title": "Key of the issue"}}),
        ] {
            assert!(shown("s", &asking(&field)).is_ok(), "{field}");
        }
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
        for nested in [json!({"b": "x"}), json!([{"b": "x"}]), json!(null)] {
            let answer = json!({"action": "accept", "content": {"a": nested}});
            assert_eq!(answered(&form, &answer).unwrap(), json!({"action": "accept", "content": {}}));
        }
    }
}
