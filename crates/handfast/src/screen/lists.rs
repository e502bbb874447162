//! Entries of the allow and deny lists in the user's configuration: read, added and removed.
//!
//! The user's file is edited line by line, so that comments and order stay. The result is parsed
//! before it is written, and must equal the earlier content except for the one entry. A file in an
//! unsupported notation stays unchanged.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use policy::{BUILT_IN_DENIED_READS, List};
use serde_json::{Value, json};

use super::state::Entry;
use crate::config::{ConfigFile, parse_profiles};

/// Returns the entries of all lists of a profile, in display order.
pub(super) fn entries(file: &Path, profile: &str) -> io::Result<Vec<Entry>> {
    let profiles = profiles_as_json(&read(file)?)?;
    let of_list = |list: &List| {
        let entries = profiles[profile][list.key()].as_array().cloned().unwrap_or_default();
        let list = *list;
        entries.into_iter().filter_map(move |entry| Some(Entry { list, text: text_of(&entry)?.to_owned() }))
    };
    Ok(List::ALL.iter().flat_map(of_list).collect())
}

/// Adds an entry at the end of its list.
pub(crate) fn add(file: &Path, profile: &str, entry: &Entry) -> io::Result<()> {
    let before = read(file)?;
    let key = entry.list.key();
    let mut expected = profiles_as_json(&before)?;
    let there = expected[profile][key].as_array().cloned();
    // An explicit list replaces the default of an absent one, so the default entries are added first.
    let first: Vec<&str> = match entry.list {
        _ if there.is_some() => Vec::new(),
        List::AllowedReadPaths | List::AllowedWritePaths => vec!["."],
        List::DenyReadPaths => BUILT_IN_DENIED_READS.to_vec(),
        _ => Vec::new(),
    };
    let added: Vec<&str> = first.into_iter().chain([entry.text.as_str()]).collect();
    let mut list = there.unwrap_or_default();
    list.extend(added.iter().map(|text| json!(text)));
    expected[profile][key] = Value::Array(list);
    let after = inserted(&before, profile, key, &added).ok_or_else(not_understood)?;
    write(file, &after, &expected)
}

/// Removes an entry from its list. An empty list remains, because it differs from an absent list.
pub(super) fn remove(file: &Path, profile: &str, entry: &Entry) -> io::Result<()> {
    let before = read(file)?;
    let key = entry.list.key();
    let mut expected = profiles_as_json(&before)?;
    let list = expected[profile][key].as_array_mut().ok_or_else(not_understood)?;
    let at = list.iter().position(|one| text_of(one) == Some(&entry.text)).ok_or_else(not_understood)?;
    list.remove(at);
    let after = removed(&before, profile, key, at).ok_or_else(not_understood)?;
    write(file, &after, &expected)
}

fn not_understood() -> io::Error {
    io::Error::other("the screen cannot edit this form of configuration; edit the file yourself")
}

/// Returns the text of an entry, which is a text or a mapping that contains the text with examples.
fn text_of(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry.as_object()?.values().find_map(Value::as_str))
}

fn read(file: &Path) -> io::Result<String> {
    match ConfigFile::read(file) {
        Ok(None) => Ok(String::new()),
        Ok(Some(_)) => fs::read_to_string(file),
        Err(error) => Err(io::Error::other(error.to_string())),
    }
}

/// Parses the profiles of the text.
fn profiles_as_json(text: &str) -> io::Result<Value> {
    let profiles = parse_profiles(text).map_err(io::Error::other)?;
    let mut value = serde_json::to_value(profiles).map_err(io::Error::other)?;
    if value.is_null() {
        value = json!({});
    }
    Ok(value)
}

/// Writes the text if it parses to exactly the expected profiles. Otherwise nothing is written.
fn write(file: &Path, text: &str, expected: &Value) -> io::Result<()> {
    if without_nulls(profiles_as_json(text)?) != without_nulls(expected.clone()) {
        return Err(not_understood());
    }
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    // Write through a link to its target.
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let mode = fs::metadata(&real).map_or(0o600, |data| data.permissions().mode() & 0o777);
    let beside = real.with_extension("yaml.handfast-new");
    let mut new = OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&beside)?;
    new.set_permissions(Permissions::from_mode(mode))?;
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(&beside, &real)
}

/// Removes keys without a value and empty mappings. An absent key equals one without a value, and
/// an absent profile equals an empty one.
// BOUNDED: by the depth of JSON that is read, 128.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().map(|(key, value)| (key, without_nulls(value)));
            Value::Object(kept.filter(|(_, value)| !value.is_null() && *value != json!({})).collect())
        }
        other => other,
    }
}

