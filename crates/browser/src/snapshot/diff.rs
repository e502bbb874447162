//! Differences between two snapshots of a page: lines that are new, gone or changed.

use std::collections::{BTreeMap, HashMap};

use crate::elements::Reference;
use crate::snapshot::line::Line;

/// A difference between two snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Difference<'a> {
    /// A line that was not there.
    Added(&'a Line),
    /// A line that is no longer there.
    Removed(&'a Line),
    /// A line of the same element with something else in it: as it was, as it is.
    Changed(&'a Line, &'a Line),
}

impl Difference<'_> {
    /// Returns the difference as a line that begins with `+`, `-` or `~`.
    pub(crate) fn shown(&self) -> String {
        match self {
            Self::Added(line) => format!("+ {}", line.shown()),
            Self::Removed(line) => format!("- {}", line.shown()),
            Self::Changed(before, now) => format!("~ {} (was {})", now.shown(), what_was(before, now)),
        }
    }
}

/// Returns the part of a line that has changed.
fn what_was(before: &Line, now: &Line) -> String {
    if before.role != now.role || before.name != now.name {
        let mut shown = before.clone();
        shown.reference = None;
        return shown.shown();
    }
    match before.details() {
        details if details.is_empty() => "plain".to_owned(),
        details => details,
    }
}

/// Returns what differs: what is new or changed in the order of the page, then what is gone.
///
/// Elements are compared by their reference, and other lines by their content: the order of
/// lines that are equal does not matter.
pub(crate) fn differences<'a>(before: &'a [Line], now: &'a [Line]) -> Vec<Difference<'a>> {
    let mut by_reference: BTreeMap<Reference, &Line> = BTreeMap::new();
    let mut by_content: HashMap<(&str, &str, &str), usize> = HashMap::new();
    for line in before {
        match line.reference {
            Some(reference) => {
                by_reference.insert(reference, line);
            }
            None => *by_content.entry(content(line)).or_default() += 1,
        }
    }
    let mut found = Vec::new();
    for line in now {
        match line.reference {
            Some(reference) => match by_reference.remove(&reference) {
                None => found.push(Difference::Added(line)),
                Some(old) if is_same(old, line) => {}
                Some(old) => found.push(Difference::Changed(old, line)),
            },
            None => match by_content.get_mut(&content(line)) {
                Some(count) if *count > 0 => *count -= 1,
                _ => found.push(Difference::Added(line)),
            },
        }
    }
    // The last of several equal lines are those that are gone.
    let gone: Vec<Difference<'_>> = before
        .iter()
        .rev()
        .filter(|line| match line.reference {
            Some(reference) => by_reference.contains_key(&reference),
            None => match by_content.get_mut(&content(line)) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    true
                }
                _ => false,
            },
        })
        .map(Difference::Removed)
        .collect();
    found.extend(gone.into_iter().rev());
    found
}

fn content(line: &Line) -> (&str, &str, &str) {
    (&line.role, &line.name, &line.states)
}

fn is_same(one: &Line, other: &Line) -> bool {
    content(one) == content(other) && one.value == other.value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(role: &str, name: &str, number: u32, states: &str) -> Line {
        Line {
            depth: 0,
            reference: (number > 0).then(|| Reference::in_main_frame(number)),
            role: role.into(),
            name: name.into(),
            states: states.into(),
            value: None,
        }
    }

    fn shown(before: &[Line], now: &[Line]) -> Vec<String> {
        differences(before, now).iter().map(Difference::shown).collect()
    }

    #[test]
    fn lines_are_added_removed_and_changed() {
        let before =
            [line("checkbox", "Agree", 1, ""), line("heading", "Old", 0, "1"), line("link", "A", 2, "")];
        let now = [
            line("checkbox", "Agree", 1, "checked"),
            line("heading", "New", 0, "1"),
            line("button", "B", 3, ""),
        ];
        assert_eq!(
            shown(&before, &now),
            [
                "~ checkbox \"Agree\" e1 checked (was plain)",
                "+ heading \"New\" 1",
                "+ button \"B\" e3",
                "- heading \"Old\" 1",
                "- link \"A\" e2",
            ]
        );
    }

    #[test]
    fn equal_snapshots_have_no_difference() {
        let lines = [line("", "text", 0, ""), line("", "text", 0, ""), line("link", "A", 2, "")];
        assert!(differences(&lines, &lines).is_empty());
    }

    #[test]
    fn equal_texts_are_counted() {
        let text = || line("", "text", 0, "");
        assert_eq!(shown(&[text(), text(), text()], &[text()]), ["- \"text\"", "- \"text\""]);
        assert_eq!(shown(&[text()], &[text(), text()]), ["+ \"text\""]);
    }

    #[test]
    fn a_new_name_shows_the_old_one() {
        let before = [line("button", "Follow", 4, "")];
        let now = [line("button", "Unfollow", 4, "pressed")];
        assert_eq!(shown(&before, &now), ["~ button \"Unfollow\" e4 pressed (was button \"Follow\")"]);
    }
}
