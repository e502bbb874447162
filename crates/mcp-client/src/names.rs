//! Names of foreign tools: `server__tool`, in a form that every client accepts.
//!
//! A name depends on its own server and tool alone, so no other server can change it. The one exception
//! is a collision of short hashes, which only a server that looks for one can bring about.

use std::collections::BTreeSet;

/// Maximum length of a name, in bytes: the pattern of `OpenAI`'s and Anthropic's interfaces ends at 64.
pub const LONGEST_NAME: usize = 64;

/// Minimum of the maximum length: a name with its hash and something of the server and the tool.
const SHORTEST_LIMIT: usize = 24;

/// Separator of server and tool.
const SEPARATOR: &str = "__";

/// Number of characters of a short hash. Each stands for five bits.
const HASH_CHARACTERS: usize = 8;

/// Maximum length of the server's part of a name that was cut, in bytes.
const LONGEST_SERVER_PART: usize = 20;

/// Alphabet of short hashes, without letters that look like digits.
const ALPHABET: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Foreign tool, by the names that its server and the configuration give.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignName {
    /// Key of the server in the configuration.
    pub server: String,
    /// Name of the tool at the server.
    pub tool: String,
}

/// Returns the name for each tool, in the order of the list.
///
/// Equal entries get equal names; different entries get different ones. Every name consists of ASCII letters,
/// digits, `_` and `-`, begins with a letter, and has at most `longest` bytes, of which at least 24 are used.
/// No name is one of `reserved`, the names of the caller's own tools.
pub fn offered_names(tools: &[ForeignName], reserved: &BTreeSet<String>, longest: usize) -> Vec<String> {
    let longest = longest.max(SHORTEST_LIMIT);
    // A name that needs no change goes first, so no other name can displace it. Some clients compare names
    // without their case; of two that differ in nothing else, the one in lower case stays.
    let mut order: Vec<&ForeignName> = tools.iter().collect();
    let has_capitals = |name: &ForeignName| name.tool.bytes().any(|byte| byte.is_ascii_uppercase());
    order.sort_by_key(|name| (plain(name, longest).is_none(), has_capitals(name), *name));
    order.dedup();
    let mut taken: BTreeSet<String> = reserved.iter().map(|name| name.to_ascii_lowercase()).collect();
    let mut named: Vec<(&ForeignName, String)> = Vec::with_capacity(order.len());
    for foreign in order {
        let mut attempt = 0;
        let mut name = plain(foreign, longest).unwrap_or_else(|| hashed(foreign, longest, attempt));
        while !taken.insert(name.to_ascii_lowercase()) {
            attempt += 1;
            name = hashed(foreign, longest, attempt);
        }
        named.push((foreign, name));
    }
    named.sort();
    let name_of = |foreign: &ForeignName| {
        let found = named.binary_search_by(|(other, _)| (*other).cmp(foreign));
        found.ok().and_then(|index| named.get(index)).map(|(_, name)| name.clone()).unwrap_or_default()
    };
    tools.iter().map(name_of).collect()
}

/// Returns the name without a hash; `None` if it would not be valid or not be unambiguous.
///
/// INVARIANT: the first separator of such a name is the one between server and tool, so different tools
/// have different names here.
fn plain(foreign: &ForeignName, longest: usize) -> Option<String> {
    let ForeignName { server, tool } = foreign;
    let valid = |part: &str| !part.is_empty() && part.bytes().all(is_valid);
    let is_unambiguous = !server.contains(SEPARATOR) && !server.ends_with('_');
    let begins_well = server.starts_with(|character: char| character.is_ascii_alphabetic());
    let length = server.len() + SEPARATOR.len() + tool.len();
    (valid(server) && valid(tool) && is_unambiguous && begins_well && length <= longest)
        .then(|| format!("{server}{SEPARATOR}{tool}"))
}

fn hashed(foreign: &ForeignName, longest: usize, attempt: u64) -> String {
    let hash = short_hash(foreign, attempt);
    let cleaned = |part: &str| -> String {
        let part = part.chars().map(|c| if c.is_ascii() && is_valid_character(c) { c } else { '_' });
        let mut part: String = part.take(longest).collect();
        while part.contains(SEPARATOR) {
            part = part.replace(SEPARATOR, "_");
        }
        part.trim_matches(['_', '-']).to_owned()
    };
    let mut server = cleaned(&foreign.server);
    if !server.starts_with(|character: char| character.is_ascii_alphabetic()) {
        server.insert_str(0, "s_");
        server.truncate(longest);
    }
    let tool = cleaned(&foreign.tool);
    let around = 2 * SEPARATOR.len() - 1 + HASH_CHARACTERS;
    let room = longest.saturating_sub(around);
    // The tool says more than the server does, so the server is cut first.
    let server_room = room.saturating_sub(tool.len()).max(LONGEST_SERVER_PART.min(room / 2));
    server.truncate(server_room);
    let server = server.trim_end_matches(['_', '-']);
    let tool = tool.get(..room.saturating_sub(server.len()).min(tool.len())).unwrap_or_default();
    format!("{server}{SEPARATOR}{tool}_{hash}")
}

