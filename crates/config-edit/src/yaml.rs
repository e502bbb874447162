//! Edits of YAML in block style, as text. What is in another style is not edited.

use serde_json::Value;

use crate::model::{get, is_empty};
use crate::{Edit, EditError, Key};

/// Indentation of the entries that this module writes.
const INDENT: usize = 2;

pub(crate) fn read(text: &str) -> Result<Value, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Value::Null);
    }
    serde_saphyr::from_str(text).map_err(|error| error.to_string())
}

pub(crate) fn edit(text: &str, edit: &Edit) -> Result<String, EditError> {
    let unreadable = |reason| EditError::Unreadable { format: "YAML", reason };
    let mut values = read(text).map_err(unreadable)?;
    let before = values.clone();
    crate::model::apply(&mut values, edit)?;
    // Write the smallest part that has an entry of its own before and afterwards.
    let is_filled = |root, path| get(root, path).is_some_and(|value| !value.is_null() && !is_empty(value));
    let mut length = 1;
    while length < edit.path().len()
        && is_filled(&before, &edit.path()[..length])
        && is_filled(&values, &edit.path()[..length])
    {
        length += 1;
    }
    let path = &edit.path()[..length];
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    replace(&mut lines, path, get(&values, path))?;
    let mut edited = lines.join(ending);
    edited.push_str(ending);
    Ok(edited)
}

/// Lines of an entry, from the one with its key to the one before the next entry.
struct Block {
    start: usize,
    end: usize,
    indent: usize,
}

/// Replaces the entry at the end of the path, adds it or removes it.
fn replace(lines: &mut Vec<String>, path: &[Key], value: Option<&Value>) -> Result<(), EditError> {
    let mut within = Block { start: 0, end: lines.len(), indent: 0 };
    for (depth, key) in path.iter().enumerate() {
        let found = entry(lines, &within, key);
        if depth + 1 == path.len() {
            let indent = found
                .as_ref()
                .map_or_else(|| child_indent(lines, &within, depth > 0, key), |block| block.indent);
            let new = value.map(|value| written(key, value, indent)).unwrap_or_default();
            let place = match found {
                Some(block) if has_comment(&lines[block.start..block.end]) => return Err(EditError::NotKept),
                Some(block) => block.start..block.end,
                // A new entry stands last.
                None => {
                    let last = end_of_text(&lines[..within.end]);
                    last..last
                }
            };
            lines.splice(place, new);
            return Ok(());
        }
        let block = found.ok_or(EditError::NotKept)?;
        within = Block { start: block.start + 1, end: block.end, indent: 0 };
        within.indent = child_indent(lines, &within, true, path.get(depth + 1).unwrap_or(key));
    }
    Err(EditError::NotKept)
}

/// Returns the number of lines without the blank ones at the end.
fn end_of_text(lines: &[String]) -> usize {
    lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |last| last + 1)
}

fn has_comment(lines: &[String]) -> bool {
    lines.iter().any(|line| line.trim_start().starts_with('#') || line.contains(" #"))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_content(line: &str) -> bool {
    let text = line.trim_start();
    !text.is_empty() && !text.starts_with('#')
}

/// Returns the indentation of the entries of a block.
fn child_indent(lines: &[String], within: &Block, below: bool, key: &Key) -> usize {
    let first =
        lines[within.start..within.end].iter().find(|line| is_content(line) && !line.starts_with("---"));
    match (first, below, key) {
        (Some(line), ..) => indent_of(line),
        (None, true, Key::Field(_) | Key::Named(_)) => within.indent.max(INDENT),
        (None, false, _) => 0,
    }
}

/// Finds the lines of an entry among the direct entries of a block.
fn entry(lines: &[String], within: &Block, key: &Key) -> Option<Block> {
    let indent = child_indent(lines, within, false, key);
    let starts_here = |line: &str| match key {
        Key::Field(field) => {
            let text = line.trim_start();
            [field.clone(), format!("\"{field}\""), format!("'{field}'")].iter().any(|name| {
                text.strip_prefix(name.as_str()).is_some_and(|rest| rest.trim_start().starts_with(':'))
            })
        }
        Key::Named(_) => line.trim_start().starts_with("- "),
    };
    let is_other = |line: &str| {
        is_content(line) && indent_of(line) <= indent && !(indent_of(line) == indent && continues(line, key))
    };
    let mut start = within.start;
    while let Some(offset) = lines[start..within.end]
        .iter()
        .position(|line| is_content(line) && indent_of(line) == indent && starts_here(line))
    {
        let first = start + offset;
        let end = lines[first + 1..within.end]
            .iter()
            .position(|line| is_other(line))
            .map_or(within.end, |next| first + 1 + next);
        let end = lines[first..end]
            .iter()
            .rposition(|line| is_content(line))
            .map_or(first + 1, |last| first + last + 1);
        let is_meant = match key {
            Key::Field(_) => true,
            Key::Named(name) => {
                let text: Vec<&str> = lines[first..end].iter().map(String::as_str).collect();
                read(&text.join("\n")).is_ok_and(|items| {
                    items.get(0).and_then(|item| item.get("name")).and_then(Value::as_str) == Some(name)
                })
            }
        };
        if is_meant {
            return Some(Block { start: first, end, indent });
        }
        start = end;
    }
    None
}

/// Returns true if a line at the indentation of a key belongs to the value of the key: a list may
/// stand at the indentation of its key.
fn continues(line: &str, key: &Key) -> bool {
    matches!(key, Key::Field(_)) && line.trim_start().starts_with("- ")
}

/// Writes an entry in block style.
fn written(key: &Key, value: &Value, indent: usize) -> Vec<String> {
    let pad = " ".repeat(indent);
    match key {
        Key::Field(field) => match block(value, indent + INDENT) {
            Ok(below) => std::iter::once(format!("{pad}{}:", scalar(&Value::String(field.clone()))))
                .chain(below)
                .collect(),
            Err(inline) => vec![format!("{pad}{}: {inline}", scalar(&Value::String(field.clone())))],
        },
        Key::Named(_) => match block(value, indent + INDENT) {
            Ok(mut below) => {
                if let Some(first) = below.first_mut() {
                    first.replace_range(indent..=indent, "-");
                }
                below
            }
            Err(inline) => vec![format!("{pad}- {inline}")],
        },
    }
}

/// Writes a value as the lines below its key, or inline.
// BOUNDED: by the depth of a value that this program made, or that the parser bounded.
fn block(value: &Value, indent: usize) -> Result<Vec<String>, String> {
    match value {
        Value::Object(map) if !map.is_empty() => {
            Ok(map.iter().flat_map(|(key, value)| written(&Key::Field(key.clone()), value, indent)).collect())
        }
        Value::Array(items) if !items.is_empty() => {
            let named = Key::Named(String::new());
            Ok(items.iter().flat_map(|item| written(&named, item, indent)).collect())
        }
        value => Err(scalar(value)),
    }
}

/// Writes a scalar. Every text that could mean something else is quoted as in JSON, which YAML contains.
fn scalar(value: &Value) -> String {
    let plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphabetic() || "/_".contains(first))
            && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
            && !["true", "false", "yes", "no", "on", "off", "null", "y", "n"]
                .contains(&text.to_ascii_lowercase().as_str())
    };
    match value {
        Value::String(text) if plain(text) => text.clone(),
        other => other.to_string(),
    }
}
