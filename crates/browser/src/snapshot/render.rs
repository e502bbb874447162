//! Rendering of lines within a budget of tokens.

use crate::snapshot::SnapshotKind;
use crate::snapshot::budget::tokens;
use crate::snapshot::diff::differences;
use crate::snapshot::fold::{Folding, Part, fold};
use crate::snapshot::line::Line;
use crate::snapshot::query;

/// Tokens that are kept for the line that says what was cut.
const RESERVE: usize = 60;

/// Text of a snapshot.
#[derive(Debug)]
pub(crate) struct Rendering {
    pub(crate) text: String,
    pub(crate) kind: SnapshotKind,
    pub(crate) is_shortened: bool,
}

impl Rendering {
    /// Shows all lines; folded as far as needed, and cut if they do not fit even then. An offset
    /// shows the lines from there on, and folds nothing.
    pub(crate) fn of_lines(lines: &[Line], offset: Option<usize>, budget: usize) -> Self {
        let kind = SnapshotKind::Lines;
        if lines.is_empty() {
            return Self { text: "(nothing visible)\n".to_owned(), kind, is_shortened: false };
        }
        let least = lines.iter().map(|line| line.depth).min().unwrap_or(0);
        if let Some(offset) = offset {
            let parts: Vec<Part> = (offset..lines.len()).map(Part::Line).collect();
            let (text, is_cut) = cut_to(lines, &parts, least, budget);
            return Self { text, kind, is_shortened: is_cut };
        }
        let mut strongest = Vec::new();
        for folding in Folding::ALL {
            let parts = fold(lines, folding);
            let is_folded = parts.iter().any(|part| matches!(part, Part::Fold(_)));
            if let Some(text) = whole(lines, &parts, least, budget) {
                return Self { text, kind, is_shortened: is_folded };
            }
            strongest = parts;
        }
        let (text, _) = cut_to(lines, &strongest, least, budget);
        Self { text, kind, is_shortened: true }
    }

    /// Shows the lines that match a query, with the rows around them.
    pub(crate) fn of_matches(lines: &[Line], query: &str, budget: usize) -> Self {
        let found = query::matching(lines, query);
        let kind = SnapshotKind::Matches;
        if found.is_empty() {
            let text = format!("(none of {} lines has all the words)\n", lines.len());
            return Self { text, kind, is_shortened: false };
        }
        let mut text = String::new();
        let mut used = RESERVE;
        let mut depths: Vec<usize> = Vec::new();
        for (position, line) in found.iter().filter_map(|at| lines.get(*at)).enumerate() {
            // The indentation shows what is inside what among the lines that are shown.
            while depths.last().is_some_and(|outer| *outer >= line.depth) {
                depths.pop();
            }
            let shown = format!("{}{}\n", " ".repeat(depths.len()), line.shown());
            used += tokens(&shown);
            if used > budget && position > 0 {
                text.push_str(&format!(
                    "… {} more lines match; add words to the query\n",
                    found.len() - position
                ));
                return Self { text, kind, is_shortened: true };
            }
            text.push_str(&shown);
            depths.push(line.depth);
        }
        Self { text, kind, is_shortened: false }
    }

    /// Shows what differs from the lines before; all lines if that is shorter.
    pub(crate) fn of_differences(before: &[Line], now: &[Line], budget: usize) -> Self {
        let found = differences(before, now);
        let kind = SnapshotKind::Differences;
        if found.is_empty() {
            return Self { text: "no change\n".to_owned(), kind, is_shortened: false };
        }
        if found.len() > now.len() {
            return Self::of_lines(now, None, budget);
        }
        let mut text = String::new();
        let mut used = RESERVE;
        for (position, difference) in found.iter().enumerate() {
            let shown = difference.shown();
            used += tokens(&shown) + 1;
            if used > budget && position > 0 {
                text.push_str(&format!(
                    "… {} more differences; take a snapshot without diff\n",
                    found.len() - position
                ));
                return Self { text, kind, is_shortened: true };
            }
            text.push_str(&shown);
            text.push('\n');
        }
        Self { text, kind, is_shortened: false }
    }
}

/// Returns the text of all parts, unless it is above the budget.
fn whole(lines: &[Line], parts: &[Part], least: usize, budget: usize) -> Option<String> {
    let mut text = String::new();
    // Three bytes a token at most, so the loop ends soon after the budget.
    for part in parts {
        write(lines, part, least, &mut text);
        if text.len() > budget.saturating_mul(3) {
            return None;
        }
    }
    (tokens(&text) <= budget).then_some(text)
}

