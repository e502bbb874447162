//! The repository's own rules, which neither the compiler nor clippy can check.
//!
//! Each rule is a function from the [`Tree`] to its findings, and has a test with a bad tree. Rules
//! read text, not meaning: a rule that would need to resolve names belongs into a lint.

mod circles;
mod documents;
mod edges;
mod names;
mod prose;
mod recursion;
mod sizes;
mod source;
mod tests_that_lie;
mod tools;
mod waivers;

use crate::command::{Failure, Result};
use crate::repository::{File, Package, Repository};
use crate::tidy::source::Source;

/// The input of the rules.
struct Tree {
    files: Vec<File>,
    /// The Rust files among `files`, scanned.
    sources: Vec<(String, Source)>,
    packages: Vec<Package>,
}

/// A violation of a rule, and the fix.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    /// `path` or `path:line`.
    place: String,
    message: String,
}

struct Rule {
    name: &'static str,
    what: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

const RULES: [Rule; 17] = [
    rule("edges", "a crate names only the crates below it", edges::inside),
    rule("circles", "no more files of a crate stand in circles than is listed", circles::check),
    rule("owners", "some outside crates belong to one crate alone", edges::outside),
    rule("unused", "a version stated for the workspace is used in it", edges::unused),
    rule("sizes", "a file stays under 800 lines, above 500 with a reason", sizes::check),
    rule("tools", "a tool is one file, with an example and a denial test", tools::check),
    rule("names", "no Manager, Helper, Util, Common, _v2", names::check),
    rule("comments", "a comment begins with a verb or a noun", prose::openings),
    rule("nouns", "a type is named by a noun", prose::types),
    rule("machine-paths", "no path of the machine it was written on", names::machine_paths),
    rule("waivers", "an allow or expect of a lint says why", waivers::check),
    rule("recursion", "a function that calls itself names what bounds its depth", recursion::check),
    rule("honest-tests", "no ignored test, no sleep in a test", tests_that_lie::check),
    rule("code-map", "docs/ARCHITECTURE.md names every crate", documents::code_map),
    rule("dependencies", "docs/DEPENDENCIES.md has a row for every outside crate", documents::dependencies),
    rule("promises", "a test that a page of promises names is there", documents::promises),
    rule("links", "a link or a path in a document leads somewhere", documents::links),
];

const fn rule(name: &'static str, what: &'static str, check: fn(&Tree) -> Vec<Finding>) -> Rule {
    Rule { name, what, check }
}

/// Checks every rule, and fails with all findings.
pub(crate) fn run(repository: &Repository) -> Result<()> {
    let tree = Tree::new(repository.files()?, repository.packages()?);
    let found: Vec<String> = RULES
        .iter()
        .flat_map(|rule| {
            (rule.check)(&tree)
                .into_iter()
                .map(|finding| format!("{} [{}] {}", finding.place, rule.name, finding.message))
        })
        .collect();
    if found.is_empty() {
        eprintln!("tidy: {} rules hold over {} files", RULES.len(), tree.files.len());
        return Ok(());
    }
    Err(Failure(format!("{} untidy places\n{}", found.len(), found.join("\n"))))
}

/// Returns the rules as a list for `--help`.
pub(crate) fn list() -> String {
    let lines = RULES.iter().map(|rule| format!("  {:<14} {}", rule.name, rule.what));
    format!("Rules:\n{}", lines.collect::<Vec<_>>().join("\n"))
}

impl Tree {
    fn new(files: Vec<File>, packages: Vec<Package>) -> Self {
        let rust = files.iter().filter(|file| has_extension(&file.path, "rs"));
        let sources = rust.map(|file| (file.path.clone(), Source::read(&file.path, &file.text))).collect();
        Self { files, sources, packages }
    }

    fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }
}

impl Finding {
    fn file(path: &str, message: impl Into<String>) -> Self {
        Self { place: path.to_owned(), message: message.into() }
    }

    /// Creates a finding on a line. `line` counts from 0, as iterators do.
    fn line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { place: format!("{path}:{}", line + 1), message: message.into() }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// Builders of bad trees for the tests of the rules.
#[cfg(test)]
mod fixture {
    use super::{Finding, Tree};
    use crate::repository::{Dependency, File, Package};

    pub(super) fn tree(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| File { path: (*path).into(), text: (*text).into() });
        Tree::new(files.collect(), Vec::new())
    }

    pub(super) fn package(name: &str, dependencies: &[Dependency]) -> Package {
        let dependencies = dependencies.iter().map(|d| Dependency { name: d.name.clone(), ..*d });
        Package { name: name.into(), dependencies: dependencies.collect() }
    }

    pub(super) fn inside(name: &str) -> Dependency {
        Dependency { name: name.into(), for_tests: false, in_workspace: true }
    }

    pub(super) fn outside(name: &str) -> Dependency {
        Dependency { name: name.into(), for_tests: false, in_workspace: false }
    }

    pub(super) fn places(findings: &[Finding]) -> Vec<&str> {
        findings.iter().map(|finding| finding.place.as_str()).collect()
    }
}
