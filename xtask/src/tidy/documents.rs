//! Rules for documents that must stay in step with the code.

use std::collections::BTreeSet;

use crate::tidy::{Finding, Tree, has_extension};

const CODE_MAP: &str = "docs/ARCHITECTURE.md";
const DEPENDENCIES: &str = "docs/DEPENDENCIES.md";
/// Folder of the pages that `cargo xtask docs` writes.
const GENERATED: &str = "docs/tools/";
/// Pages whose lines refer to tests.
const PROMISES: [&str; 2] = ["docs/GUARANTEES.md", "docs/THREAT_MODEL.md"];

/// Requires that the code map names every crate, as `` `crates/NAME` `` or `` `NAME` ``.
pub(super) fn code_map(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(CODE_MAP) else {
        return vec![Finding::file(CODE_MAP, "is missing")];
    };
    let named =
        |name: &str| text.contains(&format!("`{name}`")) || text.contains(&format!("`crates/{name}`"));
    let missing = tree.packages.iter().filter(|package| !named(&package.name));
    missing
        .map(|package| Finding::file(CODE_MAP, format!("does not name the crate `{}`", package.name)))
        .collect()
}

/// Requires a row `` | `NAME` | … | `` for every direct outside dependency, and a dependency for
/// every row.
pub(super) fn dependencies(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(DEPENDENCIES) else {
        return vec![Finding::file(DEPENDENCIES, "is missing")];
    };
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let listed: BTreeSet<&str> = rows.map(|(name, _)| name).collect();
    let all = tree.packages.iter().flat_map(|package| &package.dependencies);
    let used: BTreeSet<&str> = all
        .filter(|dependency| !dependency.in_workspace)
        .map(|dependency| dependency.name.as_str())
        .collect();
    let missing = used.difference(&listed).map(|name| format!("has no row for `{name}`"));
    let stale = listed.difference(&used).map(|name| format!("has a row for `{name}`, which nothing uses"));
    missing.chain(stale).map(|message| Finding::file(DEPENDENCIES, message)).collect()
}

/// Requires that the tests named on the pages of promises exist.
///
/// A test's name is a sentence, so text in backticks with three underscores or more is the name of
/// a test.
pub(super) fn promises(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let declared = |name: &str| {
        let declaration = format!("fn {name}(");
        tree.sources.iter().flat_map(|(_, source)| &source.code).any(|line| line.contains(&declaration))
    };
    for file in tree.files.iter().filter(|file| PROMISES.contains(&file.path.as_str())) {
        for (number, line) in file.text.lines().enumerate() {
            let names = in_backticks(line).filter_map(|span| span.rsplit("::").next()).filter(|name| {
                name.matches('_').count() >= 3 && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
            });
            let gone = names.filter(|name| !declared(name));
            found.extend(gone.map(|name| {
                Finding::line(&file.path, number, format!("names the test {name}, which is not there"))
            }));
        }
    }
    found
}

fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Requires that links to files of this repository, and its paths in backticks, lead to an existing
/// file or folder.
pub(super) fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for file in tree.files.iter().filter(|file| has_extension(&file.path, "md")) {
        for (number, line) in file.text.lines().enumerate() {
            let linked = link_targets(line).map(|target| (file.path.as_str(), target));
            // The worked examples on the generated pages refer to a workspace of their own.
            let ours = !file.path.starts_with(GENERATED);
            let named = in_backticks(line).filter(|span| ours && is_path(span)).map(|path| ("", path));
            let gone = linked.chain(named).filter(|(from, target)| !leads_somewhere(tree, from, target));
            found.extend(gone.map(|(_, target)| {
                Finding::line(&file.path, number, format!("names {target}, which is not there"))
            }));
        }
    }
    found
}

fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target);
    targets.filter(|target| !target.contains("://") && !target.starts_with(['#', '<']))
}

