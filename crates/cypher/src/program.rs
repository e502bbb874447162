//! The compiled form of a query: steps over one row of slots. Names are numbers here, and the order of the
//! steps is decided. This module has only data.

use regex::Regex;

use crate::ast::{Arithmetic, Comparison, Logic, Name, Quantifier, Text};
use crate::functions::{AggregateFunction, Function};
use crate::graph::{KeyId, LabelId, Side, TypeId};
use crate::value::Value;

/// The place of a variable in a row. Every variable of a query has a place of its own.
pub(crate) type Slot = usize;

/// A whole query.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) parts: Vec<Part>,
    pub(crate) columns: Vec<Name>,
    /// True if equal rows of a union stay.
    pub(crate) all: bool,
    /// The name of each slot; its length is the width of a row.
    pub(crate) names: Vec<Name>,
    /// The names of the parameters, by their numbers.
    pub(crate) parameters: Vec<Name>,
}

/// One part of a union.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) pipeline: Pipeline,
    /// The slot of each column.
    pub(crate) outputs: Vec<Slot>,
}

/// Stages, each of which ends before the next one begins.
#[derive(Debug, Default)]
pub(crate) struct Pipeline {
    pub(crate) stages: Vec<Stage>,
}

/// Steps through which each row passes at once, and what holds the rows back at their end.
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) steps: Vec<Step>,
    pub(crate) barrier: Option<Barrier>,
    /// The number of steps with a state.
    pub(crate) states: usize,
}

/// An operator that needs all rows before it passes on the first one.
#[derive(Debug)]
pub(crate) enum Barrier {
    Aggregate { groups: Vec<(Expression, Slot)>, aggregates: Vec<(Aggregate, Slot)> },
    Sort { keys: Vec<SortKey>, slots: Vec<Slot>, skip: Option<Expression>, limit: Option<Expression> },
}

#[derive(Debug)]
pub(crate) struct SortKey {
    pub(crate) expression: Expression,
    pub(crate) descending: bool,
}

#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    pub(crate) distinct: bool,
    /// The argument; none for `count(*)`.
    pub(crate) argument: Option<Expression>,
    /// The share of a percentile.
    pub(crate) share: Option<Expression>,
}

/// An operator that passes rows on one at a time.
#[derive(Debug)]
pub(crate) enum Step {
    AllNodes {
        slot: Slot,
    },
    LabelScan {
        slot: Slot,
        label: LabelId,
    },
    IndexLookup {
        slot: Slot,
        label: Option<LabelId>,
        key: KeyId,
        value: Expression,
    },
    NodeById {
        slot: Slot,
        id: Expression,
    },
    /// No row passes, because a name of the pattern does not occur in the graph.
    Nothing,
    /// Passes a row whose slot has a node.
    BoundNode {
        slot: Slot,
    },
    HasLabels {
        slot: Slot,
        labels: LabelTest,
    },
    Filter(Expression),
    Expand(Box<Expand>),
    VariableExpand(Box<VariableExpand>),
    Shortest(Box<Shortest>),
    Path {
        slot: Slot,
        start: Slot,
        relationships: Vec<Slot>,
    },
    Optional {
        steps: Vec<Step>,
        slots: Vec<Slot>,
    },
    Unwind {
        list: Expression,
        slot: Slot,
    },
    Project(Vec<(Expression, Slot)>),
    Distinct {
        slots: Vec<Slot>,
        state: usize,
    },
    Skip {
        count: Expression,
        state: usize,
    },
    Limit {
        count: Expression,
        state: usize,
    },
    Call(Box<Call>),
}

/// A call of a procedure.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) procedure: Name,
    pub(crate) arguments: Vec<Expression>,
    /// The outputs that are read, by their index, with their slots.
    pub(crate) outputs: Vec<(usize, Slot)>,
    /// True if the procedure has no outputs, so that the row passes unchanged.
    pub(crate) passes_row: bool,
}

/// A conjunction of alternatives.
pub(crate) type LabelTest = Vec<Vec<LabelId>>;

/// The relationships of one pattern that an expansion follows.
#[derive(Debug, Clone)]
pub(crate) struct Follow {
    /// The side on which the relationships of the starting node are, or both.
    pub(crate) side: Option<Side>,
    /// The types, or any type.
    pub(crate) types: Option<Vec<TypeId>>,
}

