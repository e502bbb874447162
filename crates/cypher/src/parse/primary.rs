//! Expressions without operators: literals, names, calls, and everything in brackets.

use super::Parser;
use super::expression::is_reserved;
use crate::ast::{At, Expression, Kind, Name, Projected, Quantifier};
use crate::error::{Detail, Error, Result};
use crate::lexer::TokenKind;
use crate::value::Value;

impl Parser<'_> {
    pub(super) fn primary(&mut self) -> Result<Expression> {
        let at = self.start();
        let kind = match self.kind().clone() {
            TokenKind::Text(text) => self.literal(Value::String(text)),
            TokenKind::Float(value) => self.literal(Value::Float(value)),
            TokenKind::Malformed(text) => {
                let message = format!("`{text}` is no number.");
                return Err(Error::syntax(Detail::InvalidNumberLiteral, at, message));
            }
            TokenKind::Sign('$') => {
                self.advance();
                self.parameter()?
            }
            TokenKind::Sign('(') if self.begins_pattern() => Kind::Pattern(Box::new(self.pattern()?)),
            TokenKind::Sign('(') => {
                self.advance();
                let inner = self.expression()?;
                self.expect_sign(')')?;
                return Ok(inner);
            }
            TokenKind::Sign('[') => {
                self.advance();
                self.list()?
            }
            TokenKind::Sign('{') => Kind::Map(self.entries()?),
            TokenKind::Quoted(name) => {
                self.advance();
                self.named(name)?
            }
            TokenKind::Word(word) => self.word(&word)?,
            _ => return Err(self.unexpected("an expression")),
        };
        Ok(Expression::new(at, kind))
    }

    fn literal(&mut self, value: Value) -> Kind {
        self.advance();
        Kind::Literal(value)
    }

    fn parameter(&mut self) -> Result<Kind> {
        if let TokenKind::Integer(number) = *self.kind() {
            self.advance();
            return Ok(Kind::Parameter(number.to_string().into()));
        }
        Ok(Kind::Parameter(self.name("the name of a parameter")?))
    }

    fn word(&mut self, word: &Name) -> Result<Kind> {
        let lower = word.to_ascii_lowercase();
        let is_call = self.is_sign_at(1, '(');
        match lower.as_str() {
            "true" => return Ok(self.literal(Value::Boolean(true))),
            "false" => return Ok(self.literal(Value::Boolean(false))),
            "null" => return Ok(self.literal(Value::Null)),
            "case" => return self.case(),
            "exists" | "count" if self.is_sign_at(1, '{') => {
                self.advance();
                return self.subquery(lower == "count");
            }
            "all" | "any" | "none" | "single" if is_call && self.is_word_at(3, "IN") => {
                return self.quantifier(&lower);
            }
            "reduce" if is_call && self.is_sign_at(3, '=') => return self.reduce(),
            "count" if is_call && self.is_sign_at(2, '*') && self.is_sign_at(3, ')') => {
                (0..4).for_each(|_| self.advance());
                return Ok(Kind::CountStar);
            }
            _ if self.shortest().is_some() => return Ok(Kind::Pattern(Box::new(self.pattern()?))),
            _ => {}
        }
        if is_reserved(word) {
            return Err(self.unexpected("an expression"));
        }
        self.advance();
        self.named(word.clone())
    }

    /// Reads the rest of an expression that begins with a name: a call, a map projection, a variable.
    fn named(&mut self, name: Name) -> Result<Kind> {
        if let Some(length) = self.length_of_function_name() {
            let mut written = name.to_string();
            for _ in 0..length {
                self.advance();
                written.push('.');
                written.push_str(&self.name("the name of a function")?);
            }
            return self.function(&written);
        }
        if self.is_sign('{') {
            return self.map_projection(name);
        }
        Ok(Kind::Variable(name))
    }

    /// Returns the number of further parts of a function's name, or `None` if no call stands here.
    fn length_of_function_name(&self) -> Option<usize> {
        let is_part = |part: &usize| self.is_sign_at(part * 2, '.') && self.is_name_at(part * 2 + 1);
        let parts = (0..8).take_while(is_part).count();
        self.is_sign_at(parts * 2, '(').then_some(parts)
    }

    fn function(&mut self, written: &str) -> Result<Kind> {
        self.expect_sign('(')?;
        let distinct = self.accept("DISTINCT");
        let arguments = self.list_until(')')?;
        let name = written.to_ascii_lowercase().into();
        Ok(Kind::Function { name, written: written.into(), distinct, arguments })
    }

    /// Reads expressions up to a closing sign.
    pub(super) fn list_until(&mut self, close: char) -> Result<Vec<Expression>> {
        let mut items = Vec::new();
        if self.accept_sign(close) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if !self.accept_sign(',') {
                self.expect_sign(close)?;
                return Ok(items);
            }
        }
    }

    /// Reads a map: `{key: value, ...}`.
    pub(super) fn entries(&mut self) -> Result<Vec<(Name, Expression)>> {
        let mut entries = Vec::new();
        self.expect_sign('{')?;
        if self.accept_sign('}') {
            return Ok(entries);
        }
        loop {
            let key = self.name("a key")?;
            self.expect_sign(':')?;
            entries.push((key, self.expression()?));
            if !self.accept_sign(',') {
                self.expect_sign('}')?;
                return Ok(entries);
            }
        }
    }

    fn map_projection(&mut self, name: Name) -> Result<Kind> {
        let mut items = Vec::new();
        self.expect_sign('{')?;
        if self.accept_sign('}') {
            return Ok(Kind::MapProjection(name, items));
        }
        loop {
            let at = At(self.start());
            items.push(if self.accept_sign('.') {
                if self.accept_sign('*') { Projected::All } else { Projected::Property(self.name("a key")?) }
            } else {
                let key = self.name("a key")?;
                if self.accept_sign(':') {
                    Projected::Entry(key, self.expression()?)
                } else {
                    Projected::Variable(key, at)
                }
            });
            if !self.accept_sign(',') {
                self.expect_sign('}')?;
                return Ok(Kind::MapProjection(name, items));
            }
        }
    }

    /// Reads the rest of `[ ... ]`: a list, a list comprehension or a pattern comprehension.
    fn list(&mut self) -> Result<Kind> {
        if self.is_name_at(0) && self.is_word_at(1, "IN") {
            return self.list_comprehension();
        }
        let is_named_pattern = self.is_name_at(0) && self.is_sign_at(1, '=') && self.is_pattern_at(2);
        if is_named_pattern || self.begins_pattern() {
            let pattern = Box::new(self.pattern()?);
            let filter = if self.accept("WHERE") { Some(Box::new(self.expression()?)) } else { None };
            self.expect_sign('|')?;
            let map = Box::new(self.expression()?);
            self.expect_sign(']')?;
            return Ok(Kind::PatternComprehension { pattern, filter, map });
        }
        Ok(Kind::List(self.list_until(']')?))
    }

    fn is_pattern_at(&mut self, ahead: usize) -> bool {
        let here = self.at;
        self.at += ahead;
        let found = self.shortest().is_some() || self.begins_pattern();
        self.at = here;
        found
    }

    fn list_comprehension(&mut self) -> Result<Kind> {
        let name = self.variable()?;
        self.expect("IN")?;
        let list = Box::new(self.expression()?);
        let filter = if self.accept("WHERE") { Some(Box::new(self.expression()?)) } else { None };
        let map = if self.accept_sign('|') { Some(Box::new(self.expression()?)) } else { None };
        self.expect_sign(']')?;
        Ok(Kind::ListComprehension { name, list, filter, map })
    }

    fn quantifier(&mut self, word: &str) -> Result<Kind> {
        let quantifier = match word {
            "all" => Quantifier::All,
            "any" => Quantifier::Any,
            "none" => Quantifier::None,
            _ => Quantifier::Single,
        };
        self.advance();
        self.expect_sign('(')?;
        let name = self.variable()?;
        self.expect("IN")?;
        let list = Box::new(self.expression()?);
        self.expect("WHERE")?;
        let filter = Box::new(self.expression()?);
        self.expect_sign(')')?;
        Ok(Kind::Quantifier { quantifier, name, list, filter })
    }

    fn reduce(&mut self) -> Result<Kind> {
        self.advance();
        self.expect_sign('(')?;
        let accumulator = self.variable()?;
        self.expect_sign('=')?;
        let start = Box::new(self.expression()?);
        self.expect_sign(',')?;
        let name = self.variable()?;
        self.expect("IN")?;
        let list = Box::new(self.expression()?);
        self.expect_sign('|')?;
        let body = Box::new(self.expression()?);
        self.expect_sign(')')?;
        Ok(Kind::Reduce { accumulator, start, name, list, body })
    }

    fn case(&mut self) -> Result<Kind> {
        self.advance();
        let subject = if self.is_word("WHEN") { None } else { Some(Box::new(self.expression()?)) };
        let mut arms = Vec::new();
        while self.accept("WHEN") {
            let condition = self.expression()?;
            self.expect("THEN")?;
            arms.push((condition, self.expression()?));
        }
        if arms.is_empty() {
            return Err(self.unexpected("`WHEN`"));
        }
        let otherwise = if self.accept("ELSE") { Some(Box::new(self.expression()?)) } else { None };
        self.expect("END")?;
        Ok(Kind::Case { subject, arms, otherwise })
    }
}
