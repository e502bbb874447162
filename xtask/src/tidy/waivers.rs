//! Rules for waived lints: every waiver has a reason, and only two crates contain unsafe code.

use crate::tidy::{Finding, Tree};

const ATTRIBUTES: [&str; 4] = ["#[allow(", "#![allow(", "#[expect(", "#![expect("];

/// Crates that may contain unsafe code, for access to the kernel and to processor instructions.
const UNSAFE: [&str; 2] = ["crates/sandbox/", "crates/simd/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, source) in &tree.sources {
        for (number, line, _) in source.lines() {
            for start in ATTRIBUTES.iter().filter_map(|attribute| line.find(attribute)) {
                let attribute = attribute_from(&source.code, number, start);
                if !attribute.contains("reason =") {
                    found.push(Finding::line(path, number, "waives a lint without `reason = \"…\"`"));
                }
                let may = UNSAFE.iter().any(|folder| path.starts_with(folder));
                if attribute.contains("unsafe_code") && !may {
                    found.push(Finding::line(
                        path,
                        number,
                        "unsafe code stays in crates/sandbox and crates/simd",
                    ));
                }
            }
        }
    }
    found
}

/// Returns the attribute that starts at this byte of this line, up to its closing bracket.
fn attribute_from(code: &[String], first: usize, start: usize) -> String {
    let rest = code.iter().skip(first + 1).map(String::as_str);
    let text: String = code.get(first).and_then(|line| line.get(start..)).into_iter().chain(rest).collect();
    text.split(']').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    #[test]
    fn a_waiver_without_a_reason_is_refused() {
        let text = "#[allow(clippy::unwrap_used)]\nfn a() {}\n#![expect(\n    dead_code,\n)]\n\
                    #[allow(dead_code, reason = \"x\")]\n#[expect(\n    dead_code,\n    reason = \"y\"\n)]\n// #[allow(x)]";
        assert_eq!(
            places(&check(&tree(&[("crates/x/src/a.rs", text)]))),
            ["crates/x/src/a.rs:1", "crates/x/src/a.rs:3"]
        );
    }

    #[test]
    fn unsafe_code_is_waived_in_two_crates_alone() {
        let text = "#![allow(unsafe_code, reason = \"system calls\")]";
        assert_eq!(
            places(&check(&tree(&[("crates/store-sqlite/src/a.rs", text)]))),
            ["crates/store-sqlite/src/a.rs:1"]
        );
        assert_eq!(check(&tree(&[("crates/sandbox/src/a.rs", text), ("crates/simd/src/a.rs", text)])), []);
    }
}
