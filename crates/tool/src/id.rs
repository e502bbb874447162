//! Ids of calls and sessions.

use serde::{Deserialize, Serialize};

/// Id of one call, used in the response, in the audit and in every reference to the call's output.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(pub String);

/// Id of the session between one door and one client: a connection, or one run of the command line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionId(pub String);

impl std::fmt::Display for CallId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::fmt::Display for SessionId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Minimum number of characters by which the end of an id names it.
const LAST_CHARACTERS: usize = 4;

/// Minimum number of characters of an id's short form. With eight hexadecimal digits, an id among a
/// million has a twin with a probability of 0.02 %.
const SHORT_FORM: usize = 8;

/// Returns true if `typed` names this id: the whole id, its beginning, or at least four characters of
/// its end.
///
/// Ids begin with their time, so ids of one day share their beginnings and differ in their ends.
pub fn names_id(typed: &str, id: &str) -> bool {
    let is_end = typed.len() >= LAST_CHARACTERS && id.ends_with(typed);
    !typed.is_empty() && (id.starts_with(typed) || is_end)
}

/// Returns the short form of each id: its last characters, at least eight, as many as tell the ids apart.
pub fn short_ids(ids: &[&str]) -> Vec<String> {
    let end = |id: &str, length: usize| {
        let start = id.char_indices().rev().nth(length - 1).map_or(0, |(start, _)| start);
        id.get(start..).unwrap_or(id).to_owned()
    };
    let longest = ids.iter().map(|id| id.chars().count()).max().unwrap_or(SHORT_FORM).max(SHORT_FORM);
    let is_unique = |length: &usize| {
        let ends: std::collections::HashSet<String> = ids.iter().map(|id| end(id, *length)).collect();
        let different: std::collections::HashSet<&&str> = ids.iter().collect();
        ends.len() == different.len()
    };
    let length = (SHORT_FORM..=longest).find(is_unique).unwrap_or(longest);
    ids.iter().map(|id| end(id, length)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_named_by_itself_its_beginning_or_its_end() {
        let id = "019b2c3d4e5f60718293a4";
        for names in [id, "0", "019b", "019b2c3d4e5f60", "93a4", "718293a4"] {
            assert!(names_id(names, id), "{names}");
        }
        for other in ["", "a4", "3a4", "2c3d4e", "93a5", "019b2c3d4e5f60718293a4b"] {
            assert!(!names_id(other, id), "{other}");
        }
    }

    #[test]
    fn short_forms_are_as_long_as_the_ids_need() {
        assert_eq!(short_ids(&["0000aaaaaaaa", "0000bbbbbbbb"]), ["aaaaaaaa", "bbbbbbbb"]);
        assert_eq!(
            short_ids(&["01aaaaaaaa", "02aaaaaaaa", "00bbbbbbbb"]),
            ["1aaaaaaaa", "2aaaaaaaa", "0bbbbbbbb"]
        );
        assert_eq!(short_ids(&["a1", "0000bbbbbbbb", "0000bbbbbbbb"]), ["a1", "bbbbbbbb", "bbbbbbbb"]);
        assert_eq!(short_ids(&[]), Vec::<String>::new());
    }
}
