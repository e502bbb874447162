//! Conversion of the arguments that callers send to the types in a tool's schema.
//!
//! Models in strict modes send every field, and clients send numbers, lists and objects as text. A
//! value with only one reading under the schema is converted. Every other value stays unchanged,
//! and the schema judges it.
//!
//! - A `null` in an optional field means that the field was left out. An empty text means the same,
//!   unless the tool gives it a meaning ([`Tool::EMPTY_TEXTS`](crate::Tool::EMPTY_TEXTS)) or the
//!   empty text is one of the field's choices.
//! - A number, `true` or `false` that is written as text is converted if the schema has a number or
//!   a boolean.
//! - A list or an object that is written as JSON text is parsed if the schema has a list or an object.
//! - Fields that a client adds to the schema of every tool for itself are removed ([`OF_CLIENTS`]).
//!
//! A required field is never removed. A field that holds text, or any value, keeps a text that is
//! not empty.

use serde_json::{Map, Number, Value};

/// Maximum number of bytes of JSON that are parsed from texts, summed over all arguments of a call.
/// A parsed JSON value takes up to a hundred times as much memory as its text. A value that arrived
/// as one text was not counted when its message was read.
const MAX_TEXT: usize = 1024 * 1024;

/// Boolean fields that clients add to the schemas of all tools and send to the server: Gemini CLI
/// 0.61 adds `wait_for_previous`.
const OF_CLIENTS: [&str; 1] = ["wait_for_previous"];

/// Converts arguments to the types in the schema, at every depth. `keeps_empty` returns true if an
/// empty text has a meaning in the optional field of this name.
pub fn spell(arguments: &mut Value, schema: &Value, keeps_empty: &dyn Fn(&str) -> bool) {
    if let Some(fields) = arguments.as_object_mut() {
        let is_of_client = |name: &str, value: &Value| {
            value.is_boolean() && OF_CLIENTS.contains(&name) && schema["properties"].get(name).is_none()
        };
        fields.retain(|name, value| !is_of_client(name, value));
    }
    Speller { keeps_empty, text_left: MAX_TEXT }.value(arguments, schema);
}

struct Speller<'a> {
    keeps_empty: &'a dyn Fn(&str) -> bool,
    text_left: usize,
}

