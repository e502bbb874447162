//! Lines of text, broken at the width of the screen.

use std::ops::Range;

use ratatui::text::Span;

/// Returns the number of columns that a character takes.
pub(super) fn columns(character: char) -> usize {
    if character.is_ascii() {
        return 1;
    }
    Span::raw(&*character.encode_utf8(&mut [0; 4])).width()
}

/// Returns the ranges of one line's rows, at least one. A row ends after a word in its second half, else where
/// it is full. The ranges leave nothing out.
pub(super) fn rows(line: &str, width: usize) -> Vec<Range<usize>> {
    let width = width.max(1);
    let mut rows = Vec::new();
    let (mut start, mut used) = (0, 0);
    // The end of the last word of the row, and the columns before it.
    let mut word: Option<(usize, usize)> = None;
    for (at, character) in line.char_indices() {
        let wide = columns(character);
        if used + wide > width && at > start {
            // A space that does not fit ends the row, beyond its last column.
            let (end, before) =
                if character == ' ' { (at + 1, used + 1) } else { word.unwrap_or((at, used)) };
            rows.push(start..end);
            (start, used, word) = (end, used.saturating_sub(before), None);
            if character == ' ' {
                used = 0;
                continue;
            }
        }
        used += wide;
        if character == ' ' && used > width / 2 {
            word = Some((at + 1, used));
        }
    }
    if start < line.len() || rows.is_empty() {
        rows.push(start..line.len());
    }
    rows
}

/// Returns the rows of one line as texts.
pub(super) fn wrapped(line: &str, width: usize) -> Vec<String> {
    rows(line, width).into_iter().map(|row| line.get(row).unwrap_or_default().to_owned()).collect()
}

/// Returns the beginning of a line that fits into this width, with a mark if something was left out.
pub(super) fn cut(line: &str, width: usize) -> String {
    let mut used = 0;
    let mut end = 0;
    for (at, character) in line.char_indices() {
        used += columns(character);
        if used > width {
            return format!("{}…", line.get(..end).unwrap_or_default());
        }
        // One column is for the mark.
        if used < width {
            end = at + character.len_utf8();
        }
    }
    line.to_owned()
}
