//! The parser: from the text of a query to its tree, by recursive descent. It refuses writing clauses, and
//! looks no name up.

use crate::ast::{At, Name, Query, Union};
use crate::error::{Detail, Error, Result};
use crate::lexer::{Token, TokenKind, tokens};

mod clause;
mod expression;
mod pattern;
mod primary;
mod shape;

/// Maximum depth of expressions and subqueries within each other.
const MAXIMUM_NESTING: usize = 80;

/// Maximum number of clauses of a query. Each needs a place on the stack of its execution.
const MAXIMUM_CLAUSES: usize = 400;

/// Words that begin a clause that writes.
const WRITING: [&str; 9] =
    ["CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "FOREACH", "DROP", "LOAD"];

/// Parses the text of a query.
pub(crate) fn parse(text: &str) -> Result<Query> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, nesting: 0, clauses: 0, subqueries: 0 };
    let explain = parser.accept("EXPLAIN");
    let union = parser.union()?;
    parser.accept_sign(';');
    match parser.kind() {
        TokenKind::End => Ok(Query { explain, union }),
        _ => Err(parser.unexpected("the end of the query")),
    }
}

/// A reader of tokens.
struct Parser<'a> {
    text: &'a str,
    tokens: Vec<Token>,
    at: usize,
    nesting: usize,
    clauses: usize,
    /// Number of subqueries around the place.
    subqueries: usize,
}

impl Parser<'_> {
    fn union(&mut self) -> Result<Union> {
        let at = At(self.start());
        let mut parts = vec![self.clauses()?];
        let mut all = None;
        while self.accept("UNION") {
            let place = self.start();
            let is_all = self.accept("ALL");
            if !is_all {
                self.accept("DISTINCT");
            }
            if all.is_some_and(|all| all != is_all) {
                let message = "One query has both `UNION` and `UNION ALL`: use one of them.";
                return Err(Error::syntax(Detail::InvalidClauseComposition, place, message));
            }
            all = Some(is_all);
            parts.push(self.clauses()?);
        }
        Ok(Union { parts, all: all.unwrap_or(true), at })
    }

    fn kind(&self) -> &TokenKind {
        self.kind_at(0)
    }

    /// Returns the kind of the token `ahead` places after the next one.
    fn kind_at(&self, ahead: usize) -> &TokenKind {
        self.tokens.get(self.at + ahead).map_or(&TokenKind::End, |token| &token.kind)
    }

    /// Returns the offset of the next token.
    fn start(&self) -> usize {
        self.tokens.get(self.at).map_or(self.text.len(), |token| token.start)
    }

    /// Returns the offset after the last token that was read.
    fn end_before(&self) -> usize {
        self.at.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(0, |token| token.end)
    }

    fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len());
    }

    fn is_word_at(&self, ahead: usize, word: &str) -> bool {
        matches!(self.kind_at(ahead), TokenKind::Word(found) if found.eq_ignore_ascii_case(word))
    }

    fn is_word(&self, word: &str) -> bool {
        self.is_word_at(0, word)
    }

    fn is_name_at(&self, ahead: usize) -> bool {
        matches!(self.kind_at(ahead), TokenKind::Word(_) | TokenKind::Quoted(_))
    }

    fn is_sign_at(&self, ahead: usize, sign: char) -> bool {
        *self.kind_at(ahead) == TokenKind::Sign(sign)
    }

    fn is_sign(&self, sign: char) -> bool {
        self.is_sign_at(0, sign)
    }

    fn accept(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn accept_sign(&mut self, sign: char) -> bool {
        let found = self.is_sign(sign);
        if found {
            self.advance();
        }
        found
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.accept(word) { Ok(()) } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    fn expect_sign(&mut self, sign: char) -> Result<()> {
        if self.accept_sign(sign) { Ok(()) } else { Err(self.unexpected(&format!("`{sign}`"))) }
    }

    /// Reads any name, also one that is a keyword elsewhere.
    fn name(&mut self, wanted: &str) -> Result<Name> {
        let name = match self.kind() {
            TokenKind::Word(name) | TokenKind::Quoted(name) => name.clone(),
            _ => return Err(self.unexpected(wanted)),
        };
        self.advance();
        Ok(name)
    }

    /// Reads a variable. A reserved word needs backquotes.
    fn variable(&mut self) -> Result<Name> {
        if let TokenKind::Word(word) = self.kind()
            && expression::is_reserved(word)
        {
            return Err(self.unexpected("a variable"));
        }
        self.name("a variable")
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let found = match self.kind() {
            TokenKind::End => "the query ends".to_owned(),
            _ => {
                let token = self.tokens.get(self.at).map(|token| token.start..token.end).unwrap_or_default();
                let text = self.text.get(token).unwrap_or_default();
                format!("`{}` stands", text.chars().take(40).collect::<String>())
            }
        };
        let message = format!("Expected {wanted}, but {found} here.");
        Error::syntax(Detail::UnexpectedSyntax, self.start(), message)
    }

    /// Counts one more level of nesting, or refuses it.
    fn enter(&mut self) -> Result<()> {
        self.nesting += 1;
        if self.nesting > MAXIMUM_NESTING {
            let message =
                format!("The query nests deeper than {MAXIMUM_NESTING} levels: split it with `WITH`.");
            return Err(Error::syntax(Detail::NestingTooDeep, self.start(), message));
        }
        Ok(())
    }

    fn leave(&mut self) {
        self.nesting = self.nesting.saturating_sub(1);
    }

    /// Returns the error of a writing clause, if one begins here.
    fn refused_writing(&self) -> Option<Error> {
        let TokenKind::Word(word) = self.kind() else { return None };
        let word = word.to_ascii_uppercase();
        if !WRITING.contains(&word.as_str()) {
            return None;
        }
        let message = format!("`{word}` would write, and this graph can only be read.");
        let is_inner = self.subqueries > 0;
        let detail = if is_inner { Detail::InvalidClauseComposition } else { Detail::WritingClause };
        Some(Error::syntax(detail, self.start(), message))
    }
}
