//! Conversion of spelled words to their text: quotes and escapes are removed as in bash, and
//! anything else is refused.

use std::collections::VecDeque;

use crate::Opaque;
use crate::raw::{Part, RawStep, RawWord};

/// A `$( )` in the spelling of a word, already read by its reader.
#[derive(Debug)]
pub(crate) struct Substitution {
    /// Position of its dollar in the word, in bytes.
    pub(crate) at: usize,
    /// Length with `$(` and `)`, in bytes.
    pub(crate) length: usize,
    pub(crate) steps: Vec<RawStep>,
}

/// Cooks one word as spelled in the line.
pub(crate) fn cook(text: &str, substitutions: VecDeque<Substitution>) -> Result<RawWord, Opaque> {
    let mut rest = Rest { text, at: 0, substitutions };
    let mut word = RawWord::default();
    let mut before = None;
    while let Some(character) = rest.next() {
        match character {
            '\'' => single_quoted(&mut rest, &mut word)?,
            '"' => double_quoted(&mut rest, &mut word)?,
            '\\' => match rest.next() {
                Some('\n') => {}
                Some(escaped) => word.push_char(checked_escape(escaped)?),
                None => return Err(Opaque::new("it ends in a backslash")),
            },
            '$' if rest.peek() == Some('\'') => {
                rest.next();
                let mut quoted = String::new();
                loop {
                    match rest.next() {
                        Some('\'') => break,
                        // In a shell without `$'`, a quote would end here.
                        Some('\\') if rest.peek() == Some('\'') => return Err(expansion()),
                        Some(character) => quoted.push(character),
                        None => return Err(Opaque::new("a quote is not closed")),
                    }
                }
                word.push(&unescape(&quoted)?);
            }
            '$' => dollar(&mut rest, &mut word, false)?,
            '`' => return Err(expansion()),
            '~' if matches!(before, None | Some('=' | ':')) => {
                return Err(Opaque::new("it holds a home folder to expand"));
            }
            '{' => {
                let name = rest.take_while(|next| next.is_ascii_alphanumeric() || matches!(next, '-' | '_'));
                // At the start of a word, `{fd}>x` would be a redirection.
                if rest.next() != Some('}') || (before.is_none() && !name.is_empty()) {
                    return Err(Opaque::new("it holds braces"));
                }
                word.push(&format!("{{{name}}}"));
            }
            '*' | '?' | '[' => word.bits.push(Part::Glob(character)),
            character if is_plain(character) => word.push_char(character),
            _ => return Err(Opaque::new("it holds a character with a meaning of its own")),
        }
        before = Some(character);
    }
    Ok(word)
}

/// The unread rest of the spelling of a word.
struct Rest<'a> {
    text: &'a str,
    at: usize,
    substitutions: VecDeque<Substitution>,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let from = self.text.get(self.at..).unwrap_or_default();
        let end = from.find(|next| !belongs(next)).unwrap_or(from.len());
        self.at += end;
        from.get(..end).unwrap_or_default()
    }

    /// Takes the `$( )` whose dollar has just been read.
    fn take_substitution(&mut self) -> Option<Vec<RawStep>> {
        let begin = self.at.checked_sub(1)?;
        let next = self.substitutions.pop_front_if(|next| next.at == begin)?;
        self.at = begin + next.length;
        Some(next.steps)
    }
}

fn single_quoted(rest: &mut Rest<'_>, word: &mut RawWord) -> Result<(), Opaque> {
    word.push(rest.take_while(|character| character != '\''));
    if rest.next().is_some() { Ok(()) } else { Err(Opaque::new("a quote is not closed")) }
}

fn double_quoted(rest: &mut Rest<'_>, word: &mut RawWord) -> Result<(), Opaque> {
    while let Some(character) = rest.next() {
        match character {
            '"' => return Ok(()),
            '\\' => match rest.peek() {
                Some('\n') => drop(rest.next()),
                Some('$' | '`' | '"' | '\\') => word.push_char(rest.next().unwrap_or('\\')),
                _ => word.push_char('\\'),
            },
            '$' => dollar(rest, word, true)?,
            '`' => return Err(expansion()),
            character => word.push_char(character),
        }
    }
    Err(Opaque::new("a quote is not closed"))
}