/// One relationship from a node.
#[derive(Debug)]
pub(crate) struct Expand {
    pub(crate) from: Slot,
    pub(crate) to: Slot,
    /// True if the slot `to` has its node already.
    pub(crate) into: bool,
    pub(crate) relationship: Slot,
    /// True if the slot of the relationship has its value already.
    pub(crate) is_bound: bool,
    pub(crate) follow: Follow,
    /// Slots of relationships that this one must differ from.
    pub(crate) unlike: Vec<Slot>,
}

/// Many relationships in a row from a node.
#[derive(Debug)]
pub(crate) struct VariableExpand {
    pub(crate) from: Slot,
    pub(crate) to: Slot,
    pub(crate) into: bool,
    pub(crate) relationships: Slot,
    pub(crate) is_bound: bool,
    pub(crate) follow: Follow,
    pub(crate) unlike: Vec<Slot>,
    pub(crate) minimum: u32,
    pub(crate) maximum: u32,
    /// True if the maximum is that of the limits, and not of the query.
    pub(crate) is_capped: bool,
    /// Properties that each relationship has.
    pub(crate) properties: Vec<(Option<KeyId>, Expression)>,
    /// True if the pattern was written from the other end.
    pub(crate) reversed: bool,
    /// True if anything reads the list of relationships.
    pub(crate) keep: bool,
    /// True if only the set of ends matters, so that each end is passed on once.
    pub(crate) ends_only: bool,
}

/// The shortest ways between two nodes, or from one node to all others.
#[derive(Debug)]
pub(crate) struct Shortest {
    pub(crate) expand: VariableExpand,
    /// True if all ways of the shortest length are wanted.
    pub(crate) all: bool,
}

/// An expression over the slots of a row.
#[derive(Debug)]
pub(crate) enum Expression {
    Constant(Value),
    Parameter(usize),
    Slot(Slot),
    Property {
        object: Box<Expression>,
        name: Name,
        key: Option<KeyId>,
    },
    Index(Box<Expression>, Box<Expression>),
    Slice(Box<Expression>, Option<Box<Expression>>, Option<Box<Expression>>),
    List(Vec<Expression>),
    Map(Vec<(Name, Expression)>),
    MapProjection {
        object: Box<Expression>,
        items: Vec<Projected>,
    },
    HasLabels {
        object: Box<Expression>,
        labels: Vec<Vec<Name>>,
    },
    Not(Box<Expression>),
    Negate(Box<Expression>),
    Logic(Logic, Vec<Expression>),
    Arithmetic(Box<Expression>, Vec<(Arithmetic, Expression)>),
    Comparison(Box<Expression>, Vec<(Comparison, Expression)>),
    Text(Text, Box<Expression>, Box<Expression>),
    /// A constant regular expression, compiled.
    Matches(Box<Expression>, Regex),
    In(Box<Expression>, Box<Expression>),
    IsNull(Box<Expression>, bool),
    Case {
        subject: Option<Box<Expression>>,
        arms: Vec<(Expression, Expression)>,
        otherwise: Option<Box<Expression>>,
    },
    Function(Function, Vec<Expression>),
    ListComprehension {
        slot: Slot,
        list: Box<Expression>,
        filter: Option<Box<Expression>>,
        map: Option<Box<Expression>>,
    },
    Quantifier {
        quantifier: Quantifier,
        slot: Slot,
        list: Box<Expression>,
        filter: Box<Expression>,
    },
    Reduce {
        accumulator: Slot,
        start: Box<Expression>,
        slot: Slot,
        list: Box<Expression>,
        body: Box<Expression>,
    },
    /// True if the pipelines give a row.
    Exists(Vec<Pipeline>),
    /// The number of rows of the pipelines.
    CountRows(Vec<Pipeline>),
    /// The values of an expression for each row of a pipeline.
    Collect(Box<Pipeline>, Box<Expression>),
    /// The first of these values, or null.
    First(Box<Pipeline>, Box<Expression>),
}

/// An item of a map projection.
#[derive(Debug)]
pub(crate) enum Projected {
    All,
    Entry(Name, Expression),
}
