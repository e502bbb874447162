//! Names and levels over whole lists of servers.

use std::collections::{BTreeMap, BTreeSet};

use mcp_client::names::{ForeignName, LONGEST_NAME, offered_names};
use proptest::prelude::*;

fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z][a-z0-9_-]{0,12}".prop_map(String::from),
        "[a-cA-C_.]{1,6}".prop_map(String::from),
        "[a_]{1,80}".prop_map(String::from),
        any::<String>().prop_map(|text| text.chars().take(90).collect()),
    ]
}

proptest! {
    #[test]
    fn names_are_valid_and_tell_all_tools_apart(
        pairs in prop::collection::vec((part(), part()), 1..40),
        reserved in prop::collection::btree_set("[a-c]__[a-c_]{1,3}", 0..5),
        longest in prop_oneof![Just(LONGEST_NAME), Just(49), Just(10), Just(1_000)],
    ) {
        let tools: Vec<ForeignName> =
            pairs.into_iter().map(|(server, tool)| ForeignName { server, tool }).collect();
        let names = offered_names(&tools, &reserved, longest);
        prop_assert_eq!(names.len(), tools.len());
        let mut owners: BTreeMap<String, &ForeignName> = BTreeMap::new();
        for (name, tool) in names.iter().zip(&tools) {
            prop_assert!(name.len() <= longest.max(24), "{}", name);
            prop_assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'), "{}", name);
            prop_assert!(name.starts_with(|character: char| character.is_ascii_alphabetic()), "{}", name);
            prop_assert!(!reserved.contains(name));
            let owner = owners.entry(name.to_lowercase()).or_insert(tool);
            prop_assert_eq!(*owner, tool, "{} has two tools", name);
        }
        // The order of the list does not count.
        let mut turned = tools.clone();
        turned.reverse();
        let mut again = offered_names(&turned, &reserved, longest);
        again.reverse();
        prop_assert_eq!(&again, &names);
    }

    #[test]
    fn a_further_server_changes_no_name(
        tools in prop::collection::vec("[a-z_.]{1,70}", 1..10),
        others in prop::collection::vec("[a-z_.]{1,70}", 1..10),
    ) {
        let named = |server: &str, tools: &[String]| -> Vec<ForeignName> {
            tools.iter().map(|tool| ForeignName { server: server.to_owned(), tool: tool.clone() }).collect()
        };
        let first = named("one", &tools);
        let alone = offered_names(&first, &BTreeSet::new(), LONGEST_NAME);
        let both: Vec<ForeignName> = first.iter().cloned().chain(named("two", &others)).collect();
        let together = offered_names(&both, &BTreeSet::new(), LONGEST_NAME);
        prop_assert_eq!(&together[..first.len()], &alone[..]);
    }
}
