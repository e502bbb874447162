//! Combination of parts that are in the subset already.

use serde_json::{Map, Value, json};

use super::Notes;

/// Types by the order in which one of several alternatives is chosen: those that express more come first.
const PREFERENCE: [&str; 6] = ["array", "object", "string", "number", "integer", "boolean"];

/// Returns a part that accepts the values of any alternative, as far as they have one type; `None` if there is
/// no alternative.
// BOUNDED: by the depth of converted parts, `DEEPEST`.
pub(super) fn join(
    alternatives: Vec<Map<String, Value>>,
    notes: &mut Notes<'_>,
) -> Option<Map<String, Value>> {
    let mut different: Vec<Map<String, Value>> = Vec::new();
    for alternative in alternatives {
        if !different.contains(&alternative) {
            different.push(alternative);
        }
    }
    if different.len() < 2 {
        return different.pop();
    }
    let first_words = different.iter().find_map(|part| part.get("description")).cloned();
    if different.iter().any(|part| !part.contains_key("type")) {
        let mut any = Map::new();
        any.extend(first_words.map(|words| ("description".to_owned(), words)));
        return Some(any);
    }
    let kind = |part: &Map<String, Value>| part.get("type").and_then(Value::as_str).map(ToOwned::to_owned);
    let chosen =
        PREFERENCE.iter().find(|name| different.iter().any(|part| kind(part).as_deref() == Some(name)))?;
    let is_chosen = |part: &Map<String, Value>| {
        kind(part).is_some_and(|own| own == *chosen || *chosen == "number" && own == "integer")
    };
    let count = different.len();
    let mut fitting = different.into_iter().filter(is_chosen);
    let mut joined = fitting.next()?;
    let mut used = 1;
    for other in fitting {
        used += 1;
        joined = join_two(joined, other, notes);
    }
    joined.insert("type".to_owned(), json!(chosen));
    if used < count {
        notes.push(&format!("of several types only `{chosen}` is offered"));
    }
    Some(joined)
}

/// Returns a part that accepts the values of both parts, which have one type.
// BOUNDED: by the depth of converted parts, `DEEPEST`.
fn join_two(
    mut one: Map<String, Value>,
    mut other: Map<String, Value>,
    notes: &mut Notes<'_>,
) -> Map<String, Value> {
    let mut joined = Map::new();
    joined.extend(one.get("type").cloned().map(|kind| ("type".to_owned(), kind)));
    let words = one.remove("description").or_else(|| other.remove("description"));
    if let (Some(Value::Array(choices)), Some(Value::Array(more))) = (one.get("enum"), other.get("enum")) {
        let mut all = choices.clone();
        all.extend(more.iter().filter(|choice| !choices.contains(choice)).cloned());
        joined.insert("enum".to_owned(), Value::Array(all));
    }
    for bound in ["minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems"] {
        if let (Some(own), Some(same)) = (one.get(bound), other.get(bound))
            && own == same
        {
            joined.insert(bound.to_owned(), own.clone());
        }
    }
    if let (Some(Value::Object(own)), Some(Value::Object(more))) =
        (one.remove("items"), other.remove("items"))
    {
        let items = join(vec![own, more], notes).unwrap_or_default();
        joined.insert("items".to_owned(), Value::Object(items));
    }
    if joined.get("type") == Some(&json!("object")) {
        let required = |part: &Map<String, Value>| {
            part.get("required").and_then(Value::as_array).cloned().unwrap_or_default()
        };
        let (own, more) = (required(&one), required(&other));
        let both: Vec<Value> = own.into_iter().filter(|name| more.contains(name)).collect();
        if !both.is_empty() {
            joined.insert("required".to_owned(), Value::Array(both));
        }
        if [&one, &other].iter().all(|part| part.get("additionalProperties") == Some(&json!(false))) {
            joined.insert("additionalProperties".to_owned(), json!(false));
        }
        let mut all = properties(&mut one);
        for (name, property) in properties(&mut other) {
            let merged = match (all.remove(&name), property) {
                (Some(Value::Object(own)), Value::Object(more)) => {
                    Value::Object(join(vec![own, more], notes).unwrap_or_default())
                }
                (_, property) => property,
            };
            all.insert(name, merged);
        }
        joined.insert("properties".to_owned(), Value::Object(all));
    }
    joined.extend(words.map(|words| ("description".to_owned(), words)));
    joined
}

/// Returns a part that accepts the values that both parts accept. The words of the first count.
// BOUNDED: by the depth of converted parts, `DEEPEST`.
pub(super) fn meet(
    mut one: Map<String, Value>,
    mut other: Map<String, Value>,
    notes: &mut Notes<'_>,
) -> Map<String, Value> {
    let kind = |part: &Map<String, Value>| part.get("type").and_then(Value::as_str).map(ToOwned::to_owned);
    match (kind(&one), kind(&other)) {
        (Some(own), Some(more)) if own != more => {
            if own == "number" && more == "integer" {
                one.insert("type".to_owned(), json!("integer"));
            } else if !(own == "integer" && more == "number") {
                notes.push(&format!("`{own}` and `{more}` are both demanded; `{own}` is offered"));
                return one;
            }
        }
        _ => {}
    }
    if let (Some(Value::Array(choices)), Some(Value::Array(more))) = (one.get("enum"), other.get("enum")) {
        let both: Vec<Value> = choices.iter().filter(|choice| more.contains(choice)).cloned().collect();
        if !both.is_empty() {
            one.insert("enum".to_owned(), Value::Array(both));
        }
    }
    if let (Some(Value::Array(own)), Some(Value::Array(more))) = (one.get("required"), other.get("required"))
    {
        let mut all = own.clone();
        all.extend(more.iter().filter(|name| !own.contains(name)).cloned());
        one.insert("required".to_owned(), Value::Array(all));
    }
    if one.contains_key("properties") && other.contains_key("properties") {
        let mut all = properties(&mut one);
        for (name, property) in properties(&mut other) {
            let merged = match (all.get_mut(&name), property) {
                (Some(Value::Object(own)), Value::Object(more)) => {
                    let own = std::mem::take(own);
                    Value::Object(meet(own, more, notes))
                }
                (_, property) => property,
            };
            all.insert(name, merged);
        }
        one.insert("properties".to_owned(), Value::Object(all));
        // Each part closes the object for properties of the other, which no server means.
        if one.get("additionalProperties") != other.get("additionalProperties") {
            one.remove("additionalProperties");
            other.remove("additionalProperties");
        }
    }
    if let (Some(Value::Object(own)), Some(Value::Object(more))) = (one.get("items"), other.get("items")) {
        let items = meet(own.clone(), more.clone(), notes);
        one.insert("items".to_owned(), Value::Object(items));
    }
    for (keyword, value) in other {
        one.entry(keyword).or_insert(value);
    }
    one
}

fn properties(part: &mut Map<String, Value>) -> Map<String, Value> {
    match part.remove("properties") {
        Some(Value::Object(properties)) => properties,
        _ => Map::new(),
    }
}
