//! The tree of a query as it was written. Names are not resolved, and nothing is checked beyond the grammar.

use std::sync::Arc;

use crate::value::Value;

mod children;

/// A name in a query.
pub(crate) type Name = Arc<str>;

/// An offset in the text. Two trees are equal whatever their offsets are.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct At(pub(crate) usize);

impl PartialEq for At {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A whole query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    /// True if only the plan is asked for.
    pub(crate) explain: bool,
    pub(crate) union: Union,
}

/// Queries whose rows are put together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Union {
    pub(crate) parts: Vec<Vec<Clause>>,
    /// True if equal rows stay.
    pub(crate) all: bool,
    pub(crate) at: At,
}

/// A clause with its place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clause {
    pub(crate) kind: ClauseKind,
    pub(crate) at: At,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum ClauseKind {
    Match { optional: bool, patterns: Vec<PathPattern>, filter: Option<Expression> },
    Unwind { list: Expression, name: Name },
    With { projection: Projection, filter: Option<Expression> },
    Return(Projection),
    Call(Call),
}

/// The body of `WITH` and `RETURN`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Projection {
    pub(crate) distinct: bool,
    /// True if all variables in scope are projected.
    pub(crate) all: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) order: Vec<Order>,
    pub(crate) skip: Option<Expression>,
    pub(crate) limit: Option<Expression>,
}

/// A projected expression.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Item {
    pub(crate) expression: Expression,
    pub(crate) alias: Option<Name>,
    /// The expression as it was written, which names its column.
    pub(crate) text: Name,
}

/// A key to sort by.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Order {
    pub(crate) expression: Expression,
    pub(crate) descending: bool,
}

/// A call of a procedure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) name: Name,
    /// The arguments, or `None` without parentheses.
    pub(crate) arguments: Option<Vec<Expression>>,
    pub(crate) yields: Yields,
    pub(crate) filter: Option<Expression>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Yields {
    /// No `YIELD`.
    Absent,
    /// `YIELD *`.
    All,
    /// Outputs with their names in the query.
    Names(Vec<(Name, Name, At)>),
}

/// A pattern of one path.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PathPattern {
    pub(crate) name: Option<Name>,
    pub(crate) shortest: Option<Shortest>,
    pub(crate) first: NodePattern,
    pub(crate) rest: Vec<(RelationshipPattern, NodePattern)>,
    pub(crate) at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shortest {
    One,
    All,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct NodePattern {
    pub(crate) name: Option<Name>,
    pub(crate) labels: Labels,
    pub(crate) properties: Vec<(Name, Expression)>,
    pub(crate) at: At,
}

/// A conjunction of alternatives: `:A:B` is two of one label each, `:A|B` is one of two labels.
pub(crate) type Labels = Vec<Vec<Name>>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RelationshipPattern {
    pub(crate) name: Option<Name>,
    pub(crate) types: Vec<Name>,
    pub(crate) properties: Vec<(Name, Expression)>,
    pub(crate) direction: Direction,
    pub(crate) length: Option<Length>,
    pub(crate) at: At,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Right,
    Left,
    Both,
}

/// The bounds of a variable length, as they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Length {
    pub(crate) minimum: Option<u32>,
    pub(crate) maximum: Option<u32>,
}

/// An expression. Its height is bounded by the parser, so that walks over it may recurse.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Expression {
    pub(crate) kind: Kind,
    pub(crate) at: At,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Literal(Value),
    Parameter(Name),
    Variable(Name),
    List(Vec<Expression>),
    Map(Vec<(Name, Expression)>),
    Property(Box<Expression>, Name),
    Index(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, Option<Box<Expression>>, Option<Box<Expression>>),
    HasLabels(Box<Expression>, Labels),
    MapProjection(Name, Vec<Projected>),
    Not(Box<Expression>),
    Negate(Box<Expression>),
    /// Two expressions or more, joined by one word.
    Logic(Logic, Vec<Expression>),
    /// Operations of one precedence, from left to right.
    Arithmetic(Box<Expression>, Vec<(Arithmetic, Expression)>),
    /// Comparisons in a chain: `a < b < c` is `a < b AND b < c`.
    Comparison(Box<Expression>, Vec<(Comparison, Expression)>),
    Text(Text, Box<Expression>, Box<Expression>),
    In(Box<Expression>, Box<Expression>),
    IsNull(Box<Expression>, bool),
    Case {
        subject: Option<Box<Expression>>,
        arms: Vec<(Expression, Expression)>,
        otherwise: Option<Box<Expression>>,
    },
    /// A function, by its name in lower case and as written.
    Function {
        name: Name,
        written: Name,
        distinct: bool,
        arguments: Vec<Expression>,
    },
    CountStar,
    ListComprehension {
        name: Name,
        list: Box<Expression>,
        filter: Option<Box<Expression>>,
        map: Option<Box<Expression>>,
    },
    Quantifier {
        quantifier: Quantifier,
        name: Name,
        list: Box<Expression>,
        filter: Box<Expression>,
    },
    Reduce {
        accumulator: Name,
        start: Box<Expression>,
        name: Name,
        list: Box<Expression>,
        body: Box<Expression>,
    },
    Pattern(Box<PathPattern>),
    PatternComprehension {
        pattern: Box<PathPattern>,
        filter: Option<Box<Expression>>,
        map: Box<Expression>,
    },
    Subquery {
        count: bool,
        query: Box<Union>,
    },
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Projected {
    Property(Name),
    All,
    Variable(Name, At),
    Entry(Name, Expression),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Logic {
    And,
    Or,
    Xor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    StartsWith,
    EndsWith,
    Contains,
    Matches,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quantifier {
    All,
    Any,
    None,
    Single,
}

impl Expression {
    /// Creates an expression at an offset.
    pub(crate) fn new(at: usize, kind: Kind) -> Self {
        Self { kind, at: At(at) }
    }

    /// Returns the variable, for an expression that is nothing else.
    pub(crate) fn as_variable(&self) -> Option<&Name> {
        match &self.kind {
            Kind::Variable(name) => Some(name),
            _ => None,
        }
    }
}
