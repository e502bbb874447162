//! A search for the places of a file that are most similar to a text that it does not have.

use std::collections::HashSet;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A place of a file that is similar to a text that was not found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Near {
    /// First line, counted from 1.
    pub line: usize,
    /// Last line.
    pub end_line: usize,
    /// True if the place differs only in white space.
    pub white_space_only: bool,
    /// Difference by characters: `[-only in the wanted text-]`, `{+only in the file+}`.
    pub difference: String,
}

/// Maximum number of places that are reported.
const MOST: usize = 3;
/// Number of candidates that are compared character by character.
const CANDIDATES: usize = 6;
/// Maximum number of bytes of a text that are searched: at most one second of work.
const LONGEST_TEXT: usize = 128 << 20;
/// Maximum number of lines, and of characters, of each of the two texts that are compared.
const MAX_LINES: usize = 200;
const MAX_CHARACTERS: usize = 1_500;
/// Minimum similarity of a reported place, in per cent.
const LEAST_LIKENESS: usize = 45;
/// Length in bytes below which a text is short.
const SHORT: usize = 24;
/// Characters of an unchanged run that are shown on each side of a change.
const SHOWN_AROUND: usize = 30;
/// Maximum length of one difference, in characters.
const LONGEST_DIFFERENCE: usize = 800;

/// Returns the places in `text` that are most similar to `wanted`, the best first.
///
/// One pass over the text finds the windows that share most with `wanted`, and only these are
/// compared in full. So each byte of a large file is read once.
pub fn nearest(text: &[u8], wanted: &[u8]) -> Vec<Near> {
    let text = &text[..text.len().min(LONGEST_TEXT)];
    let wanted_lines: Vec<&[u8]> = lines(wanted).take(MAX_LINES).collect();
    if wanted_lines.is_empty() {
        return Vec::new();
    }
    let wanted = wanted_lines.concat();
    let mut near: Vec<(usize, Near)> = windows(text, &wanted_lines)
        .into_iter()
        .filter_map(|window| compare(&text[window.bytes], window.first_line, &wanted))
        .collect();
    near.sort_by_key(|(likeness, near)| (std::cmp::Reverse(*likeness), near.line));
    near.truncate(MOST);
    near.into_iter().map(|(_, near)| near).collect()
}

struct Window {
    first_line: usize,
    bytes: Range<usize>,
    score: usize,
}

/// Score of one line: its similarity to the wanted text.
struct ScoredLine {
    bytes: Range<usize>,
    shared: usize,
}

/// Returns the best windows that do not overlap, each as high as the wanted text.
fn windows(text: &[u8], wanted: &[&[u8]]) -> Vec<Window> {
    let wanted: Vec<Vec<u8>> = wanted.iter().map(|line| squeezed(line)).collect();
    // In a short text, one typing error changes most runs of three bytes.
    let width = if wanted.iter().map(Vec::len).sum::<usize>() < SHORT { 2 } else { 3 };
    let mut grams = Grams { width, table: vec![0; 1 << 10] };
    let mut short = HashSet::new();
    for line in &wanted {
        grams.add(line);
        if !line.is_empty() && line.len() < width {
            short.insert(line.clone());
        }
    }
    let height = wanted.len();
    let mut last: std::collections::VecDeque<ScoredLine> = std::collections::VecDeque::with_capacity(height);
    let (mut sum, mut at) = (0, 0);
    let mut best: Vec<Window> = Vec::new();
    let mut buffer = Vec::new();
    for (number, line) in lines(text).enumerate() {
        buffer.clear();
        buffer.extend(line.iter().copied().filter(|byte| !byte.is_ascii_whitespace()));
        let shared =
            if buffer.len() < width { usize::from(short.contains(&buffer)) } else { grams.shared(&buffer) };
        let bytes = at..at + line.len();
        at = bytes.end;
        sum += shared;
        last.push_back(ScoredLine { bytes, shared });
        if last.len() > height
            && let Some(gone) = last.pop_front()
        {
            sum -= gone.shared;
        }
        if sum > 0 {
            let start = last.front().map_or(at, |line| line.bytes.start);
            let first_line = number + 2 - last.len();
            keep(&mut best, Window { first_line, bytes: start..at, score: sum });
        }
    }
    best
}

