//! Applies the hunks of a patch to the content of a file.

use std::collections::VecDeque;

use super::find::{HunkPlace, Level, PlaceError, Target, without_end};
use super::{Hunk, Sign};
use crate::line_ends::line_end_at;
use crate::{EditedRange, Near, Place, nearest, replace};

/// Content of a file after all hunks were applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchedContent {
    /// The new content.
    pub text: Vec<u8>,
    /// The ranges that changed.
    pub edited: Vec<EditedRange>,
    /// Hunks that were not exactly at their stated line, or not with exactly their stated content.
    pub drifts: Vec<Drift>,
}

/// A hunk that was found elsewhere or with different white space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drift {
    /// The line of the patch on which the hunk begins.
    pub hunk: usize,
    /// The line of the file at which the hunk was found, counted from 1.
    pub found: usize,
    /// Distance in lines below the line in the header, after the shift of earlier hunks. Negative
    /// means further up.
    pub lines: i64,
    /// True if white space differs.
    pub white_space: bool,
}

/// A reason why a hunk cannot be applied. In that case no hunk of the patch is applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HunkRefused {
    /// The file does not have the lines of the hunk.
    Nowhere {
        /// The line of the patch on which the hunk begins.
        hunk: usize,
        /// The most similar places, the best first.
        nearest: Vec<Near>,
    },
    /// The file has the lines of the hunk several times, and not at the stated line.
    Several {
        /// The line of the patch on which the hunk begins.
        hunk: usize,
        /// The first places.
        places: Vec<Place>,
    },
    /// The file does not have a line that must come before the hunk.
    Anchor {
        /// The line of the patch on which the hunk begins.
        hunk: usize,
        /// The missing line.
        anchor: String,
    },
    /// The hunk adds lines to a file with content, but has no context that locates them.
    NoContext {
        /// The line of the patch on which the hunk begins.
        hunk: usize,
    },
    /// The search would take too long, because nearly all lines of the file are equal.
    TooMuchWork {
        /// The line of the patch on which the hunk begins.
        hunk: usize,
    },
}

/// Applies hunks to a content, in order.
///
/// A hunk applies at the line in its header if the file has its lines there. Elsewhere, or if only
/// white space differs, it applies if only one place after the previous hunk matches. Line ends are
/// those of the file.
///
/// # Errors
/// [`HunkRefused`].
pub fn apply(text: &[u8], hunks: &[Hunk]) -> Result<PatchedContent, HunkRefused> {
    let mut target = Target::of(text);
    let mut made =
        PatchedContent { text: Vec::with_capacity(text.len()), edited: Vec::new(), drifts: Vec::new() };
    // Lines, and bytes, of the file that are processed.
    let (mut from, mut done) = (0, 0);
    let mut moved: i64 = 0;
    for hunk in hunks {
        let placed = place(&mut target, hunk, from, moved).map_err(|missing| refused(text, hunk, missing))?;
        let count = hunk.old().count();
        let start = done + length(&target.lines[from..placed.at]);
        let end = start + length(&target.lines[placed.at..placed.at + count]);
        made.text.extend_from_slice(&text[done..start]);
        let begin = made.text.len();
        write(&mut made.text, text, start, &target.lines[placed.at..], hunk, placed.level);
        made.edited.push(EditedRange { old: start..end, new: begin..made.text.len() });
        let further = hunk.start.map_or(0, |start| difference(placed.at, first_line(hunk, start)));
        let white_space = placed.level >= Level::Trailing;
        if further != moved || white_space {
            let lines = if hunk.start.is_some() { further - moved } else { 0 };
            made.drifts.push(Drift { hunk: hunk.line, found: placed.at + 1, lines, white_space });
        }
        if hunk.start.is_some() {
            moved = further;
        }
        (from, done) = (placed.at + count, end);
    }
    made.text.extend_from_slice(&text[done..]);
    Ok(made)
}

