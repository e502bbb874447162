//! A rule against tests that are skipped or never run, or that pass because the machine was quick enough.

use crate::repository::File;
use crate::tidy::{Finding, Tree};

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        let kit = path.starts_with("crates/testkit/");
        for (number, line, test) in source.lines() {
            if line.contains("#[ignore") {
                found.push(Finding::line(
                    path,
                    number,
                    "an ignored test holds nothing; make it run or remove it",
                ));
            }
            if (test || kit) && line.contains("thread::sleep") {
                found.push(Finding::line(
                    path,
                    number,
                    "a test waits for what happens, not for time to pass",
                ));
            }
        }
    }
    found.extend(tree.files.iter().flat_map(|file| never_run(tree, file)));
    found
}

/// Returns the tests and examples that the manifest of their library leaves out.
fn never_run(tree: &Tree, manifest: &File) -> Vec<Finding> {
    let library = manifest.text.split("\n[").find(|section| section.starts_with("lib]")).unwrap_or_default();
    let leaves_out = |what: &str| library.lines().any(|line| line == format!("{what} = false"));
    let (no_tests, no_examples) = (leaves_out("test"), leaves_out("doctest"));
    let Some(folder) = manifest.path.strip_suffix("Cargo.toml").map(|folder| format!("{folder}src/")) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (path, source) in tree.sources.iter().filter(|(path, _)| path.starts_with(&folder)) {
        let tests = source.lines().filter(|(_, line, _)| no_tests && line.contains("#[test]"));
        let message = "nobody runs this test: remove `test = false` in Cargo.toml";
        found.extend(tests.map(|(number, ..)| Finding::line(path, number, message)));
        let examples = if no_examples { examples(tree.text(path).unwrap_or_default()) } else { Vec::new() };
        let message = "nobody runs this example: remove `doctest = false` in Cargo.toml, or mark it `text`";
        found.extend(examples.into_iter().map(|number| Finding::line(path, number, message)));
    }
    found
}

/// Returns the lines at which Rust code begins in the documentation of items.
fn examples(text: &str) -> Vec<usize> {
    let (mut found, mut is_inside) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        let doc = ["///", "//!"].iter().find_map(|mark| line.trim_start().strip_prefix(mark));
        let Some(info) = doc.and_then(|doc| doc.trim_start().strip_prefix("```")) else { continue };
        let is_rust = info
            .split(',')
            .all(|word| ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&word.trim()));
        if !is_inside && is_rust {
            found.push(number);
        }
        is_inside = !is_inside;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    #[test]
    fn an_ignored_test_is_refused() {
        let found = check(&tree(&[("crates/x/src/a.rs", "#[test]\n#[ignore = \"slow\"]\nfn a() {}")]));
        assert_eq!(places(&found), ["crates/x/src/a.rs:2"]);
    }

    #[test]
    fn a_sleep_is_refused_in_tests_and_the_test_kit_alone() {
        let text =
            "fn a() { std::thread::sleep(x) }\n#[cfg(test)]\nmod tests {\n    fn b() { thread::sleep(x) }\n}";
        assert_eq!(places(&check(&tree(&[("crates/x/src/a.rs", text)]))), ["crates/x/src/a.rs:4"]);
        assert_eq!(check(&tree(&[("crates/testkit/src/a.rs", text)])).len(), 2);
    }

    #[test]
    fn a_test_and_an_example_that_the_manifest_leaves_out_are_refused() {
        let text = "/// ```\n/// let a;\n/// ```\nfn a() {}\n/// ```text\n/// b\n/// ```\nfn b() {}\n#[test]\nfn c() {}";
        let found = |section: &str| {
            let manifest = format!("[package]\nname = \"x\"\n\n{section}\n\n[lints]\nworkspace = true\n");
            let tree = tree(&[("crates/x/Cargo.toml", &manifest), ("crates/x/src/a.rs", text)]);
            places(&check(&tree)).into_iter().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(found("[lib]\ndoctest = false"), ["crates/x/src/a.rs:1"]);
        assert_eq!(found("[lib]\ntest = false"), ["crates/x/src/a.rs:9"]);
        assert_eq!(found("[[bin]]\nname = \"x\"\ntest = false"), [""; 0]);
    }
}
