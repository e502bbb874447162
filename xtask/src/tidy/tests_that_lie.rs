//! A rule against tests that are skipped, or that pass because the machine was quick enough.

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
}
