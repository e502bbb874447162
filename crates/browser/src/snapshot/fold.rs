//! Folding: long runs of alike siblings become their first few, and a line that counts the others.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use crate::elements::Reference;
use crate::snapshot::line::Line;

/// Strength of the folding. A stronger one is taken when the lines do not fit otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Folding {
    /// Every line is shown.
    None,
    /// Ten of more than twenty siblings with the same roles inside.
    Long,
    /// Three of more than five siblings with the same roles inside.
    Short,
    /// Three of more than five siblings with the same role.
    ByRole,
}

impl Folding {
    /// All of them, the weakest first.
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Long, Self::Short, Self::ByRole];

    /// Returns the length of the shortest run that is folded, and the number of siblings shown of it.
    fn lengths(self) -> (usize, usize) {
        match self {
            Self::None => (usize::MAX, usize::MAX),
            Self::Long => (21, 10),
            Self::Short | Self::ByRole => (6, 3),
        }
    }
}

/// A part of a folded snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// A line, by its index.
    Line(usize),
    /// Siblings that are left out.
    Fold(Fold),
}

/// Siblings that are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Depth of the siblings.
    pub(crate) depth: usize,
    /// Number of siblings.
    pub(crate) count: usize,
    /// Role of the siblings.
    role: String,
    /// Indexes of their lines, with those inside.
    pub(crate) lines: Range<usize>,
    references: Option<(Reference, Reference)>,
}

impl Fold {
    /// Returns the line that stands in their place, without its indentation.
    pub(crate) fn shown(&self) -> String {
        let kind = match self.role.as_str() {
            "" => "texts".to_owned(),
            "listitem" => "items".to_owned(),
            "switch" => "switches".to_owned(),
            "checkbox" | "combobox" | "textbox" | "searchbox" | "listbox" => format!("{}es", self.role),
            role => format!("{role}s"),
        };
        let references = match self.references {
            Some((first, last)) if first != last => format!(" ({first} to {last})"),
            Some((only, _)) => format!(" ({only})"),
            None => String::new(),
        };
        let start = self.lines.start;
        format!(
            "… {} more {kind} like this{references}; read with scope, query or offset {start}",
            self.count
        )
    }
}

/// Returns the parts that are shown of the lines.
pub(crate) fn fold(lines: &[Line], folding: Folding) -> Vec<Part> {
    if folding == Folding::None {
        return (0..lines.len()).map(Part::Line).collect();
    }
    let (shortest, shown) = folding.lengths();
    let runs = Runs::of(lines, folding);
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        let position = runs.position(at);
        let length = runs.length(at);
        if length >= shortest && position == shown {
            let end = runs.end_of_run(at);
            let mut references =
                lines.get(at..end).unwrap_or_default().iter().filter_map(|line| line.reference);
            let first = references.next();
            let last = references.next_back().or(first);
            parts.push(Part::Fold(Fold {
                depth: line.depth,
                count: length - shown,
                role: line.role.clone(),
                lines: at..end,
                references: first.zip(last),
            }));
            at = end;
        } else {
            parts.push(Part::Line(at));
            at += 1;
        }
    }
    parts
}

/// Runs of siblings of one shape, by the index of each sibling.
struct Runs {
    /// Index of the line after each line and what is inside it.
    ends: Vec<usize>,
    /// Number of siblings before it in its run.
    positions: Vec<usize>,
    /// First sibling of its run.
    firsts: Vec<usize>,
    /// Number of siblings of a run, and the end of its last, by its first sibling.
    extents: Vec<(usize, usize)>,
}

impl Runs {
    fn of(lines: &[Line], folding: Folding) -> Self {
        let ends = ends(lines);
        let mut positions = vec![0; lines.len()];
        let mut firsts: Vec<usize> = (0..lines.len()).collect();
        let mut extents: Vec<(usize, usize)> = ends.iter().map(|end| (1, *end)).collect();
        let shapes: Vec<u64> = (0..lines.len())
            .map(|at| shape(lines, at, ends.get(at).copied().unwrap_or(at), folding))
            .collect();
        for at in 0..lines.len() {
            let Some(&next) = ends.get(at) else { continue };
            let is_sibling =
                lines.get(next).is_some_and(|line| Some(line.depth) == lines.get(at).map(|own| own.depth));
            if !is_sibling || shapes.get(at) != shapes.get(next) {
                continue;
            }
            let first = firsts.get(at).copied().unwrap_or(at);
            let position = positions.get(at).copied().unwrap_or(0) + 1;
            let end = ends.get(next).copied().unwrap_or(next);
            if let (Some(own_position), Some(own_first)) = (positions.get_mut(next), firsts.get_mut(next)) {
                (*own_position, *own_first) = (position, first);
            }
            if let Some(run) = extents.get_mut(first) {
                *run = (position + 1, end);
            }
        }
        Self { ends, positions, firsts, extents }
    }