/// Returns true if the text is a path of the repository, rather than a pattern of paths such as
/// `crates/NAME/*.rs`.
fn is_path(span: &str) -> bool {
    let placeholder = |part: &str| !has_extension(part, "md") && part.split(['-', '.']).any(is_placeholder);
    ["crates/", "docs/", "tests/", "xtask/"].iter().any(|folder| span.starts_with(folder))
        && !span.contains(['*', '<', ' ', ':'])
        && !span.split('/').any(placeholder)
}

fn is_placeholder(word: &str) -> bool {
    word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase())
}

fn leads_somewhere(tree: &Tree, from: &str, target: &str) -> bool {
    let target = target.split('#').next().unwrap_or_default();
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                if parts.pop().is_none() {
                    return false;
                }
            }
            name => parts.push(name),
        }
    }
    let path = parts.join("/");
    tree.files.iter().any(|file| {
        file.path
            .strip_prefix(&path)
            .is_some_and(|rest| rest.is_empty() || path.is_empty() || rest.starts_with('/'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{inside, outside, package, places, tree};

    #[test]
    fn a_crate_that_the_code_map_forgets_is_named() {
        let mut tree = tree(&[(CODE_MAP, "`crates/tool` and `engine`, but roots only in passing")]);
        tree.packages = vec![package("tool", &[]), package("engine", &[]), package("roots", &[])];
        assert_eq!(code_map(&tree), [Finding::file(CODE_MAP, "does not name the crate `roots`")]);
    }

    #[test]
    fn a_dependency_without_a_row_and_a_row_without_a_dependency_are_named() {
        let mut tree = tree(&[(DEPENDENCIES, "| `serde` | reads |\n| `sqlx` | gone |\nThe `libc` crate.")]);
        tree.packages = vec![package("tool", &[outside("serde"), outside("libc"), inside("roots")])];
        assert_eq!(
            dependencies(&tree),
            [
                Finding::file(DEPENDENCIES, "has no row for `libc`"),
                Finding::file(DEPENDENCIES, "has a row for `sqlx`, which nothing uses"),
            ]
        );
    }

    #[test]
    fn missing_documents_are_named() {
        let tree = tree(&[]);
        assert_eq!(places(&code_map(&tree)), [CODE_MAP]);
        assert_eq!(places(&dependencies(&tree)), [DEPENDENCIES]);
    }

    #[test]
    fn a_promise_whose_test_is_gone_is_named() {
        let page = "| whole or old | `write_is_whole_or_old_after_a_kill` |\n| gone | `tools::tests::nobody_holds_this_now` |\n\
                    `file_read` and `self_list_capabilities` are tools.";
        let code = "#[test]\nfn write_is_whole_or_old_after_a_kill() {}\n// fn nobody_holds_this_now() {}";
        let tree = tree(&[("docs/GUARANTEES.md", page), ("tests/durability/kill.rs", code)]);
        assert_eq!(places(&promises(&tree)), ["docs/GUARANTEES.md:2"]);
    }

    #[test]
    fn a_path_in_backticks_that_is_not_there_is_named() {
        let text = "`crates/tool/src/spec.rs`, `crates/tools-*/src/x.rs`, `crates/tools-NAME/src/TOOL.rs`, `docs/`\n`docs/GONE.md`\n`crates/gone`";
        let tree = tree(&[("CONTRIBUTING.md", text), ("crates/tool/src/spec.rs", ""), ("docs/a.md", "")]);
        assert_eq!(places(&links(&tree)), ["CONTRIBUTING.md:2", "CONTRIBUTING.md:3"]);
    }

    #[test]
    fn a_link_that_leads_nowhere_is_named() {
        let text = "[a](../README.md), [b](tools/#x), [c](https://example.org/gone)\n[d](gone.md) [e](../../up.md)\n[f](#here)";
        let tree = tree(&[("docs/a.md", text), ("README.md", ""), ("docs/tools/x.md", "")]);
        assert_eq!(places(&links(&tree)), ["docs/a.md:2", "docs/a.md:2"]);
    }
}
