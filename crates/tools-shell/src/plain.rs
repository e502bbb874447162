//! Output as plain text, without the control sequences for a terminal, and its last line.

/// Maximum length of a control sequence in bytes. A longer one is treated as text.
const LONGEST_SEQUENCE: usize = 256;

/// Returns the plain text of a piece of output, and the number of bytes that it covers. If the
/// piece ends within a character or a control sequence and `more` may come, that part is left to
/// the next piece.
pub(crate) fn plain(bytes: &[u8], more: bool) -> (Vec<u8>, usize) {
    let mut text = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &bytes[at..];
        let length = match byte {
            0x1b => match sequence(rest) {
                Sequence::Whole(length) => length,
                Sequence::Open if more && rest.len() < LONGEST_SEQUENCE => break,
                // The first byte of an unfinished or invalid sequence is dropped, and the rest is
                // text.
                Sequence::Open | Sequence::None => 1,
            },
            b'\r' if rest.get(1) == Some(&b'\n') => 1,
            b'\r' if rest.len() == 1 && more => break,
            // A lone CR returns to the start of the line, which is usually rewritten.
            b'\r' => {
                text.push(b'\n');
                1
            }
            b'\n' | b'\t' | 0x20..=0x7e | 0x80.. => {
                text.push(byte);
                1
            }
            // A backspace over written text, as in line editing.
            0x08 if text.last().is_some_and(|last| (0x20..0x7f).contains(last)) => {
                text.pop();
                1
            }
            _ => 1,
        };
        at += length;
    }
    (text, at)
}

/// Returns the number of bytes up to the end of the last whole character.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // After an invalid byte, only the last four bytes can be a truncated character.
        Err(_) => {
            let from = bytes.len().saturating_sub(4);
            let begun = (from..bytes.len()).rev().find(|at| bytes[*at] >= 0xc0);
            begun.filter(|at| cut_off(&bytes[*at..])).unwrap_or(bytes.len())
        }
        Ok(_) => bytes.len(),
    }
}

fn cut_off(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// A control sequence at the start of some bytes (ECMA-48, section 5).
enum Sequence {
    Whole(usize),
    /// A sequence that continues past the end.
    Open,
    None,
}

fn sequence(bytes: &[u8]) -> Sequence {
    let until = |from: usize, ends: &dyn Fn(usize) -> Option<usize>| {
        (from..bytes.len().min(LONGEST_SEQUENCE)).find_map(ends).map_or(Sequence::Open, Sequence::Whole)
    };
    match bytes.get(1) {
        None => Sequence::Open,
        // Parameters, then a final byte.
        Some(b'[') => until(2, &|at| (0x40..=0x7e).contains(&bytes[at]).then_some(at + 1)),
        // A string, ended by BEL or ESC \.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => until(2, &|at| match bytes[at] {
            0x07 => Some(at + 1),
            b'\\' if bytes[at - 1] == 0x1b => Some(at + 1),
            _ => None,
        }),
        // Intermediate bytes, then a final byte.
        Some(0x20..=0x2f) => until(2, &|at| (0x30..=0x7e).contains(&bytes[at]).then_some(at + 1)),
        Some(0x30..=0x7e) => Sequence::Whole(2),
        Some(_) => Sequence::None,
    }
}

/// Maximum length in bytes of a line that can be a progress line.
const LONGEST_PROGRESS: usize = 1_000;

/// Returns the last whole line of a piece of output, as a progress line. `begun` means that the
/// piece continues a line of the previous piece.
///
/// INVARIANT: never a part of a line, because a part of a secret is not recognised as one.
pub(crate) fn last_line(bytes: &[u8], begun: bool) -> &str {
    let Some(end) = bytes.iter().rposition(|byte| *byte == b'\n') else { return "" };
    let lines = bytes[..end].trim_ascii_end();
    let line = match lines.iter().rposition(|byte| *byte == b'\n') {
        Some(at) => &lines[at + 1..],
        None if begun => return "",
        None => lines,
    };
    std::str::from_utf8(line).ok().filter(|line| line.len() <= LONGEST_PROGRESS).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(plain(bytes, false).0).unwrap()
    }

    #[test]
    fn only_text_is_left_of_what_a_terminal_is_told() {
        assert_eq!(text(b"\x1b[1;31mred\x1b[0m\r\nnext\x07\x1b]0;title\x07!\x1b(B\x1b[?2004h"), "red\nnext!");
        assert_eq!(text(b"10%\r20%\r\n"), "10%\n20%\n");
        assert_eq!(text(b"ab\x08c\x1b=\x00"), "ac");
        assert_eq!(text("größe\r\n".as_bytes()), "größe\n");
    }

    #[test]
    fn a_sequence_that_is_cut_off_waits_for_its_rest() {
        for cut in [&b"text\x1b"[..], b"text\x1b[31", b"text\x1b]0;tit", b"text\r"] {
            assert_eq!(plain(cut, true), (b"text".to_vec(), 4), "{cut:?}");
        }
        let endless = [&b"\x1b]"[..], &[b'x'; 300]].concat();
        assert_eq!(plain(&endless, true).1, endless.len(), "what never ends is not waited for");
    }

    #[test]
    fn a_character_that_is_cut_off_is_left_to_the_next_piece() {
        assert_eq!(whole_characters("aé".as_bytes()), 3);
        assert_eq!(whole_characters(&"aé".as_bytes()[..2]), 1);
        assert_eq!(whole_characters(&[0xff, b'a', 0xe2, 0x82]), 2);
        assert_eq!(whole_characters(&[0xff, 0xff]), 2);
    }

    #[test]
    fn only_whole_lines_are_shown_as_progress() {
        for (piece, begun, line) in [
            ("one\n", false, "one"),
            ("one\ntwo\n\n", true, "two"),
            ("one\ntw", false, "one"),
            ("on", false, ""),
            ("e\n", true, ""),
            ("e\ntw", true, ""),
            ("\n", false, ""),
        ] {
            assert_eq!(last_line(piece.as_bytes(), begun), line, "{piece:?}");
        }
        assert_eq!(last_line(&[b"x".repeat(5000), b"\n".to_vec()].concat(), false), "");
    }
}
