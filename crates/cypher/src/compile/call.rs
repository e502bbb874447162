//! `CALL` of a procedure.

use super::types::Type;
use super::{Compiler, Typed, wrong_type};
use crate::ast::{At, Call, Expression as Source, Kind, Name, Yields};
use crate::error::{Detail, Error, ErrorClass, Result};
use crate::procedures::{Field, FieldType, Signature};
use crate::program::{self, Expression, Slot, Step};

impl Compiler<'_> {
    /// Compiles a call, and returns its outputs. A call that is a whole query may leave its arguments to the
    /// parameters, and returns all outputs.
    pub(super) fn call(&mut self, call: &Call, is_alone: bool, at: usize) -> Result<Vec<(Slot, Name)>> {
        let Some(signature) = self.settings.procedures.signature(&call.name) else {
            let known = self.settings.procedures.names().join(", ");
            let message = format!("There is no procedure `{}`; there are {known}.", call.name);
            return Err(Error::compile(ErrorClass::ProcedureError, Detail::ProcedureNotFound, at, message));
        };
        let arguments = self.call_arguments(call, &signature, is_alone, at)?;
        let names = match &call.yields {
            Yields::Names(names) => names.clone(),
            Yields::Absent | Yields::All if is_alone => {
                let all = signature.outputs.iter();
                all.map(|field| (field.name.clone(), field.name.clone(), At(at))).collect()
            }
            Yields::All => {
                let message = "`YIELD *` may stand only in a query that is nothing but the call.";
                return Err(Error::syntax(Detail::UnexpectedSyntax, at, message));
            }
            Yields::Absent => Vec::new(),
        };
        let mut outputs = Vec::new();
        let mut columns = Vec::new();
        for (output, name, place) in names {
            let Some(index) = signature.outputs.iter().position(|field| field.name == output) else {
                let message = format!("The procedure `{}` has no output `{output}`.", call.name);
                return Err(Error::syntax(Detail::UndefinedVariable, place.0, message));
            };
            if self.scope.find(&name).is_some() {
                let message = format!("The variable `{name}` is defined already.");
                return Err(Error::syntax(Detail::VariableAlreadyBound, place.0, message));
            }
            let slot = self.slot(&name);
            let kind = signature.outputs.get(index).map_or(Type::Any, |field| type_of(field.field_type));
            self.scope.define(&name, slot, kind);
            outputs.push((index, slot));
            columns.push((slot, name));
        }
        let passes_row = signature.outputs.is_empty() && !is_alone;
        let procedure = call.name.clone();
        self.step(Step::Call(Box::new(program::Call { procedure, arguments, outputs, passes_row })));
        if let Some(filter) = &call.filter {
            let condition = self.predicate(filter)?;
            self.step(Step::Filter(condition.expression));
        }
        Ok(columns)
    }

    fn call_arguments(
        &mut self,
        call: &Call,
        signature: &Signature,
        is_alone: bool,
        at: usize,
    ) -> Result<Vec<Expression>> {
        let Some(arguments) = &call.arguments else {
            if !is_alone && !signature.arguments.is_empty() {
                let message = format!("The call of `{}` needs its arguments in parentheses.", call.name);
                return Err(Error::syntax(Detail::InvalidArgumentPassingMode, at, message));
            }
            return signature.arguments.iter().map(|field| self.implicit(field, at)).collect();
        };
        if arguments.len() != signature.arguments.len() {
            let (name, wanted) = (&call.name, signature.arguments.len());
            let message = format!("`{name}` takes {wanted} arguments, and not {}.", arguments.len());
            return Err(Error::syntax(Detail::InvalidNumberOfArguments, at, message));
        }
        let pairs = arguments.iter().zip(&signature.arguments);
        pairs.map(|(source, field)| self.argument(source, field)).collect()
    }

    fn argument(&mut self, source: &Source, field: &Field) -> Result<Expression> {
        let Typed { expression, kind } = self.expression(source)?;
        let fits = kind.is_open()
            || match field.field_type {
                FieldType::Any => true,
                FieldType::Boolean => kind == Type::Boolean,
                FieldType::Integer => matches!(kind, Type::Integer | Type::Number),
                FieldType::Float | FieldType::Number => kind.is_number(),
                FieldType::String => kind == Type::String,
            };
        if fits {
            return Ok(expression);
        }
        Err(wrong_type(source.at.0, format!("The argument `{}` does not take {}.", field.name, kind.name())))
    }

    /// Returns the argument that a parameter of its name gives.
    fn implicit(&mut self, field: &Field, at: usize) -> Result<Expression> {
        if (self.settings.parameter)(&field.name).is_none() {
            let message = format!("The parameter `{}` of the procedure was not given.", field.name);
            return Err(Error::compile(ErrorClass::ParameterMissing, Detail::MissingParameter, at, message));
        }
        let source = Source::new(at, Kind::Parameter(field.name.clone()));
        Ok(self.expression(&source)?.expression)
    }
}

fn type_of(field: FieldType) -> Type {
    match field {
        FieldType::Any => Type::Any,
        FieldType::Boolean => Type::Boolean,
        FieldType::Integer => Type::Integer,
        FieldType::Float => Type::Float,
        FieldType::Number => Type::Number,
        FieldType::String => Type::String,
    }
}
