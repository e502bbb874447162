//! Grammars of JSON Schemas.
//!
//! Keywords of a schema that are kept: `type`, `properties`, `required`, `additionalProperties`, `items`,
//! `enum`, `const`, `anyOf`, `oneOf`, `allOf`, `$ref` within the schema, and the limits of numbers, lengths
//! and items. Others, such as `pattern`, are left out, so a value may contradict them.

use serde_json::{Map, Value};

use crate::grammar::number::{LARGEST, Range};
use crate::grammar::{Grammar, Id, Node, Property};

/// Maximum depth of schemas within schemas, and of references.
const DEEPEST: usize = 16;
/// Maximum depth of a value without a schema: a list of lists of plain values.
const DEEPEST_ANY: usize = 2;
/// Maximum number of nodes of a grammar.
const MOST_NODES: usize = 50_000;
/// Maximum number of characters of a string whose schema has no limit.
const LONGEST_TEXT: usize = 1_000;
/// Maximum number of items of a list, or keys of a map, whose schema has no limit.
const MOST_ITEMS: usize = 16;
/// Largest limit of a length that a schema may demand as the least one.
const LARGEST_LEAST: usize = 4_096;

/// Fault of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SchemaFault {
    /// There is no value, or none within the bounds of this crate.
    #[error("no value within the limits fits the schema")]
    NoValue,
    /// The grammar is too large.
    #[error("the schema is too large")]
    TooLarge,
}

/// Builds the grammar of a call of one of these tools, given by name and schema of the arguments.
pub(crate) fn call<'a>(
    tools: impl IntoIterator<Item = (&'a str, &'a Map<String, Value>)>,
) -> Result<(Grammar, Id), (String, SchemaFault)> {
    let mut grammar = Grammar::new();
    let mut calls = Vec::new();
    for (name, schema) in tools {
        let root = Value::Object(schema.clone());
        let mut builder = Builder { grammar, root: &root };
        // Arguments are an object, also where the schema does not say so.
        let mut schema = schema.clone();
        schema.insert("type".to_owned(), Value::from("object"));
        let arguments = builder.value(&Value::Object(schema), 0);
        grammar = builder.grammar;
        let arguments = checked(&grammar, arguments).map_err(|fault| (name.to_owned(), fault))?;
        let beginning = format!("{{\"name\": {}, \"arguments\": ", json(&Value::from(name)));
        calls.push((beginning.into_bytes(), arguments));
    }
    calls.sort();
    calls.dedup_by(|one, other| one.0 == other.0);
    if calls.is_empty() {
        return Err((String::new(), SchemaFault::NoValue));
    }
    let root = grammar.add(Node::Calls(calls));
    Ok((grammar, root))
}

/// Builds the grammar of a value, into one that may have others.
pub(crate) fn format(grammar: Grammar, schema: &Map<String, Value>) -> Result<(Grammar, Id), SchemaFault> {
    let root = Value::Object(schema.clone());
    let mut builder = Builder { grammar, root: &root };
    let value = builder.value(&root, 0);
    let grammar = builder.grammar;
    let value = checked(&grammar, value)?;
    Ok((grammar, value))
}

fn checked(grammar: &Grammar, value: Option<Id>) -> Result<Id, SchemaFault> {
    if grammar.len() > MOST_NODES { Err(SchemaFault::TooLarge) } else { value.ok_or(SchemaFault::NoValue) }
}

/// Grammar in the making.
struct Builder<'schema> {
    grammar: Grammar,
    /// The whole schema, which references point into.
    root: &'schema Value,
}