/// Returns the text with entries added after the last one of a list, or `None` if that is not supported.
fn inserted(text: &str, profile: &str, key: &str, entries: &[&str]) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let item = |indent: usize, entry: &&str| format!("{:indent$}- {}", "", quoted(entry));
    let Some(config) = find(&lines, 0..lines.len(), "sandbox_config") else {
        lines.extend(["sandbox_config:".to_owned(), format!("  {profile}:"), format!("    {key}:")]);
        lines.extend(entries.iter().map(|entry| item(6, entry)));
        return Some(lines.join("\n") + "\n");
    };
    let Some(of_profile) = find(&lines, config.children.clone(), profile) else {
        if !config.value.is_empty() {
            return None;
        }
        let indent = config.child_indent.unwrap_or(2);
        let mut new = vec![format!("{:indent$}{profile}:", ""), format!("{:1$}{key}:", "", indent + 2)];
        new.extend(entries.iter().map(|entry| item(indent + 4, entry)));
        insert(&mut lines, config.line + 1, new);
        return Some(lines.join("\n") + "\n");
    };
    let Some(list) = find(&lines, of_profile.children.clone(), key) else {
        if !["", "{}"].contains(&of_profile.value.as_str()) {
            return None;
        }
        let own = indent_of(lines.get(of_profile.line)?);
        let indent = of_profile.child_indent.unwrap_or(own + 2);
        if !of_profile.value.is_empty() {
            let line = lines.get_mut(of_profile.line)?;
            line.replacen("{}", "", 1).trim_end().clone_into(line);
        }
        let mut new = vec![format!("{:indent$}{key}:", "")];
        new.extend(entries.iter().map(|entry| item(indent + 2, entry)));
        insert(&mut lines, of_profile.line + 1, new);
        return Some(lines.join("\n") + "\n");
    };
    let own = indent_of(lines.get(list.line)?);
    match list.value.as_str() {
        "" => {
            let is_item =
                |line: &&usize| lines.get(**line).is_some_and(|line| line.trim_start().starts_with("- "));
            let all: Vec<usize> = list.children.clone().collect();
            let last = all.iter().rev().find(|line| lines.get(**line).is_some_and(|line| !is_blank(line)));
            let indent = all
                .iter()
                .find(is_item)
                .and_then(|line| lines.get(*line))
                .map_or(own + 2, |line| indent_of(line));
            let at = last.map_or(list.line, |last| *last) + 1;
            insert(&mut lines, at, entries.iter().map(|entry| item(indent, entry)));
        }
        "[]" => {
            let line = lines.get_mut(list.line)?;
            line.replacen("[]", "", 1).trim_end().clone_into(line);
            let at = list.line + 1;
            insert(&mut lines, at, entries.iter().map(|entry| item(own + 2, entry)));
        }
        flow if flow.starts_with('[') && flow.ends_with(']') => {
            let added: Vec<String> = entries.iter().map(|entry| quoted(entry)).collect();
            let line = lines.get_mut(list.line)?;
            let end = line.rfind(']')?;
            line.insert_str(end, &format!(", {}", added.join(", ")));
        }
        _ => return None,
    }
    Some(lines.join("\n") + "\n")
}

/// Inserts new lines before the line with this index.
fn insert(lines: &mut Vec<String>, at: usize, new: impl IntoIterator<Item = String>) {
    lines.splice(at..at, new);
}

/// Returns the text without an entry of a list, or `None` if that is not supported.
fn removed(text: &str, profile: &str, key: &str, at: usize) -> Option<String> {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let config = find(&lines, 0..lines.len(), "sandbox_config")?;
    let of_profile = find(&lines, config.children, profile)?;
    let list = find(&lines, of_profile.children, key)?;
    if !list.value.is_empty() {
        return None;
    }
    let all: Vec<usize> = list.children.clone().collect();
    let starts: Vec<usize> = all
        .iter()
        .copied()
        .filter(|line| lines.get(*line).is_some_and(|line| line.trim_start().starts_with("- ")))
        .collect();
    let start = *starts.get(at)?;
    // An entry with examples has further lines below it.
    let end = starts.get(at + 1).copied().unwrap_or_else(|| {
        let deeper = |line: &&usize| {
            **line > start
                && lines
                    .get(**line)
                    .zip(lines.get(start))
                    .is_some_and(|(line, first)| !is_blank(line) && indent_of(line) > indent_of(first))
        };
        all.iter().rfind(deeper).map_or(start, |last| *last) + 1
    });
    lines.drain(start..end);
    if starts.len() == 1 {
        let line = lines.get_mut(list.line)?;
        let colon = line.find(':')? + 1;
        line.insert_str(colon, " []");
    }
    Some(lines.join("\n") + "\n")
}

/// A key of a block mapping.
struct BlockKey {
    line: usize,
    /// Text after the colon, without a comment.
    value: String,
    /// Range of the deeper lines below the key.
    children: std::ops::Range<usize>,
    child_indent: Option<usize>,
}

