//! Markdown pages of tools.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::command::{Failure, Result};

const GENERATED: &str = "<!-- Written by `cargo xtask docs` from the tool's own types; change it there. -->";

/// Description of the coercion that every tool applies to its arguments.
const ARGUMENTS: &str = "\
Arguments are read as their schema leaves no doubt, at every depth and in every dialect:

- `null` in a field that is not required counts as left out.
  An empty text does too, but for fields in which it means something: `description` of `linear_action`, `subject` of `gmail_send`.
- A number, `true` or `false` as text is what it spells, where the field has such a value.
- JSON as text, of at most 1 MiB in all, is the list or object that it spells, where the field has one.

A required field keeps what was sent: an empty `content` of `file_write` is an empty file.
So does a field that holds text: `\"5\"` stays a text there.";

/// Returns the list of all tools.
pub(super) fn index(tools: &[Value]) -> Result<String> {
    let mut text =
        format!("# Tools\n\n{GENERATED}\n\n{ARGUMENTS}\n\n| tool | level | what it does |\n|---|---|---|\n");
    for tool in tools {
        let (name, level) = (field(tool, "name")?, field(tool, "level")?);
        let summary = sentences(field(tool, "description")?).lines().next().unwrap_or_default().to_owned();
        line(&mut text, &format!("| [`{name}`]({name}.md) | {level} | {} |", cell(&summary)));
    }
    Ok(text)
}

/// Returns the page of one tool.
pub(super) fn page(tool: &Value) -> Result<String> {
    let name = field(tool, "name")?;
    let mut text = format!("# `{name}`\n\n{GENERATED}\n\n");
    line(&mut text, &sentences(field(tool, "description")?));
    line(&mut text, &format!("\nLevel: {}.", field(tool, "level")?));
    line(&mut text, &timeout(tool)?);
    section(&mut text, "Arguments", schema(tool, "input_schema")?, true);
    section(&mut text, "Result", schema(tool, "output_schema")?, false);
    if let Some(example) = tool.get("example") {
        write_example(&mut text, name, example)?;
    }
    Ok(text)
}

fn timeout(tool: &Value) -> Result<String> {
    let seconds =
        |key: &str| tool.get("timeout_seconds").and_then(|timeout| timeout.get(key)).and_then(Value::as_u64);
    match (seconds("default"), seconds("max")) {
        (Some(default), Some(max)) if default == max => Ok(format!("Timeout: {default} s.")),
        (Some(default), Some(max)) => Ok(format!("Timeout: {default} s, at most {max} s.")),
        _ => Err(Failure(format!(
            "`handfast tools --json`: `{}` without `timeout_seconds`",
            field(tool, "name")?
        ))),
    }
}

/// Returns a text field that every tool must have.
pub(super) fn field<'a>(tool: &'a Value, name: &str) -> Result<&'a str> {
    let text = tool.get(name).and_then(Value::as_str);
    text.ok_or_else(|| Failure(format!("`handfast tools --json`: a tool without `{name}`: {tool}")))
}

fn schema<'a>(tool: &'a Value, name: &str) -> Result<&'a Value> {
    tool.get(name).filter(|schema| schema.is_object()).ok_or_else(|| {
        Failure(format!("`handfast tools --json`: `{}` without `{name}`", field(tool, "name").unwrap_or("?")))
    })
}

fn section(text: &mut String, title: &str, schema: &Value, with_default: bool) {
    let mut rows = Vec::new();
    collect_rows(schema, "", with_default, &mut rows);
    line(text, &format!("\n## {title}\n"));
    if rows.is_empty() {
        line(text, "None.");
        return;
    }
    line(
        text,
        if with_default { "| name | type | default | meaning |" } else { "| name | type | meaning |" },
    );
    line(text, if with_default { "|---|---|---|---|" } else { "|---|---|---|" });
    for row in rows {
        line(text, &row);
    }
}

/// Adds one row per field, each followed by its nested fields, named by their path.
fn collect_rows(schema: &Value, prefix: &str, with_default: bool, rows: &mut Vec<String>) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    let required = schema.get("required").and_then(Value::as_array);
    for (name, property) in properties {
        let path = format!("{prefix}{name}");
        let meaning = cell(property.get("description").and_then(Value::as_str).unwrap_or_default());
        let kind = kind_of(property);
        if with_default {
            let is_required = required.is_some_and(|required| required.iter().any(|r| r == name));
            let default = match property.get("default") {
                Some(default) => format!("`{}`", cell(&default.to_string())),
                None if is_required => "required".to_owned(),
                None => String::new(),
            };
            rows.push(format!("| `{path}` | {kind} | {default} | {meaning} |"));
        } else {
            rows.push(format!("| `{path}` | {kind} | {meaning} |"));
        }
        collect_rows(property, &format!("{path}."), with_default, rows);
        if let Some(items) = property.get("items") {
            collect_rows(items, &format!("{path}[]."), with_default, rows);
        }
    }
}

