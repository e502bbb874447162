//! A rule against circles of files: within a crate, files that need each other cannot be read, tested
//! or moved one at a time.
//!
//! The rule counts per crate how many files stand in circles. [`ALLOWED`] has the present counts, which
//! may only shrink. A file and the files in its folder count as one subject, so a reference between
//! these is no part of a circle.

mod references;

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{Finding, Tree};
use references::Module;

/// Number of files that stand in circles, for each crate that has such files.
const ALLOWED: &[(&str, usize)] = &[
    ("checkpoint", 14),
    ("database", 8),
    ("dialects", 2),
    ("egress", 5),
    ("engine", 2),
    ("handfast", 2),
    ("policy", 20),
    ("retrieval", 2),
    ("simd", 3),
    ("store-sqlite", 7),
    ("tools-files", 2),
    ("tools-web", 6),
    ("tools-work", 2),
    ("vault", 2),
    ("watch", 3),
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[(&str, usize)]) -> Vec<Finding> {
    let crates = modules_by_crate(tree);
    let mut found = Vec::new();
    for (name, modules) in &crates {
        let circles = circles(modules);
        let files: usize = circles.iter().map(Vec::len).sum();
        let limit = allowed.iter().find(|(listed, _)| listed == name).map_or(0, |(_, files)| *files);
        let place = format!("crates/{name}");
        if files > limit {
            let shown: Vec<_> = circles.iter().map(|circle| shown(circle, modules)).collect();
            let message = format!("{files} files stand in circles, {limit} at most: {}", shown.join("; "));
            found.push(Finding::file(&place, message));
        } else if files < limit {
            let message = format!(
                "{files} files stand in circles: lower {limit} to {files} in xtask/src/tidy/circles.rs"
            );
            found.push(Finding::file(&place, message));
        }
    }
    let gone = allowed.iter().filter(|(name, _)| !crates.contains_key(name));
    found.extend(gone.map(|(name, _)| {
        Finding::file(&format!("crates/{name}"), "is not there: remove its line in xtask/src/tidy/circles.rs")
    }));
    found
}

fn modules_by_crate(tree: &Tree) -> BTreeMap<&str, Vec<Module<'_>>> {
    let mut crates: BTreeMap<&str, Vec<Module<'_>>> = BTreeMap::new();
    for (path, source) in &tree.sources {
        let Some((name, file)) = path.strip_prefix("crates/").and_then(|rest| rest.split_once("/src/"))
        else {
            continue;
        };
        // A program beside the library is a crate of its own, of one file.
        let is_program = file == "main.rs" || file.starts_with("bin/");
        if !is_program && !source.in_test.iter().all(|in_test| *in_test) {
            crates.entry(name).or_default().push(Module::read(file, source));
        }
    }
    crates
}

/// Returns the circles among the modules of one crate, each as the indexes of its modules.
fn circles(modules: &[Module<'_>]) -> Vec<Vec<usize>> {
    let edges: Vec<BTreeSet<usize>> = modules.iter().map(|module| module.needs(modules)).collect();
    let reached: Vec<BTreeSet<usize>> = (0..modules.len()).map(|from| reached(from, &edges)).collect();
    let mut circles: Vec<Vec<usize>> = Vec::new();
    for (from, beyond) in reached.iter().enumerate() {
        if beyond.contains(&from) && !circles.iter().any(|circle| circle.contains(&from)) {
            let comes_back = |to: &&usize| reached.get(**to).is_some_and(|back| back.contains(&from));
            circles.push(beyond.iter().filter(comes_back).copied().collect());
        }
    }
    circles
}

/// Returns everything that can be reached from one module along one edge or more.
fn reached(from: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        let next = edges.get(at).into_iter().flatten();
        open.extend(next.filter(|to| reached.insert(**to)));
    }
    reached
}