/// Reads the text after a dollar: a script, a variable, the status, or a literal dollar.
fn dollar(rest: &mut Rest<'_>, word: &mut RawWord, quoted: bool) -> Result<(), Opaque> {
    if let Some(steps) = rest.take_substitution() {
        word.bits.push(Part::Output { steps, quoted });
        return Ok(());
    }
    match rest.peek() {
        Some('?' | '#' | '$') => {
            rest.next();
            word.bits.push(Part::Digits);
        }
        Some('{') => {
            rest.next();
            word.bits.push(braced(rest, quoted)?);
        }
        Some(next) if next.is_ascii_alphabetic() || next == '_' => {
            let name = rest.take_while(is_of_a_name).to_owned();
            word.bits.push(Part::Variable { name, quoted, changed: false });
        }
        Some(next) if next.is_ascii_digit() || next == '!' => {
            rest.next();
            word.bits.push(Part::Variable { name: next.to_string(), quoted, changed: false });
        }
        // At the end of a word, or before a character that starts no name, the dollar is literal.
        None if !quoted => word.push("$"),
        Some('"' | ' ' | '|' | ')' | '/' | '.' | ',' | ':' | '%' | '\\') if quoted => word.push("$"),
        _ => return Err(expansion()),
    }
    Ok(())
}

/// Reads the text after `${`.
fn braced(rest: &mut Rest<'_>, quoted: bool) -> Result<Part, Opaque> {
    let is_length = rest.peek() == Some('#');
    if is_length {
        rest.next();
    }
    let name = rest.take_while(is_of_a_name).to_owned();
    let indexed = !is_length && rest.peek() == Some('[');
    if indexed {
        rest.next();
        let index = rest.take_while(|character| character.is_ascii_digit());
        if index.is_empty() || rest.next() != Some(']') {
            return Err(expansion());
        }
    }
    let change = rest.take_while(|character| character != '}');
    if rest.next() != Some('}') || !is_name(&name) || (is_length && !change.is_empty()) {
        return Err(expansion());
    }
    if !change.is_empty() && !is_harmless_change(change, quoted) {
        return Err(expansion());
    }
    let changed = indexed || !change.is_empty();
    let is_number = is_length || (name == STATUSES && indexed && change.is_empty());
    Ok(if is_number { Part::Digits } else { Part::Variable { name, quoted, changed } })
}

/// Name of the variable with the statuses of the commands of a pipeline.
pub(crate) const STATUSES: &str = "PIPESTATUS";

fn is_of_a_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Returns true if `${NAME...}`, with this text after the name, only takes another value. Forms
/// that assign, evaluate or refer are not harmless.
fn is_harmless_change(text: &str, quoted: bool) -> bool {
    let operand = text.trim_start_matches([':', '-', '+', '%', '#', '/', '^', ',']);
    let operator = text.get(..text.len() - operand.len()).unwrap_or_default();
    let known = match operator.as_bytes() {
        [b':', b'-' | b'+', ..] => true,
        [first, ..] => *first != b':',
        [] => false,
    };
    known && operand.chars().all(|character| is_plain_operand(character, quoted))
}

/// Returns true for characters that stand for themselves, or for a pattern, in the operand of `${NAME...}`.
pub(crate) fn is_plain_operand(character: char, quoted: bool) -> bool {
    character.is_ascii_alphanumeric() || "_-./:,+@%=*?#^".contains(character) || (quoted && character == ' ')
}

/// Returns true if the text is the name of a variable.
pub(crate) fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && text.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
}

/// Checks a character after a backslash outside quotes. The character stands for itself.
pub(crate) fn checked_escape(escaped: char) -> Result<char, Opaque> {
    if escaped == ' ' || escaped.is_ascii_graphic() {
        Ok(escaped)
    } else {
        Err(Opaque::new("it holds an escaped character of another kind"))
    }
}

/// Decodes the text between `$'` and `'`.
pub(crate) fn unescape(quoted: &str) -> Result<String, Opaque> {
    let mut text = String::new();
    let mut rest = quoted.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '\\' {
            text.push(character);
            continue;
        }
        let decoded = match rest.next() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some(itself @ ('\\' | '"' | '?')) => itself,
            Some('x') => code(&mut rest, 16, 2, 0)?,
            Some('u') => code(&mut rest, 16, 4, 0)?,
            Some('U') => code(&mut rest, 16, 8, 0)?,
            Some(digit @ '0'..='7') => code(&mut rest, 8, 2, digit.to_digit(8).unwrap_or_default())?,
            _ => return Err(Opaque::new("it holds an escape that is not known")),
        };
        if decoded.is_control() && !matches!(decoded, '\n' | '\t') {
            return Err(Opaque::new("it holds an escaped control character"));
        }
        text.push(decoded);
    }
    Ok(text)
}

