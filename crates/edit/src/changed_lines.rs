//! Lines of a text that an edit changes, for those who know what stands in them.

use std::ops::Range;

use crate::between;

/// Beginnings of lines that end a block.
const ENDS: [&[u8]; 4] = [b"}", b")", b"]", b"end"];

/// Beginnings of lines that belong to what follows them.
const BELONGS_BELOW: [&[u8]; 2] = [b"@", b"#["];

/// Returns the lines of the old text that differ from the new text: ranges counted from 0. An empty range is
/// an insertion before its line. An insertion that continues the block above it, or that marks what is below
/// it, counts as a change of that line.
pub fn changed_lines(old: &[u8], new: &[u8]) -> Vec<Range<u64>> {
    let (mut lines, mut counted) = (0, 0);
    let mut line = |at: usize| {
        lines += memchr::memchr_iter(b'\n', old.get(counted..at).unwrap_or_default()).count() as u64;
        counted = at;
        let is_within = at > 0 && old.get(at - 1) != Some(&b'\n');
        lines + u64::from(is_within)
    };
    let changed = between(old, new).into_iter().map(|edit| {
        let at = line(edit.old.start)..line(edit.old.end);
        let inserted = new.get(edit.new).unwrap_or_default();
        match at.is_empty() {
            true if continues(old.get(..edit.old.start).unwrap_or_default(), inserted) => {
                at.start.saturating_sub(1)..at.end
            }
            true if marks(inserted) => at.start..at.end + 1,
            _ => at,
        }
    });
    changed.collect()
}

/// Returns true if the text goes on in the block in which the text before it ends.
fn continues(before: &[u8], inserted: &[u8]) -> bool {
    let (Some(last), Some(first)) = (filled(before).next_back(), filled(inserted).next()) else {
        return false;
    };
    let text = last.trim_ascii_start();
    let indentation = |line: &[u8]| line.len() - line.trim_ascii_start().len();
    indentation(first) > 0
        && indentation(first) >= indentation(last)
        && !ENDS.iter().any(|end| text.starts_with(end))
}

/// Returns true if the text ends with a line that marks what follows it, such as a decorator.
fn marks(inserted: &[u8]) -> bool {
    let last = filled(inserted).next_back().unwrap_or_default().trim_ascii_start();
    BELONGS_BELOW.iter().any(|mark| last.starts_with(mark))
}

/// Returns the lines that are not blank.
fn filled(text: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty())
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "a list of ranges is meant")]
mod tests {
    use super::*;

    #[test]
    fn changed_lines_are_those_of_the_old_text() {
        let old = "a\nb\nc\nd\n";
        for (new, expected) in [
            ("a\nb\nc\nd\n", vec![]),
            ("a\nB\nc\nd\n", vec![1..2]),
            ("a\nd\n", vec![1..3]),
            ("a\nb\nx\nc\nd\n", vec![2..2]),
            ("x\na\nb\nc\nd\ny\n", vec![0..0, 4..4]),
            ("A\nb\nc\nD\n", vec![0..1, 3..4]),
            ("a\nb\nc\nd", vec![3..4]),
            ("", vec![0..4]),
        ] {
            assert_eq!(changed_lines(old.as_bytes(), new.as_bytes()), expected, "{new:?}");
        }
        assert_eq!(changed_lines(b"", b"new\n"), [0..0]);
        assert_eq!(changed_lines(b"one", b"two"), [0..1]);
    }

    #[test]
    fn an_insertion_that_continues_a_block_or_marks_the_next_line_is_a_change_of_it() {
        let python = "def f():\n    return 1\ndef g():\n    pass\n";
        let rust = "impl A {\n    fn f() {\n    }\n    fn g() {}\n}\n";
        for (old, at, inserted, expected) in [
            (python, 2, "    more()\n", 1..2),
            (python, 2, "def new():\n    pass\n", 2..2),
            (python, 2, "@cached\n", 2..3),
            (python, 4, "    more()\n", 3..4),
            (rust, 3, "    fn new() {}\n", 3..3),
            (rust, 3, "    #[inline]\n", 3..4),
            (rust, 2, "        let x = 1;\n", 1..2),
        ] {
            let mut lines: Vec<String> = old.lines().map(|line| format!("{line}\n")).collect();
            lines.insert(at, inserted.to_owned());
            assert_eq!(changed_lines(old.as_bytes(), lines.concat().as_bytes()), [expected], "{inserted:?}");
        }
    }
}