fn kind_of(property: &Value) -> String {
    if let Some(values) = property.get("enum").and_then(Value::as_array) {
        let values: Vec<_> = values.iter().map(|value| format!("`{}`", cell(&value.to_string()))).collect();
        return values.join(", ");
    }
    let kind = property.get("type").and_then(Value::as_str).unwrap_or("any");
    let of = property.get("items").map(|items| format!(" of {}", kind_of(items))).unwrap_or_default();
    // A minimum of zero is obvious for a count and therefore omitted.
    let least = property.get("minimum").filter(|bound| bound.as_f64() != Some(0.0));
    let bounds = [("at least", least), ("at most", property.get("maximum"))];
    let lengths = [("at least", property.get("minItems")), ("at most", property.get("maxItems"))];
    let stated = bounds.iter().chain(&lengths);
    let bounds: Vec<_> =
        stated.filter_map(|(words, bound)| bound.map(|bound| format!(", {words} {bound}"))).collect();
    format!("{kind}{of}{}", bounds.concat())
}

fn write_example(text: &mut String, tool: &str, example: &Value) -> Result<()> {
    let part = |name: &str| {
        example.get(name).and_then(Value::as_object).ok_or_else(|| {
            Failure(format!("`handfast tools --json`: the example of `{tool}` has no object `{name}`"))
        })
    };
    line(text, "\n## Example");
    let files = part("files")?;
    if !files.is_empty() {
        line(text, "\nIn a workspace with these files:");
    }
    for (path, content) in files {
        let content = content.as_str().unwrap_or_default();
        line(text, &format!("\n`{path}`:\n\n```text\n{}\n```", content.trim_end()));
    }
    line(text, "\nthis call");
    block(text, part("arguments")?);
    line(text, "\nhas a result that contains");
    block(text, part("result")?);
    Ok(())
}

fn block(text: &mut String, value: &Map<String, Value>) {
    line(text, &format!("\n```json\n{:#}\n```", Value::Object(value.clone())));
}

/// Breaks prose into one sentence per line, the convention of all documents here.
fn sentences(prose: &str) -> String {
    let mut text = String::new();
    let mut rest = prose.trim();
    while let Some((sentence, after)) = rest.split_once(". ") {
        text.push_str(sentence);
        let ends = after.starts_with(|c: char| c.is_uppercase() || c == '`' || c == '"');
        text.push_str(if ends { ".\n" } else { ". " });
        rest = after;
    }
    text + rest
}

/// Returns text that stays within one table cell.
pub(super) fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

fn line(text: &mut String, line: &str) {
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool() -> Value {
        json!({
            "name": "file_read", "level": "safe", "timeout_seconds": {"default": 30, "max": 60},
            "description": "Reads a file. Binary content comes as base64, e.g. images.",
            "input_schema": {"type": "object", "required": ["path"], "properties": {
                "path": {"type": "string", "description": "Where | in\nthe workspace."},
                "max_bytes": {"type": "integer", "minimum": 1, "default": 100_000, "description": "Bytes at most."},
                "lines": {"type": "object", "description": "Which.", "properties": {
                    "start": {"type": "integer", "minimum": 0, "description": "First line."}}},
            }},
            "output_schema": {"type": "object", "properties": {
                "entries": {"type": "array", "description": "Found.", "items": {"type": "object", "properties": {
                    "kind": {"enum": ["file", "folder"], "description": "What."}}}}}},
            "example": {"files": {"a.txt": "one\n"}, "arguments": {"path": "a.txt"}, "result": {"content": "one\n"}},
        })
    }

    #[test]
    fn a_page_shows_arguments_results_and_the_example() {
        let expected = "\
# `file_read`

<!-- Written by `cargo xtask docs` from the tool's own types; change it there. -->

Reads a file.
Binary content comes as base64, e.g. images.

Level: safe.
Timeout: 30 s, at most 60 s.

## Arguments

| name | type | default | meaning |
|---|---|---|---|
| `path` | string | required | Where \\| in the workspace. |
| `max_bytes` | integer, at least 1 | `100000` | Bytes at most. |
| `lines` | object |  | Which. |
| `lines.start` | integer |  | First line. |

## Result

| name | type | meaning |
|---|---|---|
| `entries` | array of object | Found. |
| `entries[].kind` | `\"file\"`, `\"folder\"` | What. |

## Example

In a workspace with these files:

`a.txt`:

```text
one
```

this call

```json
{
  \"path\": \"a.txt\"
}
```

has a result that contains

```json
{
  \"content\": \"one\\n\"
}
```
";
        assert_eq!(page(&tool()).unwrap(), expected);
    }

    #[test]
    fn the_index_has_the_first_sentence_of_each_tool() {
        assert!(
            index(&[tool()]).unwrap().ends_with("| [`file_read`](file_read.md) | safe | Reads a file. |\n")
        );
    }

    #[test]
    fn a_tool_without_a_schema_is_refused_by_name() {
        let mut tool = tool();
        tool["output_schema"] = Value::Null;
        assert_eq!(
            page(&tool).unwrap_err().0,
            "`handfast tools --json`: `file_read` without `output_schema`"
        );
    }
}