    fn position(&self, at: usize) -> usize {
        self.positions.get(at).copied().unwrap_or(0)
    }

    fn run(&self, at: usize) -> (usize, usize) {
        let first = self.firsts.get(at).copied().unwrap_or(at);
        self.extents.get(first).copied().unwrap_or((1, self.ends.get(at).copied().unwrap_or(at + 1)))
    }

    fn length(&self, at: usize) -> usize {
        self.run(at).0
    }

    fn end_of_run(&self, at: usize) -> usize {
        self.run(at).1
    }
}

/// Returns for each line the index of the first line that is not inside it.
fn ends(lines: &[Line]) -> Vec<usize> {
    let mut ends = vec![lines.len(); lines.len()];
    let mut open: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        while let Some(&last) = open.last() {
            if lines.get(last).is_none_or(|outer| outer.depth < line.depth) {
                break;
            }
            if let Some(end) = ends.get_mut(last) {
                *end = at;
            }
            open.pop();
        }
        open.push(at);
    }
    ends
}

/// Returns a number that siblings of the same shape share.
fn shape(lines: &[Line], at: usize, end: usize, folding: Folding) -> u64 {
    let mut hasher = DefaultHasher::new();
    let inside = if folding == Folding::ByRole { at..(at + 1) } else { at..end };
    let depth = lines.get(at).map_or(0, |line| line.depth);
    for line in lines.get(inside).unwrap_or_default() {
        (line.depth.saturating_sub(depth), &line.role).hash(&mut hasher);
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(depth: usize, role: &str, number: u32) -> Line {
        Line {
            depth,
            reference: (number > 0).then(|| Reference::in_main_frame(number)),
            role: role.into(),
            name: format!("{role} {number}"),
            states: String::new(),
            value: None,
        }
    }

    /// Returns a table of this many rows with a button in each.
    fn table(rows: u32) -> Vec<Line> {
        let mut lines = vec![line(0, "table", 1)];
        for row in 0..rows {
            lines.push(line(1, "row", 0));
            lines.push(line(2, "button", row + 2));
        }
        lines.push(line(0, "link", 5000));
        lines
    }

    fn folds(parts: &[Part]) -> Vec<String> {
        parts
            .iter()
            .filter_map(|part| match part {
                Part::Fold(fold) => Some(fold.shown()),
                Part::Line(_) => None,
            })
            .collect()
    }

    #[test]
    fn a_long_run_shows_its_first_siblings_and_counts_the_others() {
        let lines = table(1000);
        let parts = fold(&lines, Folding::Short);
        assert_eq!(parts.len(), 1 + 6 + 1 + 1);
        assert_eq!(
            folds(&parts),
            ["… 997 more rows like this (e5 to e1001); read with scope, query or offset 7"]
        );
        assert_eq!(parts.last(), Some(&Part::Line(lines.len() - 1)));
        assert_eq!(
            folds(&fold(&lines, Folding::Long)),
            ["… 990 more rows like this (e12 to e1001); read with scope, query or offset 21"]
        );
    }

    #[test]
    fn short_runs_and_other_shapes_stay() {
        assert!(folds(&fold(&table(20), Folding::Long)).is_empty());
        assert!(folds(&fold(&table(5), Folding::Short)).is_empty());
        let mut mixed = Vec::new();
        for number in 0..20 {
            mixed.push(line(0, "row", 0));
            mixed.push(line(1, if number % 2 == 0 { "link" } else { "button" }, number + 1));
        }
        assert!(folds(&fold(&mixed, Folding::Short)).is_empty());
        assert_eq!(folds(&fold(&mixed, Folding::ByRole)).len(), 1);
    }

    #[test]
    fn a_run_inside_a_sibling_is_folded_by_itself() {
        let mut lines = Vec::new();
        for list in 0..2 {
            lines.push(line(0, "list", 100 * list + 1));
            lines.extend((0..50).map(|item| line(1, "listitem", 100 * list + 2 + item)));
        }
        let parts = fold(&lines, Folding::Short);
        assert_eq!(folds(&parts).len(), 2);
        assert_eq!(parts.len(), 2 * (1 + 3 + 1));
    }

    #[test]
    fn nothing_is_lost_between_lines_and_folds() {
        let lines = table(300);
        for folding in Folding::ALL {
            let covered: usize = fold(&lines, folding)
                .iter()
                .map(|part| match part {
                    Part::Line(_) => 1,
                    Part::Fold(fold) => fold.lines.len(),
                })
                .sum();
            assert_eq!(covered, lines.len(), "{folding:?}");
        }
    }
}