impl Builder<'_> {
    /// Builds the node of a schema; `None` if no value fits it within the bounds.
    fn value(&mut self, schema: &Value, depth: usize) -> Option<Id> {
        // BOUNDED: by DEEPEST.
        if depth > DEEPEST || self.grammar.len() > MOST_NODES {
            return None;
        }
        let schema = match schema {
            Value::Bool(false) => return None,
            Value::Object(schema) => schema,
            _ => return Some(self.any(DEEPEST_ANY)),
        };
        if let Some(Value::String(reference)) = schema.get("$ref") {
            let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer)).cloned();
            let Some(target) = target else { return Some(self.any(DEEPEST_ANY)) };
            return self.value(&merged(&without(schema, "$ref"), &target), depth + 1);
        }
        if let Some(Value::Array(all)) = schema.get("allOf") {
            let base = Value::Object(without(schema, "allOf"));
            let whole = all.iter().fold(base, |whole, part| match whole {
                Value::Object(whole) => merged(&whole, part),
                whole => whole,
            });
            return self.value(&whole, depth + 1);
        }
        for keyword in ["anyOf", "oneOf"] {
            if let Some(Value::Array(alternatives)) = schema.get(keyword) {
                let base = without(schema, keyword);
                let alternatives: Vec<Value> =
                    alternatives.iter().map(|other| merged(&base, other)).collect();
                return self.either(&alternatives, depth);
            }
        }
        if schema.contains_key("enum") || schema.contains_key("const") {
            return self.words(schema);
        }
        if let Some(Value::Array(kinds)) = schema.get("type") {
            let of_kind = |kind: &Value| {
                let mut schema = schema.clone();
                schema.insert("type".to_owned(), kind.clone());
                Value::Object(schema)
            };
            let alternatives: Vec<Value> = kinds.iter().map(of_kind).collect();
            return self.either(&alternatives, depth);
        }
        match kind(schema) {
            "string" => self.text(schema),
            "integer" => self.number(schema, false),
            "number" => self.number(schema, true),
            "boolean" => Some(self.grammar.add(words(["true", "false"]))),
            "null" => Some(self.grammar.add(words(["null"]))),
            "array" => self.list(schema, depth),
            "object" => self.object(schema, depth),
            _ => Some(self.any(DEEPEST_ANY)),
        }
    }

    fn either(&mut self, alternatives: &[Value], depth: usize) -> Option<Id> {
        let mut nodes = Vec::new();
        for alternative in alternatives {
            // BOUNDED: by DEEPEST, in `value`.
            let Some(node) = self.value(alternative, depth + 1) else { continue };
            match self.grammar.node(node) {
                Some(Node::Either(inner)) => nodes.extend(inner.iter().copied()),
                _ => nodes.push(node),
            }
        }
        match nodes.as_slice() {
            [] => None,
            [one] => Some(*one),
            _ => Some(self.grammar.add(Node::Either(nodes))),
        }
    }

    /// Builds the node of any JSON value of this depth.
    fn any(&mut self, depth: usize) -> Id {
        let mut plain = vec![
            self.grammar.add(Node::Text { least: 0, most: LONGEST_TEXT }),
            self.grammar.add(Node::Number(Range { least: -LARGEST, most: LARGEST, has_decimals: true })),
            self.grammar.add(words(["true", "false", "null"])),
        ];
        let mut value = self.grammar.add(Node::Either(plain.clone()));
        for _ in 0..depth {
            let lists = [
                Node::List { item: Some(value), least: 0, most: MOST_ITEMS },
                Node::Map { value, least: 0, most: MOST_ITEMS },
            ];
            plain.truncate(3);
            plain.extend(lists.map(|list| self.grammar.add(list)));
            value = self.grammar.add(Node::Either(plain.clone()));
        }
        value
    }

    fn words(&mut self, schema: &Map<String, Value>) -> Option<Id> {
        let one = schema.get("const").into_iter();
        let listed = schema.get("enum").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let has_both = schema.contains_key("const") && schema.contains_key("enum");
        let values = one.clone().chain(listed.iter().filter(|_| !has_both));
        let fits = |value: &&Value| !has_both || listed.contains(value);
        let mut words: Vec<Vec<u8>> = values
            .filter(fits)
            .filter(|value| is_of_type(schema, value))
            .map(|value| json(value).into_bytes())
            .collect();
        words.sort();
        words.dedup();
        (!words.is_empty()).then(|| self.grammar.add(Node::Words(words)))
    }

    fn text(&mut self, schema: &Map<String, Value>) -> Option<Id> {
        let (least, most) = limits(schema, ["minLength", "maxLength"], LONGEST_TEXT)?;
        Some(self.grammar.add(Node::Text { least, most }))
    }

    fn number(&mut self, schema: &Map<String, Value>, has_decimals: bool) -> Option<Id> {
        let (least, most) = bounds(schema);
        // Beyond the digits that are written, there is nothing to choose from.
        if floor(least) == LARGEST || ceiling(most) == -LARGEST {
            return None;
        }
        let (first, last) = (ceiling(least), floor(most));
        let first = if excludes(schema, "exclusiveMinimum", first) { first + 1 } else { first };
        let last = if excludes(schema, "exclusiveMaximum", last) { last - 1 } else { last };
        if let Some(step) = schema.get("multipleOf") {
            // Numbers of this kind are rare: the first of them are enough.
            let step = step.as_i64().filter(|step| *step > 0)?;
            let from = if first <= 0 && last >= 0 { 0 } else { first };
            let from = from.checked_add((step - from.rem_euclid(step)) % step)?;
            let multiples = (0..MOST_ITEMS).scan(from, |next, _| {
                let number = *next;
                *next = next.saturating_add(step);
                (number <= last).then_some(number)
            });
            let mut words: Vec<Vec<u8>> = multiples.map(|number| number.to_string().into_bytes()).collect();
            words.sort();
            return (!words.is_empty()).then(|| self.grammar.add(Node::Words(words)));
        }
        if first <= last {
            return Some(self.grammar.add(Node::Number(Range { least: first, most: last, has_decimals })));
        }
        // Between two whole numbers there is at least the one in the middle.
        let middle = f64::midpoint(least, most);
        let is_inside = least < middle && middle < most || least <= most && !has_exclusive(schema);
        (has_decimals && is_inside)
            .then(|| self.grammar.add(Node::Words(vec![middle.to_string().into_bytes()])))
    }

    fn list(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Id> {
        let (least, mut most) = limits(schema, ["minItems", "maxItems"], MOST_ITEMS)?;
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            most = most.min(1);
        }
        // BOUNDED: by DEEPEST, in `value`.
        let item = match schema.get("items") {
            _ if most == 0 => None,
            Some(items) if schema.get("prefixItems").is_none() => self.value(items, depth + 1),
            _ => Some(self.any(DEEPEST_ANY)),
        };
        let most = if item.is_some() { most } else { 0 };
        (least <= most).then(|| self.grammar.add(Node::List { item, least, most }))
    }

    fn object(&mut self, schema: &Map<String, Value>, depth: usize) -> Option<Id> {
        let none = Map::new();
        let listed = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
        let required: Vec<&str> = schema
            .get("required")
            .and_then(Value::as_array)
            .map(|names| names.iter().filter_map(Value::as_str).collect())
            .unwrap_or_default();
        let others = schema.get("additionalProperties").unwrap_or(&Value::Bool(true));
        if listed.is_empty() && required.is_empty() {
            let (least, most) = limits(schema, ["minProperties", "maxProperties"], MOST_ITEMS)?;
            // BOUNDED: by DEEPEST, in `value`.
            let value = if *others == Value::Bool(true) {
                Some(self.any(DEEPEST_ANY - 1))
            } else {
                self.value(others, depth + 1)
            };
            // Keys may be equal, so no more than one is sure to be there.
            return match value {
                Some(value) if least <= 1 => {
                    Some(self.grammar.add(Node::Map { value, least, most: most.max(least) }))
                }
                None if least == 0 => Some(self.grammar.add(Node::Object(Vec::new()))),
                _ => None,
            };
        }
        let mut properties = Vec::new();
        let unlisted =
            required.iter().filter(|name| !listed.contains_key(**name)).map(|name| (*name, others));
        let all = listed.iter().map(|(name, value)| (name.as_str(), value)).chain(unlisted);
        for (name, value) in all {
            let required = required.contains(&name);
            let key = format!("{}: ", json(&Value::from(name))).into_bytes();
            match self.value(value, depth + 1) {
                Some(value) => properties.push(Property { key, value, required }),
                None if required => return None,
                None => {}
            }
        }
        Some(self.grammar.add(Node::Object(properties)))
    }
}