/// Adds the window to the best ones, unless it overlaps a better one.
fn keep(best: &mut Vec<Window>, window: Window) {
    if best.len() == CANDIDATES && best.iter().all(|other| other.score >= window.score) {
        return;
    }
    let overlaps =
        |other: &Window| other.bytes.start < window.bytes.end && window.bytes.start < other.bytes.end;
    if best.iter().any(|other| overlaps(other) && other.score >= window.score) {
        return;
    }
    best.retain(|other| !overlaps(other));
    if best.len() == CANDIDATES
        && let Some(worst) = (0..best.len()).min_by_key(|index| best[*index].score)
    {
        best.swap_remove(worst);
    }
    best.push(window);
}

/// A set of the short byte runs that occur, as a table of bits. A run that does not occur can be
/// reported as one that does.
struct Grams {
    /// Bytes per run.
    width: usize,
    table: Vec<u64>,
}

impl Grams {
    fn place(gram: &[u8]) -> (usize, u64) {
        let value = gram.iter().fold(0_usize, |value, byte| value << 8 | usize::from(*byte));
        let hash = value.wrapping_mul(0x9e37_79b1) >> 7;
        (hash >> 6 & 0x3ff, 1 << (hash & 63))
    }

    fn add(&mut self, text: &[u8]) {
        for gram in text.windows(self.width) {
            let (word, bit) = Self::place(gram);
            self.table[word] |= bit;
        }
    }

    fn shared(&self, text: &[u8]) -> usize {
        let has = |gram: &&[u8]| {
            let (word, bit) = Self::place(gram);
            self.table[word] & bit != 0
        };
        let shared = text.windows(self.width).filter(has).count();
        // A line with much other text is less similar.
        (3 * shared).saturating_sub(text.len() + 1 - self.width)
    }
}

/// Compares a window with the wanted text. Returns their similarity in per cent.
fn compare(window: &[u8], first_line: usize, wanted: &[u8]) -> Option<(usize, Near)> {
    let white_space_only = contains(&squeezed(window), &squeezed(wanted));
    let end_line = first_line + lines(window).count().saturating_sub(1);
    let wanted = String::from_utf8_lossy(wanted);
    let window = String::from_utf8_lossy(window);
    // Equal whole lines at the beginning need no comparison.
    let alike: usize = window
        .split_inclusive('\n')
        .zip(wanted.split_inclusive('\n'))
        .take_while(|(one, other)| one == other)
        .map(|(line, _)| line.len())
        .sum();
    let (one, other) = (&wanted[alike..], window[alike..].trim_end_matches('\n'));
    let one: Vec<char> = one.trim_end_matches('\n').chars().take(MAX_CHARACTERS).collect();
    let other: Vec<char> = other.chars().take(MAX_CHARACTERS).collect();
    let mut operations = capture_diff_slices(Algorithm::Myers, &one, &other);
    let equal: usize = operations
        .iter()
        .filter(|operation| matches!(operation, DiffOp::Equal { .. }))
        .map(|operation| operation.old_range().len())
        .sum();
    let likeness = 100 * (equal + alike) / (one.len() + alike).max(1);
    if likeness < LEAST_LIKENESS && !white_space_only {
        return None;
    }
    // Text before and after the match on the same lines is no difference: the wanted text may begin
    // and end within a line.
    let within = |operation: Option<&DiffOp>| matches!(operation, Some(DiffOp::Insert { .. }));
    let mut shown = ShownDifference::default();
    if within(operations.first()) && alike == 0 {
        let first = operations.remove(0);
        shown.equal(&other[first.new_range()], true, false);
    }
    let tail = if within(operations.last()) { operations.pop() } else { None };
    let count = operations.len();
    for (index, operation) in operations.into_iter().enumerate() {
        if let DiffOp::Equal { .. } = operation {
            shown.equal(&other[operation.new_range()], index == 0 && alike == 0, index + 1 == count);
        } else {
            shown.marked("[-", &one[operation.old_range()], "-]");
            shown.marked("{+", &other[operation.new_range()], "+}");
        }
    }
    if let Some(tail) = tail {
        let rest = &other[tail.new_range()];
        let line_end = rest.iter().position(|character| *character == '\n').unwrap_or(rest.len());
        shown.equal(&rest[..line_end], false, true);
    }
    let likeness = if white_space_only { 100 + likeness } else { likeness };
    Some((likeness, Near { line: first_line, end_line, white_space_only, difference: shown.finished() }))
}

