//! Rules for tools: one file per tool, with its example, its code and the proof that forbidden
//! calls are denied.

use std::collections::BTreeSet;

use crate::tidy::source::Source;
use crate::tidy::{Finding, Tree};

/// Words that mark the name of a denial test.
const DENIALS: [&str; 3] = ["denied", "denies", "refuse"];

/// Calls that run a tool's worked example and compare its result.
const TRIES_EXAMPLES: [&str; 2] = ["check_family(", "check_tool("];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_shipped = |path: &str| {
        path.starts_with("crates/tools-") && path.contains("/src/") && !path.ends_with("/lib.rs")
    };
    let mut found = Vec::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| is_shipped(path)) {
        let faults = match source.lines().filter(|(_, line, test)| !test && is_tool(line)).count() {
            0 => continue,
            1 => faults_of_tool(source, tests_of(tree, path)),
            _ => vec!["contains several tools: one file a tool"],
        };
        found.extend(faults.into_iter().map(|fault| Finding::file(path, fault)));
    }
    found.extend(untried_families(tree));
    found
}

/// Returns the file with the tests of a source file, if they are not in the file itself.
fn tests_of<'a>(tree: &'a Tree, path: &str) -> Option<&'a Source> {
    let tests = format!("{}/tests.rs", path.strip_suffix(".rs")?);
    tree.sources.iter().find_map(|(path, source)| (*path == tests).then_some(source))
}

/// Reports families whose worked examples no test runs.
fn untried_families(tree: &Tree) -> Vec<Finding> {
    let family =
        |path: &str| path.split('/').nth(1).filter(|name| name.starts_with("tools-")).map(str::to_owned);
    let families: BTreeSet<String> = tree.sources.iter().filter_map(|(path, _)| family(path)).collect();
    let tried = |name: &String| {
        let sources = tree.sources.iter().filter(|(path, _)| family(path).as_ref() == Some(name));
        sources
            .flat_map(|(_, source)| source.lines())
            .any(|(_, line, test)| test && TRIES_EXAMPLES.iter().any(|call| line.contains(call)))
    };
    let untried = families.iter().filter(|name| !tried(name));
    untried
        .map(|name| {
            Finding::file(&format!("crates/{name}"), "no test runs its examples: call testkit::check_family")
        })
        .collect()
}

fn is_tool(line: &str) -> bool {
    line.contains("impl Tool for") || line.contains("impl tool::Tool for")
}

fn faults_of_tool(source: &Source, tests: Option<&Source>) -> Vec<&'static str> {
    let shipped = || source.lines().filter(|(_, _, test)| !test);
    let is_denial = |line: &str| line.contains("fn ") && DENIALS.iter().any(|denial| line.contains(denial));
    let denied = source.lines().any(|(_, line, test)| test && is_denial(line))
        || tests.is_some_and(|tests| tests.lines().any(|(_, line, _)| is_denial(line)));
    let mut faults = Vec::new();
    if !shipped().any(|(_, line, _)| line.contains("Example {")) {
        faults.push("its tool has no worked example");
    }
    if !denied {
        faults.push("has no test of what it must not do: its name says `refuses` or `denied`");
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::tree;

    const GOOD: &str = "impl Tool for Read {\n    const SPEC: Spec = Spec { example: Example { files: &[] } };\n}\n\
                        #[cfg(test)]\nmod tests {\n    #[test]\n    fn read_refuses_a_fifo() { check_tool(Read) }\n}\n";

    fn faults(text: &str) -> Vec<String> {
        let found = check(&tree(&[("crates/tools-x/src/a.rs", text)]));
        found.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_whole_tool_passes() {
        assert_eq!(faults(GOOD), Vec::<String>::new());
    }

    #[test]
    fn a_tool_without_an_example_is_refused() {
        assert_eq!(faults(&GOOD.replace("Example {", "{")), ["its tool has no worked example"]);
    }

    #[test]
    fn a_tool_without_a_denial_test_is_refused() {
        let found = faults(&GOOD.replace("refuses", "reads"));
        assert_eq!(found, ["has no test of what it must not do: its name says `refuses` or `denied`"]);
        let shipped = faults(&GOOD.replace("#[cfg(test)]", ""));
        assert_eq!(
            shipped.len(),
            2,
            "what ships is no test, neither of denials nor of examples: {shipped:?}"
        );
    }

    #[test]
    fn a_family_whose_examples_nothing_runs_is_refused() {
        let found = faults(&GOOD.replace("check_tool", "look_at"));
        assert_eq!(found, ["no test runs its examples: call testkit::check_family"]);
    }

    #[test]
    fn two_tools_in_a_file_are_refused() {
        assert_eq!(faults(&format!("{GOOD}{GOOD}")), ["contains several tools: one file a tool"]);
    }

    #[test]
    fn the_tests_of_a_tool_may_have_their_own_file() {
        let (tool, tests) = GOOD.split_once("#[cfg(test)]").unwrap();
        let found = |tests: &str| {
            check(&tree(&[("crates/tools-x/src/a.rs", tool), ("crates/tools-x/src/a/tests.rs", tests)])).len()
        };
        let examples = "\n#[cfg(test)]\nmod more { fn examples() { check_tool(Read) } }";
        assert_eq!(found(&format!("{tests}{examples}")), 0);
        assert_eq!(found(&format!("{}{examples}", tests.replace("refuses", "reads"))), 1);
    }
}
