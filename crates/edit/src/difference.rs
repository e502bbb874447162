//! Unified diffs of two texts, and the ranges in which two texts differ.

use std::fmt::Write;
use std::ops::Range;

use similar::{Algorithm, DiffOp, capture_diff_slices};

/// A range of a text and the range that replaced it, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedRange {
    /// The range in the old text.
    pub old: Range<usize>,
    /// The range in the new text.
    pub new: Range<usize>,
}

/// Context lines on each side of a change.
const CONTEXT: usize = 3;
/// Maximum number of lines of a block that is compared line by line. A longer block is shown as
/// replaced, because its comparison would take longer than the edit.
const LONGEST_BLOCK: usize = 2_000;
/// Length of one diff, in bytes, after which further hunks are only counted.
const MAX_BYTES: usize = 100_000;

/// A run of whole changed lines, as byte ranges of the old and the new text.
struct Block {
    old: Range<usize>,
    new: Range<usize>,
}

/// Returns the difference of two texts in the unified format, given the ranges that changed.
/// Returns an empty string if no line differs.
///
/// The work is proportional to the edits, not to the length of the text. A long diff is cut between
/// hunks, and its last line reports the cut.
pub fn unified(name: &str, old: &[u8], new: &[u8], edited: &[EditedRange]) -> String {
    let header = format!("--- {}\n+++ {}\n", name_of_side("a", name), name_of_side("b", name));
    with_header(header, old, new, edited)
}

/// Returns the difference of two whole texts in the unified format. A side that is `None` is a
/// missing file and is named `/dev/null`.
///
/// Returns an empty string if both texts are equal, and if one is empty and the other is missing.
pub fn unified_whole(name: &str, old: Option<&[u8]>, new: Option<&[u8]>) -> String {
    let named = |letter: &str, side: Option<&[u8]>| match side {
        Some(_) => name_of_side(letter, name),
        None => "/dev/null".to_owned(),
    };
    let header = format!("--- {}\n+++ {}\n", named("a", old), named("b", new));
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    with_header(header, old, new, &between(old, new))
}

/// Returns the name of one side of the header. A name with control characters or quotes is quoted
/// as git quotes it, so that it cannot pass for another line.
fn name_of_side(letter: &str, name: &str) -> String {
    if !name.chars().any(|character| character.is_control() || character == '"') {
        return format!("{letter}/{name}");
    }
    let mut quoted = format!("\"{letter}/");
    for character in name.chars() {
        match character {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '"' | '\\' => quoted.extend(['\\', character]),
            _ if character.is_control() => {
                for byte in character.encode_utf8(&mut [0; 4]).bytes() {
                    // Writing into a string cannot fail.
                    let _ = write!(quoted, "\\{byte:03o}");
                }
            }
            _ => quoted.push(character),
        }
    }
    quoted.push('"');
    quoted
}

fn with_header(mut shown: String, old: &[u8], new: &[u8], edited: &[EditedRange]) -> String {
    let blocks = blocks(old, new, edited);
    let mut hunks = 0;
    let mut left_out = 0;
    let (mut old_line, mut new_line) = (Counter::default(), Counter::default());
    let mut rest = &blocks[..];
    while let Some(first) = rest.first() {
        let mut count = 1;
        // Blocks whose context lines would meet form one hunk.
        while let Some(next) = rest.get(count)
            && lines(&old[rest[count - 1].old.end..next.old.start]).take(2 * CONTEXT + 1).count()
                <= 2 * CONTEXT
        {
            count += 1;
        }
        let (of_hunk, others) = rest.split_at(count);
        rest = others;
        if shown.len() > MAX_BYTES {
            left_out += 1;
            continue;
        }
        let before = lines_before(old, first.old.start);
        let last = of_hunk.last().map_or(first.old.end, |block| block.old.end);
        let hunk = hunk(old, new, of_hunk, before, last);
        let start = first.old.start - before;
        let old_at = old_line.at(old, start);
        let new_at = new_line.at(new, first.new.start - before);
        if let Some((text, old_count, new_count)) = hunk {
            hunks += 1;
            let number = |at: usize, count: usize| if count == 0 { at } else { at + 1 };
            let range = |at: usize, count: usize| match count {
                1 => (at + 1).to_string(),
                count => format!("{},{count}", number(at, count)),
            };
            let _ = writeln!(shown, "@@ -{} +{} @@", range(old_at, old_count), range(new_at, new_count));
            shown.push_str(&text);
        }
    }
    if left_out > 0 {
        let _ = writeln!(shown, "\\ {left_out} more hunks are not shown");
    }
    if hunks == 0 { String::new() } else { shown }
}

