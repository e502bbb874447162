//! Expressions: names become slots, and types are checked where they are known.

use regex::Regex;

use super::types::{self, Type};
use super::{Compiler, Typed, wrong_type};
use crate::ast::{self, Arithmetic, Kind, Name, Text};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::functions;
use crate::graph::{KeyId, number_of};
use crate::program::{Expression, Projected};
use crate::value::Value;

impl Compiler<'_> {
    /// Compiles an expression in which patterns stand for no truth value.
    // BOUNDED: by the height of an expression, which the parser limits.
    pub(super) fn expression(&mut self, source: &ast::Expression) -> Result<Typed> {
        self.settings.meter.tick()?;
        if let Some(replaced) = self.replacement(source) {
            return Ok(replaced);
        }
        let at = source.at.0;
        match &source.kind {
            Kind::Literal(value) => Ok(typed(Expression::Constant(value.clone()), Type::of(value))),
            Kind::Parameter(name) => Ok(typed(Expression::Parameter(self.parameter(name)), Type::Any)),
            Kind::Variable(name) => self.variable(name, at),
            Kind::List(items) => {
                let items = self.all(items)?;
                let kind = Type::list_of(items.iter().map(|item| item.kind.clone()));
                Ok(typed(Expression::List(items.into_iter().map(|item| item.expression).collect()), kind))
            }
            Kind::Map(entries) => {
                let compile = |(key, value): &(Name, ast::Expression)| {
                    Ok((key.clone(), self.expression(value)?.expression))
                };
                let entries = entries.iter().map(compile).collect::<Result<_>>()?;
                Ok(typed(Expression::Map(entries), Type::Map))
            }
            Kind::Property(object, key) => self.property(object, key, at),
            Kind::Index(object, index) => self.index(object, index, at),
            Kind::Slice(object, first, last) => self.slice(object, first.as_deref(), last.as_deref()),
            Kind::HasLabels(object, labels) => self.has_labels(object, labels, at),
            Kind::MapProjection(name, items) => self.map_projection(name, items, at),
            Kind::Not(_) | Kind::Logic(..) => self.logic(source, false),
            Kind::Negate(operand) => {
                let operand = self.expression(operand)?;
                if !operand.kind.may_be_number() {
                    let message = format!("Only numbers have a sign, and not {}.", operand.kind.name());
                    return Err(wrong_type(at, message));
                }
                Ok(typed(Expression::Negate(Box::new(operand.expression)), operand.kind))
            }
            Kind::Arithmetic(first, rest) => self.arithmetic(first, rest, at),
            Kind::Comparison(first, rest) => {
                let first = self.expression(first)?.expression;
                let compile = |(sign, other): &(ast::Comparison, ast::Expression)| {
                    Ok((*sign, self.expression(other)?.expression))
                };
                let rest = rest.iter().map(compile).collect::<Result<_>>()?;
                Ok(typed(Expression::Comparison(Box::new(first), rest), Type::Boolean))
            }
            Kind::Text(operator, subject, other) => self.text(*operator, subject, other, at),
            Kind::In(item, list) => {
                let item = self.expression(item)?.expression;
                let list = self.list(list)?;
                Ok(typed(Expression::In(Box::new(item), Box::new(list.expression)), Type::Boolean))
            }
            Kind::IsNull(operand, is_null) => {
                let operand = self.expression(operand)?.expression;
                Ok(typed(Expression::IsNull(Box::new(operand), *is_null), Type::Boolean))
            }
            Kind::Case { subject, arms, otherwise } => {
                self.case(subject.as_deref(), arms, otherwise.as_deref())
            }
            Kind::Function { name, written, distinct, arguments } => {
                self.function(source, name, written, *distinct, arguments)
            }
            Kind::CountStar => self.aggregate(source),
            Kind::ListComprehension { name, list, filter, map } => {
                self.list_comprehension(name, list, filter.as_deref(), map.as_deref())
            }
            Kind::Quantifier { quantifier, name, list, filter } => {
                let list = self.list(list)?;
                let item = list.kind.item();
                let (slot, filter) = self.within(name, item, |compiler| compiler.predicate(filter))?;
                let (list, filter) = (Box::new(list.expression), Box::new(filter.expression));
                let quantifier = *quantifier;
                Ok(typed(Expression::Quantifier { quantifier, slot, list, filter }, Type::Boolean))
            }
            Kind::Reduce { accumulator, start, name, list, body } => {
                let start = self.expression(start)?;
                let list = self.list(list)?;
                let item = list.kind.item();
                let (accumulator, (slot, body)) = self.within(accumulator, Type::Any, |compiler| {
                    compiler.within(name, item, |compiler| compiler.expression(body))
                })?;
                let (start, list) = (Box::new(start.expression), Box::new(list.expression));
                let body = Box::new(body.expression);
                Ok(typed(Expression::Reduce { accumulator, start, slot, list, body }, Type::Any))
            }
            Kind::Pattern(pattern) if pattern.shortest.is_some() => self.shortest_path(pattern),
            Kind::Pattern(_) => {
                let message = "A pattern stands for a truth value only in `WHERE`, `exists(...)` and `CASE WHEN`: \
                               count it with `COUNT { ... }`, or list it with `[pattern | expression]`.";
                Err(Error::syntax(Detail::UnexpectedSyntax, at, message))
            }
            Kind::PatternComprehension { pattern, filter, map } => {
                self.pattern_comprehension(pattern, filter.as_deref(), map)
            }
            Kind::Subquery { count, query } => self.subquery(*count, query),
        }
    }

    /// Compiles a condition, in which a pattern is true if the graph has it.
    pub(super) fn predicate(&mut self, source: &ast::Expression) -> Result<Typed> {
        let condition = match &source.kind {
            Kind::Pattern(pattern) if pattern.shortest.is_none() => self.pattern_predicate(pattern)?,
            Kind::Not(_) | Kind::Logic(..) => self.logic(source, true)?,
            _ => self.expression(source)?,
        };
        check_boolean(&condition, source.at.0)?;
        Ok(condition)
    }

    // BOUNDED: by the height of an expression.
    fn logic(&mut self, source: &ast::Expression, patterns: bool) -> Result<Typed> {
        let mut part = |part: &ast::Expression| {
            let compiled = if patterns { self.predicate(part)? } else { self.expression(part)? };
            check_boolean(&compiled, part.at.0)?;
            Ok(compiled.expression)
        };
        let expression = match &source.kind {
            Kind::Not(operand) => Expression::Not(Box::new(part(operand)?)),
            Kind::Logic(logic, parts) => {
                Expression::Logic(*logic, parts.iter().map(part).collect::<Result<_>>()?)
            }
            _ => part(source)?,
        };
        Ok(typed(expression, Type::Boolean))
    }

    fn all(&mut self, sources: &[ast::Expression]) -> Result<Vec<Typed>> {
        sources.iter().map(|source| self.expression(source)).collect()
    }

    pub(super) fn variable(&mut self, name: &Name, at: usize) -> Result<Typed> {
        let Some(variable) = self.scope.find(name).cloned() else {
            return Err(self.not_in_scope(name, at));
        };
        self.check_grouped(name, variable.slot, at)?;
        self.referenced.push(variable.slot);
        Ok(typed(Expression::Slot(variable.slot), variable.kind))
    }

    fn property(&mut self, object: &ast::Expression, name: &Name, at: usize) -> Result<Typed> {
        let object = self.expression(object)?;
        if !object.kind.may_have_properties() {
            let message = format!("`{name}` cannot be read: {} has no properties.", object.kind.name());
            // The test suite has one class for paths and another one for plain values.
            let is_path = object.kind == Type::Path;
            let class = if is_path { ErrorClass::SyntaxError } else { ErrorClass::TypeError };
            return Err(Error::compile(class, Detail::InvalidArgumentType, at, message));
        }
        // An entity has the keys of the graph, and a map has its own.
        let key = if object.kind.is_entity() {
            self.key(name, at)?
        } else {
            number_of(self.settings.graph.property_keys(), name).map(KeyId)
        };
        let object = Box::new(object.expression);
        Ok(typed(Expression::Property { object, name: name.clone(), key }, Type::Any))
    }

    fn index(&mut self, object: &ast::Expression, index: &ast::Expression, at: usize) -> Result<Typed> {
        let object = self.expression(object)?;
        let index = self.expression(index)?;
        if !object.kind.may_have_properties() && !object.kind.may_be_list() {
            let message = format!("An index needs a list or a map, and not {}.", object.kind.name());
            return Err(Error::compile(ErrorClass::TypeError, Detail::InvalidArgumentType, at, message));
        }
        let kind = object.kind.item();
        Ok(typed(Expression::Index(Box::new(object.expression), Box::new(index.expression)), kind))
    }

    fn slice(
        &mut self,
        object: &ast::Expression,
        first: Option<&ast::Expression>,
        last: Option<&ast::Expression>,
    ) -> Result<Typed> {
        let object = self.expression(object)?;
        let first = first.map(|first| self.expression(first)).transpose()?;
        let last = last.map(|last| self.expression(last)).transpose()?;
        let kind = if object.kind.may_be_list() { object.kind } else { Type::Any };
        Ok(typed(Expression::Slice(Box::new(object.expression), boxed(first), boxed(last)), kind))
    }

    fn has_labels(&mut self, object: &ast::Expression, labels: &ast::Labels, at: usize) -> Result<Typed> {
        let object = self.expression(object)?;
        match object.kind {
            Type::Node => drop(self.labels(labels, at)?),
            Type::Relationship => {
                for names in labels {
                    self.types(names, at)?;
                }
            }
            Type::Any | Type::Null => {}
            kind => {
                let message = format!("Only nodes have labels, and not {}.", kind.name());
                return Err(wrong_type(at, message));
            }
        }
        let object = Box::new(object.expression);
        Ok(typed(Expression::HasLabels { object, labels: labels.clone() }, Type::Boolean))
    }

    fn map_projection(&mut self, name: &Name, items: &[ast::Projected], at: usize) -> Result<Typed> {
        let object = self.variable(name, at)?;
        if !object.kind.may_have_properties() {
            return Err(wrong_type(at, format!("{} has no properties to project.", object.kind.name())));
        }
        let mut compiled = Vec::new();
        for item in items {
            compiled.push(match item {
                ast::Projected::All => Projected::All,
                ast::Projected::Property(key) => {
                    let source = ast::Expression::new(at, Kind::Variable(name.clone()));
                    Projected::Entry(key.clone(), self.property(&source, key, at)?.expression)
                }
                ast::Projected::Variable(key, at) => {
                    Projected::Entry(key.clone(), self.variable(key, at.0)?.expression)
                }
                ast::Projected::Entry(key, value) => {
                    Projected::Entry(key.clone(), self.expression(value)?.expression)
                }
            });
        }
        let object = Box::new(object.expression);
        Ok(typed(Expression::MapProjection { object, items: compiled }, Type::Map))
    }

    fn arithmetic(
        &mut self,
        first: &ast::Expression,
        rest: &[(Arithmetic, ast::Expression)],
        at: usize,
    ) -> Result<Typed> {
        let first = self.expression(first)?;
        let mut kind = first.kind;
        let mut operands = Vec::with_capacity(rest.len());
        for (operator, operand) in rest {
            let operand = self.expression(operand)?;
            kind = arithmetic_type(*operator, &kind, &operand.kind).ok_or_else(|| {
                let (one, two) = (kind.name(), operand.kind.name());
                wrong_type(at, format!("This operation does not take {one} and {two}."))
            })?;
            operands.push((*operator, operand.expression));
        }
        Ok(typed(Expression::Arithmetic(Box::new(first.expression), operands), kind))
    }

    fn text(
        &mut self,
        operator: Text,
        subject: &ast::Expression,
        other: &ast::Expression,
        at: usize,
    ) -> Result<Typed> {
        let subject = Box::new(self.expression(subject)?.expression);
        let other = self.expression(other)?.expression;
        let expression = match (&other, operator) {
            (Expression::Constant(Value::String(pattern)), Text::Matches) => {
                Expression::Matches(subject, whole_match(pattern, at)?)
            }
            _ => Expression::Text(operator, subject, Box::new(other)),
        };
        Ok(typed(expression, Type::Boolean))
    }

    fn case(
        &mut self,
        subject: Option<&ast::Expression>,
        arms: &[(ast::Expression, ast::Expression)],
        otherwise: Option<&ast::Expression>,
    ) -> Result<Typed> {
        let subject = subject.map(|subject| self.expression(subject)).transpose()?;
        let mut kind = Type::Null;
        let mut compiled = Vec::with_capacity(arms.len());
        for (condition, value) in arms {
            let condition =
                if subject.is_some() { self.expression(condition)? } else { self.predicate(condition)? };
            let value = self.expression(value)?;
            kind = kind.or(value.kind);
            compiled.push((condition.expression, value.expression));
        }
        let otherwise = otherwise.map(|otherwise| self.expression(otherwise)).transpose()?;
        if let Some(otherwise) = &otherwise {
            kind = kind.or(otherwise.kind.clone());
        }
        let (subject, otherwise) = (boxed(subject), boxed(otherwise));
        Ok(typed(Expression::Case { subject, arms: compiled, otherwise }, kind))
    }

    fn function(
        &mut self,
        source: &ast::Expression,
        name: &str,
        written: &str,
        distinct: bool,
        arguments: &[ast::Expression],
    ) -> Result<Typed> {
        let at = source.at.0;
        if functions::aggregate(name).is_some() {
            return self.aggregate(source);
        }
        if let ("exists", [ast::Expression { kind: Kind::Pattern(pattern), .. }]) = (name, arguments) {
            return self.pattern_predicate(pattern);
        }
        let Some((function, fewest, most)) = functions::function(name) else {
            let nearest = super::names::nearest(name, functions::names());
            let message =
                format!("There is no function `{written}`; the nearest are {}.", nearest.join(", "));
            return Err(Error::syntax(Detail::UnknownFunction, at, message));
        };
        if distinct {
            let message = format!("`{written}` is no aggregation, so it takes no `DISTINCT`.");
            return Err(Error::syntax(Detail::UnexpectedSyntax, at, message));
        }
        if arguments.len() < fewest || arguments.len() > most {
            let message =
                format!("`{written}` takes {fewest} to {most} arguments, and not {}.", arguments.len());
            return Err(Error::syntax(Detail::InvalidNumberOfArguments, at, message));
        }
        let arguments = self.all(arguments)?;
        if let Some(first) = arguments.first()
            && !types::accepts(function, &first.kind)
        {
            return Err(wrong_type(at, format!("`{written}` does not take {}.", first.kind.name())));
        }
        let kinds: Vec<Type> = arguments.iter().map(|argument| argument.kind.clone()).collect();
        let arguments = arguments.into_iter().map(|argument| argument.expression).collect();
        Ok(typed(Expression::Function(function, arguments), types::result(function, &kinds)))
    }

    fn list(&mut self, source: &ast::Expression) -> Result<Typed> {
        let list = self.expression(source)?;
        if list.kind.may_be_list() {
            return Ok(list);
        }
        Err(wrong_type(source.at.0, format!("A list is needed here, and not {}.", list.kind.name())))
    }

    fn list_comprehension(
        &mut self,
        name: &Name,
        list: &ast::Expression,
        filter: Option<&ast::Expression>,
        map: Option<&ast::Expression>,
    ) -> Result<Typed> {
        let list = self.list(list)?;
        let item = list.kind.item();
        let (slot, (filter, map)) = self.within(name, item.clone(), |compiler| {
            let filter = filter.map(|filter| compiler.predicate(filter)).transpose()?;
            let map = map.map(|map| compiler.expression(map)).transpose()?;
            Ok((filter, map))
        })?;
        let kind = Type::list(map.as_ref().map_or(item, |map| map.kind.clone()));
        let list = Box::new(list.expression);
        let (filter, map) = (boxed(filter), boxed(map));
        Ok(typed(Expression::ListComprehension { slot, list, filter, map }, kind))
    }

    /// Compiles something in which one more variable is defined and no aggregation may stand.
    fn within<T>(
        &mut self,
        name: &Name,
        kind: Type,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<(usize, T)> {
        let slot = self.slot(name);
        let before = self.scope.variables.len();
        self.scope.define(name, slot, kind);
        let result = self.without_aggregation(work);
        self.scope.variables.truncate(before);
        Ok((slot, result?))
    }
}