fn code(
    rest: &mut std::iter::Peekable<std::str::Chars<'_>>,
    base: u32,
    most: usize,
    begun: u32,
) -> Result<char, Opaque> {
    let mut value = begun;
    for _ in 0..most {
        let Some(digit) = rest.peek().and_then(|next| next.to_digit(base)) else { break };
        rest.next();
        value = value.saturating_mul(base).saturating_add(digit);
    }
    // A byte above ASCII is part of a character, or invalid.
    char::from_u32(value).filter(char::is_ascii).ok_or_else(|| Opaque::new("it holds an escaped byte"))
}

/// Returns true for characters that stand for themselves outside quotes, in every position that
/// reaches this check.
pub(crate) fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-./:,+@%^=~]!#".contains(character)
}

pub(crate) fn expansion() -> Opaque {
    Opaque::new("it holds an expansion")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cooked(spelled: &str) -> Result<RawWord, Opaque> {
        cook(spelled, VecDeque::new())
    }

    #[track_caller]
    fn reads_as(spelled: &str, expected: &str) {
        assert_eq!(cooked(spelled).unwrap().as_text(), Some(expected), "{spelled}");
    }

    #[test]
    fn a_word_is_what_the_program_will_see() {
        reads_as("plain", "plain");
        reads_as("r''m", "rm");
        reads_as(r"$'\x72\x6d'", "rm");
        reads_as(r"$'\162\155'", "rm");
        reads_as(r"$'\u0072m'", "rm");
        reads_as(r"-e\xec", "-exec");
        reads_as(r#""a $ b""#, "a $ b");
        reads_as(r#""a\"\$\`\\\n""#, "a\"$`\\\\n");
        reads_as("a\\\nb", "ab");
        reads_as("\"a\\\nb\"", "ab");
        reads_as("'a\\\nb'", "a\\\nb");
        reads_as("stash@{0}", "stash@{0}");
        reads_as("{}", "{}");
        reads_as("HEAD~1", "HEAD~1");
        reads_as("foo$", "foo$");
        reads_as("''", "");
        reads_as(r"a\;b", "a;b");
    }

    #[test]
    fn what_expands_is_refused_or_marked() {
        for spelled in [
            "~",
            "~/x",
            "a=~",
            "{a,b}",
            "{1..3}",
            "`id`",
            "$(id)",
            "$((1))",
            "$[1]",
            "${a:=b}",
            "${a:?b}",
            "${a:1}",
            "${a:-$(id)}",
            "${a:-`id`}",
            "${a:-$b}",
            "${a:-b c}",
            "${a:-'b'}",
            "${a@P}",
            "${a[@]}",
            "${a[b]}",
            "${a[1}",
            "${a[]}",
            "${#a[1]}",
            "${a[1$(id)]}",
            "${a[$(id)]}",
            "${a%$(id)}",
            "${!a}",
            "${#a%b}",
            "$@",
            "$*",
            "$-",
            "\"`id`\"",
            "\"$(id)\"",
            "$\"a\"",
            "'a",
            "\"a",
            r"a\",
            "a;b",
            "(a)",
            r"$'\''",
            r"$'\x00'",
            r"$'\xff'",
            r"$'\c?'",
            "€",
            "\"$'a'\"",
        ] {
            assert!(cooked(spelled).is_err(), "{spelled}: {:?}", cooked(spelled));
        }
        assert_eq!(cooked("a*").unwrap().bits, [Part::Text("a".to_owned()), Part::Glob('*')]);
        let variable =
            |name: &str, quoted, changed| Part::Variable { name: name.to_owned(), quoted, changed };
        assert_eq!(cooked("\"$x\"").unwrap().bits, [variable("x", true, false)]);
        assert_eq!(cooked("${x}").unwrap().bits, [variable("x", false, false)]);
        assert_eq!(cooked("$1").unwrap().bits, [variable("1", false, false)]);
        for changed in ["${x:-a.b}", "${x%.*}", "${x##*/}", "${x//a/b}", "${x^^}", "${x[0]}"] {
            assert_eq!(cooked(changed).unwrap().bits, [variable("x", false, true)], "{changed}");
        }
        for digits in ["\"$?\"", "$$", "${PIPESTATUS[0]}", "\"$#\"", "${#x}"] {
            assert_eq!(cooked(digits).unwrap().bits, [Part::Digits], "{digits}");
        }
    }
}