/// Returns the edits that turn one text into the other, line by line. If the part that differs has
/// more than `LONGEST_BLOCK` lines on one side, it is one edit.
pub fn between(old: &[u8], new: &[u8]) -> Vec<EditedRange> {
    let (one, other): (Vec<&[u8]>, Vec<&[u8]>) = (lines(old).collect(), lines(new).collect());
    let before = one.iter().zip(&other).take_while(|(old, new)| old == new).count();
    let (one_rest, other_rest) = (&one[before..], &other[before..]);
    let behind =
        one_rest.iter().rev().zip(other_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (one_rest, other_rest) =
        (&one_rest[..one_rest.len() - behind], &other_rest[..other_rest.len() - behind]);
    let bytes = |lines: &[&[u8]]| lines.iter().map(|line| line.len()).sum::<usize>();
    let start = bytes(&one[..before]);
    if one_rest.is_empty() && other_rest.is_empty() {
        return Vec::new();
    }
    if one_rest.len() > LONGEST_BLOCK || other_rest.len() > LONGEST_BLOCK {
        let part = EditedRange { old: start..start + bytes(one_rest), new: start..start + bytes(other_rest) };
        return vec![part];
    }
    let (mut old_at, mut new_at) = (start, start);
    let mut edited = Vec::new();
    for operation in capture_diff_slices(Algorithm::Myers, one_rest, other_rest) {
        let old_end = old_at + bytes(&one_rest[operation.old_range()]);
        let new_end = new_at + bytes(&other_rest[operation.new_range()]);
        if !matches!(operation, DiffOp::Equal { .. }) {
            edited.push(EditedRange { old: old_at..old_end, new: new_at..new_end });
        }
        (old_at, new_at) = (old_end, new_end);
    }
    edited
}

/// A counter of lines that scans each byte of a text once.
#[derive(Default)]
struct Counter {
    offset: usize,
    lines: usize,
}

impl Counter {
    fn at(&mut self, text: &[u8], offset: usize) -> usize {
        self.lines += memchr::memchr_iter(b'\n', &text[self.offset..offset]).count();
        self.offset = offset;
        self.lines
    }
}

/// Widens the edits to whole lines. Edits that share a line are merged.
fn blocks(old: &[u8], new: &[u8], edited: &[EditedRange]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::with_capacity(edited.len());
    for edit in edited {
        let start = memchr::memrchr(b'\n', &old[..edit.old.start]).map_or(0, |at| at + 1);
        let starts_line = |text: &[u8], at: usize| at == 0 || text[at - 1] == b'\n';
        let ends_between = starts_line(old, edit.old.end) && starts_line(new, edit.new.end);
        let end = if ends_between {
            edit.old.end
        } else {
            memchr::memchr(b'\n', &old[edit.old.end..]).map_or(old.len(), |at| edit.old.end + at + 1)
        };
        let block = Block {
            old: start..end,
            new: edit.new.start - (edit.old.start - start)..edit.new.end + (end - edit.old.end),
        };
        match blocks.last_mut() {
            Some(last) if block.old.start < last.old.end => {
                last.old.end = last.old.end.max(block.old.end);
                last.new.end = last.new.end.max(block.new.end);
            }
            _ => blocks.push(block),
        }
    }
    blocks
}

fn hunk(
    old: &[u8],
    new: &[u8],
    blocks: &[Block],
    before: usize,
    last: usize,
) -> Option<(String, usize, usize)> {
    let first = blocks.first()?;
    let mut made = Hunk::default();
    made.context(&old[first.old.start - before..first.old.start]);
    let mut at = first.old.start;
    let mut changed = false;
    for block in blocks {
        made.context(&old[at..block.old.start]);
        at = block.old.end;
        let one: Vec<&[u8]> = lines(&old[block.old.clone()]).collect();
        let other: Vec<&[u8]> = lines(&new[block.new.clone()]).collect();
        changed |= one != other;
        if one.len() > LONGEST_BLOCK || other.len() > LONGEST_BLOCK {
            made.replaced(&one, &other);
            continue;
        }
        for operation in capture_diff_slices(Algorithm::Myers, &one, &other) {
            let (old, new) = (operation.old_range(), operation.new_range());
            match operation {
                DiffOp::Equal { .. } => made.lines(' ', &one[old]),
                _ => made.replaced(&one[old], &other[new]),
            }
        }
    }
    let behind: usize = lines(&old[last..]).take(CONTEXT).map(<[u8]>::len).sum();
    made.context(&old[last..last + behind]);
    changed.then_some((made.text, made.old, made.new))
}

#[derive(Default)]
struct Hunk {
    text: String,
    old: usize,
    new: usize,
}

impl Hunk {
    fn context(&mut self, text: &[u8]) {
        for line in lines(text) {
            self.line(' ', line);
        }
    }

    fn replaced(&mut self, old: &[&[u8]], new: &[&[u8]]) {
        self.lines('-', old);
        self.lines('+', new);
    }

    fn lines(&mut self, sign: char, lines: &[&[u8]]) {
        for line in lines {
            self.line(sign, line);
        }
    }

    fn line(&mut self, sign: char, line: &[u8]) {
        self.old += usize::from(sign != '+');
        self.new += usize::from(sign != '-');
        self.text.push(sign);
        self.text.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            self.text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split_inclusive(|byte| *byte == b'\n')
}

/// Returns the length in bytes of the context lines before a line.
fn lines_before(text: &[u8], start: usize) -> usize {
    let mut at = start;
    for _ in 0..CONTEXT {
        if at == 0 {
            break;
        }
        at = memchr::memrchr(b'\n', &text[..at - 1]).map_or(0, |lf| lf + 1);
    }
    start - at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_makes_a_line_of_its_own_in_a_difference() {
        let name = "x\n+++ b/other\n@@ -1 +1 @@\n-a\n+b\r\u{85}";
        let shown = unified_whole(name, None, Some(b"content\n"));
        let quoted = r#""b/x\n+++ b/other\n@@ -1 +1 @@\n-a\n+b\r\302\205""#;
        assert_eq!(shown, format!("--- /dev/null\n+++ {quoted}\n@@ -0,0 +1 @@\n+content\n"));
        let [edited] = [EditedRange { old: 0..1, new: 0..1 }];
        let shown = unified("a \"b\"", b"a\n", b"b\n", &[edited]);
        assert!(shown.starts_with("--- \"a/a \\\"b\\\"\"\n+++ \"b/a \\\"b\\\"\"\n"), "{shown}");
    }
    use crate::{Count, Replacement, replace};

    fn difference(text: &str, pairs: &[(&str, &str)]) -> String {
        let list: Vec<_> =
            pairs.iter().map(|(old, new)| Replacement { old, new, count: Count::Any }).collect();
        let replaced = replace(text.as_bytes(), &list).unwrap();
        unified("f", text.as_bytes(), &replaced.text, &replaced.edited)
    }

    #[test]
    fn only_changed_lines_and_their_context_are_shown() {
        let text: String = (1..=30).map(|line| format!("{line}\n")).collect();
        let shown = difference(&text, &[("\n5\n", "\nfive\n"), ("\n10\n", "\n"), ("20\n", "20\n20a\n20b\n")]);
        let expected = "--- a/f\n+++ b/f\n@@ -2,12 +2,11 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n-10\n 11\n 12\n 13\n\
                        @@ -18,6 +17,8 @@\n 18\n 19\n 20\n+20a\n+20b\n 21\n 22\n 23\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn the_end_of_the_file_is_told_as_git_tells_it() {
        let shown = difference("a\nb", &[("b", "c")]);
        let end = "\\ No newline at end of file\n";
        assert_eq!(shown, format!("--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n{end}+c\n{end}"));
        assert_eq!(difference("a\n", &[("a\n", "")]), "--- a/f\n+++ b/f\n@@ -1 +0,0 @@\n-a\n");
        assert_eq!(difference("a", &[("a", "a\n")]), format!("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n{end}+a\n"));
    }

    proptest::proptest! {
        #[test]
        fn what_is_between_two_texts_makes_the_one_of_the_other(old in "([ab]?[ab]\n?){0,12}", new in "([ab]?[ab]\n?){0,12}") {
            let (mut made, mut at) = (String::new(), 0);
            for edited in between(old.as_bytes(), new.as_bytes()) {
                made.push_str(&old[at..edited.old.start]);
                made.push_str(&new[edited.new]);
                at = edited.old.end;
            }
            made.push_str(&old[at..]);
            proptest::prop_assert_eq!(made, new);
        }
    }

    #[test]
    fn a_change_of_a_long_text_is_shown_without_the_text() {
        let old: String = (0..10_000).map(|line| format!("{line}\n")).collect();
        let new = old.replace("5000\n", "").replace("9000\n", "9000\nnew\n");
        let shown = unified("f", old.as_bytes(), new.as_bytes(), &between(old.as_bytes(), new.as_bytes()));
        // More than `LONGEST_BLOCK` lines lie between the two changes, so all of them form one
        // edit.
        assert!(shown.starts_with("--- a/f\n+++ b/f\n@@ -4998,") && shown.contains("\n-5000\n"), "{shown}");
        let near = old.replace("5000\n", "").replace("5009\n", "5009\nnew\n");
        let shown = unified("f", old.as_bytes(), near.as_bytes(), &between(old.as_bytes(), near.as_bytes()));
        assert_eq!(shown.lines().count(), 2 + 2 + 7 + 7, "{shown}");
        assert!(between(old.as_bytes(), old.as_bytes()).is_empty());
    }

    #[test]
    fn a_long_difference_is_cut_between_hunks() {
        let text: String = (0..20_000).map(|line| format!("{line} x\n\n\n\n\n\n\n\n")).collect();
        let shown = difference(&text, &[(" x", " y")]);
        assert!(shown.len() < 2 * MAX_BYTES && shown.ends_with("more hunks are not shown\n"));
    }
}