fn place(target: &mut Target<'_>, hunk: &Hunk, from: usize, moved: i64) -> Result<HunkPlace, PlaceError> {
    let said = hunk.start.map(|start| first_line(hunk, start));
    let expected = said.and_then(|said| i64::try_from(said).ok()?.checked_add(moved)?.try_into().ok());
    if hunk.old().next().is_some() {
        return target.find(hunk, from, expected);
    }
    // A hunk without old lines is located only by its line number, which cannot be verified.
    let lines = target.lines.len();
    match (hunk.start, hunk.anchors.is_empty()) {
        (Some(_), _) if lines > 0 => Err(PlaceError::Nowhere),
        (Some(_), _) => Ok(HunkPlace { at: 0, level: Level::Exact }),
        // In the envelope format, the lines are appended to the file.
        (None, true) => Ok(HunkPlace { at: lines, level: Level::LineEnd }),
        (None, false) => {
            let anchored = Hunk { lines: Vec::new(), ..hunk.clone() };
            match target.behind(&anchored, from)? {
                Some(line) => Ok(HunkPlace { at: line + 1, level: Level::LineEnd }),
                None => Err(PlaceError::Nowhere),
            }
        }
    }
}

/// Returns the line that a header names, counted from 0. A header without old lines names the line
/// before the hunk.
fn first_line(hunk: &Hunk, start: usize) -> usize {
    if hunk.old().next().is_none() { start } else { start.saturating_sub(1) }
}

fn difference(one: usize, other: usize) -> i64 {
    let signed = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    signed(one) - signed(other)
}

fn length(lines: &[&[u8]]) -> usize {
    lines.iter().map(|line| line.len()).sum()
}

fn refused(text: &[u8], hunk: &Hunk, missing: PlaceError) -> HunkRefused {
    let line = hunk.line;
    match missing {
        PlaceError::Nowhere if hunk.old().next().is_none() => HunkRefused::NoContext { hunk: line },
        PlaceError::Nowhere => {
            let wanted: Vec<u8> =
                hunk.old().flat_map(|line| [line.text.as_bytes(), b"\n"].concat()).collect();
            HunkRefused::Nowhere { hunk: line, nearest: nearest(text, &wanted) }
        }
        PlaceError::Several(places) => {
            let mut starts = places.iter().map(|place| offset_of_line(text, *place));
            let places = starts.by_ref().map(|start| replace::place_at(text, start)).collect();
            HunkRefused::Several { hunk: line, places }
        }
        PlaceError::Anchor(anchor) => HunkRefused::Anchor { hunk: line, anchor },
        PlaceError::TooMuchWork => HunkRefused::TooMuchWork { hunk: line },
    }
}

fn offset_of_line(text: &[u8], line: usize) -> usize {
    match line.checked_sub(1) {
        None => 0,
        Some(before) => memchr::memchr_iter(b'\n', text).nth(before).map_or(text.len(), |lf| lf + 1),
    }
}

/// Writes the result of a hunk for the lines `there`, which begin at byte `start`.
fn write(made: &mut Vec<u8>, text: &[u8], start: usize, there: &[&[u8]], hunk: &Hunk, level: Level) {
    if level == Level::Exact {
        let mut old = there.iter();
        for line in &hunk.lines {
            match line.sign {
                Sign::Context => made.extend_from_slice(old.next().copied().unwrap_or_default()),
                Sign::Removed => drop(old.next()),
                Sign::Added => {
                    made.extend_from_slice(line.text.as_bytes());
                    made.extend_from_slice(if line.ended { b"\n" } else { b"" });
                }
            }
        }
        return;
    }
    let end = line_end_at(text, start.min(text.len()));
    let ends_file = there.len() == hunk.old().count();
    let file_is_ended = text.is_empty() || text.ends_with(b"\n");
    // The hunk adds text after a last line that has no line end.
    if start == text.len() && !file_is_ended {
        made.extend_from_slice(end);
    }
    let indents = Indents::of(hunk, there, level);
    let mut old = there.iter().copied();
    let mut lines: Vec<(Vec<u8>, &[u8])> = Vec::new();
    // Each new line takes the line end of the line that it replaces, or else of the line before it.
    let (mut replaced, mut last) = (VecDeque::new(), end);
    let end_of = |line: &'_ [u8]| if line.ends_with(b"\r\n") { &b"\r\n"[..] } else { b"\n" };
    for line in &hunk.lines {
        match line.sign {
            Sign::Context => {
                let there = old.next().unwrap_or_default();
                let content = without_end(there);
                replaced.clear();
                if there.ends_with(b"\n") {
                    last = end_of(there);
                }
                lines.push((content.to_vec(), &there[content.len()..]));
            }
            Sign::Removed => {
                let there = old.next().unwrap_or_default();
                replaced.push_back(if there.ends_with(b"\n") { end_of(there) } else { last });
            }
            Sign::Added => {
                let content = line.text.strip_suffix('\r').unwrap_or(&line.text);
                last = replaced.pop_front().unwrap_or(last);
                lines.push((indents.of_file(content), last));
            }
        }
    }
    let count = lines.len();
    for (number, (content, own_end)) in lines.into_iter().enumerate() {
        made.extend_from_slice(&content);
        let is_last = number + 1 == count && ends_file;
        if is_last && !file_is_ended {
            continue;
        }
        made.extend_from_slice(if own_end.is_empty() { end } else { own_end });
    }
}

