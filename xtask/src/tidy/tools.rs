//! Rules for tools: one file per tool, with its example, its code and the proof that forbidden
//! calls are denied.

use std::collections::BTreeSet;

use crate::tidy::source::Source;
use crate::tidy::{Finding, Tree};

/// Files of the families that contain no tool, each with its content.
const SHARED: [(&str, &str); 50] = [
    ("crates/tools-data/src/failure.rs", "what the errors of a database become for a caller"),
    ("crates/tools-data/src/skills.rs", "folders with a SKILL.md, and what is said of them"),
    ("crates/tools-data/src/values.rs", "values of a database as JSON, and back"),
    ("crates/tools-knowledge/src/base.rs", "the index of a base, and bringing it up to date"),
    ("crates/tools-knowledge/src/shelf.rs", "the files of a base as a call may see them"),
    ("crates/tools-self/src/vault_failure.rs", "what the errors of the vault become for a caller"),
    ("crates/tools-files/src/matches.rs", "what a search finds in one file"),
    ("crates/tools-files/src/range_read.rs", "reading parts of a file, and looking through all of it"),
    ("crates/tools-files/src/patching.rs", "what a patch makes of the files of the workspace"),
    ("crates/tools-files/src/patching/difference.rs", "the same as a difference that a human is shown"),
    ("crates/tools-files/src/picture.rs", "what a picture is, and which are shown"),
    ("crates/tools-files/src/edit_error.rs", "what is said where a text or a hunk does not fit"),
    ("crates/tools-files/src/rows.rs", "the entries of a listing, as the answer shows them"),
    ("crates/tools-files/src/selection.rs", "which entries a listing or a search is about"),
    ("crates/tools-files/src/diff_preview.rs", "what a call changes, as a difference"),
    ("crates/tools-files/src/text.rs", "bytes as text: line ends and encodings"),
    ("crates/tools-files/src/version.rs", "names for the states of a file"),
    ("crates/tools-shell/src/background.rs", "the start of a command that runs on"),
    ("crates/tools-shell/src/keys.rs", "the names of keys and signals"),
    ("crates/tools-shell/src/network.rs", "what output tells about a missing network"),
    ("crates/tools-shell/src/plain.rs", "output as plain text"),
    ("crates/tools-shell/src/reading.rs", "the output of a session, by bytes or by lines that match"),
    ("crates/tools-shell/src/wording.rs", "how the end of a command is worded"),
    ("crates/tools-web/src/answer.rs", "what a body is to its reader"),
    ("crates/tools-web/src/request.rs", "redirections, what is tried again, and bounds"),
    ("crates/tools-web/src/secret_template.rs", "secrets in queries and bodies"),
    ("crates/tools-web/src/page.rs", "HTML as text and as Markdown"),
    ("crates/tools-web/src/placeholders.rs", "headers with secrets in them"),
    ("crates/tools-web/src/range_resume.rs", "the rest of a body that broke off"),
    ("crates/tools-web/src/saving.rs", "a body into a file"),
    ("crates/tools-work/src/failure.rs", "what the errors of the roots become for a caller"),
    ("crates/tools-work/src/gmail.rs", "the list of what knows Gmail"),
    ("crates/tools-work/src/gmail/addresses.rs", "addresses of mail, read in one way"),
    ("crates/tools-work/src/gmail/api.rs", "one request to Gmail"),
    ("crates/tools-work/src/gmail/compose.rs", "a message as it is sent on"),
    ("crates/tools-work/src/gmail/errors.rs", "what Gmail says against a request"),
    ("crates/tools-work/src/gmail/listing.rs", "which messages a search finds"),
    ("crates/tools-work/src/gmail/message.rs", "what callers get of messages"),
    ("crates/tools-work/src/gmail/oauth.rs", "logins, and what of them lies in the vault"),
    ("crates/tools-work/src/gmail/place.rs", "where Gmail is"),
    ("crates/tools-work/src/gmail/reply.rs", "what ties an answer to a message"),
    ("crates/tools-work/src/gmail/saving.rs", "attachments as files of the workspace"),
    ("crates/tools-work/src/gmail/tokens.rs", "the token of a call"),
    ("crates/tools-work/src/linear.rs", "the list of what knows Linear"),
    ("crates/tools-work/src/linear/answers.rs", "what callers get of issues and comments"),
    ("crates/tools-work/src/linear/api.rs", "one question to Linear"),
    ("crates/tools-work/src/linear/errors.rs", "what Linear says against a question"),
    ("crates/tools-work/src/linear/names.rs", "names as Linear's ids"),
    ("crates/tools-work/src/linear/params.rs", "which parameters go with which action"),
    ("crates/tools-work/src/linear/queries.rs", "every document that is sent"),
];

/// Words that mark the name of a denial test.
const DENIALS: [&str; 3] = ["denied", "denies", "refuse"];

/// Calls that run a tool's worked example and compare its result.
const TRIES_EXAMPLES: [&str; 2] = ["check_family(", "check_tool("];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &SHARED)
}

fn check_with(tree: &Tree, shared: &[(&str, &str)]) -> Vec<Finding> {
    let family = |path: &str| {
        path.starts_with("crates/tools-") && path.contains("/src/") && !path.ends_with("/lib.rs")
    };
    let mut found = Vec::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| family(path)) {
        let listed = shared.iter().any(|(listed, _)| listed == path);
        let tools = source.lines().filter(|(_, line, test)| !test && is_tool(line)).count();
        let mut faults = Vec::new();
        match tools {
            0 if !listed => {
                faults.push("holds no tool: merge it into one, or list it in xtask/src/tidy/tools.rs");
            }
            0 => {}
            1 if listed => faults.push("holds a tool and stands in the list of files that hold none"),
            1 => faults.extend(faults_of_tool(source)),
            _ => faults.push("holds several tools: one file a tool"),
        }
        found.extend(faults.into_iter().map(|fault| Finding::file(path, fault)));
    }
    found.extend(untried_families(tree));
    let gone = shared.iter().filter(|(path, _)| tree.text(path).is_none());
    found
        .extend(gone.map(|(path, _)| Finding::file(path, "stands in tools.rs and is gone: remove its line")));
    found
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

fn faults_of_tool(source: &Source) -> Vec<&'static str> {
    let shipped = || source.lines().filter(|(_, _, test)| !test);
    let denied = source.lines().any(|(_, line, test)| {
        test && line.contains("fn ") && DENIALS.iter().any(|denial| line.contains(denial))
    });
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
        let found = check_with(&tree(&[("crates/tools-x/src/a.rs", text)]), &[]);
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
        assert_eq!(faults(&format!("{GOOD}{GOOD}")), ["holds several tools: one file a tool"]);
    }

    #[test]
    fn a_file_without_a_tool_must_be_listed_and_a_listed_one_must_be_there() {
        let tried = "fn examples_hold() { check_family(x) }";
        let tree = tree(&[
            ("crates/tools-x/src/walk.rs", "fn walk() {}"),
            ("crates/tools-x/tests/family.rs", tried),
        ]);
        assert_eq!(check_with(&tree, &[]).len(), 1);
        assert_eq!(check_with(&tree, &[("crates/tools-x/src/walk.rs", "walks")]), []);
        let gone =
            check_with(&tree, &[("crates/tools-x/src/walk.rs", "walks"), ("crates/tools-x/src/b.rs", "b")]);
        assert_eq!(gone.len(), 1);
    }
}
