//! Edits of JSON with comments, on the concrete syntax tree of `jsonc-parser`.

use jsonc_parser::cst::{CstArray, CstInputValue, CstNode, CstObject, CstRootNode};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde_json::Value;

use crate::model::{is_one_of, wrong_kind};
use crate::{Edit, EditError, Key};

pub(crate) fn read(text: &str) -> Result<Value, String> {
    let read = parse_to_serde_value::<Option<Value>>(text, &ParseOptions::default());
    read.map(Option::unwrap_or_default).map_err(|error| error.to_string())
}

pub(crate) fn edit(text: &str, edit: &Edit) -> Result<String, EditError> {
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|error| EditError::Unreadable { format: "JSON", reason: error.to_string() })?;
    let (last, above) = edit.path().split_last().ok_or(EditError::NotKept)?;
    match edit {
        Edit::Set { value, .. } => {
            let map = made_map(&root, above)?;
            match map.get(last.as_str()) {
                Some(property) => property.set_value(input(value)),
                None => drop(map.append(last.as_str(), input(value))),
            }
        }
        Edit::Add { texts, .. } => {
            let map = made_map(&root, above)?;
            let list =
                map.array_value_or_create(last.as_str()).ok_or_else(|| wrong_kind(edit.path(), "a list"))?;
            for text in texts {
                if !texts_of(&list).contains(text) {
                    list.append(CstInputValue::String(text.clone()));
                }
            }
        }
        Edit::Remove { path } => remove(&root, path),
        Edit::TakeOut { path, texts } => {
            let Some(list) = map_at(&root, above).and_then(|map| map.array_value(last.as_str())) else {
                return Ok(text.to_owned());
            };
            for element in list.elements() {
                if element.to_serde_value().is_some_and(|value| is_one_of(&value, texts)) {
                    element.remove();
                }
            }
            if list.elements().is_empty() {
                remove(&root, path);
            }
        }
    }
    Ok(root.to_string())
}

fn texts_of(list: &CstArray) -> Vec<String> {
    let values = list.elements().into_iter().filter_map(|element| element.to_serde_value());
    values.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// Returns the map at the end of the path, and creates the maps on the way.
fn made_map(root: &CstRootNode, path: &[Key]) -> Result<CstObject, EditError> {
    let mut map = root.object_value_or_create().ok_or_else(|| wrong_kind(&[], "a map"))?;
    for (depth, key) in path.iter().enumerate() {
        let is_null =
            map.get(key.as_str()).and_then(|property| property.value()).is_some_and(|value| is_null(&value));
        map = if is_null {
            map.object_value_or_set(key.as_str())
        } else {
            map.object_value_or_create(key.as_str()).ok_or_else(|| wrong_kind(&path[..=depth], "a map"))?
        };
    }
    Ok(map)
}

fn is_null(node: &CstNode) -> bool {
    node.to_serde_value().is_some_and(|value| value.is_null())
}

fn map_at(root: &CstRootNode, path: &[Key]) -> Option<CstObject> {
    path.iter().try_fold(root.object_value()?, |map, key| map.object_value(key.as_str()))
}

/// Removes a property, and the maps on the way that are empty afterwards.
fn remove(root: &CstRootNode, path: &[Key]) {
    for length in (1..=path.len()).rev() {
        let Some((key, above)) = path[..length].split_last() else { return };
        let Some(map) = map_at(root, above) else { return };
        let Some(property) = map.get(key.as_str()) else { return };
        let is_filled = property.object_value().is_some_and(|below| !below.properties().is_empty());
        if length < path.len() && is_filled {
            return;
        }
        property.remove();
    }
}

// BOUNDED: by the depth of a value that this program made.
fn input(value: &Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(flag) => CstInputValue::Bool(*flag),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text.clone()),
        Value::Array(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.iter().map(|(key, value)| (key.clone(), input(value))).collect())
        }
    }
}