/// Finds the key among the outermost of these lines.
fn find(lines: &[String], within: std::ops::Range<usize>, key: &str) -> Option<BlockKey> {
    let is_key = |line: &usize| lines.get(*line).is_some_and(|line| !is_blank(line));
    let indent = within.clone().find(is_key).and_then(|line| lines.get(line)).map(|line| indent_of(line))?;
    let mut named = within.clone().filter(|line| {
        lines
            .get(*line)
            .is_some_and(|line| !is_blank(line) && indent_of(line) == indent && key_of(line) == Some(key))
    });
    let line = named.next()?;
    let is_item = |line: &str| line.trim_start().starts_with("- ");
    let end = (line + 1..within.end)
        .find(|next| {
            // The items of a list may have the same indent as their key.
            lines.get(*next).is_some_and(|next| {
                !is_blank(next) && indent_of(next) <= indent && !(is_item(next) && indent_of(next) == indent)
            })
        })
        .unwrap_or(within.end);
    let value = lines.get(line)?.split_once(':')?.1;
    let value = value.split(" #").next().unwrap_or_default().trim().to_owned();
    let children = line + 1..end;
    let child_indent =
        children.clone().find(is_key).and_then(|line| lines.get(line)).map(|line| indent_of(line));
    Some(BlockKey { line, value, children, child_indent })
}

fn key_of(line: &str) -> Option<&str> {
    let key = line.trim_start().split_once(':')?.0;
    Some(key.trim_matches(['"', '\'']))
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn is_blank(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#')
}

/// Returns the text in double quotes, which YAML reads like JSON.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(list: List, text: &str) -> Entry {
        Entry { list, text: text.to_owned() }
    }

    fn after(before: Option<&str>, change: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("handfast/config.yaml");
        if let Some(before) = before {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(&file, before).unwrap();
        }
        change(&file)?;
        Ok(fs::read_to_string(&file).unwrap())
    }

    #[test]
    fn an_entry_is_added_to_any_file_that_people_write() {
        let hugo = entry(List::AllowedExecCommand, "hugo \"build\"");
        for (before, expected) in [
            (None, "sandbox_config:\n  normal:\n    allowed_exec_command:\n      - \"hugo \\\"build\\\"\"\n"),
            (
                Some("mode: smart_auto # mine\n"),
                "mode: smart_auto # mine\nsandbox_config:\n  normal:\n    allowed_exec_command:\n      - \"hugo \\\"build\\\"\"\n",
            ),
            (
                Some(
                    "sandbox_config:\n    normal:\n        # tools\n        allowed_exec_command:\n        - uv sync  # why\n        # end\n        deny_hosts: [x.example]\n",
                ),
                "sandbox_config:\n    normal:\n        # tools\n        allowed_exec_command:\n        - uv sync  # why\n        - \"hugo \\\"build\\\"\"\n        # end\n        deny_hosts: [x.example]\n",
            ),
            (
                Some("sandbox_config:\n  normal:\n    allowed_exec_command: []\nmode: full_auto\n"),
                "sandbox_config:\n  normal:\n    allowed_exec_command:\n      - \"hugo \\\"build\\\"\"\nmode: full_auto\n",
            ),
            (
                Some("sandbox_config:\n  normal:\n    allowed_exec_command: [make]\n"),
                "sandbox_config:\n  normal:\n    allowed_exec_command: [make, \"hugo \\\"build\\\"\"]\n",
            ),
            (
                Some("sandbox_config:\n  other:\n    mode: full_auto\n"),
                "sandbox_config:\n  normal:\n    allowed_exec_command:\n      - \"hugo \\\"build\\\"\"\n  other:\n    mode: full_auto\n",
            ),
        ] {
            assert_eq!(after(before, |file| add(file, "normal", &hugo)).unwrap(), expected);
        }
    }

    #[test]
    fn what_an_absent_list_stands_for_comes_into_it_first() {
        let denied = after(None, |file| add(file, "normal", &entry(List::DenyReadPaths, "secret/"))).unwrap();
        assert!(denied.contains("- \".env\"\n") && denied.ends_with("- \"secret/\"\n"), "{denied}");
        let allowed =
            after(None, |file| add(file, "normal", &entry(List::AllowedWritePaths, "src"))).unwrap();
        assert!(allowed.ends_with("- \".\"\n      - \"src\"\n"), "{allowed}");
    }

    #[test]
    fn an_entry_is_removed_with_its_examples_and_an_empty_list_stays() {
        let before = "sandbox_config:\n  normal:\n    deny_exec_command:\n      - git rm\n      - npm\n    mode: full_auto\n";
        let npm = entry(List::DenyExecCommand, "npm");
        let one = after(Some(before), |file| remove(file, "normal", &npm)).unwrap();
        assert_eq!(one, before.replace("      - npm\n", ""));
        let rm = entry(List::DenyExecCommand, "git rm");
        let none = after(Some(&one), |file| remove(file, "normal", &rm)).unwrap();
        assert_eq!(none, "sandbox_config:\n  normal:\n    deny_exec_command: []\n    mode: full_auto\n");
    }

    #[test]
    fn a_file_that_is_not_understood_is_left_as_it_is() {
        let hugo = entry(List::AllowedExecCommand, "hugo");
        for before in [
            "sandbox_config: {normal: {mode: full_auto}}\n",
            "sandbox_config:\n  normal: {mode: full_auto}\n",
            "sandbox_config:\n  normal:\n    allowed_exec_command: [\n      make]\n",
            "no: configuration\n",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("config.yaml");
            fs::write(&file, before).unwrap();
            assert!(add(&file, "normal", &hugo).is_err(), "{before}");
            assert_eq!(fs::read_to_string(&file).unwrap(), before);
        }
    }
}