/// A map from the indentation in the patch to the indentation in the file, learnt from the lines
/// that both have.
struct Indents<'a>(Vec<(&'a str, Option<&'a [u8]>)>);

impl<'a> Indents<'a> {
    fn of(hunk: &'a Hunk, there: &[&'a [u8]], level: Level) -> Self {
        let mut known: Vec<(&str, Option<&[u8]>)> = Vec::new();
        if level == Level::WhiteSpace {
            for (line, there) in hunk.old().zip(there) {
                let (patch, file) = (indent(&line.text), indent_of(there));
                match known.iter_mut().find(|(indent, _)| *indent == patch) {
                    // Equal indentation in the patch, different in the file: no rule can be learnt.
                    Some((_, learnt)) if *learnt != Some(file) => *learnt = None,
                    Some(_) => {}
                    None => known.push((patch, Some(file))),
                }
            }
        }
        Self(known)
    }

    fn of_file(&self, line: &str) -> Vec<u8> {
        let own = indent(line);
        let learnt = self.0.iter().find(|(indent, _)| *indent == own).and_then(|(_, file)| *file);
        [learnt.unwrap_or(own.as_bytes()), &line.as_bytes()[own.len()..]].concat()
    }
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start_matches([' ', '\t']).len()]
}

fn indent_of(line: &[u8]) -> &[u8] {
    let blank = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &line[..blank]
}

#[cfg(test)]
mod tests {
    use super::super::Patch;
    use super::*;

    fn applied(text: &str, patch: &str) -> Result<PatchedContent, HunkRefused> {
        apply(text.as_bytes(), &Patch::read(patch, Some("f")).unwrap().files[0].hunks)
    }

    fn text(text: &str, patch: &str) -> String {
        String::from_utf8(applied(text, patch).unwrap().text).unwrap()
    }

    #[test]
    fn a_hunk_applies_where_it_says_or_at_the_one_other_place() {
        let patch = "@@ -2,2 +2,2 @@\n b\n-c\n+x\n";
        assert_eq!(text("a\nb\nc\nb\nc\n", patch), "a\nb\nx\nb\nc\n");
        let moved = applied("0\n1\na\nb\nc\nd\n", patch).unwrap();
        assert_eq!(moved.text, b"0\n1\na\nb\nx\nd\n");
        assert_eq!(moved.drifts, [Drift { hunk: 1, found: 4, lines: 2, white_space: false }]);
        let twice = applied("0\nb\nc\na\nb\nc\n", "@@ -3,2 +3,2 @@\n b\n-c\n+x\n").unwrap_err();
        let HunkRefused::Several { hunk: 1, places } = twice else { panic!("{twice:?}") };
        assert_eq!(places.iter().map(|place| place.line).collect::<Vec<_>>(), [2, 5]);
        let HunkRefused::Nowhere { nearest, .. } =
            applied("alpha\nbeta\n", "@@ -1 +1 @@\n-alpho\n+x\n").unwrap_err()
        else {
            panic!()
        };
        assert_eq!(nearest[0].line, 1);
    }

