//! Check whether a shell's glob could stand for a path that a rule matches.
//!
//! The check runs before a command with a glob counts as read-only, so it errs on the side of true.
//! It does not decide which paths a rule matches: `list` does.

use std::path::{Component, Path};

use super::fold::fold_path;
use super::list::LocatedPath;
use super::pattern::{Anchor, Pattern};

/// A shell's glob in its components, absolute and relative to the workspace.
pub(super) struct GlobPath {
    absolute: Vec<String>,
    relative: Option<Vec<String>>,
}

impl GlobPath {
    pub(super) fn of(spot: &LocatedPath<'_>) -> Self {
        Self { absolute: names(spot.absolute), relative: spot.relative.map(names) }
    }

    /// Creates the folded form. A class or an escape in the glob stands for anything, so its
    /// content is not needed.
    pub(super) fn folded(spot: &LocatedPath<'_>) -> Self {
        let folded = |path: &Path| names(&fold_path(path));
        Self { absolute: folded(spot.absolute), relative: spot.relative.map(folded) }
    }
}

fn names(path: &Path) -> Vec<String> {
    let normal = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
        _ => None,
    });
    normal.collect()
}

/// Returns true if both could match some path. A glob below a folder that the rule matches counts too.
pub(super) fn may_overlap(pattern: &Pattern, glob: &GlobPath) -> bool {
    let rule = pattern.components.as_slice();
    let path = match (pattern.anchor, &glob.relative) {
        (Anchor::Workspace, None) => return false,
        (Anchor::Workspace | Anchor::Floating, Some(relative)) => relative,
        (Anchor::Root, _) | (Anchor::Floating, None) => &glob.absolute,
    };
    let from = overlaps_from(rule, path);
    if pattern.anchor == Anchor::Floating {
        from.iter().take(path.len()).any(|overlaps| *overlaps)
    } else {
        from.first().is_some_and(|overlaps| *overlaps)
    }
}

/// Returns true if the rule could match a path below a folder. Errs on the side of true.
pub(super) fn may_lie_below(pattern: &Pattern, folder: &GlobPath) -> bool {
    let folder = match (pattern.anchor, &folder.relative) {
        // A floating pattern matches in the workspace.
        (Anchor::Floating, relative) => return relative.is_some(),
        (Anchor::Workspace, None) => return false,
        (Anchor::Workspace, Some(relative)) => relative,
        (Anchor::Root, _) => &folder.absolute,
    };
    let deep = pattern.components.iter().take(folder.len()).any(|component| component == "**");
    deep || pattern.components.iter().zip(folder).all(|(rule, name)| component_overlaps(rule, name))
}

/// Reports for each position of the path, including its end, whether the rule could match the rest
/// from there.
///
/// The rule may end first, because a folder covers everything below it. Each component of the rule
/// is compared once with each component of the path, however many `**` there are.
fn overlaps_from(rule: &[String], path: &[String]) -> Vec<bool> {
    // After the end of the rule everything matches; the components of the rule are then taken from
    // its end.
    let mut from = vec![true; path.len() + 1];
    for rule in rule.iter().rev() {
        if rule == "**" {
            for at in (0..path.len()).rev() {
                from[at] |= from[at + 1];
            }
            continue;
        }
        for (at, name) in path.iter().enumerate() {
            // A shell's wildcard never stands for a leading dot.
            let hidden = rule.starts_with('.') && name.starts_with(['*', '?', '[']);
            from[at] = from[at + 1] && !hidden && component_overlaps(rule, name);
        }
        from[path.len()] = false;
    }
    from
}

/// Returns true if one name matches both. Most pairs differ before the first wildcard or after the
/// last one, which is checked first.
fn component_overlaps(rule: &str, name: &str) -> bool {
    const WILD: [u8; 7] = *b"*?[]{}\\";
    let differ = |(one, two): (u8, u8)| {
        if WILD.contains(&one) || WILD.contains(&two) { Some(false) } else { (one != two).then_some(true) }
    };
    let from_the_front = rule.bytes().zip(name.bytes()).find_map(differ);
    let from_the_back = rule.bytes().rev().zip(name.bytes().rev()).find_map(differ);
    from_the_front != Some(true) && from_the_back != Some(true) && names_overlap(&simple(rule), &simple(name))
}

/// Returns the name's characters. A name with classes, braces or escapes becomes `*`, which errs on
/// the side of true.
fn simple(name: &str) -> Vec<char> {
    if name.contains(['[', ']', '{', '}', '\\']) { vec!['*'] } else { name.chars().collect() }
}

/// Returns true if two globs of `*` and `?` have a name in common.
///
/// Row `i`, column `j` of the table is true if the first `i` characters of one and the first `j` of
/// the other have one. A star stands for nothing (the cell without it) or for one character more
/// (the cell without that one).
fn names_overlap(one: &[char], two: &[char]) -> bool {
    let mut row: Vec<bool> = std::iter::once(true)
        .chain(two.iter().scan(true, |only_stars, character| {
            *only_stars &= *character == '*';
            Some(*only_stars)
        }))
        .collect();
    for above in one {
        let mut next = Vec::with_capacity(row.len());
        next.push(*above == '*' && row.first() == Some(&true));
        for (pair, left) in row.windows(2).zip(two) {
            let (diagonal, over) = (pair.first() == Some(&true), pair.last() == Some(&true));
            let beside = next.last() == Some(&true);
            next.push(if *above == '*' || *left == '*' {
                over || beside
            } else {
                diagonal && (above == left || *above == '?' || *left == '?')
            });
        }
        row = next;
    }
    row.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overlap(one: &str, two: &str) -> bool {
        let chars = |text: &str| text.chars().collect::<Vec<_>>();
        names_overlap(&chars(one), &chars(two))
    }

    #[test]
    fn two_globs_overlap_where_one_name_fits_both() {
        for (one, two) in [
            ("*.pem", "*"),
            (".env", ".e*"),
            ("a*c", "*b?"),
            ("*", "*"),
            ("a?c", "a*"),
            ("", "*"),
            (".env.*", ".*.x"),
        ] {
            assert!(overlap(one, two) && overlap(two, one), "{one} {two}");
        }
        for (one, two) in
            [("*.pem", "*.rs"), (".env", "*.md"), ("a", "b"), ("a?", "a"), ("", "?"), ("x*y", "*z")]
        {
            assert!(!overlap(one, two) && !overlap(two, one), "{one} {two}");
        }
    }

    #[test]
    fn a_rule_for_a_folder_covers_globs_below_it() {
        let overlap =
            |rule: &str, path: &str| overlaps_from(&names(Path::new(rule)), &names(Path::new(path)))[0];
        assert!(overlap("secrets", "secrets/*.txt"));
        assert!(overlap("**/*.key", "a/b/*"));
        assert!(overlap(".env.*", ".[e]nv.rs"));
        assert!(overlap("a[*]b", "a*b"));
        assert!(!overlap(".env.*", "*.rs"));
        assert!(!overlap("secrets/deep/x", "secrets/*"));
        assert!(!overlap("secrets", "src/*.txt"));
        assert!(
            overlap("**", "a")
                && overlap("a/**", "a/b")
                && overlap("**/a/**/b", "x/a/y/z/*")
                && !overlap("a/b", "a")
        );
        // Thousands of components and several `**` take a moment and no deep stack.
        let long = "a/".repeat(16_000);
        assert!(!overlap("a/**/b/**/c/**/d", &long));
        assert!(overlap("a/**/b/**/c/**/d", &format!("{long}b/c/*")));
    }
}
