//! Edits of TOML, on the document of `toml_edit`.

use serde_json::Value;
use toml_edit::{Array, DocumentMut, Formatted, Item, Table, TableLike, Value as TomlValue};

use crate::model::{is_empty, is_one_of, wrong_kind};
use crate::{Edit, EditError, Key};

pub(crate) fn read(text: &str) -> Result<Value, String> {
    toml_edit::de::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())
}

pub(crate) fn edit(text: &str, edit: &Edit) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        EditError::Unreadable { format: "TOML", reason: error.to_string() }
    })?;
    let (last, above) = edit.path().split_last().ok_or(EditError::NotKept)?;
    let last = last.as_str();
    match edit {
        Edit::Set { value, .. } => {
            let new = item(value).ok_or(EditError::NotKept)?;
            let table = made_table(document.as_table_mut(), above)?;
            match table.get_mut(last) {
                Some(present) => *present = new,
                None => drop(table.insert(last, new)),
            }
        }
        Edit::Add { texts, .. } => {
            let table = made_table(document.as_table_mut(), above)?;
            let list = table
                .entry(last)
                .or_insert(Item::Value(TomlValue::Array(Array::new())))
                .as_array_mut()
                .ok_or_else(|| wrong_kind(edit.path(), "a list"))?;
            for text in texts {
                if !list.iter().any(|present| present.as_str() == Some(text)) {
                    list.push(text.as_str());
                }
            }
        }
        Edit::Remove { path } => remove(&mut document, path),
        Edit::TakeOut { path, texts } => {
            let Some(list) = table_at(document.as_table_mut(), above)
                .and_then(|table| table.get_mut(last))
                .and_then(Item::as_array_mut)
            else {
                return Ok(text.to_owned());
            };
            list.retain(|present| !present.as_str().is_some_and(|text| is_one_of(&text.into(), texts)));
            if list.is_empty() {
                remove(&mut document, path);
            }
        }
    }
    Ok(document.to_string())
}

/// Returns the table at the end of the path, and creates the tables on the way.
fn made_table<'a>(root: &'a mut Table, path: &[Key]) -> Result<&'a mut dyn TableLike, EditError> {
    let mut table: &mut dyn TableLike = root;
    for (depth, key) in path.iter().enumerate() {
        let new = || {
            let mut table = Table::new();
            table.set_implicit(true);
            Item::Table(table)
        };
        table = table
            .entry(key.as_str())
            .or_insert_with(new)
            .as_table_like_mut()
            .ok_or_else(|| wrong_kind(&path[..=depth], "a map"))?;
    }
    Ok(table)
}

fn table_at<'a>(root: &'a mut Table, path: &[Key]) -> Option<&'a mut dyn TableLike> {
    let mut table: &mut dyn TableLike = root;
    for key in path {
        table = table.get_mut(key.as_str())?.as_table_like_mut()?;
    }
    Some(table)
}

/// Removes a key, and the tables on the way that are empty afterwards.
fn remove(document: &mut DocumentMut, path: &[Key]) {
    for length in (1..=path.len()).rev() {
        let Some((key, above)) = path[..length].split_last() else { return };
        let Some(table) = table_at(document.as_table_mut(), above) else { return };
        let is_filled = |item: &Item| item.as_table_like().is_some_and(|below| !below.is_empty());
        if length < path.len() && table.get(key.as_str()).is_some_and(is_filled) {
            return;
        }
        table.remove(key.as_str());
    }
}

/// Converts a value. Returns `None` for null, which TOML does not have.
// BOUNDED: by the depth of a value that this program made.
fn item(value: &Value) -> Option<Item> {
    if let Value::Object(map) = value {
        let mut table = Table::new();
        for (key, value) in map {
            table.insert(key, item(value)?);
        }
        table.set_implicit(is_empty(value));
        return Some(Item::Table(table));
    }
    plain(value).map(Item::Value)
}

// BOUNDED: by the depth of a value that this program made.
fn plain(value: &Value) -> Option<TomlValue> {
    Some(match value {
        Value::Null | Value::Object(_) => return None,
        Value::Bool(flag) => TomlValue::Boolean(Formatted::new(*flag)),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => TomlValue::Integer(Formatted::new(whole)),
            None => TomlValue::Float(Formatted::new(number.as_f64()?)),
        },
        Value::String(text) => TomlValue::String(Formatted::new(text.clone())),
        Value::Array(items) => {
            let mut array = Array::new();
            for item in items {
                array.push(plain(item)?);
            }
            TomlValue::Array(array)
        }
    })
}
