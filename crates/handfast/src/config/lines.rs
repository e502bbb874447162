//! Line numbers of each key and each list entry in a configuration.
//!
//! The file is read a second time, as a generic tree. Otherwise every settings type would have to
//! carry positions, and settings that a program creates have none.

use std::fmt;

use policy::Lines;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_saphyr::Spanned;

/// The line numbers of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileLines {
    /// Line numbers within its profiles.
    pub(crate) profiles: Lines,
    keys: Vec<(String, u32)>,
}

impl FileLines {
    /// Returns the line numbers of a text that parsed as settings. If the text does not parse as a
    /// tree, no line is known.
    pub(crate) fn of(text: &str) -> Self {
        let Ok(Node::Map(keys)) = serde_saphyr::from_str::<Node>(text) else { return Self::default() };
        let mut lines = Self::default();
        for (key, value) in keys {
            if let ("sandbox_config", Node::Map(profiles)) = (key.value.as_str(), value) {
                for (profile, value) in profiles {
                    lines.note_profile(&profile.value, value);
                }
            }
            lines.keys.extend(line(&key).map(|line| (key.value, line)));
        }
        lines
    }

    /// Returns the line of a top-level key.
    pub(crate) fn of_key(&self, key: &str) -> Option<u32> {
        self.keys.iter().find(|(known, _)| known == key).map(|(_, line)| *line)
    }

    fn note_profile(&mut self, profile: &str, value: Node) {
        let Node::Map(keys) = value else { return };
        for (key, value) in keys {
            let Some(at) = line(&key) else { continue };
            let entries = match value {
                Node::List(lines) => lines,
                Node::Map(limits) if key.value == "limits" => {
                    // The keys below `limits` are recorded under the profile itself.
                    for (limit, _) in limits {
                        if let Some(at) = line(&limit) {
                            self.profiles.note(profile, &limit.value, at, Vec::new());
                        }
                    }
                    Vec::new()
                }
                Node::Map(lists) => {
                    for (list, value) in lists {
                        let Some(at) = line(&list) else { continue };
                        let entries = if let Node::List(lines) = value { lines } else { Vec::new() };
                        self.profiles.note(profile, &format!("{}.{}", key.value, list.value), at, entries);
                    }
                    Vec::new()
                }
                Node::Other => Vec::new(),
            };
            self.profiles.note(profile, &key.value, at, entries);
        }
    }
}

fn line<T>(spanned: &Spanned<T>) -> Option<u32> {
    u32::try_from(spanned.referenced.line()).ok().filter(|line| *line > 0)
}

/// A value, reduced to its keys and entries.
enum Node {
    Map(Vec<(Spanned<String>, Node)>),
    /// The line of each entry.
    List(Vec<u32>),
    Other,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("anything")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut keys = Vec::new();
        while let Some(entry) = map.next_entry()? {
            keys.push(entry);
        }
        Ok(Node::Map(keys))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut lines = Vec::new();
        while let Some(entry) = list.next_element::<Spanned<IgnoredAny>>()? {
            lines.push(line(&entry).unwrap_or_default());
        }
        Ok(Node::List(lines))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_str<E>(self, _: &str) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_entries_are_found_on_their_lines() {
        let lines = FileLines::of(
            "# a comment\nmode: smart_auto\nsandbox_config:\n  normal:\n    mode: full_auto\n    deny_read_paths:\n      - .env\n\
             \n      - rule: \"*.key\"\n        match: [a.key]\n    deny_hosts: [a.org,\n      b.org]\n    limits:\n      cpus: 2\n    \
             git_push:\n      deny: [main]\n      allow:\n        - a\n        - b\n",
        );
        assert_eq!((lines.of_key("mode"), lines.of_key("profile")), (Some(2), None));
        let profiles = &lines.profiles;
        assert_eq!(profiles.of_key("normal", "mode"), Some(5));
        assert_eq!(profiles.of_key("normal", "cpus"), Some(14));
        let entry = |key, position| profiles.of_entry("normal", key, position);
        assert_eq!([entry("deny_read_paths", 0), entry("deny_read_paths", 1)], [Some(7), Some(9)]);
        let allowed = [entry("git_push.allow", 0), entry("git_push.allow", 1), entry("git_push.deny", 0)];
        assert_eq!(
            (allowed, profiles.of_key("normal", "git_push")),
            ([Some(18), Some(19), Some(16)], Some(15))
        );
        assert_eq!(
            [entry("deny_hosts", 0), entry("deny_hosts", 1), entry("deny_hosts", 2)],
            [Some(11), Some(12), None]
        );
    }

    #[test]
    fn anchors_and_merges_have_some_line_or_none() {
        let lines = FileLines::of("sandbox_config:\n  a: &a\n    deny_hosts: [x.org]\n  b: *a\n");
        assert_eq!(lines.profiles.of_entry("a", "deny_hosts", 0), Some(3));
        FileLines::of("a: [");
    }
}
