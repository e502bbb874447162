//! Lists of a profile: their names and their entries.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::ProfileSource;

/// A list that a profile can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// `allowed_read_paths`
    AllowedReadPaths,
    /// `allowed_write_paths`
    AllowedWritePaths,
    /// `deny_read_paths`
    DenyReadPaths,
    /// `deny_write_paths`
    DenyWritePaths,
    /// `allowed_exec_command`
    AllowedExecCommand,
    /// `moderate_exec_command`
    ModerateExecCommand,
    /// `auto_run_paths`
    AutoRunPaths,
    /// `deny_exec_command`
    DenyExecCommand,
    /// `allowed_hosts`
    AllowedHosts,
    /// `deny_hosts`
    DenyHosts,
    /// `allowed_secrets`
    AllowedSecrets,
    /// `deny_secrets`
    DenySecrets,
    /// `allow` of `git_push`
    AllowedGitPush,
    /// `deny` of `git_push`
    DenyGitPush,
    /// `submit` of `browser`
    BrowserSubmit,
    /// `deny` of `browser`
    BrowserDeny,
    /// `allowed_database_statements`
    AllowedDatabaseStatements,
    /// `deny_database_statements`
    DenyDatabaseStatements,
    /// `deny_handfast_changes`
    DenyHandfastChanges,
    /// `deny_tools`
    DenyTools,
}

impl List {
    /// All lists, in display order.
    pub const ALL: [List; 20] = [
        List::AllowedReadPaths,
        List::DenyReadPaths,
        List::AllowedWritePaths,
        List::DenyWritePaths,
        List::AutoRunPaths,
        List::AllowedExecCommand,
        List::ModerateExecCommand,
        List::DenyExecCommand,
        List::AllowedHosts,
        List::DenyHosts,
        List::AllowedSecrets,
        List::DenySecrets,
        List::AllowedGitPush,
        List::DenyGitPush,
        List::BrowserSubmit,
        List::BrowserDeny,
        List::AllowedDatabaseStatements,
        List::DenyDatabaseStatements,
        List::DenyHandfastChanges,
        List::DenyTools,
    ];

