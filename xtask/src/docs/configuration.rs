//! The page of all configuration keys, from the JSON Schema that the binary prints.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::page::cell;
use crate::command::{Failure, Result};

const HEAD: &str = "\
# Configuration

<!-- Written by `cargo xtask docs` from the types that read a configuration; change it there. -->

Handfast reads three files, all with the same keys:

| file | whose rules |
|---|---|
| `/etc/handfast/config.yaml` | the administrator's, over all others |
| `~/.config/handfast/config.yaml` | yours, in every workspace; `handfast init --user` writes one |
| `handfast.yaml` of a workspace | the workspace's; until `handfast trust`, it can only tighten rules; `handfast init` writes one |

[POLICY.md](POLICY.md) explains how the rules decide, `handfast policy` shows the rules in force, and `handfast check -- npm test` shows a decision.
Running servers take a change within a second, or warn and keep the earlier configuration.

Editors complete and check the keys with [`handfast.schema.json`](handfast.schema.json), which `handfast config schema` prints too.
A file that `handfast init` wrote names it in its first line.
";

/// Description of the entries of every list.
const ENTRIES: &str = "\
An entry of a list is a text, or a mapping with examples that are checked at each start:

```yaml
sandbox_config:
  normal:
    deny_exec_command:
      - {rule: \"git push\", match: [\"git push origin main\"], not_match: [\"git pull\"]}
```
";

/// Returns the page.
pub(super) fn page(schema: &Value) -> Result<String> {
    let definitions = schema.get("definitions").and_then(Value::as_object);
    let definitions = definitions.ok_or_else(|| Failure::new("the schema has no definitions"))?;
    let mut text = HEAD.to_owned();
    section(&mut text, "Keys of a file", schema, definitions)?;
    write_examples(&mut text, schema, 0, "")?;
    for (name, title, indent, around) in [
        (
            "ProfileSource",
            "Keys of a profile, below `sandbox_config` and its name",
            4,
            "sandbox_config:\n  normal:\n",
        ),
        ("BrowserRules", "Keys of `browser` in a profile", 6, "sandbox_config:\n  normal:\n    browser:\n"),
        ("GitPush", "Keys of `git_push` in a profile", 6, "sandbox_config:\n  normal:\n    git_push:\n"),
        ("ImpactRules", "Keys of `impact` in a profile", 6, "sandbox_config:\n  normal:\n    impact:\n"),
        ("Limits", "Keys of `limits` in a profile", 6, "sandbox_config:\n  normal:\n    limits:\n"),
    ] {
        let definition =
            definitions.get(name).ok_or_else(|| Failure(format!("the schema has no `{name}`")))?;
        section(&mut text, title, definition, definitions)?;
        if name == "ProfileSource" {
            let _ = write!(text, "\n{ENTRIES}");
        }
        write_examples(&mut text, definition, indent, around)?;
    }
    for (key, property) in properties(schema) {
        let definition = referred(property, definitions).filter(|(name, _)| *name != "ProfileSource");
        let Some((_, definition)) = definition else { continue };
        if definition.get("properties").is_some() {
            section(&mut text, &format!("Keys of `{key}`"), definition, definitions)?;
            for (inner, of_inner) in properties(definition) {
                if let Some((_, below)) = referred(of_inner, definitions)
                    && below.get("properties").is_some()
                {
                    section(&mut text, &format!("Keys of `{key}.{inner}`"), below, definitions)?;
                }
            }
        }
    }
    Ok(text)
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns the definition that a property refers to, with its name.
fn referred<'a>(property: &'a Value, definitions: &'a Map<String, Value>) -> Option<(&'a str, &'a Value)> {
    let choices = ["anyOf", "allOf"].into_iter().filter_map(|key| property.get(key)?.as_array());
    let mut parts = std::iter::once(property).chain(choices.flatten());
    let name = parts.find_map(|part| part.get("$ref")?.as_str()?.strip_prefix("#/definitions/"))?;
    Some((name, definitions.get(name)?))
}

