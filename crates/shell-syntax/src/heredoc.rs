//! Here-documents: the check that protects the tokenizer of `brush-parser`, and the text of a document.

use crate::Opaque;
use crate::raw::RawWord;

/// Maximum length of the word after `<<`, in bytes: it is compared with every line of the text.
const LONGEST_END: usize = 255;

/// Maximum number of words and operators next to a here-document, whose time grows with the square
/// of their number. This many take 40 ms, and 32 kB of program text have up to 9,000.
const MAX_KEPT: usize = 10_000;

/// Refuses a text at which the tokenizer of `brush-parser` could run forever.
///
/// INVARIANT: every text for that tokenizer passes this check first. The texts of substitutions
/// pass it too, because the tokenizer assembles them anew.
///
/// Each round of the tokenizer's loops takes a character, ends a token or returns, with one
/// exception (0.4.0, `remove_here_end_tag`). The exception is the end of the input after the start
/// of a here-document whose last line would be empty. There the tokenizer finds that line again and
/// again, and stores each result. The last line is empty if the token after `<<` consists only of
/// quotes, or only of the blank that substitutions keep. It is also empty if an expansion in the
/// token begins new tokens. So every `<<`, at any position, must be followed by a word that has a
/// literal character and no expansion.
pub(crate) fn certain_to_end(text: &str) -> Result<(), Opaque> {
    let mut rest = text;
    let mut any = false;
    while let Some(at) = rest.find('<') {
        let (passed, from) = rest.split_at(at);
        let behind = from.trim_start_matches('<');
        let escaped = passed.ends_with('\\');
        match from.len() - behind.len() {
            1 => {}
            3 if !escaped => {}
            // A backslash escapes the first `<`, unless the backslash itself is escaped.
            2 | 3 => {
                ends_at_a_word(behind)?;
                any = true;
            }
            _ => return Err(Opaque::new("it holds more than one redirection where one is written")),
        }
        rest = behind;
    }
    // Tokens after the word are stored until the text has been read, and then removed one by one
    // from the front.
    if any && most_tokens(text) > MAX_KEPT {
        return Err(Opaque::new("it holds a here-document and too many words"));
    }
    Ok(())
}

/// Reads the word after a `<<` as the tokenizer does, to its end or beyond.
fn ends_at_a_word(behind: &str) -> Result<(), Opaque> {
    let unusual = Err(Opaque::new("it holds a here-document whose end is no plain word"));
    let behind = behind.strip_prefix('-').unwrap_or(behind);
    // Strip one blank only: in a substitution the second would end the token that the first begins.
    let behind = behind.strip_prefix([' ', '\t']).unwrap_or(behind);
    let (mut quote, mut says, mut closed) = (None, false, false);
    let mut characters = behind.char_indices();
    while let Some((at, character)) = characters.next() {
        if at > LONGEST_END {
            return unusual;
        }
        let own = match (quote, character) {
            (Some('\''), '\'') | (Some('"'), '"') => {
                quote = None;
                false
            }
            (quote, '$' | '`') if quote != Some('\'') => return unusual,
            (quote, '\\') if quote != Some('\'') => {
                characters.next().is_some_and(|(_, escaped)| escaped != '\n' && !is_quoting(escaped))
            }
            // The tokenizer drops every quote character, even inside quotes.
            (Some(_), _) => !is_quoting(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                false
            }
            // The construct that contains this parenthesis can continue after it.
            (None, '(') => return unusual,
            (None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')') => break,
            // These characters end a token in some positions and belong to it in others.
            (None, ']' | '}') => {
                closed = true;
                false
            }
            (None, _) => true,
        };
        says |= own && !closed;
    }
    if says { Ok(()) } else { unusual }
}

fn is_quoting(character: char) -> bool {
    matches!(character, '\'' | '"' | '\\')
}

/// Returns the maximum number of tokens of a text that are stored at once. Each character that can
/// be an operator counts two, and each gap one. The stored tokens are dropped at the end of a line.
fn most_tokens(text: &str) -> usize {
    let mut in_gap = false;
    text.bytes()
        .map(|byte| match byte {
            b' ' | b'\t' | b'\n' => usize::from(!std::mem::replace(&mut in_gap, true)),
            _ => {
                in_gap = false;
                if b"&|;<>()".contains(&byte) { 2 } else { 0 }
            }
        })
        .sum()
}

/// Returns the text of a here-document.
pub(crate) fn here_document(text: &str, strips_tabs: bool, quoted: bool) -> Result<RawWord, Opaque> {
    if !quoted && text.contains(['$', '`', '\\']) {
        return Err(Opaque::new("it holds a here-document with an expansion"));
    }
    if !strips_tabs {
        return Ok(RawWord::text(text));
    }
    let lines = text.split_inclusive('\n').map(|line| line.trim_start_matches('\t'));
    Ok(RawWord::text(&lines.collect::<String>()))
}
