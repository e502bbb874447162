//! The decision between a pattern and an expression in parentheses, which begin alike: `(a)--(b)`, `(a) - -(b.k)`.
//!
//! The grammar of openCypher lets spaces stand within `--`, and names the pattern before the parenthesis among the
//! atoms. So text that both can read is a pattern, and text that only an expression can read is an expression.

use super::Parser;
use super::expression::is_reserved;
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Returns true if the parenthesis here begins a pattern with a relationship, and no expression.
    ///
    /// The tokens decide: a whole node, then a relationship that no expression can be.
    pub(super) fn begins_pattern(&self) -> bool {
        let Some(mut after) = self.after_node(0) else { return false };
        if self.is_sign_at(after, '<') {
            after += 1;
        }
        if !self.is_sign_at(after, '-') {
            return false;
        }
        after += 1;
        if self.is_sign_at(after, '[') {
            // No list begins with these signs.
            if matches!(self.kind_at(after + 1), TokenKind::Sign(':' | '*' | '.')) {
                return true;
            }
            let Some(end) = self.after_detail(after) else { return false };
            after = end;
        }
        if !self.is_sign_at(after, '-') {
            return false;
        }
        self.is_sign_at(after + 1, '>') || self.after_node(after + 1).is_some()
    }

    /// Returns true if a word or a quoted name that can be a variable stands `ahead` places from here.
    fn is_variable_at(&self, ahead: usize) -> bool {
        match self.kind_at(ahead) {
            TokenKind::Word(word) => !is_reserved(word),
            TokenKind::Quoted(_) => true,
            _ => false,
        }
    }

    /// Returns the place after a node, as `(a:B {c: 1})`, or `None` if no node begins at a place.
    fn after_node(&self, ahead: usize) -> Option<usize> {
        if !self.is_sign_at(ahead, '(') {
            return None;
        }
        let mut at = ahead + 1;
        if self.is_variable_at(at) {
            at += 1;
        }
        if self.is_sign_at(at, ':') {
            while matches!(self.kind_at(at), TokenKind::Sign(':' | '&' | '|')) {
                at += 1;
                if self.is_name_at(at) {
                    at += 1;
                }
            }
        }
        at = self.after_properties(at)?;
        self.is_sign_at(at, ')').then_some(at + 1)
    }

    /// Returns the place after the brackets of a relationship, or `None` if they can only be a list.
    fn after_detail(&self, ahead: usize) -> Option<usize> {
        let first = ahead + if self.is_variable_at(ahead + 1) { 2 } else { 1 };
        let is_detail = matches!(self.kind_at(first), TokenKind::Sign(']' | ':' | '*' | '{' | '$'));
        if is_detail { self.after_closing(ahead, '[', ']') } else { None }
    }

    /// Returns the place after a map or a parameter, or the place itself if neither begins there.
    fn after_properties(&self, ahead: usize) -> Option<usize> {
        match self.kind_at(ahead) {
            TokenKind::Sign('{') => self.after_closing(ahead, '{', '}'),
            TokenKind::Sign('$') => Some(ahead + 2),
            _ => Some(ahead),
        }
    }

    /// Returns the place after the sign that closes the one at a place.
    fn after_closing(&self, ahead: usize, open: char, close: char) -> Option<usize> {
        let mut depth = 0_usize;
        for (further, token) in self.tokens.get(self.at + ahead..)?.iter().enumerate() {
            match token.kind {
                TokenKind::Sign(sign) if sign == open => depth += 1,
                TokenKind::Sign(sign) if sign == close && depth <= 1 => return Some(ahead + further + 1),
                TokenKind::Sign(sign) if sign == close => depth -= 1,
                _ => {}
            }
        }
        None
    }
}
