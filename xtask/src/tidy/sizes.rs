//! A rule for the length of files.

use crate::tidy::{Finding, Tree, has_extension};

/// Number of lines at which a file is forbidden, because nobody reads a longer one.
const FORBIDDEN: usize = 800;
/// Maximum number of lines without an entry in [`REASONS`].
const REASON_NEEDED: usize = 500;
/// The architecture page and its maximum number of lines. The page is read in one go: bird's-eye
/// view, life of a call, code map, invariants.
const ARCHITECTURE: (&str, usize) = ("docs/ARCHITECTURE.md", 400);

/// Files over 500 lines, each with the reason why splitting it would be worse.
const REASONS: [(&str, &str); 0] = [];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    check_with(tree, &REASONS)
}

fn check_with(tree: &Tree, reasons: &[(&str, &str)]) -> Vec<Finding> {
    let written =
        tree.files.iter().filter(|file| has_extension(&file.path, "rs") || has_extension(&file.path, "md"));
    let too_long = written.filter_map(|file| {
        let lines = file.text.lines().count();
        let reasoned = reasons.iter().any(|(path, _)| *path == file.path);
        let message = if file.path == ARCHITECTURE.0 && lines > ARCHITECTURE.1 {
            format!("{lines} lines; {} at most", ARCHITECTURE.1)
        } else if lines >= FORBIDDEN {
            format!("{lines} lines; split it ({FORBIDDEN} is forbidden)")
        } else if lines > REASON_NEEDED && !reasoned {
            format!("{lines} lines; split it, or give the reason in xtask/src/tidy/sizes.rs")
        } else {
            return None;
        };
        Some(Finding::file(&file.path, message))
    });
    let stale = reasons
        .iter()
        .filter(|(path, _)| tree.text(path).is_none_or(|text| text.lines().count() <= REASON_NEEDED));
    let stale =
        stale.map(|(path, _)| Finding::file(path, "needs no reason any more: remove its line in sizes.rs"));
    too_long.chain(stale).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::fixture::{places, tree};

    #[test]
    fn length_is_held_at_its_two_limits() {
        let (short, reasoned, long) = ("x\n".repeat(500), "x\n".repeat(501), "x\n".repeat(800));
        let tree =
            tree(&[("short.rs", &short), ("a.rs", &reasoned), ("b.rs", &reasoned), ("long.rs", &long)]);
        let reasons = [("b.rs", "a table"), ("long.rs", "no reason helps")];
        assert_eq!(places(&check_with(&tree, &reasons)), ["a.rs", "long.rs"]);
    }

    #[test]
    fn the_architecture_page_stays_readable_in_one_go() {
        let tree =
            tree(&[("docs/ARCHITECTURE.md", &"x\n".repeat(401)), ("docs/OTHER.md", &"x\n".repeat(401))]);
        assert_eq!(places(&check(&tree)), ["docs/ARCHITECTURE.md"]);
    }

    #[test]
    fn a_reason_that_is_no_longer_needed_is_refused() {
        let tree = tree(&[("short.rs", "x\n")]);
        assert_eq!(places(&check_with(&tree, &[("short.rs", "was long")])), ["short.rs"]);
    }
}
