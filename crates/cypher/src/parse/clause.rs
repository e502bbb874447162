//! Clauses.

use super::{MAXIMUM_CLAUSES, Parser};
use crate::ast::{At, Call, Clause, ClauseKind, Expression, Item, Kind, Order, Projection, Union, Yields};
use crate::error::{Detail, Error, Result};
use crate::lexer::TokenKind;

impl Parser<'_> {
    /// Reads the clauses of one part of a union.
    pub(super) fn clauses(&mut self) -> Result<Vec<Clause>> {
        let mut clauses: Vec<Clause> = Vec::new();
        while let Some(clause) = self.clause()? {
            if let Some(last) = clauses.last()
                && matches!(last.kind, ClauseKind::Return(_))
            {
                let message = "A clause stands after `RETURN`, which must be the last one.";
                return Err(Error::syntax(Detail::InvalidClauseComposition, clause.at.0, message));
            }
            self.clauses += 1;
            if self.clauses > MAXIMUM_CLAUSES {
                let message = format!("The query has more than {MAXIMUM_CLAUSES} clauses: split it.");
                return Err(Error::syntax(Detail::QueryTooComplex, clause.at.0, message));
            }
            clauses.push(clause);
        }
        if clauses.is_empty() {
            return Err(self.unexpected("a clause such as `MATCH` or `RETURN`"));
        }
        Ok(clauses)
    }

    fn clause(&mut self) -> Result<Option<Clause>> {
        let at = At(self.start());
        if let Some(error) = self.refused_writing() {
            return Err(error);
        }
        let TokenKind::Word(word) = self.kind() else { return Ok(None) };
        let kind = match word.to_ascii_uppercase().as_str() {
            "OPTIONAL" | "MATCH" => {
                let optional = self.accept("OPTIONAL");
                self.expect("MATCH")?;
                let patterns = self.patterns()?;
                ClauseKind::Match { optional, patterns, filter: self.filter()? }
            }
            "UNWIND" => {
                self.advance();
                let list = self.expression()?;
                self.expect("AS")?;
                ClauseKind::Unwind { list, name: self.variable()? }
            }
            "WITH" => {
                self.advance();
                let projection = self.projection()?;
                ClauseKind::With { projection, filter: self.filter()? }
            }
            "RETURN" => {
                self.advance();
                ClauseKind::Return(self.projection()?)
            }
            "CALL" => {
                self.advance();
                ClauseKind::Call(self.call()?)
            }
            _ => return Ok(None),
        };
        Ok(Some(Clause { kind, at }))
    }

    fn filter(&mut self) -> Result<Option<Expression>> {
        if self.accept("WHERE") { self.expression().map(Some) } else { Ok(None) }
    }

    fn projection(&mut self) -> Result<Projection> {
        let distinct = self.accept("DISTINCT");
        let all = self.accept_sign('*');
        let mut items = Vec::new();
        if !all || self.accept_sign(',') {
            loop {
                items.push(self.item()?);
                if !self.accept_sign(',') {
                    break;
                }
            }
        }
        let mut projection = Projection { distinct, all, items, order: Vec::new(), skip: None, limit: None };
        if self.accept("ORDER") {
            self.expect("BY")?;
            loop {
                projection.order.push(self.order()?);
                if !self.accept_sign(',') {
                    break;
                }
            }
        }
        if self.accept("SKIP") {
            projection.skip = Some(self.expression()?);
        }
        if self.accept("LIMIT") {
            projection.limit = Some(self.expression()?);
        }
        Ok(projection)
    }

    fn item(&mut self) -> Result<Item> {
        let start = self.start();
        let expression = self.expression()?;
        let text = self.text.get(start..self.end_before()).unwrap_or_default();
        // A variable in backquotes names its column without them.
        let text = expression.as_variable().cloned().unwrap_or_else(|| text.into());
        let alias = if self.accept("AS") { Some(self.variable()?) } else { None };
        Ok(Item { expression, alias, text })
    }

    fn order(&mut self) -> Result<Order> {
        let expression = self.expression()?;
        let descending = self.accept("DESC") || self.accept("DESCENDING");
        if !descending && !self.accept("ASC") {
            self.accept("ASCENDING");
        }
        Ok(Order { expression, descending })
    }

    fn call(&mut self) -> Result<Call> {
        if self.is_sign('{') {
            let message = "`CALL` calls only procedures, such as `db.labels()`: write the subquery with `WITH`, \
                           or as `EXISTS { ... }` or `COUNT { ... }`.";
            return Err(Error::syntax(Detail::UnexpectedSyntax, self.start(), message));
        }
        let mut name = self.name("the name of a procedure")?.to_string();
        while self.accept_sign('.') {
            name.push('.');
            name.push_str(&self.name("the name of a procedure")?);
        }
        let arguments = if self.accept_sign('(') { Some(self.list_until(')')?) } else { None };
        let yields = if self.accept("YIELD") { self.yields()? } else { Yields::Absent };
        let filter = if yields == Yields::Absent { None } else { self.filter()? };
        Ok(Call { name: name.into(), arguments, yields, filter })
    }

    fn yields(&mut self) -> Result<Yields> {
        if self.accept_sign('*') {
            return Ok(Yields::All);
        }
        if self.accept_sign('-') {
            return Ok(Yields::Names(Vec::new()));
        }
        let mut names = Vec::new();
        loop {
            let at = At(self.start());
            let output = self.name("the name of an output")?;
            let name = if self.accept("AS") { self.variable()? } else { output.clone() };
            names.push((output, name, at));
            if !self.accept_sign(',') {
                return Ok(Yields::Names(names));
            }
        }
    }

    /// Reads `{ ... }` after `EXISTS` or `COUNT`: a query, or only patterns.
    pub(super) fn subquery(&mut self, count: bool) -> Result<Kind> {
        self.enter()?;
        self.subqueries += 1;
        self.expect_sign('{')?;
        let at = At(self.start());
        let begins_with_pattern = self.is_sign('(') || self.is_sign_at(1, '=');
        let query = if begins_with_pattern {
            let patterns = self.patterns()?;
            let kind = ClauseKind::Match { optional: false, patterns, filter: self.filter()? };
            Union { parts: vec![vec![Clause { kind, at }]], all: true, at }
        } else {
            self.union()?
        };
        if let Some(error) = self.refused_writing() {
            return Err(error);
        }
        self.expect_sign('}')?;
        self.subqueries -= 1;
        self.leave();
        Ok(Kind::Subquery { count, query: Box::new(query) })
    }
}