    /// Returns the key of the list in a configuration; a list below another key has both, with a dot.
    pub fn key(self) -> &'static str {
        match self {
            List::AllowedReadPaths => "allowed_read_paths",
            List::AllowedWritePaths => "allowed_write_paths",
            List::DenyReadPaths => "deny_read_paths",
            List::DenyWritePaths => "deny_write_paths",
            List::AllowedExecCommand => "allowed_exec_command",
            List::ModerateExecCommand => "moderate_exec_command",
            List::AutoRunPaths => "auto_run_paths",
            List::DenyExecCommand => "deny_exec_command",
            List::AllowedHosts => "allowed_hosts",
            List::DenyHosts => "deny_hosts",
            List::AllowedSecrets => "allowed_secrets",
            List::DenySecrets => "deny_secrets",
            List::AllowedGitPush => "git_push.allow",
            List::DenyGitPush => "git_push.deny",
            List::BrowserSubmit => "browser.submit",
            List::BrowserDeny => "browser.deny",
            List::AllowedDatabaseStatements => "allowed_database_statements",
            List::DenyDatabaseStatements => "deny_database_statements",
            List::DenyHandfastChanges => "deny_handfast_changes",
            List::DenyTools => "deny_tools",
        }
    }

    /// Returns true if the list denies, or asks about more. A list of this kind is never inherited,
    /// and the lists of all files count together.
    pub fn denies(self) -> bool {
        !matches!(
            self,
            List::AllowedReadPaths
                | List::AllowedWritePaths
                | List::AllowedExecCommand
                | List::ModerateExecCommand
                | List::AllowedHosts
                | List::AllowedSecrets
                | List::AllowedGitPush
                | List::BrowserSubmit
                | List::AllowedDatabaseStatements
        )
    }

    /// Returns the entries in a profile, or `None` if the profile does not name the list.
    pub fn of(self, profile: &ProfileSource) -> Option<&Vec<ListEntry>> {
        match self {
            List::AllowedReadPaths => profile.allowed_read_paths.as_ref(),
            List::AllowedWritePaths => profile.allowed_write_paths.as_ref(),
            List::DenyReadPaths => profile.deny_read_paths.as_ref(),
            List::DenyWritePaths => profile.deny_write_paths.as_ref(),
            List::AllowedExecCommand => profile.allowed_exec_command.as_ref(),
            List::ModerateExecCommand => profile.moderate_exec_command.as_ref(),
            List::AutoRunPaths => profile.auto_run_paths.as_ref(),
            List::DenyExecCommand => profile.deny_exec_command.as_ref(),
            List::AllowedHosts => profile.allowed_hosts.as_ref(),
            List::DenyHosts => profile.deny_hosts.as_ref(),
            List::AllowedSecrets => profile.allowed_secrets.as_ref(),
            List::DenySecrets => profile.deny_secrets.as_ref(),
            List::AllowedGitPush => profile.git_push.allow.as_ref(),
            List::DenyGitPush => profile.git_push.deny.as_ref(),
            List::BrowserSubmit => profile.browser.submit.as_ref(),
            List::BrowserDeny => profile.browser.deny.as_ref(),
            List::AllowedDatabaseStatements => profile.allowed_database_statements.as_ref(),
            List::DenyDatabaseStatements => profile.deny_database_statements.as_ref(),
            List::DenyHandfastChanges => profile.deny_handfast_changes.as_ref(),
            List::DenyTools => profile.deny_tools.as_ref(),
        }
    }

    /// Returns the entries of [`List::of`] for changes.
    pub(crate) fn of_mut(self, profile: &mut ProfileSource) -> &mut Option<Vec<ListEntry>> {
        match self {
            List::AllowedReadPaths => &mut profile.allowed_read_paths,
            List::AllowedWritePaths => &mut profile.allowed_write_paths,
            List::DenyReadPaths => &mut profile.deny_read_paths,
            List::DenyWritePaths => &mut profile.deny_write_paths,
            List::AllowedExecCommand => &mut profile.allowed_exec_command,
            List::ModerateExecCommand => &mut profile.moderate_exec_command,
            List::AutoRunPaths => &mut profile.auto_run_paths,
            List::DenyExecCommand => &mut profile.deny_exec_command,
            List::AllowedHosts => &mut profile.allowed_hosts,
            List::DenyHosts => &mut profile.deny_hosts,
            List::AllowedSecrets => &mut profile.allowed_secrets,
            List::DenySecrets => &mut profile.deny_secrets,
            List::AllowedGitPush => &mut profile.git_push.allow,
            List::DenyGitPush => &mut profile.git_push.deny,
            List::BrowserSubmit => &mut profile.browser.submit,
            List::BrowserDeny => &mut profile.browser.deny,
            List::AllowedDatabaseStatements => &mut profile.allowed_database_statements,
            List::DenyDatabaseStatements => &mut profile.deny_database_statements,
            List::DenyHandfastChanges => &mut profile.deny_handfast_changes,
            List::DenyTools => &mut profile.deny_tools,
        }
    }
}

/// One entry of a list: a plain text, or a mapping with examples.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListEntry {
    /// The rule.
    pub rule: String,
    /// Texts that the rule must match.
    pub matches: Vec<String>,
    /// Texts that the rule must not match.
    pub not_matches: Vec<String>,
}

impl ListEntry {
    /// Returns true if the entry has examples.
    pub fn has_examples(&self) -> bool {
        !self.matches.is_empty() || !self.not_matches.is_empty()
    }
}

impl From<String> for ListEntry {
    fn from(rule: String) -> Self {
        Self { rule, ..Self::default() }
    }
}

