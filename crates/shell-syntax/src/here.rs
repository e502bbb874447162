//! Here-documents: which of them may reach the tokenizer of `brush-parser`, and what their text says.

use crate::Opaque;
use crate::raw::RawWord;

/// A longer word behind `<<` is not read, in bytes: it is compared with every line of the text.
const LONGEST_END: usize = 255;

/// More words and operators than this are not read beside a here-document, which takes the square of their number: this many
/// take 40 ms. 32 kB of program text have up to 9,000.
const MOST_KEPT: usize = 10_000;

/// Refuses a text at which the tokenizer of `brush-parser` could go on without end.
///
/// INVARIANT: every text that goes to that tokenizer comes through here first, those of substitutions too, because it puts them
/// together anew.
/// Each round of its loops takes a character, ends a token or returns, but one: at the end of the input, where a here-document
/// is begun whose last line would be empty, it finds that line again and again and keeps what it finds (0.4.0,
/// `remove_here_end_tag`). The last line is empty where the token behind `<<` is nothing but quotes, or nothing but the blank
/// that substitutions keep, or where an expansion in it begins tokens of its own.
/// So behind every `<<`, wherever it stands, there has to be a word with a character of its own and without an expansion.
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
            // A backslash takes the first of them away, if nothing takes the backslash away.
            2 | 3 => {
                ends_at_a_word(behind)?;
                any = true;
            }
            _ => return Err(Opaque::new("it holds more than one redirection where one is written")),
        }
        rest = behind;
    }
    // What stands behind the word is kept until the text has been read, and then taken one by one from the front.
    if any && most_tokens(text) > MOST_KEPT {
        return Err(Opaque::new("it holds a here-document and too many words"));
    }
    Ok(())
}

/// Reads the word behind a `<<` as the tokenizer does, to its end or beyond.
fn ends_at_a_word(behind: &str) -> Result<(), Opaque> {
    let unusual = Err(Opaque::new("it holds a here-document whose end is no plain word"));
    let behind = behind.strip_prefix('-').unwrap_or(behind);
    // Only one: in a substitution the second would end the token that the first begins.
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
            // The tokenizer takes every quote for one that says nothing, those in quotes too.
            (Some(_), _) => !is_quoting(character),
            (None, '"' | '\'') => {
                quote = Some(character);
                false
            }
            // What such a parenthesis stands in can go on behind it.
            (None, '(') => return unusual,
            (None, ' ' | '\t' | '\n' | ';' | '&' | '|' | '<' | '>' | ')') => break,
            // These end a token in some places and belong to it in others.
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

/// How many tokens of a text can be kept at once: two for each character that can be an operator, and one for each gap. What is
/// kept goes when a line ends.
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

/// The text of a here-document.
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
