//! Summaries of command output in at most 500 characters: the first line that mentions an error,
//! and the last lines.

use std::collections::VecDeque;

use crate::value::bounded;

/// Maximum number of characters in a summary (the source: 500 each).
pub(crate) const LONGEST: usize = 500;
/// Maximum number of characters in the line that precedes the last lines.
const LONGEST_APART: usize = 160;
/// Bytes of a line that are retained from its beginning, and from its end.
const PART: usize = 2048;
/// Marker for omitted lines.
const MARK: &str = "[...]\n";

/// Lowercase words that mark a line as a report of an error.
const TELLING: [&str; 9] =
    ["error", "failed", "failure", "fatal", "panic", "exception", "traceback", "not found", "denied"];

/// Summarizes a stream while it is read, in bounded memory.
#[derive(Default)]
pub(crate) struct Summary {
    /// The current line: its first bytes, and the last of the bytes after these.
    line: (Vec<u8>, VecDeque<u8>),
    has_begun: bool,
    /// Number of lines that have ended.
    lines: usize,
    /// Full text, until it is too long for a summary.
    all: String,
    is_too_long: bool,
    first: Option<String>,
    telling: Option<(usize, String)>,
    /// The last lines with their numbers, at least as many as a summary can show.
    last: VecDeque<(usize, String)>,
}

impl Summary {
    /// Adds the next bytes of the stream.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(end) = memchr::memchr(b'\n', rest) {
            self.add(&rest[..end]);
            self.end_line();
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.add(rest);
        }
    }

    /// Returns the summary.
    pub(crate) fn finish(mut self) -> String {
        if self.has_begun {
            self.end_line();
        }
        let all = self.all.trim_matches('\n');
        if !self.is_too_long && all.chars().count() <= LONGEST {
            return all.to_owned();
        }
        while self.last.back().is_some_and(|(_, line)| line.is_empty()) {
            self.last.pop_back();
        }
        let apart = self.telling.clone().or(self.first.clone().map(|line| (0, line)));
        if let Some((number, line)) = apart {
            let head = format!("{line}\n{MARK}");
            let (from, tail) = self.tail(LONGEST - head.chars().count());
            if number < from {
                return format!("{head}{tail}");
            }
        }
        format!("{MARK}{}", self.tail(LONGEST - MARK.len()).1)
    }

    fn add(&mut self, part: &[u8]) {
        self.has_begun = true;
        let (beginning, end) = &mut self.line;
        let (first, behind) = part.split_at(part.len().min(PART - beginning.len()));
        beginning.extend_from_slice(first);
        end.extend(&behind[behind.len().saturating_sub(PART)..]);
        end.drain(..end.len().saturating_sub(PART));
    }

    fn end_line(&mut self) {
        let (mut bytes, end) = std::mem::take(&mut self.line);
        self.has_begun = false;
        bytes.extend(end);
        let line = readable(&bytes);
        let number = self.lines;
        self.lines += 1;
        if !self.is_too_long {
            self.all.push_str(&line);
            self.all.push('\n');
            // A character has at most four bytes in UTF-8.
            self.is_too_long = self.all.len() > 4 * LONGEST + 4;
        }
        if self.first.is_none() && !line.is_empty() {
            self.first = Some(bounded(&line, LONGEST_APART));
        }
        if self.telling.is_none() && tells(&line) {
            self.telling = Some((number, bounded(&line, LONGEST_APART)));
        }
        self.last.push_back((number, line));
        let mut kept: usize = self.last.iter().map(|(_, line)| line.len() + 1).sum();
        while let Some((_, line)) = self.last.front().filter(|(_, line)| kept - line.len() > 4 * LONGEST) {
            kept -= line.len() + 1;
            self.last.pop_front();
        }
    }

    /// Returns as many of the last lines as fit into `room` characters, with the number of the
    /// first returned line. If the last line alone is too long, the text is the end of that line.
    fn tail(&self, room: usize) -> (usize, String) {
        let (mut from, mut used) = (self.lines, 0);
        let mut lines: Vec<&str> = Vec::new();
        for (number, line) in self.last.iter().rev() {
            used += line.chars().count() + 1;
            if used > room {
                break;
            }
            from = *number;
            lines.push(line);
        }
        if let (true, Some((number, line))) = (lines.is_empty(), self.last.back()) {
            let skipped = line.chars().count().saturating_sub(room);
            return (*number, line.chars().skip(skipped).collect());
        }
        lines.reverse();
        (from, lines.join("\n"))
    }
}