/// Returns the type of a schema, also where only other keywords tell it.
fn kind(schema: &Map<String, Value>) -> &str {
    match schema.get("type") {
        Some(kind) => kind.as_str().unwrap_or_default(),
        None if schema.contains_key("properties") || schema.contains_key("required") => "object",
        None if schema.contains_key("items") => "array",
        None => "",
    }
}

fn words<const N: usize>(mut words: [&str; N]) -> Node {
    words.sort_unstable();
    Node::Words(words.iter().map(|word| word.as_bytes().to_vec()).collect())
}

fn without(schema: &Map<String, Value>, keyword: &str) -> Map<String, Value> {
    let mut schema = schema.clone();
    schema.remove(keyword);
    schema
}

/// Returns a schema that demands what both do. Of keywords that both have, `properties` and `required` are
/// joined, and of the others the second one counts.
fn merged(schema: &Map<String, Value>, other: &Value) -> Value {
    let Value::Object(other) = other else {
        return if *other == Value::Bool(false) { Value::Bool(false) } else { Value::Object(schema.clone()) };
    };
    let mut whole = schema.clone();
    for (keyword, value) in other {
        match (keyword.as_str(), whole.get_mut(keyword), value) {
            ("properties", Some(Value::Object(one)), Value::Object(other)) => {
                one.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
            ("required", Some(Value::Array(one)), Value::Array(other)) => one.extend(other.iter().cloned()),
            _ => {
                whole.insert(keyword.clone(), value.clone());
            }
        }
    }
    Value::Object(whole)
}

/// Returns true if the value is of the schema's type, where it has one.
fn is_of_type(schema: &Map<String, Value>, value: &Value) -> bool {
    let is = |kind: &Value| match kind.as_str() {
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is),
        Some(kind) => is(kind),
        None => true,
    }
}