/// Returns each file of a circle with the files of the circle that it needs.
fn shown(circle: &[usize], modules: &[Module<'_>]) -> String {
    let file = |index: &usize| modules.get(*index).map_or("", |module| module.file);
    let lines = circle.iter().map(|index| {
        let needs = modules.get(*index).map(|module| module.needs(modules)).unwrap_or_default();
        let inside: Vec<_> = needs.iter().filter(|to| circle.contains(to)).map(file).collect();
        format!("{} -> {}", file(index), inside.join(" "))
    });
    lines.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::tree;

    /// Returns the number of files in circles of a crate with these files.
    fn count(files: &[(&str, &str)]) -> usize {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let tree = tree(&files);
        circles(&modules_by_crate(&tree)["x"]).iter().map(Vec::len).sum()
    }

    #[test]
    fn files_that_name_each_other_are_a_circle() {
        assert_eq!(count(&[("a.rs", "use crate::b::B;"), ("b.rs", "fn f() { crate::a::f() }")]), 2);
        assert_eq!(
            count(&[
                ("a.rs", "use super::b::B;"),
                ("b.rs", "use super::{c, d::D};"),
                ("c.rs", "use crate::{a::A};"),
                ("d.rs", "")
            ]),
            3
        );
        assert_eq!(count(&[("a/mod.rs", "use crate::b;"), ("b.rs", "use crate::a::{self, A};")]), 2);
        assert_eq!(
            count(&[
                ("a.rs", "use crate::b as other;\nfn f() { other::c::f() }"),
                ("b.rs", ""),
                ("b/c.rs", "use crate::a::A;")
            ]),
            2
        );
    }

    #[test]
    fn two_circles_count_with_all_their_files() {
        let files = [
            ("a.rs", "use crate::b::B;"),
            ("b.rs", "use crate::a::A;"),
            ("c.rs", "use crate::{a, d::D, e::E};"),
            ("d.rs", "use crate::c::C;"),
            ("e.rs", "use crate::c::C;"),
        ];
        assert_eq!(count(&files), 5);
    }

    #[test]
    fn a_name_that_another_file_passes_on_belongs_to_its_own_file() {
        // `a` needs `b/c`, and nothing in `b/c` leads back.
        let files = [
            ("a.rs", "use crate::b::C;"),
            ("b.rs", "mod c;\npub(crate) use c::C;"),
            ("b/c.rs", ""),
            ("d.rs", ""),
        ];
        assert_eq!(count(&files), 0);
        let files =
            [("a.rs", "use crate::b::C;"), ("b.rs", "pub(crate) use c::C;"), ("b/c.rs", "use crate::a::A;")];
        assert_eq!(count(&files), 2);
        assert_eq!(
            count(&[("lib.rs", "pub use a::A;"), ("a.rs", "use crate::B;"), ("b.rs", "use crate::A;")]),
            0
        );
        assert_eq!(
            count(&[
                ("lib.rs", "pub use {a::A, b::B};"),
                ("a.rs", "use crate::B;"),
                ("b.rs", "use crate::A;")
            ]),
            2
        );
    }

    #[test]
    fn a_file_and_its_folder_tests_and_words_are_no_circle() {
        assert_eq!(
            count(&[
                ("a.rs", "mod b;\nuse b::B;"),
                ("a/b.rs", "use super::A;"),
                ("a/b/c.rs", "use crate::a::A;")
            ]),
            0
        );
        assert_eq!(count(&[("lib.rs", "use a::A;"), ("a.rs", "use crate::Root;")]), 0);
        assert_eq!(
            count(&[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}")
            ]),
            0
        );
        assert_eq!(
            count(&[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "// crate::a::A\nconst A: &str = \"crate::a::A\";")
            ]),
            0
        );
        assert_eq!(
            count(&[
                ("a.rs", "use crate::b::B;"),
                ("b.rs", "use other::a::A;"),
                ("b/tests.rs", "use crate::a::A;")
            ]),
            0
        );
        assert_eq!(count(&[("a.rs", "use crate::b::B;"), ("b.rs", ""), ("main.rs", "use crate::a::A;")]), 0);
    }

    #[test]
    fn more_and_fewer_files_in_circles_than_listed_are_named() {
        let tree =
            tree(&[("crates/x/src/a.rs", "use crate::b::B;"), ("crates/x/src/b.rs", "use crate::a::A;")]);
        let messages = |allowed: &[(&str, usize)]| -> Vec<String> {
            check_with(&tree, allowed).into_iter().map(|finding| finding.message).collect()
        };
        assert_eq!(messages(&[]), ["2 files stand in circles, 0 at most: a.rs -> b.rs, b.rs -> a.rs"]);
        assert_eq!(messages(&[("x", 2)]), [""; 0]);
        assert_eq!(
            messages(&[("x", 3)]),
            ["2 files stand in circles: lower 3 to 2 in xtask/src/tidy/circles.rs"]
        );
        assert_eq!(
            messages(&[("x", 2), ("gone", 2)]),
            ["is not there: remove its line in xtask/src/tidy/circles.rs"]
        );
    }
}