fn tells(line: &str) -> bool {
    let small = line.to_ascii_lowercase();
    // A line that counts zero errors does not report one.
    TELLING.iter().any(|word| small.contains(word))
        && !small.contains("0 failed")
        && !small.contains("0 errors")
}

/// Converts a line to text without terminal escapes. If carriage returns overwrote the line, only
/// its last state remains.
fn readable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end();
    let text = text.rsplit('\r').next().unwrap_or(text);
    let mut line = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character != '\u{1b}' {
            line.push(character);
            continue;
        }
        // A control sequence (ECMA-48, 5.4) extends to its final character. Other escapes have two
        // characters.
        if characters.next() == Some('[') {
            while characters.next_if(|next| (' '..='?').contains(next)).is_some() {}
            characters.next_if(|next| ('@'..='~').contains(next));
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn summary(text: &str) -> String {
        let mut summary = Summary::default();
        summary.push(text.as_bytes());
        summary.finish()
    }

    #[test]
    fn what_is_short_is_shown_as_it_is() {
        assert_eq!(summary(""), "");
        assert_eq!(summary("\n\n"), "");
        assert_eq!(summary("19 tests passed\n"), "19 tests passed");
        assert_eq!(summary("  one\n\n two \n\n"), "  one\n\n two");
        assert_eq!(summary("\u{1b}[31mred\u{1b}[0m\u{1b}[2K 10%\r 99%\r\n"), " 99%");
        assert_eq!(summary(&"ä".repeat(500)), "ä".repeat(500));
    }

    #[test]
    fn the_first_error_and_the_last_lines_stay() {
        let noise: String = (0..300).map(|number| format!("compiling part {number}\n")).collect();
        let text = format!("{noise}error[E0308]: mismatched types\n{noise}error: aborting\nbuild failed\n");
        let short = summary(&text);
        assert!(short.starts_with("error[E0308]: mismatched types\n[...]\ncompiling part "), "{short}");
        assert!(short.ends_with("compiling part 299\nerror: aborting\nbuild failed"), "{short}");
        assert!(short.chars().count() <= LONGEST && short.chars().count() > LONGEST - 40, "{short}");
        // An error among the last lines appears only once.
        let short = summary(&format!("{noise}Error: Cannot find module 'jest'\n"));
        assert_eq!(short.matches("jest").count(), 1);
        assert!(short.starts_with("[...]\n") && short.ends_with("'jest'"), "{short}");
        // If no line reports an error, the first line of the output introduces the summary.
        let short = summary(&format!("> test\n{noise}12 passed, 0 failed\n"));
        assert!(short.starts_with("> test\n[...]\n") && short.ends_with("12 passed, 0 failed"), "{short}");
    }

    #[test]
    fn of_one_endless_line_the_beginning_and_the_end_stay() {
        let short = summary(&format!("begin {} end", "x".repeat(3_000_000)));
        assert!(short.ends_with("x end") && short.chars().count() <= LONGEST, "{short}");
    }

    proptest! {
        #[test]
        fn a_summary_is_never_too_long_however_the_bytes_come(
            parts in proptest::collection::vec(prop_oneof![
                "[a-zä\u{1F600}\n ]{0,80}".prop_map(String::into_bytes),
                "(error|failed)?x{0,900}\r?\n{0,2}".prop_map(String::into_bytes),
                proptest::collection::vec(any::<u8>(), 0..40),
            ], 0..20),
        ) {
            let mut piecewise = Summary::default();
            for part in &parts {
                piecewise.push(part);
            }
            let mut whole = Summary::default();
            whole.push(&parts.concat());
            let short = piecewise.finish();
            prop_assert!(short.chars().count() <= LONGEST, "{}", short.chars().count());
            prop_assert_eq!(short, whole.finish());
        }
    }
}
