//! Conversion of a foreign tool's input schema into the subset of JSON Schema that every provider of models
//! accepts (`tool::subset_violations`).
//!
//! The server still validates what it gets, so a condition that the subset cannot express may be left out: its
//! words go into the description where a model can use them. Of alternatives with different types one is
//! offered, because no provider-neutral form has several; a call that follows it is valid for the server too.
//! References are put in their places. A schema that refers to itself cannot be converted, and the tool says so.

mod combine;
mod values;

use serde_json::{Map, Value, json};

use crate::text::{self, Invisible};
use combine::{join, meet};

/// Maximum length of a schema, as JSON, in bytes.
pub const LONGEST_SCHEMA: usize = 64 * 1024;

/// Maximum number of subschemas after references were put in their places.
pub const MOST_PARTS: usize = 2_000;

/// Maximum depth of a schema, references included.
pub const DEEPEST: usize = 24;

/// Maximum number of properties of one object.
pub const MOST_PROPERTIES: usize = 200;

/// Maximum number of notes about one schema.
const MOST_NOTES: usize = 50;

/// Maximum length of the description of one property, in bytes.
const LONGEST_PROPERTY_DESCRIPTION: usize = 1024;

/// Keywords whose meaning the subset cannot express, and which the server alone checks.
const LEFT_OUT: [&str; 13] = [
    "not",
    "if",
    "then",
    "else",
    "patternProperties",
    "propertyNames",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "contains",
    "uniqueItems",
    "minProperties",
];

/// Schema in the subset.
#[derive(Debug, Clone, PartialEq)]
pub struct PortableSchema {
    /// Schema of type `object`.
    pub schema: Value,
    /// Notes about everything that was left out, in sentences for a human.
    pub notes: Vec<String>,
}

/// Reason why a tool cannot be offered with its schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// Arguments of a call are always an object, and the schema accepts none.
    #[error("its schema accepts no object, and arguments are always one")]
    NotAnObject,
    /// A part refers to a schema that contains it.
    #[error("its schema refers to itself ({reference:?})")]
    Cycle {
        /// Reference that closes the circle.
        reference: String,
    },
    /// A reference leads out of the schema. Nothing is fetched for it.
    #[error("its schema refers to another document ({reference:?})")]
    External {
        /// Reference.
        reference: String,
    },
    /// A reference leads nowhere.
    #[error("its schema refers to {reference:?}, which is not there")]
    Unresolved {
        /// Reference.
        reference: String,
    },
    /// The schema, with all references in place, has too many parts.
    #[error("its schema has more than {limit} parts")]
    TooManyParts {
        /// Maximum number of parts.
        limit: usize,
    },
    /// The schema is nested too deeply.
    #[error("its schema is nested more than {limit} levels deep")]
    TooDeep {
        /// Maximum depth.
        limit: usize,
    },
    /// The schema is too long.
    #[error("its schema has {length} bytes, and {limit} are the most")]
    TooLong {
        /// Length, in bytes of JSON.
        length: usize,
        /// Maximum length, in bytes.
        limit: usize,
    },
    /// A required property has a name that providers refuse.
    #[error("its schema requires a property with a name that no provider accepts ({name:?})")]
    PropertyName {
        /// Name of the property.
        name: String,
    },
    /// A part is neither an object nor a truth value.
    #[error("its schema is no valid JSON Schema at {place:?}")]
    Invalid {
        /// Place within the schema, as a JSON pointer.
        place: String,
    },
}

/// Converts the input schema of a tool.
///
/// # Errors
/// [`SchemaError`], if no schema of the subset describes calls of this tool.
pub fn portable_schema(schema: &Value) -> Result<PortableSchema, SchemaError> {
    let length = schema.to_string().len();
    if length > LONGEST_SCHEMA {
        return Err(SchemaError::TooLong { length, limit: LONGEST_SCHEMA });
    }
    let mut converter = Converter { root: schema, parts: 0, references: Vec::new(), notes: Vec::new() };
    let mut root = converter.part(schema, "", 0)?.ok_or(SchemaError::NotAnObject)?;
    match root.get("type").and_then(Value::as_str) {
        Some("object") => {}
        // A schema that accepts anything accepts objects.
        None => {
            root.insert("type".to_owned(), json!("object"));
        }
        Some(_) => return Err(SchemaError::NotAnObject),
    }
    root.remove("description");
    root.remove("default");
    if !root.contains_key("properties") {
        root.insert("properties".to_owned(), json!({}));
    }
    // Nearly every server that says nothing about further properties means none. A model that invents one
    // should hear of it.
    let has_properties = root.get("properties").and_then(Value::as_object).is_some_and(|all| !all.is_empty());
    let says_nothing = schema.as_object().is_some_and(|own| {
        !["additionalProperties", "unevaluatedProperties", "patternProperties", "$ref"]
            .iter()
            .any(|key| own.contains_key(*key))
    });
    if has_properties && says_nothing {
        root.insert("additionalProperties".to_owned(), json!(false));
    }
    let mut notes = converter.notes;
    notes.dedup();
    Ok(PortableSchema { schema: Value::Object(root), notes })
}

