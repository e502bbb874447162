//! Patterns of paths, nodes and relationships.

use super::Parser;
use crate::ast::{
    At, Direction, Expression, Labels, Length, Name, NodePattern, PathPattern, RelationshipPattern, Shortest,
};
use crate::error::{Detail, Error, Result};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Reads patterns with commas between them.
    pub(super) fn patterns(&mut self) -> Result<Vec<PathPattern>> {
        let mut patterns = vec![self.pattern()?];
        while self.accept_sign(',') {
            patterns.push(self.pattern()?);
        }
        Ok(patterns)
    }

    /// Reads a pattern with an optional name.
    pub(super) fn pattern(&mut self) -> Result<PathPattern> {
        let name = if self.is_sign_at(1, '=') && !self.is_sign('(') {
            let name = self.variable()?;
            self.expect_sign('=')?;
            Some(name)
        } else {
            None
        };
        let at = self.start();
        let shortest = self.shortest();
        let mut pattern = if shortest.is_some() {
            self.advance();
            self.expect_sign('(')?;
            let pattern = self.path()?;
            self.expect_sign(')')?;
            pattern
        } else {
            self.path()?
        };
        if shortest.is_some() && pattern.rest.len() != 1 {
            let message = "A shortest path has two nodes and one relationship pattern between them.";
            return Err(Error::syntax(Detail::UnexpectedSyntax, at, message));
        }
        pattern.name = name;
        pattern.shortest = shortest;
        Ok(pattern)
    }

    /// Returns the kind of shortest path that begins here.
    pub(super) fn shortest(&self) -> Option<Shortest> {
        if !self.is_sign_at(1, '(') {
            return None;
        }
        if self.is_word("shortestPath") {
            Some(Shortest::One)
        } else {
            self.is_word("allShortestPaths").then_some(Shortest::All)
        }
    }

    fn path(&mut self) -> Result<PathPattern> {
        let at = At(self.start());
        let first = self.node()?;
        let mut rest = Vec::new();
        while self.is_sign('-') || self.is_sign('<') && self.is_sign_at(1, '-') {
            rest.push((self.relationship()?, self.node()?));
        }
        Ok(PathPattern { name: None, shortest: None, first, rest, at })
    }

    fn node(&mut self) -> Result<NodePattern> {
        let at = At(self.start());
        self.expect_sign('(')?;
        let name = self.optional_variable()?;
        let labels = if self.is_sign(':') { self.labels(true)? } else { Labels::new() };
        let properties = self.properties()?;
        self.expect_sign(')')?;
        Ok(NodePattern { name, labels, properties, at })
    }

    fn optional_variable(&mut self) -> Result<Option<Name>> {
        if self.is_name_at(0) { self.variable().map(Some) } else { Ok(None) }
    }

    /// Reads `:A:B`, `:A&B` and, where no expression can follow a bar, `:A|B`.
    pub(super) fn labels(&mut self, takes_bar: bool) -> Result<Labels> {
        let mut labels = Labels::new();
        while self.accept_sign(':') || !labels.is_empty() && self.accept_sign('&') {
            let mut alternatives = vec![self.name("a label")?];
            while takes_bar && self.accept_sign('|') {
                self.accept_sign(':');
                alternatives.push(self.name("a label")?);
            }
            labels.push(alternatives);
        }
        Ok(labels)
    }

    /// Reads the properties of a pattern, which may be absent.
    fn properties(&mut self) -> Result<Vec<(Name, Expression)>> {
        if self.is_sign('$') {
            let message =
                "A parameter cannot stand for the properties of a pattern: name them, as in `{id: $id}`.";
            return Err(Error::syntax(Detail::InvalidParameterUse, self.start(), message));
        }
        if self.is_sign('{') { self.entries() } else { Ok(Vec::new()) }
    }

    fn relationship(&mut self) -> Result<RelationshipPattern> {
        let at = At(self.start());
        let points_left = self.accept_sign('<');
        self.expect_sign('-')?;
        let mut pattern = RelationshipPattern {
            name: None,
            types: Vec::new(),
            properties: Vec::new(),
            direction: Direction::Both,
            length: None,
            at,
        };
        if self.accept_sign('[') {
            pattern.name = self.optional_variable()?;
            if self.accept_sign(':') {
                pattern.types.push(self.name("a relationship type")?);
                while self.accept_sign('|') {
                    self.accept_sign(':');
                    pattern.types.push(self.name("a relationship type")?);
                }
            }
            if self.accept_sign('*') {
                pattern.length = Some(self.length()?);
            }
            if self.is_sign('.') {
                let message = "A relationship pattern has a range without `*`: write `*1..3`.";
                return Err(Error::syntax(Detail::InvalidRelationshipPattern, self.start(), message));
            }
            pattern.properties = self.properties()?;
            self.expect_sign(']')?;
        }
        self.expect_sign('-')?;
        let points_right = self.accept_sign('>');
        pattern.direction = match (points_left, points_right) {
            (true, false) => Direction::Left,
            (false, true) => Direction::Right,
            _ => Direction::Both,
        };
        Ok(pattern)
    }

    fn length(&mut self) -> Result<Length> {
        let minimum = self.bound()?;
        if !self.is_sign('.') {
            return Ok(Length { minimum, maximum: minimum });
        }
        self.expect_sign('.')?;
        self.expect_sign('.')?;
        let maximum = self.bound()?;
        Ok(Length { minimum: minimum.or(Some(1)), maximum })
    }

    fn bound(&mut self) -> Result<Option<u32>> {
        match *self.kind() {
            TokenKind::Integer(bound) => {
                self.advance();
                Ok(Some(u32::try_from(bound).unwrap_or(u32::MAX)))
            }
            TokenKind::Sign('-') | TokenKind::Float(_) => {
                let message = "The length of a relationship pattern is an integer of at least 0.";
                Err(Error::syntax(Detail::InvalidRelationshipPattern, self.start(), message))
            }
            _ => Ok(None),
        }
    }
}
