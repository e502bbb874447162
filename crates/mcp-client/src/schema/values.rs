//! Types, choices and bounds of values.

use serde_json::{Map, Value, json};

use super::Notes;

/// Types of the subset.
const TYPES: [&str; 6] = ["object", "array", "string", "number", "integer", "boolean"];

/// Maximum number of choices that a schema lists.
const MOST_CHOICES: usize = 200;

/// Maximum number of choices in a description.
const MOST_SHOWN: usize = 20;

/// Maximum length of the default of a property, in bytes of JSON.
const LONGEST_DEFAULT: usize = 256;

/// Returns the types that a part names, without null; `None` if it names none.
pub(super) fn types(own: &Map<String, Value>) -> Option<Vec<&'static str>> {
    let known = |name: &Value| TYPES.iter().find(|kind| name.as_str() == Some(kind)).copied();
    match own.get("type")? {
        Value::Array(names) => {
            let mut types: Vec<&'static str> = names.iter().filter_map(known).collect();
            // Every integer is a number.
            if types.contains(&"number") {
                types.retain(|kind| *kind != "integer");
            }
            Some(types)
        }
        name @ Value::String(_) => Some(known(name).into_iter().collect()),
        _ => None,
    }
}

/// Returns the type that the keywords of a part without a type speak of.
pub(super) fn inferred_type(own: &Map<String, Value>) -> Option<&'static str> {
    let speaks = |keywords: &[&str]| keywords.iter().any(|keyword| own.contains_key(*keyword));
    if speaks(&["properties", "required", "additionalProperties", "patternProperties"]) {
        return Some("object");
    }
    if speaks(&["items", "prefixItems", "minItems", "maxItems"]) {
        return Some("array");
    }
    if let Some(choices) = choices(own) {
        let all = |is: fn(&Value) -> bool| choices.iter().all(|choice| is(choice));
        return if choices.is_empty() {
            None
        } else if all(is_integer) {
            Some("integer")
        } else if all(Value::is_number) {
            Some("number")
        } else if all(Value::is_boolean) {
            Some("boolean")
        } else if choices.iter().any(|choice| choice.is_string()) {
            Some("string")
        } else {
            None
        };
    }
    if speaks(&["minLength", "maxLength", "pattern", "format"]) {
        return Some("string");
    }
    speaks(&["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]).then_some("number")
}

/// Returns the values that a part accepts, without null; `None` if it does not list them.
fn choices(own: &Map<String, Value>) -> Option<Vec<&Value>> {
    let listed = match (own.get("enum"), own.get("const")) {
        (_, Some(only)) => vec![only],
        (Some(Value::Array(values)), None) => values.iter().collect(),
        _ => return None,
    };
    Some(listed.into_iter().filter(|value| !value.is_null()).collect())
}

/// Adds choices and bounds of text, numbers and truth values. Returns false if no value is left.
pub(super) fn scalar(
    own: &Map<String, Value>,
    kind: &str,
    part: &mut Map<String, Value>,
    notes: &mut Notes<'_>,
) -> bool {
    if let Some(choices) = choices(own) {
        let fits = |value: &&&Value| match kind {
            "string" => value.is_string(),
            "integer" => is_integer(value),
            "number" => value.is_number(),
            _ => value.is_boolean(),
        };
        let fitting: Vec<&Value> = choices.iter().filter(fits).copied().collect();
        if fitting.is_empty() {
            return false;
        }
        if fitting.len() < choices.len() {
            notes.push("only the choices of one type are offered");
        }
        if kind == "string" {
            if fitting.len() <= MOST_CHOICES {
                part.insert("enum".to_owned(), json!(fitting));
            } else {
                notes.push("the server alone checks its many choices");
            }
        } else if kind != "boolean" {
            // Half of the providers accept choices of text alone, so a range stands for numbers.
            let number = |value: &&Value| value.as_f64();
            let by = |one: &&&Value, other: &&&Value| {
                number(one).unwrap_or(0.0).total_cmp(&number(other).unwrap_or(0.0))
            };
            if let (Some(least), Some(most)) = (fitting.iter().min_by(by), fitting.iter().max_by(by)) {
                part.insert("minimum".to_owned(), (*least).clone());
                part.insert("maximum".to_owned(), (*most).clone());
            }
        }
        return true;
    }
    let mut keep = |keyword: &str, value: Option<Value>| {
        if let Some(value) = value {
            part.insert(keyword.to_owned(), value);
        }
    };
    match kind {
        "string" => {
            for bound in ["minLength", "maxLength"] {
                keep(bound, own.get(bound).filter(|value| value.is_u64()).cloned());
            }
        }
        "integer" => {
            keep("minimum", integer_bound(own, "minimum", "exclusiveMinimum", 1));
            keep("maximum", integer_bound(own, "maximum", "exclusiveMaximum", -1));
        }
        "number" => {
            for bound in ["minimum", "maximum"] {
                keep(bound, own.get(bound).filter(|value| value.is_number()).cloned());
            }
        }
        _ => {}
    }
    true
}

/// Returns the bound of an integer, inclusive.
fn integer_bound(own: &Map<String, Value>, inclusive: &str, exclusive: &str, step: i64) -> Option<Value> {
    let bound = own.get(inclusive).and_then(Value::as_i64);
    let beyond = match own.get(exclusive) {
        // Draft 4 marks the inclusive bound.
        Some(Value::Bool(true)) => return bound?.checked_add(step).map(Value::from),
        other => other.and_then(Value::as_i64).and_then(|value| value.checked_add(step)),
    };
    let tighter = |one: i64, other: i64| if step > 0 { one.max(other) } else { one.min(other) };
    match (bound, beyond) {
        (Some(bound), Some(beyond)) => Some(tighter(bound, beyond).into()),
        (bound, beyond) => bound.or(beyond).map(Value::from),
    }
}

/// Returns sentences for a model about conditions that the subset cannot express.
pub(super) fn hints(own: &Map<String, Value>, kind: Option<&str>) -> Vec<String> {
    let mut hints = Vec::new();
    let shown = |keyword: &str| {
        own.get(keyword).map(|value| match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        })
    };
    let mut hint = |keyword: &str, words: &str| {
        hints.extend(shown(keyword).map(|value| format!("{words} {value}.")));
    };
    match kind {
        Some("string") => {
            hint("format", "Format:");
            hint("pattern", "Pattern:");
        }
        Some("number") => {
            if own.get("exclusiveMinimum").is_some_and(Value::is_number) {
                hint("exclusiveMinimum", "More than");
            }
            if own.get("exclusiveMaximum").is_some_and(Value::is_number) {
                hint("exclusiveMaximum", "Less than");
            }
            hint("multipleOf", "A multiple of");
        }
        Some("integer") => hint("multipleOf", "A multiple of"),
        _ => {}
    }
    if kind != Some("string")
        && let Some(choices) = choices(own)
        && !choices.is_empty()
    {
        let shown: Vec<String> = choices.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
        hints.push(format!("One of: {}.", shown.join(", ")));
    }
    hints
}

/// Returns true if a default is short and fits the type of its part.
pub(super) fn is_of_type(default: &Value, part: &Map<String, Value>) -> bool {
    let fits = match part.get("type").and_then(Value::as_str) {
        Some("string") => {
            let choices = part.get("enum").and_then(Value::as_array);
            default.is_string() && choices.is_none_or(|choices| choices.contains(default))
        }
        Some("integer") => is_integer(default),
        Some("number") => default.is_number(),
        Some("boolean") => default.is_boolean(),
        _ => false,
    };
    fits && default.to_string().len() <= LONGEST_DEFAULT
}

fn is_integer(value: &Value) -> bool {
    value.is_i64() || value.is_u64()
}