fn section(text: &mut String, title: &str, schema: &Value, definitions: &Map<String, Value>) -> Result<()> {
    let _ = write!(text, "\n## {title}\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (key, property) in properties(schema) {
        let description = property.get("description").and_then(Value::as_str);
        let description =
            description.ok_or_else(|| Failure(format!("the key `{key}` has no description")))?;
        let default = match property.get("x-default").and_then(Value::as_str) {
            Some(default) => default,
            None if required.contains(&key.as_str()) => "required",
            None => "",
        };
        let kind = kind_of(property, definitions);
        let _ = writeln!(text, "| `{key}` | {} | {} | {} |", cell(&kind), cell(default), cell(description));
    }
    Ok(())
}

/// Describes the type of a value.
fn kind_of(property: &Value, definitions: &Map<String, Value>) -> String {
    match property.get("x-type").and_then(Value::as_str) {
        Some("bytes") => return "bytes, such as `512MiB`".to_owned(),
        Some("duration") => return "time, such as `30m`".to_owned(),
        _ => {}
    }
    if let Some((name, definition)) = referred(property, definitions) {
        let values = values(definition);
        return match name {
            "ListEntry" => "entry".to_owned(),
            _ if values.is_empty() => "mapping".to_owned(),
            _ => values.iter().map(|value| format!("`{value}`")).collect::<Vec<_>>().join(", "),
        };
    }
    match property.get("type").and_then(Value::as_str) {
        Some("array") => {
            let of = property.get("items").map(|items| kind_of(items, definitions)).unwrap_or_default();
            if of == "entry" { "list".to_owned() } else { format!("list of {of}") }
        }
        Some("object") => match property.get("additionalProperties").filter(|others| others.is_object()) {
            Some(others) => format!("names with a {} each", kind_of(others, definitions)),
            None => "mapping".to_owned(),
        },
        Some("string") => "text".to_owned(),
        Some("integer") => "number".to_owned(),
        Some("boolean") => "`true`, `false`".to_owned(),
        Some(other) => other.to_owned(),
        None => "any".to_owned(),
    }
}

/// Returns the values of an enumeration.
fn values(definition: &Value) -> Vec<&str> {
    let choices = definition.get("oneOf").and_then(Value::as_array).into_iter().flatten();
    let mut all = Vec::new();
    for part in std::iter::once(definition).chain(choices) {
        all.extend(part.get("enum").and_then(Value::as_array).into_iter().flatten());
        all.extend(part.get("const"));
    }
    all.into_iter().filter_map(Value::as_str).collect()
}

/// Adds the examples of all keys as one file.
fn write_examples(text: &mut String, schema: &Value, indent: usize, around: &str) -> Result<()> {
    let _ = write!(text, "\nAn example of each key:\n\n```yaml\n{around}");
    for (key, property) in properties(schema) {
        let example = property.get("examples").and_then(|examples| examples.get(0));
        // A profile and its limits have examples of their own.
        if ["sandbox_config", "limits", "inherit"].contains(&key.as_str()) {
            continue;
        }
        let example = example.ok_or_else(|| Failure(format!("the key `{key}` has no example")))?;
        let _ = writeln!(text, "{:indent$}{key}: {}", "", as_yaml(example));
    }
    text.push_str("```\n");
    Ok(())
}

/// Returns a value in the form of YAML that stands on one line.
// BOUNDED: by the depth of an example in the types.
fn as_yaml(value: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(", ");
    match value {
        Value::Array(entries) => format!("[{}]", joined(entries.iter().map(as_yaml).collect())),
        Value::Object(fields) => {
            format!(
                "{{{}}}",
                joined(fields.iter().map(|(key, value)| format!("{key}: {}", as_yaml(value))).collect())
            )
        }
        Value::String(text)
            if text.starts_with(|sign: char| sign.is_ascii_lowercase())
                && text.chars().all(|sign| sign.is_ascii_alphanumeric() || "_-/.".contains(sign))
                && text != "off" =>
        {
            text.clone()
        }
        other => other.to_string(),
    }
}