/// A difference in the form in which it is shown.
#[derive(Default)]
struct ShownDifference(String);

impl ShownDifference {
    fn equal(&mut self, run: &[char], first: bool, last: bool) {
        let (before, behind) = match (first, last) {
            (true, false) => (0, SHOWN_AROUND),
            (false, true) => (SHOWN_AROUND, 0),
            _ => (SHOWN_AROUND, SHOWN_AROUND),
        };
        if run.len() <= before + behind + 10 {
            self.0.extend(run);
            return;
        }
        self.0.extend(&run[..before]);
        self.0.push('…');
        self.0.extend(&run[run.len() - behind..]);
    }

    fn marked(&mut self, open: &str, run: &[char], close: &str) {
        if run.is_empty() {
            return;
        }
        self.0.push_str(open);
        let only_blank = run.iter().all(|character| character.is_whitespace());
        for character in run {
            match character {
                '\t' => self.0.push_str("\\t"),
                '\n' => self.0.push_str("\\n"),
                '\r' => self.0.push_str("\\r"),
                ' ' if only_blank => self.0.push('·'),
                other => self.0.push(*other),
            }
        }
        self.0.push_str(close);
    }

    fn finished(mut self) -> String {
        if let Some((end, _)) = self.0.char_indices().nth(LONGEST_DIFFERENCE) {
            self.0.truncate(end);
            self.0.push('…');
        }
        self.0
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

fn squeezed(text: &[u8]) -> Vec<u8> {
    text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    !part.is_empty() && memchr::memmem::find(text, part).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(text: &str, wanted: &str) -> Near {
        nearest(text.as_bytes(), wanted.as_bytes()).into_iter().next().unwrap()
    }

    #[test]
    fn a_difference_in_white_space_alone_is_told_apart() {
        let near = best("fn a() {}\n\nfn main() {\n\tlet x = 1;\n}\n", "fn main() {\n    let x = 1;\n}\n");
        assert_eq!((near.line, near.end_line, near.white_space_only), (3, 5, true));
        assert_eq!(near.difference, "[-····-]{+\\t+}let x = 1;\n}");
        let near = best("a\nlet  x = 1;\n", "let x = 1");
        assert_eq!((near.line, near.white_space_only), (2, true));
        assert_eq!(near.difference, "let {+·+}x = 1;");
    }

    #[test]
    fn the_nearest_places_come_first_and_what_is_unlike_is_left_out() {
        let text =
            "alpha beta gamma\nfn compute(total: u64) -> u64 {\nfn compute(sum: u64) -> u32 {\nomega\n";
        let near = nearest(text.as_bytes(), b"fn compute(sum: u64) -> u64 {");
        assert_eq!(near.iter().map(|near| near.line).collect::<Vec<_>>(), [3, 2]);
        assert_eq!(near[0].difference, "fn compute(sum: u64) -> u[-64-]{+32+} {");
        assert!(nearest(b"alpha\nbeta\n", b"something else entirely").is_empty());
        assert!(nearest(b"", b"x").is_empty() && nearest(b"x", b"").is_empty());
    }

    #[test]
    fn a_short_line_and_a_long_text_are_found_too() {
        assert_eq!(best("a\n}\nb\n", "} ").line, 2);
        let mut text: String = (0..200_000).map(|line| format!("    call_{line}(argument);\n")).collect();
        text.push_str("    distinct_function(argument);\n");
        assert_eq!(best(&text, "distinct_functoin(argument)").line, 200_001);
    }
}
