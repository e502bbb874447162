//! The meaning of an edit: its effect on the values of a file, whatever the format.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::EditError;

/// One step on the way to a value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Key {
    /// Key of a map.
    Field(String),
    /// Map in a list, by its field `name`.
    Named(String),
}

/// Change of one place in a configuration.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit {
    /// Sets a value. Creates the maps on the way.
    Set {
        /// Way to the value.
        path: Vec<Key>,
        /// New value.
        value: Value,
    },
    /// Removes a value, and the maps on the way that are empty afterwards.
    Remove {
        /// Way to the value.
        path: Vec<Key>,
    },
    /// Adds texts to a list that does not contain them yet. Creates the list.
    Add {
        /// Way to the list.
        path: Vec<Key>,
        /// Texts to add.
        texts: Vec<String>,
    },
    /// Takes texts out of a list, and removes the list if it is empty afterwards.
    TakeOut {
        /// Way to the list.
        path: Vec<Key>,
        /// Texts to take out.
        texts: Vec<String>,
    },
}

impl Key {
    /// Creates the way through maps by their keys.
    pub fn fields(keys: &[&str]) -> Vec<Self> {
        keys.iter().map(|key| Self::Field((*key).to_owned())).collect()
    }

    /// Returns the text of the key.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Field(text) | Self::Named(text) => text,
        }
    }
}

impl Edit {
    /// Returns the way to the edited value.
    pub fn path(&self) -> &[Key] {
        match self {
            Self::Set { path, .. }
            | Self::Remove { path }
            | Self::Add { path, .. }
            | Self::TakeOut { path, .. } => path,
        }
    }
}

/// Returns the value at the end of a path.
pub fn get<'a>(root: &'a Value, path: &[Key]) -> Option<&'a Value> {
    path.iter().try_fold(root, |value, key| match key {
        Key::Field(field) => value.get(field),
        Key::Named(name) => value.as_array()?.iter().find(|item| has_name(item, name)),
    })
}

/// Applies the edit to the values.
pub(crate) fn apply(root: &mut Value, edit: &Edit) -> Result<(), EditError> {
    match edit {
        Edit::Set { path, value } => set(root, path, 0, value.clone()),
        Edit::Remove { path } => remove(root, path),
        Edit::Add { path, texts } => {
            let list = match get(root, path) {
                None | Some(Value::Null) => Vec::new(),
                Some(Value::Array(list)) => list.clone(),
                Some(_) => return Err(wrong_kind(path, "a list")),
            };
            let new =
                texts.iter().map(|text| Value::String(text.clone())).filter(|text| !list.contains(text));
            let whole: Vec<Value> = list.iter().cloned().chain(new).collect();
            set(root, path, 0, Value::Array(whole))
        }
        Edit::TakeOut { path, texts } => {
            let Some(Value::Array(list)) = get(root, path) else { return Ok(()) };
            let rest: Vec<Value> = list.iter().filter(|item| !is_one_of(item, texts)).cloned().collect();
            if rest.is_empty() { remove(root, path) } else { set(root, path, 0, Value::Array(rest)) }
        }
    }
}

// BOUNDED: by the length of the path.
fn set(root: &mut Value, path: &[Key], depth: usize, value: Value) -> Result<(), EditError> {
    let Some(key) = path.get(depth) else {
        *root = value;
        return Ok(());
    };
    match key {
        Key::Field(field) => {
            if root.is_null() {
                *root = Value::Object(Map::new());
            }
            let Value::Object(map) = root else { return Err(wrong_kind(&path[..depth], "a map")) };
            set(map.entry(field.clone()).or_insert(Value::Null), path, depth + 1, value)
        }
        Key::Named(name) => {
            if root.is_null() {
                *root = Value::Array(Vec::new());
            }
            let Value::Array(list) = root else { return Err(wrong_kind(&path[..depth], "a list")) };
            let index = list.iter().position(|item| has_name(item, name)).unwrap_or_else(|| {
                list.push(Value::Null);
                list.len() - 1
            });
            set(&mut list[index], path, depth + 1, value)
        }
    }
}

fn remove(root: &mut Value, path: &[Key]) -> Result<(), EditError> {
    if get(root, path).is_none() {
        return Ok(());
    }
    take_out(root, path)?;
    for length in (1..path.len()).rev() {
        if !get(root, &path[..length]).is_some_and(is_empty) {
            break;
        }
        take_out(root, &path[..length])?;
    }
    Ok(())
}

fn take_out(root: &mut Value, path: &[Key]) -> Result<(), EditError> {
    let Some((key, above)) = path.split_last() else { return Ok(()) };
    match (key, get_mut(root, above)) {
        (Key::Field(field), Some(Value::Object(map))) => drop(map.shift_remove(field)),
        (Key::Named(name), Some(Value::Array(list))) => list.retain(|item| !has_name(item, name)),
        (Key::Field(_), _) => return Err(wrong_kind(above, "a map")),
        (Key::Named(_), _) => return Err(wrong_kind(above, "a list")),
    }
    Ok(())
}

fn get_mut<'a>(root: &'a mut Value, path: &[Key]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |value, key| match key {
        Key::Field(field) => value.get_mut(field),
        Key::Named(name) => value.as_array_mut()?.iter_mut().find(|item| has_name(item, name)),
    })
}

/// Returns true if the value is an empty map or list.
pub(crate) fn is_empty(value: &Value) -> bool {
    value.as_object().is_some_and(Map::is_empty) || value.as_array().is_some_and(Vec::is_empty)
}

/// Returns true if the value is a text among the given ones.
pub(crate) fn is_one_of(value: &Value, texts: &[String]) -> bool {
    value.as_str().is_some_and(|text| texts.iter().any(|other| other == text))
}

fn has_name(item: &Value, name: &str) -> bool {
    item.get("name").and_then(Value::as_str) == Some(name)
}

/// Creates the error for a key that holds another kind of value.
pub(crate) fn wrong_kind(path: &[Key], needed: &'static str) -> EditError {
    let key = path.iter().map(Key::as_str).collect::<Vec<_>>().join(".");
    EditError::WrongKind { key: if key.is_empty() { "the whole".to_owned() } else { key }, needed }
}