/// Returns limits of a length; `None` if there is no such length.
fn limits(schema: &Map<String, Value>, [least, most]: [&str; 2], usual: usize) -> Option<(usize, usize)> {
    let limit = |name: &str| {
        schema.get(name).and_then(Value::as_u64).map(|limit| usize::try_from(limit).unwrap_or(usize::MAX))
    };
    let least = limit(least).unwrap_or(0);
    let most = limit(most).unwrap_or(usize::MAX);
    (least <= most && least <= LARGEST_LEAST).then(|| (least, most.min(usual.max(least))))
}

/// Returns the bounds of a number, as its limits and the name of its format have them.
fn bounds(schema: &Map<String, Value>) -> (f64, f64) {
    let limit = |name: &str| schema.get(name).and_then(Value::as_f64);
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (0.0, f64::from(u8::MAX)),
        Some("uint16") => (0.0, f64::from(u16::MAX)),
        Some("uint32") => (0.0, f64::from(u32::MAX)),
        Some("uint64" | "uint") => (0.0, f64::INFINITY),
        Some("int8") => (f64::from(i8::MIN), f64::from(i8::MAX)),
        Some("int16") => (f64::from(i16::MIN), f64::from(i16::MAX)),
        Some("int32") => (f64::from(i32::MIN), f64::from(i32::MAX)),
        _ => (f64::NEG_INFINITY, f64::INFINITY),
    };
    let least = [limit("minimum"), limit("exclusiveMinimum")].into_iter().flatten().fold(low, f64::max);
    let most = [limit("maximum"), limit("exclusiveMaximum")].into_iter().flatten().fold(high, f64::min);
    (least, most)
}

fn has_exclusive(schema: &Map<String, Value>) -> bool {
    schema.contains_key("exclusiveMinimum") || schema.contains_key("exclusiveMaximum")
}

/// Returns true if this limit excludes the number.
fn excludes(schema: &Map<String, Value>, name: &str, number: i64) -> bool {
    schema
        .get(name)
        .and_then(Value::as_f64)
        .is_some_and(|limit| ceiling(limit) == number && floor(limit) == number)
}

/// Returns the least whole number that is not below, within the digits that are written.
fn ceiling(number: f64) -> i64 {
    whole(number.ceil())
}

/// Returns the largest whole number that is not above, within the digits that are written.
fn floor(number: f64) -> i64 {
    whole(number.floor())
}

#[allow(clippy::cast_possible_truncation, reason = "it is within 15 digits, which are exact both ways")]
#[allow(clippy::cast_precision_loss, reason = "as above")]
fn whole(number: f64) -> i64 {
    number.clamp(-LARGEST as f64, LARGEST as f64) as i64
}

/// Writes a value as JSON in ASCII, for which every model has tokens.
fn json(value: &Value) -> String {
    let mut text = String::new();
    for character in value.to_string().chars() {
        if character.is_ascii() && !character.is_ascii_control() {
            text.push(character);
        } else {
            for unit in character.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    text
}
