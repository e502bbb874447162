//! Errors of a query, with the classes and details of the openCypher test suite. This module formats
//! no answer for a caller: the message says what happened, and a caller adds its own frame.

use std::fmt;

/// The class of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The text is no query of the language.
    SyntaxError,
    /// The query has a meaning that is refused.
    SemanticError,
    /// A value has a type that an operation does not take.
    TypeError,
    /// An argument of a function is outside its domain.
    ArgumentError,
    /// A computation has no result.
    ArithmeticError,
    /// A parameter of the query was not given.
    ParameterMissing,
    /// A procedure is unknown, or failed.
    ProcedureError,
    /// The query needs more than its limits permit.
    LimitError,
}

/// The point at which an error was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The time before the first row.
    CompileTime,
    /// The time in which rows are made.
    Runtime,
}

/// A place in the text of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Offset in bytes, from 0.
    pub offset: usize,
}

macro_rules! details {
    ($($(#[$attribute:meta])* $name:ident),* $(,)?) => {
        /// The exact reason of an error, by its name in the openCypher test suite where that has one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Detail { $($(#[$attribute])* $name),* }

        impl Detail {
            /// Returns the name.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name)),* }
            }
        }
    };
}

details! {
    /// A token stands where the grammar has none.
    UnexpectedSyntax,
    /// A clause stands where it may not stand.
    InvalidClauseComposition,
    /// A clause would write to the graph.
    WritingClause,
    /// A variable is not defined.
    UndefinedVariable,
    /// A variable is defined a second time.
    VariableAlreadyBound,
    /// A variable is used for entities of two kinds.
    VariableTypeConflict,
    /// An argument has a wrong type.
    InvalidArgumentType,
    /// An argument has a wrong value.
    InvalidArgumentValue,
    /// A function has a wrong number of arguments.
    InvalidNumberOfArguments,
    /// The arguments of a procedure are missing in a query with more clauses.
    InvalidArgumentPassingMode,
    /// An aggregation stands where none may stand.
    InvalidAggregation,
    /// An aggregation stands within an aggregation.
    NestedAggregation,
    /// An expression mixes an aggregation with something that is no grouping key.
    AmbiguousAggregationExpression,
    /// An expression must be constant, and is not.
    NonConstantExpression,
    /// A count is negative.
    NegativeIntegerArgument,
    /// A number is outside of its range.
    NumberOutOfRange,
    /// An integer does not fit 64 bits.
    IntegerOverflow,
    /// A float is too large.
    FloatingPointOverflow,
    /// A number is malformed.
    InvalidNumberLiteral,
    /// An escape of a character is malformed.
    InvalidUnicodeLiteral,
    /// A character may not stand in a query.
    InvalidUnicodeCharacter,
    /// A relationship pattern is malformed.
    InvalidRelationshipPattern,
    /// A relationship variable occurs twice in one pattern.
    RelationshipUniquenessViolation,
    /// A parameter stands where only a map may stand.
    InvalidParameterUse,
    /// The star stands for no variables.
    NoVariablesInScope,
    /// A column of `WITH` has no name.
    NoExpressionAlias,
    /// Two columns have one name.
    ColumnNameConflict,
    /// The parts of a union have different columns.
    DifferentColumnsInUnion,
    /// A function is unknown.
    UnknownFunction,
    /// A procedure is unknown.
    ProcedureNotFound,
    /// A parameter was not given.
    MissingParameter,
    /// A map was indexed by something that is no string.
    MapElementAccessByNonString,
    /// A list was indexed by something that is no integer.
    ListElementAccessByNonInteger,
    /// An integer was divided by zero.
    DivisionByZero,
    /// A label does not occur in the graph.
    UnknownLabel,
    /// A relationship type does not occur in the graph.
    UnknownRelationshipType,
    /// A property key does not occur in the graph.
    UnknownPropertyKey,
    /// A regular expression is malformed.
    InvalidRegularExpression,
    /// The text of the query is too long.
    QueryTooLong,
    /// The query nests too deeply.
    NestingTooDeep,
    /// The query has too many parts.
    QueryTooComplex,
    /// The time is up.
    DeadlineExceeded,
    /// The memory is used up.
    MemoryExceeded,
    /// The caller cancelled the query.
    Cancelled,
}

/// A reason why a query has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// Class of the error.
    pub class: ErrorClass,
    /// Exact reason.
    pub detail: Detail,
    /// Point at which it was found.
    pub phase: Phase,
    /// Sentence for the author of the query.
    pub message: String,
    /// Place in the text, where the error has one.
    pub position: Option<Position>,
}

/// The result of everything that can fail with an [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Creates an error of the text of a query, at a byte offset that [`Error::locate`] resolves.
    pub(crate) fn syntax(detail: Detail, at: usize, message: impl Into<String>) -> Self {
        Self::compile(ErrorClass::SyntaxError, detail, at, message)
    }

    /// Creates an error that is found before the first row.
    pub(crate) fn compile(class: ErrorClass, detail: Detail, at: usize, message: impl Into<String>) -> Self {
        let position = Some(Position { line: 0, column: 0, offset: at });
        Self { class, detail, phase: Phase::CompileTime, message: message.into(), position }
    }

    /// Creates an error that is found while rows are made.
    pub fn runtime(class: ErrorClass, detail: Detail, message: impl Into<String>) -> Self {
        Self { class, detail, phase: Phase::Runtime, message: message.into(), position: None }
    }

    /// Creates the error of an operation on a value of a wrong type.
    pub(crate) fn wrong_type(message: impl Into<String>) -> Self {
        Self::runtime(ErrorClass::TypeError, Detail::InvalidArgumentType, message)
    }

    /// Creates the error of a query beyond a limit.
    pub(crate) fn limit(detail: Detail, message: impl Into<String>) -> Self {
        Self::runtime(ErrorClass::LimitError, detail, message)
    }

    /// Fills in line and column of the position.
    pub(crate) fn locate(mut self, text: &str) -> Self {
        if let Some(position) = &mut self.position {
            let mut offset = position.offset.min(text.len());
            while !text.is_char_boundary(offset) {
                offset -= 1;
            }
            let before = text.get(..offset).unwrap_or_default();
            let line = before.rsplit('\n').next().unwrap_or_default();
            let (line, column) = (before.matches('\n').count() + 1, line.chars().count() + 1);
            *position = Position { line, column, offset };
        }
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} ({}): {}", self.class, self.detail.name(), self.message)?;
        match self.position {
            Some(place) if place.line > 0 => {
                write!(formatter, " (line {}, column {})", place.line, place.column)
            }
            _ => Ok(()),
        }
    }
}

impl std::error::Error for Error {}
