//! The tokens of a query. Words are not told apart here: whether `match` is a keyword or the name of a
//! property depends on its place, which the parser knows.

use std::sync::Arc;

use crate::error::{Detail, Error, Result};

mod literal;

/// Maximum length of a query in bytes.
pub(crate) const MAXIMUM_TEXT: usize = 1 << 20;

/// The kind of a token, with its content.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TokenKind {
    /// A name or a keyword.
    Word(Arc<str>),
    /// A name in backquotes.
    Quoted(Arc<str>),
    /// A text in quotes, with its escapes resolved.
    Text(Arc<str>),
    /// An integer without its sign. It can exceed 63 bits by one, since the sign is not known yet.
    Integer(u64),
    /// A float without its sign.
    Float(f64),
    /// Something that begins like a number and is none.
    Malformed(Arc<str>),
    /// One sign.
    Sign(char),
    /// The end of the text.
    End,
}

/// A token with its place.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    /// Offset of the first byte.
    pub(crate) start: usize,
    /// Offset after the last byte.
    pub(crate) end: usize,
}

/// Splits a text into tokens. The last one is [`TokenKind::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Token>> {
    if text.len() > MAXIMUM_TEXT {
        let bytes = text.len();
        let message = format!(
            "The query has {bytes} bytes, and {MAXIMUM_TEXT} are permitted: pass data as parameters."
        );
        return Err(Error::syntax(Detail::QueryTooLong, 0, message));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blanks()?;
        let start = lexer.at;
        let kind = lexer.token()?;
        let is_end = kind == TokenKind::End;
        tokens.push(Token { kind, start, end: lexer.at });
        if is_end {
            return Ok(tokens);
        }
    }
}

/// A reader of a text from its beginning to its end.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take_while(&mut self, accepts: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let length = rest.find(|character| !accepts(character)).unwrap_or(rest.len());
        self.at += length;
        rest.get(..length).unwrap_or_default()
    }

    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            self.take_while(|character| character.is_whitespace() || character == '\u{feff}');
            let rest = self.rest();
            if rest.starts_with("//") {
                self.take_while(|character| character != '\n' && character != '\r');
            } else if rest.starts_with("/*") {
                let Some(length) = rest.find("*/") else {
                    let message = "The comment is not closed: add `*/`.";
                    return Err(Error::syntax(Detail::UnexpectedSyntax, self.at, message));
                };
                self.at += length + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<TokenKind> {
        let Some(first) = self.peek() else { return Ok(TokenKind::End) };
        let second = self.rest().chars().nth(1);
        match first {
            '\'' | '"' => self.text_literal(first),
            '`' => self.quoted_name(),
            '0'..='9' => self.number(),
            '.' if second.is_some_and(|character| character.is_ascii_digit()) && !self.ends_with_dot() => {
                self.number()
            }
            _ if first.is_alphabetic() || first == '_' => {
                Ok(TokenKind::Word(self.take_while(is_part_of_word).into()))
            }
            '(' | ')' | '[' | ']' | '{' | '}' | ',' | ';' | ':' | '.' | '+' | '-' | '*' | '/' | '%' | '^'
            | '=' | '<' | '>' | '|' | '$' | '~' | '&' | '!' => {
                self.at += 1;
                Ok(TokenKind::Sign(first))
            }
            '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{ff0d}' => {
                let message = format!("`{first}` is no minus sign of the language: write `-`.");
                Err(Error::syntax(Detail::InvalidUnicodeCharacter, self.at, message))
            }
            _ => {
                let message = format!("The character {first:?} may not stand here.");
                Err(Error::syntax(Detail::UnexpectedSyntax, self.at, message))
            }
        }
    }

    /// Returns true within a range such as `*..3` and `[1..3]`, whose second dot begins no number.
    fn ends_with_dot(&self) -> bool {
        self.text.get(..self.at).is_some_and(|before| before.ends_with('.'))
    }

    fn quoted_name(&mut self) -> Result<TokenKind> {
        let start = self.at;
        let mut name = String::new();
        self.at += 1;
        loop {
            name.push_str(self.take_while(|character| character != '`'));
            if self.rest().starts_with("``") {
                name.push('`');
                self.at += 2;
            } else if self.rest().starts_with('`') {
                self.at += 1;
                return Ok(TokenKind::Quoted(name.into()));
            } else {
                let message = "The quoted name is not closed: add a backquote.";
                return Err(Error::syntax(Detail::UnexpectedSyntax, start, message));
            }
        }
    }
}

fn is_part_of_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}