impl From<&str> for ListEntry {
    fn from(rule: &str) -> Self {
        rule.to_owned().into()
    }
}

impl Serialize for ListEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.has_examples() {
            return serializer.serialize_str(&self.rule);
        }
        let mut entry = serializer.serialize_struct("ListEntry", FIELDS.len())?;
        entry.serialize_field("rule", &self.rule)?;
        entry.serialize_field("match", &self.matches)?;
        entry.serialize_field("not_match", &self.not_matches)?;
        entry.end()
    }
}

impl JsonSchema for ListEntry {
    fn schema_name() -> Cow<'static, str> {
        "ListEntry".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let examples = |description: &str| json_schema!({ "type": "array", "items": { "type": "string" }, "description": description });
        json_schema!({
            "description": "A rule, or a rule with examples that are checked at each start.",
            "anyOf": [
                { "type": "string" },
                {
                    "type": "object",
                    "properties": {
                        "rule": { "type": "string", "description": "The rule." },
                        "match": examples("Texts that the rule must match."),
                        "not_match": examples("Texts that the rule must not match.")
                    },
                    "required": ["rule"],
                    "additionalProperties": false
                }
            ]
        })
    }
}

const FIELDS: &[&str] = &["rule", "match", "not_match"];

impl<'de> Deserialize<'de> for ListEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = ListEntry;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "a string (quoted if it looks like another type), or a mapping with `rule`, `match` and \
             `not_match`",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ListEntry, E> {
        Ok(text.into())
    }

    fn visit_string<E: Error>(self, text: String) -> Result<ListEntry, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ListEntry, A::Error> {
        let (mut rule, mut matches, mut not_matches) = (None, None, None);
        while let Some(key) = map.next_key::<String>()? {
            let duplicate = match key.as_str() {
                "rule" => rule.replace(map.next_value::<String>()?).is_some(),
                "match" => matches.replace(map.next_value::<Vec<String>>()?).is_some(),
                "not_match" => not_matches.replace(map.next_value::<Vec<String>>()?).is_some(),
                _ => return Err(A::Error::unknown_field(&key, FIELDS)),
            };
            if duplicate {
                return Err(A::Error::custom(format!("`{key}` occurs twice in one entry")));
            }
        }
        Ok(ListEntry {
            rule: rule.ok_or_else(|| A::Error::missing_field("rule"))?,
            matches: matches.unwrap_or_default(),
            not_matches: not_matches.unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_entry_is_a_text_or_a_mapping_with_examples() {
        let read = |text: &str| serde_json::from_str::<ListEntry>(text);
        assert_eq!(read(r#""a""#).unwrap(), "a".into());
        let entry =
            read(r#"{"rule": "git push", "match": ["git push x"], "not_match": ["git pull"]}"#).unwrap();
        assert_eq!((entry.matches.len(), entry.not_matches.len()), (1, 1));
        assert_eq!(read(&serde_json::to_string(&entry).unwrap()).unwrap(), entry);
        for (text, expected) in [
            (r#"{"match": ["a"]}"#, "missing field `rule`"),
            (r#"{"rule": "a", "matches": []}"#, "unknown field `matches`"),
            ("5", "quoted"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn every_list_has_the_key_under_which_it_is_read() {
        for list in List::ALL {
            let (key, below) = list.key().split_once('.').unwrap_or((list.key(), ""));
            let list_of_one = if below.is_empty() { json!(["x"]) } else { json!({ below: ["x"] }) };
            let profile: ProfileSource = serde_json::from_value(json!({ key: list_of_one })).unwrap();
            assert_eq!(list.of(&profile), Some(&vec!["x".into()]), "{list:?}");
            assert_eq!(List::ALL.iter().filter(|other| other.of(&profile).is_some()).count(), 1);
            let asks_about_more = list == List::AutoRunPaths;
            assert_eq!(list.denies(), list.key().contains("deny") || asks_about_more, "{list:?}");
        }
    }
}