fn short_hash(foreign: &ForeignName, attempt: u64) -> String {
    let mut hasher = blake3::Hasher::new();
    // The length keeps `a` + `bc` apart from `ab` + `c`.
    hasher.update(&foreign.server.len().to_le_bytes());
    hasher.update(foreign.server.as_bytes());
    hasher.update(foreign.tool.as_bytes());
    hasher.update(&attempt.to_le_bytes());
    let letter = |byte: &u8| ALPHABET.get(usize::from(byte % 32)).copied().map(char::from);
    hasher.finalize().as_bytes().iter().filter_map(letter).take(HASH_CHARACTERS).collect()
}

fn is_valid(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

fn is_valid_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_' || character == '-'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pairs: &[(&str, &str)]) -> Vec<String> {
        offered_names(&foreign(pairs), &BTreeSet::new(), LONGEST_NAME)
    }

    fn foreign(pairs: &[(&str, &str)]) -> Vec<ForeignName> {
        let name = |(server, tool): &(&str, &str)| ForeignName {
            server: (*server).to_owned(),
            tool: (*tool).to_owned(),
        };
        pairs.iter().map(name).collect()
    }

    #[test]
    fn ordinary_names_keep_their_parts() {
        assert_eq!(
            names(&[("filesystem", "read_file"), ("brave-search", "brave_web_search"), ("time", "getTime")]),
            ["filesystem__read_file", "brave-search__brave_web_search", "time__getTime"]
        );
    }

    #[test]
    fn names_that_would_be_ambiguous_or_invalid_get_a_hash() {
        let found = names(&[
            ("a", "b__c"),
            ("a__b", "c"),
            ("a_", "b"),
            ("a", "_b"),
            ("x", "get.time"),
            ("x", "get time"),
        ]);
        assert_eq!(found[0], "a__b__c");
        assert!(found[1].starts_with("a_b__c_"), "{found:?}");
        assert!(found[2].starts_with("a__b_"), "{found:?}");
        assert_eq!(found[3], "a___b");
        assert!(found[4].starts_with("x__get_time_") && found[5].starts_with("x__get_time_"));
        assert_eq!(found.iter().collect::<BTreeSet<_>>().len(), 6, "{found:?}");
    }

    #[test]
    fn a_long_name_is_cut_and_its_hash_does_not_depend_on_others() {
        let long = "t".repeat(200);
        let alone = names(&[("server", &long)]);
        assert_eq!(alone[0].len(), LONGEST_NAME);
        let beside = names(&[("other", "x"), ("server", &long), ("server", &format!("{long}t"))]);
        assert_eq!(alone[0], beside[1]);
        assert_ne!(beside[1], beside[2]);
        let both = names(&[(&"s".repeat(90), &long)]);
        assert!(both[0].len() <= LONGEST_NAME && both[0].contains("__ttt"), "{both:?}");
    }

    #[test]
    fn a_name_of_ours_is_never_given_away() {
        let reserved = BTreeSet::from(["mcp__call".to_owned()]);
        let found = offered_names(&foreign(&[("mcp", "call")]), &reserved, LONGEST_NAME);
        assert!(found[0].starts_with("mcp__call_"), "{found:?}");
    }

    #[test]
    fn a_tool_cannot_take_the_hashed_name_of_another() {
        let victim = names(&[("s", "get.time")]);
        let stolen = victim[0].strip_prefix("s__").unwrap().to_owned();
        let found = names(&[("s", "get.time"), ("s", &stolen)]);
        assert_ne!(found[0], found[1]);
        assert_eq!(found[1], victim[0], "a valid name stays as its server wrote it");
    }

    #[test]
    fn names_that_differ_only_in_case_stay_apart_for_clients_that_ignore_it() {
        let found = names(&[("s", "read"), ("s", "Read")]);
        assert_ne!(found[0].to_lowercase(), found[1].to_lowercase());
        assert_eq!(found[0], "s__read");
    }
}
