//! Expressions with operators: one function a level of binding.

use super::Parser;
use crate::ast::{Arithmetic, Comparison, Expression, Kind, Logic, Text};
use crate::error::{Detail, Error, Result};
use crate::lexer::TokenKind;
use crate::value::Value;

/// Maximum number of operators in a row that cannot be kept in one list, such as `a.b.c`.
const MAXIMUM_ROW: usize = 50;

/// Words that are no variables.
const RESERVED: [&str; 36] = [
    "AND",
    "AS",
    "ASC",
    "ASCENDING",
    "BY",
    "CALL",
    "CASE",
    "CONTAINS",
    "DESC",
    "DESCENDING",
    "DISTINCT",
    "ELSE",
    "END",
    "ENDS",
    "FALSE",
    "IN",
    "IS",
    "LIMIT",
    "MATCH",
    "NOT",
    "NULL",
    "ON",
    "OPTIONAL",
    "OR",
    "ORDER",
    "RETURN",
    "SKIP",
    "STARTS",
    "THEN",
    "TRUE",
    "UNION",
    "UNWIND",
    "WHEN",
    "WHERE",
    "WITH",
    "XOR",
];

/// Returns true if a word needs backquotes as a variable.
pub(super) fn is_reserved(word: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(word))
}

/// The binding of operators, from loose to tight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Or,
    Xor,
    And,
    Not,
    Comparison,
    Additive,
    Multiplicative,
    Power,
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Result<Expression> {
        self.enter()?;
        let expression = self.level(Level::Or)?;
        self.leave();
        Ok(expression)
    }

    /// Reads an expression whose operators bind at least as tightly as a level.
    // BOUNDED: by the levels, and by `enter` wherever an expression stands within another one.
    fn level(&mut self, level: Level) -> Result<Expression> {
        match level {
            Level::Or => self.logic("OR", Logic::Or, Level::Xor),
            Level::Xor => self.logic("XOR", Logic::Xor, Level::And),
            Level::And => self.logic("AND", Logic::And, Level::Not),
            Level::Not => self.negation(),
            Level::Comparison => self.comparison(),
            Level::Additive => self.arithmetic(Level::Multiplicative, additive),
            Level::Multiplicative => self.arithmetic(Level::Power, multiplicative),
            Level::Power => self.power(),
        }
    }

    fn logic(&mut self, word: &str, logic: Logic, tighter: Level) -> Result<Expression> {
        let at = self.start();
        let first = self.level(tighter)?;
        if !self.is_word(word) {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.accept(word) {
            parts.push(self.level(tighter)?);
        }
        Ok(Expression::new(at, Kind::Logic(logic, parts)))
    }

    fn negation(&mut self) -> Result<Expression> {
        let at = self.start();
        let mut count = 0_usize;
        while self.accept("NOT") {
            count += 1;
        }
        let mut expression = self.level(Level::Comparison)?;
        // A triple negation is a single one, so two words at most are kept.
        for _ in 0..(if count > 2 { 2 - count % 2 } else { count }) {
            expression = Expression::new(at, Kind::Not(Box::new(expression)));
        }
        Ok(expression)
    }

    fn comparison(&mut self) -> Result<Expression> {
        let at = self.start();
        let first = self.predicated()?;
        let mut rest = Vec::new();
        while let Some((comparison, length)) = self.comparison_sign() {
            (0..length).for_each(|_| self.advance());
            rest.push((comparison, self.predicated()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expression::new(at, Kind::Comparison(Box::new(first), rest)))
    }

    fn comparison_sign(&self) -> Option<(Comparison, usize)> {
        let TokenKind::Sign(first) = *self.kind() else { return None };
        let second = |sign| self.is_sign_at(1, sign);
        match first {
            '=' if !second('~') => Some((Comparison::Equal, 1)),
            '<' if second('>') => Some((Comparison::Unequal, 2)),
            '<' if second('=') => Some((Comparison::LessOrEqual, 2)),
            '<' => Some((Comparison::Less, 1)),
            '>' if second('=') => Some((Comparison::GreaterOrEqual, 2)),
            '>' => Some((Comparison::Greater, 1)),
            _ => None,
        }
    }

    /// Reads an expression with `IS NULL`, `IN`, `STARTS WITH` and the like after it. These bind more
    /// tightly than comparisons.
    fn predicated(&mut self) -> Result<Expression> {
        let at = self.start();
        let mut expression = self.level(Level::Additive)?;
        for _ in 0..MAXIMUM_ROW {
            let subject = expression;
            expression = if self.accept("IS") {
                let negated = self.accept("NOT");
                self.expect("NULL")?;
                Expression::new(at, Kind::IsNull(Box::new(subject), !negated))
            } else if self.accept("IN") {
                let list = self.level(Level::Additive)?;
                Expression::new(at, Kind::In(Box::new(subject), Box::new(list)))
            } else if let Some(text) = self.text_operator()? {
                let other = self.level(Level::Additive)?;
                Expression::new(at, Kind::Text(text, Box::new(subject), Box::new(other)))
            } else {
                return Ok(subject);
            };
        }
        Err(self.too_long_a_row())
    }

    fn text_operator(&mut self) -> Result<Option<Text>> {
        if self.accept("STARTS") {
            self.expect("WITH")?;
            Ok(Some(Text::StartsWith))
        } else if self.accept("ENDS") {
            self.expect("WITH")?;
            Ok(Some(Text::EndsWith))
        } else if self.accept("CONTAINS") {
            Ok(Some(Text::Contains))
        } else if self.is_sign('=') && self.is_sign_at(1, '~') {
            self.advance();
            self.advance();
            Ok(Some(Text::Matches))
        } else {
            Ok(None)
        }
    }

    fn arithmetic(
        &mut self,
        tighter: Level,
        operator: fn(&TokenKind) -> Option<Arithmetic>,
    ) -> Result<Expression> {
        let at = self.start();
        let first = self.level(tighter)?;
        let mut rest = Vec::new();
        while let Some(operator) = operator(self.kind()) {
            self.advance();
            rest.push((operator, self.level(tighter)?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expression::new(at, Kind::Arithmetic(Box::new(first), rest)))
    }

    fn power(&mut self) -> Result<Expression> {
        let at = self.start();
        let first = self.signed()?;
        let mut rest = Vec::new();
        while self.accept_sign('^') {
            rest.push((Arithmetic::Power, self.signed()?));
        }
        if rest.is_empty() {
            return Ok(first);
        }
        Ok(Expression::new(at, Kind::Arithmetic(Box::new(first), rest)))
    }

    fn signed(&mut self) -> Result<Expression> {
        let at = self.start();
        let mut negative = false;
        let mut is_signed = false;
        loop {
            if self.accept_sign('-') {
                negative = !negative;
            } else if !self.accept_sign('+') {
                break;
            }
            is_signed = true;
        }
        if let TokenKind::Integer(value) = *self.kind() {
            let place = self.start();
            self.advance();
            let signed = if negative { 0_i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() };
            let Some(signed) = signed else {
                let message = format!("`{value}` does not fit an integer of 64 bits.");
                return Err(Error::syntax(Detail::IntegerOverflow, place, message));
            };
            let literal = Expression::new(at, Kind::Literal(Value::Integer(signed)));
            return self.postfixes(literal);
        }
        let operand = self.primary()?;
        let operand = self.postfixes(operand)?;
        match operand.kind {
            Kind::Literal(Value::Float(value)) if negative => {
                // The literal -0.0 is 0.0 in the language.
                Ok(Expression::new(at, Kind::Literal(Value::Float(0.0 - value))))
            }
            _ if !is_signed => Ok(operand),
            _ if negative => Ok(Expression::new(at, Kind::Negate(Box::new(operand)))),
            // A plus sign changes nothing, but only numbers have one.
            _ => {
                let negated = Expression::new(at, Kind::Negate(Box::new(operand)));
                Ok(Expression::new(at, Kind::Negate(Box::new(negated))))
            }
        }
    }

    /// Reads properties, indexes and labels after an expression.
    fn postfixes(&mut self, mut expression: Expression) -> Result<Expression> {
        let at = expression.at.0;
        for _ in 0..MAXIMUM_ROW {
            if self.is_sign('.') && !self.is_sign_at(1, '.') {
                self.advance();
                let key = self.name("a property key")?;
                expression = Expression::new(at, Kind::Property(Box::new(expression), key));
            } else if self.is_sign('[') {
                self.advance();
                expression = self.index(expression)?;
            } else if self.is_sign(':') && self.is_name_at(1) {
                let labels = self.labels(false)?;
                expression = Expression::new(at, Kind::HasLabels(Box::new(expression), labels));
            } else {
                return Ok(expression);
            }
        }
        Err(self.too_long_a_row())
    }

    fn index(&mut self, subject: Expression) -> Result<Expression> {
        let at = subject.at.0;
        let is_range = |parser: &Self| parser.is_sign('.') && parser.is_sign_at(1, '.');
        let first = if is_range(self) { None } else { Some(Box::new(self.expression()?)) };
        let kind = if is_range(self) {
            self.advance();
            self.advance();
            let last = if self.is_sign(']') { None } else { Some(Box::new(self.expression()?)) };
            Kind::Slice(Box::new(subject), first, last)
        } else {
            let Some(first) = first else { return Err(self.unexpected("an index")) };
            Kind::Index(Box::new(subject), first)
        };
        self.expect_sign(']')?;
        Ok(Expression::new(at, kind))
    }

    fn too_long_a_row(&self) -> Error {
        let message = format!("More than {MAXIMUM_ROW} operators follow each other: split the expression.");
        Error::syntax(Detail::NestingTooDeep, self.start(), message)
    }
}

fn additive(token: &TokenKind) -> Option<Arithmetic> {
    match token {
        TokenKind::Sign('+') => Some(Arithmetic::Add),
        TokenKind::Sign('-') => Some(Arithmetic::Subtract),
        _ => None,
    }
}

fn multiplicative(token: &TokenKind) -> Option<Arithmetic> {
    match token {
        TokenKind::Sign('*') => Some(Arithmetic::Multiply),
        TokenKind::Sign('/') => Some(Arithmetic::Divide),
        TokenKind::Sign('%') => Some(Arithmetic::Modulo),
        _ => None,
    }
}