/// Part of a schema in the subset; `None` accepts no value.
type Part = Option<Map<String, Value>>;

struct Converter<'a> {
    root: &'a Value,
    parts: usize,
    /// References that are being followed.
    references: Vec<&'a str>,
    notes: Vec<String>,
}

impl<'a> Converter<'a> {
    // BOUNDED: by `DEEPEST`.
    fn part(&mut self, schema: &'a Value, at: &str, depth: usize) -> Result<Part, SchemaError> {
        self.parts += 1;
        if self.parts > MOST_PARTS {
            return Err(SchemaError::TooManyParts { limit: MOST_PARTS });
        }
        if depth > DEEPEST {
            return Err(SchemaError::TooDeep { limit: DEEPEST });
        }
        let own = match schema {
            Value::Bool(true) => return Ok(Some(Map::new())),
            Value::Bool(false) => return Ok(None),
            Value::Object(own) => own,
            _ => return Err(SchemaError::Invalid { place: at.to_owned() }),
        };
        let Some(mut part) = self.own(own, at, depth)? else { return Ok(None) };
        if let Some(reference) = own.get("$ref").and_then(Value::as_str) {
            let target = self.resolve(reference)?;
            self.references.push(reference);
            let found = self.part(target, at, depth + 1)?;
            self.references.pop();
            let Some(found) = found else { return Ok(None) };
            part = meet(part, found, &mut Notes { at, notes: &mut self.notes });
        }
        for (index, each) in list(own, "allOf").iter().enumerate() {
            let Some(each) = self.part(each, &format!("{at}/allOf/{index}"), depth + 1)? else {
                return Ok(None);
            };
            part = meet(part, each, &mut Notes { at, notes: &mut self.notes });
        }
        for keyword in ["anyOf", "oneOf"] {
            let alternatives = list(own, keyword);
            if alternatives.is_empty() {
                continue;
            }
            let mut parts = Vec::new();
            for (index, each) in alternatives.iter().enumerate() {
                parts.extend(self.part(each, &format!("{at}/{keyword}/{index}"), depth + 1)?);
            }
            let notes = &mut Notes { at, notes: &mut self.notes };
            let Some(joined) = join(parts, notes) else { return Ok(None) };
            part = meet(part, joined, notes);
        }
        Ok(Some(part))
    }

    /// Converts the keywords of a part, without those that combine parts.
    // BOUNDED: by the depth that `part` counts.
    fn own(&mut self, own: &'a Map<String, Value>, at: &str, depth: usize) -> Result<Part, SchemaError> {
        for keyword in LEFT_OUT.iter().filter(|keyword| own.contains_key(**keyword)) {
            self.note(at, &format!("the server alone checks `{keyword}`"));
        }
        let types = values::types(own);
        if types.is_some_and(|types| types.is_empty()) {
            return Ok(None);
        }
        let types = values::types(own).unwrap_or_else(|| values::inferred_type(own).into_iter().collect());
        let mut parts = Vec::new();
        for kind in &types {
            parts.extend(self.typed(own, kind, at, depth)?);
        }
        let mut part = if types.is_empty() {
            Map::new()
        } else {
            let notes = &mut Notes { at, notes: &mut self.notes };
            let Some(part) = join(parts, notes) else { return Ok(None) };
            part
        };
        let hints = values::hints(own, part.get("type").and_then(Value::as_str));
        let said = ["description", "title"].iter().find_map(|key| own.get(*key).and_then(Value::as_str));
        let words: Vec<&str> = said.into_iter().chain(hints.iter().map(String::as_str)).collect();
        let words = text::clean(&words.join(" "), LONGEST_PROPERTY_DESCRIPTION, Invisible::Remove).text;
        if !words.trim().is_empty() {
            part.insert("description".to_owned(), json!(words.trim()));
        }
        if let Some(default) = own.get("default").filter(|default| values::is_of_type(default, &part)) {
            part.insert("default".to_owned(), default.clone());
        }
        Ok(Some(part))
    }

    // BOUNDED: by the depth that `part` counts.
    fn typed(
        &mut self,
        own: &'a Map<String, Value>,
        kind: &str,
        at: &str,
        depth: usize,
    ) -> Result<Part, SchemaError> {
        let mut part = Map::new();
        part.insert("type".to_owned(), json!(kind));
        match kind {
            "object" => self.object(own, &mut part, at, depth)?,
            "array" => self.array(own, &mut part, at, depth)?,
            _ => {
                if !values::scalar(own, kind, &mut part, &mut Notes { at, notes: &mut self.notes }) {
                    return Ok(None);
                }
            }
        }
        Ok(Some(part))
    }

