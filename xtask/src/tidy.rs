//! The repository's own rules, those that neither the compiler nor clippy can see.
//!
//! Each rule is a function from the [`Tree`] to what is wrong with it, and has a test that feeds it a bad tree.
//! Rules read text, not meaning: a rule that would need to resolve names belongs into a lint.

mod documents;
mod edges;
mod names;
mod sizes;
mod source;
mod tests_that_lie;
mod tools;
mod waivers;

use crate::command::{Failure, Result};
use crate::repository::{File, Package, Repository};
use crate::tidy::source::Source;

/// Everything that the rules look at.
struct Tree {
    files: Vec<File>,
    /// The Rust files among them, read.
    sources: Vec<(String, Source)>,
    packages: Vec<Package>,
}

/// One thing that is wrong, and what to do about it.
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

const RULES: [Rule; 11] = [
    Rule { name: "edges", what: "a crate names only the crates below it", check: edges::inside },
    Rule { name: "owners", what: "some outside crates belong to one crate alone", check: edges::outside },
    Rule {
        name: "sizes",
        what: "a file stays under 800 lines, above 500 with a reason",
        check: sizes::check,
    },
    Rule {
        name: "tools",
        what: "a tool is one file, with an example and a denial test",
        check: tools::check,
    },
    Rule { name: "names", what: "no Manager, Helper, Util, Common, _v2", check: names::check },
    Rule {
        name: "machine-paths",
        what: "no path of the machine it was written on",
        check: names::machine_paths,
    },
    Rule { name: "waivers", what: "an allow or expect of a lint says why", check: waivers::check },
    Rule { name: "honest-tests", what: "no ignored test, no sleep in a test", check: tests_that_lie::check },
    Rule { name: "code-map", what: "docs/ARCHITECTURE.md lists every crate", check: documents::code_map },
    Rule {
        name: "dependencies",
        what: "docs/DEPENDENCIES.md has a line for every outside crate, and no stale one",
        check: documents::dependencies,
    },
    Rule { name: "links", what: "a relative link in a document leads somewhere", check: documents::links },
];

/// Holds every rule, and fails with all that is wrong.
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

/// The rules as a list for `--help`.
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

    /// `line` counts from 0, as iterators do.
    fn line(path: &str, line: usize, message: impl Into<String>) -> Self {
        Self { place: format!("{path}:{}", line + 1), message: message.into() }
    }
}

fn has_extension(path: &str, extension: &str) -> bool {
    std::path::Path::new(path).extension().is_some_and(|found| found == extension)
}

/// What the tests of the rules build their bad trees with.
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