impl Speller<'_> {
    // BOUNDED: by the depth of JSON that is read, 128.
    fn value(&mut self, value: &mut Value, schema: &Value) {
        if let Value::String(text) = value
            && let Some(spelled) = self.spelled(text, schema)
        {
            *value = spelled;
        }
        match value {
            Value::Array(items) if schema["items"].is_object() => {
                for item in items {
                    self.value(item, &schema["items"]);
                }
            }
            Value::Object(fields) => self.fields(fields, schema),
            _ => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, schema: &Value) {
        let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
        fields.retain(|name, value| {
            let Some(own) = schema["properties"].get(name) else {
                // The caller chooses the keys of a map, so each of them is kept.
                self.value(value, &schema["additionalProperties"]);
                return true;
            };
            if !required.iter().any(|required| required == name) && self.is_left_out(name, value, own) {
                return false;
            }
            self.value(value, own);
            true
        });
    }

    /// Returns true if the value of an optional field means that the field was left out.
    fn is_left_out(&self, name: &str, value: &Value, schema: &Value) -> bool {
        match (value, schema["type"].as_str()) {
            (Value::Null, _) => true,
            (Value::String(text), Some("string") | None) => {
                let is_a_choice = schema["enum"].as_array().is_some_and(|choices| choices.contains(value));
                text.is_empty() && !is_a_choice && !(self.keeps_empty)(name)
            }
            (Value::String(text), Some(_)) => ["", "null"].contains(&text.trim()),
            _ => false,
        }
    }

    /// Returns the value that a text spells, if the schema has another type than text.
    fn spelled(&mut self, text: &str, schema: &Value) -> Option<Value> {
        let text = text.trim();
        match schema["type"].as_str()? {
            "integer" | "number" => text.parse::<Number>().ok().map(Value::Number),
            "boolean" => match text {
                _ if text.eq_ignore_ascii_case("true") => Some(true.into()),
                _ if text.eq_ignore_ascii_case("false") => Some(false.into()),
                _ => None,
            },
            "array" if text.starts_with('[') => self.parsed(text),
            "object" if text.starts_with('{') => self.parsed(text),
            _ => None,
        }
    }

    fn parsed(&mut self, text: &str) -> Option<Value> {
        self.text_left = self.text_left.checked_sub(text.len())?;
        serde_json::from_str(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        let plain = |kind: &str| json!({"type": kind});
        let fields = json!({
            "text": plain("string"), "must": plain("string"), "whole": plain("integer"), "real": plain("number"),
            "flag": plain("boolean"), "choice": {"type": "string", "enum": ["a", "b"]},
            "choice_with_empty": {"type": "string", "enum": ["", "b"]}, "cleared": plain("string"), "any": {},
            "texts": {"type": "array", "items": plain("string")}, "wholes": {"type": "array", "items": plain("integer")},
            "map": {"type": "object", "additionalProperties": plain("string")},
        });
        let mut outer = fields.clone();
        let inner = json!({"type": "object", "properties": fields, "required": ["must"], "additionalProperties": false});
        outer["inner"] = inner.clone();
        outer["inners"] = json!({"type": "array", "items": inner});
        json!({"type": "object", "properties": outer, "required": ["must"], "additionalProperties": false})
    }

    fn spelled(mut arguments: Value) -> Value {
        spell(&mut arguments, &schema(), &|field| field == "cleared");
        arguments
    }

    /// Checks the conversion at the top level, in an object, and in an object of a list.
    #[track_caller]
    fn everywhere(given: &Value, expected: &Value) {
        assert_eq!(spelled(given.clone()), *expected, "{given}");
        for nested in
            [|value: &Value| json!({ "inner": value }), |value: &Value| json!({ "inners": [value, value] })]
        {
            assert_eq!(spelled(nested(given)), nested(expected), "nested {given}");
        }
    }

    #[test]
    fn null_and_empty_texts_of_optional_fields_are_left_out_at_every_depth() {
        for field in ["text", "whole", "real", "flag", "choice", "texts", "wholes", "map", "any", "cleared"] {
            everywhere(&json!({"must": "x", field: null}), &json!({"must": "x"}));
        }
        for field in ["text", "whole", "real", "flag", "choice", "texts", "wholes", "map", "any"] {
            everywhere(&json!({"must": "x", field: ""}), &json!({"must": "x"}));
        }
        for field in ["whole", "real", "flag", "texts", "wholes", "map"] {
            everywhere(&json!({"must": "x", field: "null"}), &json!({"must": "x"}));
        }
    }

    #[test]
    fn a_field_that_a_client_adds_for_itself_is_removed_unless_the_tool_has_it() {
        assert_eq!(spelled(json!({"must": "x", "wait_for_previous": true})), json!({"must": "x"}));
        for stays in [
            json!({"must": "x", "wait_for_previous": "soon"}),
            json!({"must": "x", "inner": {"must": "x", "wait_for_previous": false}}),
        ] {
            assert_eq!(spelled(stays.clone()), stays);
        }
        let mut own = json!({"wait_for_previous": true});
        let schema = json!({"type": "object", "properties": {"wait_for_previous": {"type": "boolean"}}});
        spell(&mut own, &schema, &|_| false);
        assert_eq!(own, json!({"wait_for_previous": true}));
    }

    #[test]
    fn what_may_mean_something_stays_as_it_was_sent() {
        for stays in [
            json!({"must": ""}),
            json!({"must": null}),
            json!({"must": "5", "text": "5"}),
            json!({"text": "true", "choice": "c"}),
            json!({"text": "null", "any": "null"}),
            json!({"any": "5", "choice_with_empty": ""}),
            json!({"cleared": ""}),
            json!({"texts": ["", "1", "null"]}),
            json!({"map": {"a": "", "b": "5"}}),
            json!({"unknown": null, "other": ""}),
            json!({"whole": "five", "real": "1,5", "flag": "yes", "texts": "a, b", "map": "{a: 1}"}),
            json!({"whole": "0x10", "real": "NaN", "flag": 1, "texts": "{}", "map": "[]"}),
        ] {
            everywhere(&stays, &stays);
        }
    }

    #[test]
    fn numbers_booleans_and_json_as_text_are_what_they_spell() {
        everywhere(
            &json!({"whole": "5", "real": " 1.5 ", "flag": "True"}),
            &json!({"whole": 5, "real": 1.5, "flag": true}),
        );
        everywhere(&json!({"whole": "-3", "flag": "false"}), &json!({"whole": -3, "flag": false}));
        everywhere(
            &json!({"texts": "[\"a\", \"\"]", "wholes": ["1", 2]}),
            &json!({"texts": ["a", ""], "wholes": [1, 2]}),
        );
        everywhere(&json!({"map": "{\"a\": \"\"}"}), &json!({"map": {"a": ""}}));
        // A value that was parsed from a text is converted too.
        let inners = json!({"inners": "[{\"must\": \"m\", \"flag\": \"true\", \"whole\": null}]"});
        assert_eq!(spelled(inners), json!({"inners": [{"must": "m", "flag": true}]}));
    }

    #[test]
    fn json_in_texts_is_read_up_to_a_bound_in_all() {
        let texts = |bytes: usize| format!("[\"{}\"]", "x".repeat(bytes - 4));
        let fits = spelled(json!({"texts": texts(MAX_TEXT)}));
        assert!(fits["texts"].is_array());
        let half = texts(MAX_TEXT / 2 + 1);
        let both = spelled(json!({"texts": half, "wholes": half}));
        assert_eq!((both["texts"].is_array(), both["wholes"].is_string()), (true, true));
    }
}
