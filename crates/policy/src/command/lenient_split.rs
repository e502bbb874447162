//! Loose reading of scripts that no parser understands.

/// One segment of a script between two operators, read without understanding it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Segment {
    /// Words, without quotes and backslashes; redirections are separate words.
    pub(super) words: Vec<String>,
    /// True if the segment follows a single `|`.
    pub(super) piped: bool,
    /// True if the segment is inside `$(`, a backtick or `<(`.
    pub(super) substituted: bool,
    /// True if the segment is known to only read.
    pub(super) reads: bool,
    /// True if the words could be statements for a database.
    pub(super) states: bool,
    /// Here-documents that the segment is passed.
    pub(super) texts: Vec<String>,
}

/// Splits any text at every character that could separate commands.
///
/// This is a tripwire for lines that no parser understands. It finds more commands than there are,
/// in quoted text too, and must never be used to let a call pass.
pub(super) fn segments(script: &str) -> Vec<Segment> {
    // Spellings of a space or of the home folder would otherwise be split.
    let script = script
        .replace("\\\n", "")
        .replace("${IFS}", " ")
        .replace("$IFS", " ")
        .replace("${HOME}", "$HOME")
        .replace("&>", " > ")
        .replace(">&", " > ")
        .replace(">|", " > ");
    let mut reader = Reader::default();
    let mut rest = script.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            '\'' | '"' | '\\' => reader.touch(),
            '|' => {
                let single = rest.next_if_eq(&'|').is_none();
                reader.end_segment(Segment { piped: single, ..Segment::default() });
            }
            '$' if rest.next_if_eq(&'(').is_some() => reader.begin_substitution(),
            '`' => reader.begin_substitution(),
            '$' if rest.next_if_eq(&'\'').is_some() => reader.push_decoded(&mut rest),
            '$' if matches!(rest.peek(), Some('"')) => {}
            '<' | '>' => {
                reader.end_word();
                if rest.next_if_eq(&'(').is_some() {
                    reader.begin_substitution();
                    continue;
                }
                let mut operator = String::from(character);
                while let Some(next) = rest.next_if_eq(&character) {
                    operator.push(next);
                }
                reader.segment.words.push(operator);
            }
            ';' | '&' | '\n' | '\r' | '(' | ')' | '{' | '}' => reader.end_segment(Segment::default()),
            character if character.is_whitespace() || character == '\0' => reader.end_word(),
            character => reader.push(character),
        }
    }
    reader.end_segment(Segment::default());
    reader.segments
}

#[derive(Default)]
struct Reader {
    segments: Vec<Segment>,
    segment: Segment,
    word: Option<String>,
}

impl Reader {
    fn touch(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    /// Adds the text of `$'...'`, after its first quote. Characters by their numbers are decoded.
    fn push_decoded(&mut self, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
        self.touch();
        while let Some(character) = rest.next() {
            if character == '\'' {
                return;
            }
            if character != '\\' {
                self.push(character);
                continue;
            }
            let (base, most) = match rest.peek() {
                Some('x') => (16, 2),
                Some('u') => (16, 4),
                Some('U') => (16, 8),
                Some('0'..='7') => (8, 3),
                _ => {
                    self.word.get_or_insert_default().extend(rest.next());
                    continue;
                }
            };
            if base == 16 {
                rest.next();
            }
            let digits = std::iter::from_fn(|| rest.next_if(|next| next.is_digit(base)));
            let number = digits
                .take(most)
                .filter_map(|digit| digit.to_digit(base))
                .fold(0, |sum: u32, digit| sum.saturating_mul(base).saturating_add(digit));
            self.word.get_or_insert_default().extend(char::from_u32(number));
        }
    }

    fn end_word(&mut self) {
        self.segment.words.extend(self.word.take());
    }

    fn begin_substitution(&mut self) {
        self.end_segment(Segment { substituted: true, ..Segment::default() });
    }

    fn end_segment(&mut self, next: Segment) {
        self.end_word();
        let segment = std::mem::replace(&mut self.segment, next);
        if segment.words.iter().all(String::is_empty) {
            // `curl x) | sh` and `$( (curl x) )`: the flags of an empty segment apply to the next one.
            self.segment.piped |= segment.piped;
            self.segment.substituted |= segment.substituted;
        } else {
            self.segments.push(segment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(script: &str) -> Vec<String> {
        segments(script).into_iter().map(|segment| segment.words.join(" ")).collect()
    }

    #[test]
    fn every_operator_separates_and_quotes_fall_away() {
        assert_eq!(words("a; b && c || d & e\nf"), ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(words("r'm' -\"rf\" \\/ "), ["rm -rf /"]);
        assert_eq!(words("x=$(rm -rf /)"), ["x=", "rm -rf /"]);
        assert_eq!(words("rm${IFS}-rf ${HOME}"), ["rm -rf $HOME"]);
        assert_eq!(words(r"$'\x72\155' $'-\162f' $'/'"), ["rm -rf /"]);
        assert_eq!(words("cat x >/dev/sda 2>&1"), ["cat x > /dev/sda 2 > 1"]);
        assert_eq!(words("if true; then rm x; fi"), ["if true", "then rm x", "fi"]);
    }

    #[test]
    fn pipes_and_substitutions_are_remembered() {
        let found = segments("(curl x) | sh || bash <(wget y)");
        let marks: Vec<(&str, bool, bool)> = found
            .iter()
            .map(|segment| (segment.words[0].as_str(), segment.piped, segment.substituted))
            .collect();
        assert_eq!(
            marks,
            [("curl", false, false), ("sh", true, false), ("bash", false, false), ("wget", false, true)]
        );
    }
}