/// Returns the text of as many parts as fit, and whether some did not.
fn cut_to(lines: &[Line], parts: &[Part], least: usize, budget: usize) -> (String, bool) {
    let mut text = String::new();
    let mut used = RESERVE;
    for (position, part) in parts.iter().enumerate() {
        let mut shown = String::new();
        write(lines, part, least, &mut shown);
        used += tokens(&shown);
        if used > budget && position > 0 {
            let at = match part {
                Part::Line(at) => *at,
                Part::Fold(fold) => fold.lines.start,
            };
            let left = lines.len().saturating_sub(at);
            text.push_str(&format!(
                "… {left} more lines are cut here; read on with offset {at}, or with scope or query\n"
            ));
            return (text, true);
        }
        text.push_str(&shown);
    }
    (text, false)
}

fn write(lines: &[Line], part: &Part, least: usize, text: &mut String) {
    match part {
        Part::Line(at) => {
            if let Some(line) = lines.get(*at) {
                line.write(least, text);
            }
        }
        Part::Fold(fold) => {
            let indentation = fold.depth.saturating_sub(least);
            text.push_str(&format!("{:indentation$}{}\n", "", fold.shown()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::Reference;

    fn line(depth: usize, role: &str, name: &str, number: u32) -> Line {
        Line {
            depth,
            reference: (number > 0).then(|| Reference::in_main_frame(number)),
            role: role.into(),
            name: name.into(),
            states: String::new(),
            value: None,
        }
    }

    fn links(count: u32) -> Vec<Line> {
        (1..=count).map(|number| line(0, "link", &format!("Link {number}"), number)).collect()
    }

    #[test]
    fn everything_is_shown_as_long_as_it_fits() {
        let rendering = Rendering::of_lines(&links(30), None, 1000);
        assert_eq!(rendering.text.lines().count(), 30);
        assert!(!rendering.is_shortened);
    }

    #[test]
    fn what_does_not_fit_is_folded_first() {
        let rendering = Rendering::of_lines(&links(1000), None, 200);
        assert!(rendering.text.contains("… 990 more links like this (e11 to e1000)"), "{}", rendering.text);
        assert!(rendering.is_shortened);
        assert!(tokens(&rendering.text) <= 200);
    }

    #[test]
    fn what_cannot_be_folded_is_cut_and_says_how_to_read_on() {
        let lines: Vec<Line> = (0..100)
            .map(|number| {
                line(0, if number % 2 == 0 { "link" } else { "button" }, "A name of some length", number + 1)
            })
            .collect();
        for budget in [100, 300, 1000] {
            let rendering = Rendering::of_lines(&lines, None, budget);
            assert!(tokens(&rendering.text) <= budget, "{budget}");
        }
        let first = Rendering::of_lines(&lines, None, 200);
        let at: usize =
            first.text.rsplit("offset ").next().unwrap().split(',').next().unwrap().parse().unwrap();
        assert_eq!(at, first.text.lines().count() - 1);
        let second = Rendering::of_lines(&lines, Some(at), 100_000);
        assert_eq!(second.text.lines().count(), 100 - at);
        assert!(!second.is_shortened);
    }

    #[test]
    fn an_offset_folds_nothing() {
        let rendering = Rendering::of_lines(&links(1000), Some(500), 100_000);
        assert_eq!(rendering.text.lines().count(), 500);
    }

    #[test]
    fn a_query_shows_matches_inside_their_rows() {
        let lines = [
            line(0, "table", "T", 1),
            line(1, "row", "Alice", 0),
            line(2, "button", "Edit", 2),
            line(1, "row", "Bob", 0),
            line(2, "button", "Edit", 3),
        ];
        assert_eq!(
            Rendering::of_matches(&lines, "edit bob", 1000).text,
            "row \"Bob\"\n button \"Edit\" e3\n"
        );
        assert!(Rendering::of_matches(&lines, "carol", 1000).text.contains("none of 5 lines"));
    }

    #[test]
    fn differences_say_when_there_are_none() {
        let lines = links(3);
        assert_eq!(Rendering::of_differences(&lines, &lines, 1000).text, "no change\n");
        let rendering = Rendering::of_differences(&lines, &links(4), 1000);
        assert_eq!(rendering.text, "+ link \"Link 4\" e4\n");
    }

    #[test]
    fn another_page_is_shown_in_whole() {
        let other = [line(0, "button", "A", 100), line(0, "button", "B", 101)];
        let rendering = Rendering::of_differences(&links(5), &other, 1000);
        assert_eq!(rendering.kind, SnapshotKind::Lines);
    }
}