    // BOUNDED: by the depth that `part` counts.
    fn object(
        &mut self,
        own: &'a Map<String, Value>,
        part: &mut Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let required: Vec<&str> = list(own, "required").iter().filter_map(Value::as_str).collect();
        let all = own.get("properties").and_then(Value::as_object);
        let mut properties = Map::new();
        for (name, property) in all.into_iter().flatten() {
            let place = format!("{at}/{name}");
            if !is_property_name(name) {
                if required.contains(&name.as_str()) {
                    return Err(SchemaError::PropertyName { name: name.clone() });
                }
                self.note(at, &format!("the property {name:?} is not offered, because of its name"));
            } else if properties.len() >= MOST_PROPERTIES {
                if required.contains(&name.as_str()) {
                    return Err(SchemaError::TooManyParts { limit: MOST_PROPERTIES });
                }
                self.note(at, &format!("only the first {MOST_PROPERTIES} properties are offered"));
            } else if let Some(property) = self.part(property, &place, depth + 1)? {
                properties.insert(name.clone(), described(name, property));
            } else {
                self.note(at, &format!("the property {name:?} accepts no value, or only null"));
            }
        }
        for name in &required {
            if !all.is_some_and(|all| all.contains_key(*name)) {
                if !is_property_name(name) {
                    return Err(SchemaError::PropertyName { name: (*name).to_owned() });
                }
                properties.insert((*name).to_owned(), described(name, Map::new()));
            }
        }
        let mut kept: Vec<&str> =
            required.into_iter().filter(|name| properties.contains_key(*name)).collect();
        kept.dedup();
        if own.get("additionalProperties") == Some(&Value::Bool(false))
            && !own.contains_key("patternProperties")
        {
            part.insert("additionalProperties".to_owned(), json!(false));
        }
        if !kept.is_empty() {
            part.insert("required".to_owned(), json!(kept));
        }
        part.insert("properties".to_owned(), Value::Object(properties));
        Ok(())
    }

    // BOUNDED: by the depth that `part` counts.
    fn array(
        &mut self,
        own: &'a Map<String, Value>,
        part: &mut Map<String, Value>,
        at: &str,
        depth: usize,
    ) -> Result<(), SchemaError> {
        let place = format!("{at}/items");
        // Drafts before 2020-12 have the items of a tuple under `items`.
        let tuple =
            if own.contains_key("prefixItems") { list(own, "prefixItems") } else { list(own, "items") };
        let items = if tuple.is_empty() {
            match own.get("items") {
                Some(items) => self.part(items, &place, depth + 1)?.unwrap_or_default(),
                None => Map::new(),
            }
        } else {
            let mut parts = Vec::new();
            for each in tuple {
                parts.extend(self.part(each, &place, depth + 1)?);
            }
            let kind = parts.first().and_then(|first| first.get("type")).cloned();
            if parts.iter().any(|each| each.get("type") != kind.as_ref()) {
                self.note(at, "the items of a tuple have different types, which the server alone checks");
                Map::new()
            } else {
                join(parts, &mut Notes { at, notes: &mut self.notes }).unwrap_or_default()
            }
        };
        part.insert("items".to_owned(), Value::Object(items));
        for bound in ["minItems", "maxItems"] {
            if let Some(value) = own.get(bound).filter(|value| value.is_u64()) {
                part.insert(bound.to_owned(), value.clone());
            }
        }
        Ok(())
    }

    fn resolve(&self, reference: &'a str) -> Result<&'a Value, SchemaError> {
        let owned = || reference.to_owned();
        let pointer =
            reference.strip_prefix('#').ok_or_else(|| SchemaError::External { reference: owned() })?;
        if self.references.contains(&reference) || pointer.is_empty() {
            return Err(SchemaError::Cycle { reference: owned() });
        }
        let decoded = percent_decoded(pointer);
        self.root.pointer(&decoded).ok_or_else(|| SchemaError::Unresolved { reference: owned() })
    }

    fn note(&mut self, at: &str, note: &str) {
        Notes { at, notes: &mut self.notes }.push(note);
    }
}

/// Notes about one place.
pub(crate) struct Notes<'a> {
    at: &'a str,
    notes: &'a mut Vec<String>,
}

impl Notes<'_> {
    pub(crate) fn push(&mut self, note: &str) {
        if self.notes.len() < MOST_NOTES {
            let at = if self.at.is_empty() { "/" } else { self.at };
            self.notes.push(text::clean_line(&format!("{at}: {note}"), text::LONGEST_TITLE));
        }
    }
}

/// Returns a property with a description, which some models need for every one.
fn described(name: &str, mut property: Map<String, Value>) -> Value {
    if !property.contains_key("description") {
        property.insert("description".to_owned(), json!(format!("The field `{name}`.")));
    }
    Value::Object(property)
}

fn list<'a>(own: &'a Map<String, Value>, keyword: &str) -> &'a [Value] {
    own.get(keyword).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns true for a name that every provider accepts (Anthropic's pattern for the names of properties).
fn is_property_name(name: &str) -> bool {
    let is_valid = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_valid)
}

/// Returns the fragment of a URI without its percent encoding; invalid encodings stay.
fn percent_decoded(fragment: &str) -> String {
    let mut bytes = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