pub(super) fn typed(expression: Expression, kind: Type) -> Typed {
    Typed { expression, kind }
}

fn boxed(part: Option<Typed>) -> Option<Box<Expression>> {
    part.map(|part| Box::new(part.expression))
}

fn check_boolean(condition: &Typed, at: usize) -> Result<()> {
    if condition.kind.may_be_boolean() {
        return Ok(());
    }
    Err(wrong_type(at, format!("A condition is a truth value, and not {}.", condition.kind.name())))
}

/// Compiles a regular expression that must match a whole text.
fn whole_match(pattern: &str, at: usize) -> Result<Regex> {
    crate::pattern_text::whole_match(pattern).map_err(|message| {
        Error::compile(ErrorClass::SyntaxError, Detail::InvalidRegularExpression, at, message)
    })
}

/// Returns the type of the result of an operation, or `None` if it does not take these types.
fn arithmetic_type(operator: Arithmetic, one: &Type, two: &Type) -> Option<Type> {
    if operator == Arithmetic::Add {
        let is_text_or_number = |kind: &Type| kind.is_number() || *kind == Type::String;
        return match (one, two) {
            (Type::List(inner), Type::List(other)) => {
                Some(Type::list((**inner).clone().or((**other).clone())))
            }
            (Type::List(_), _) | (_, Type::List(_)) => Some(Type::list(Type::Any)),
            (one, two) if one.is_open() || two.is_open() => Some(Type::Any),
            (Type::String, other) | (other, Type::String) if is_text_or_number(other) => Some(Type::String),
            (Type::Integer, Type::Integer) => Some(Type::Integer),
            (one, two) if one.is_number() && two.is_number() => Some(Type::Number),
            _ => None,
        };
    }
    if !one.may_be_number() || !two.may_be_number() {
        return None;
    }
    Some(match (one, two) {
        (Type::Integer, Type::Integer) if operator != Arithmetic::Power => Type::Integer,
        (one, two) if one.is_open() || two.is_open() => Type::Any,
        _ => Type::Number,
    })
}