    #[test]
    fn hunks_behind_one_that_moved_move_with_it() {
        let patch = "@@ -1,1 +1,1 @@\n-first\n+1\n@@ -3 +3 @@\n-b\n+x\n";
        let moved = applied("0\nfirst\nb\nb\nb\n", patch).unwrap();
        assert_eq!((moved.text.as_slice(), moved.drifts.len()), (&b"0\n1\nb\nx\nb\n"[..], 1));
    }

    #[test]
    fn line_ends_and_the_end_of_the_file_stay() {
        assert_eq!(text("a\r\nb\r\nc", "@@ -1,2 +1,3 @@\n a\n-b\n+x\n+y\n"), "a\r\nx\r\ny\r\nc");
        assert_eq!(text("a\r\nb", "@@ -1,2 +1,3 @@\n a\n-b\n+x\n+y\n"), "a\r\nx\r\ny");
        assert_eq!(text("a", "@@ -1 +1,2 @@\n a\n+b\n"), "a\nb");
        assert_eq!(text("a\r\nb\nc\r\n", "@@ -1,3 +1,4 @@\n a\n-b\n+x\n+y\n c\n"), "a\r\nx\ny\nc\r\n");
        assert_eq!(text("a\nb\r\nc\n", "@@ -1,3 +1,4 @@\n a\n-b\n+x\n c\n+y\n"), "a\nx\r\nc\ny\n");
        let end = "\\ No newline at end of file\n";
        assert_eq!(text("a", &format!("@@ -1 +1 @@\n-a\n{end}+a\n")), "a\n");
        assert_eq!(text("a\n", &format!("@@ -1 +1 @@\n-a\n+a\n{end}")), "a");
        assert_eq!(text("a\r\n", "@@ -1 +1 @@\n-a\r\n+a\n"), "a\n");
        assert_eq!(text("", "@@ -0,0 +1,1 @@\n+a\n"), "a\n");
        assert_eq!(text("a\n", "@@ -1 +0,0 @@\n-a\n"), "");
    }

    #[test]
    fn white_space_may_differ_where_the_place_is_the_only_one() {
        let patch = "@@ -1,2 +1,3 @@\n if x:\n-    old()\n+    new()\n+        deep()\n";
        let drifted = applied("if  x:\n\told()\n", patch).unwrap();
        assert_eq!(drifted.text, b"if  x:\n\tnew()\n        deep()\n");
        assert!(drifted.drifts[0].white_space);
        let several = applied("if  x:\n\told()\nif x: \n\told()\n", patch).unwrap_err();
        assert!(matches!(several, HunkRefused::Several { .. }), "{several:?}");
    }

    #[test]
    fn anchors_say_which_of_several_places_is_meant() {
        let file = "def a():\n    return 1\n\ndef b():\n    return 1\n";
        let patch = |anchor: &str| format!("@@ {anchor}\n-    return 1\n+    return 2\n");
        assert_eq!(text(file, &patch("def b():")), "def a():\n    return 1\n\ndef b():\n    return 2\n");
        assert_eq!(text(file, &patch("def a():")), "def a():\n    return 2\n\ndef b():\n    return 1\n");
        assert!(matches!(applied(file, &patch("def c():")).unwrap_err(), HunkRefused::Anchor { .. }));
        assert!(matches!(applied(file, &patch("")).unwrap_err(), HunkRefused::Several { .. }));
        assert_eq!(text("a\nb\n", "@@ a\n+x\n"), "a\nx\nb\n");
        assert_eq!(text("a\nb\n", "@@ @@\n+x\n"), "a\nb\nx\n");
        let refused = applied("a\nb\n", "@@ -1,0 +2 @@\n+x\n").unwrap_err();
        assert_eq!(refused, HunkRefused::NoContext { hunk: 1 });
    }
}
