//! The functions of the language: their names, how many arguments they take, and where each is computed.
//!
//! Functions here see values, the graph, and a budget for what they make. They see no row and no query.

use crate::error::{Detail, Error, ErrorClass, Result};
use crate::graph::Graph;
use crate::value::Value;

mod conversion;
pub(crate) mod entity;
mod list;
mod mathematics;
mod text;

/// The surroundings of a call.
pub(crate) struct Surroundings<'a> {
    pub(crate) graph: &'a dyn Graph,
    /// Maximum size of a value that a function may make, in bytes.
    pub(crate) budget: usize,
}

macro_rules! functions {
    ($($name:ident = $text:literal, $fewest:literal, $most:literal;)*) => {
        /// A function that turns values into a value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Function { $($name),* }

        impl Function {
            const ALL: &[(Function, &str, usize, usize)] = &[$((Function::$name, $text, $fewest, $most)),*];
        }
    };
}

functions! {
    Abs = "abs", 1, 1;
    Acos = "acos", 1, 1;
    Asin = "asin", 1, 1;
    Atan = "atan", 1, 1;
    Atan2 = "atan2", 2, 2;
    Ceil = "ceil", 1, 1;
    Coalesce = "coalesce", 1, 1000;
    Cos = "cos", 1, 1;
    Cot = "cot", 1, 1;
    Degrees = "degrees", 1, 1;
    E = "e", 0, 0;
    ElementId = "elementid", 1, 1;
    EndNode = "endnode", 1, 1;
    Exists = "exists", 1, 1;
    Exp = "exp", 1, 1;
    Floor = "floor", 1, 1;
    Haversin = "haversin", 1, 1;
    Head = "head", 1, 1;
    Id = "id", 1, 1;
    IsEmpty = "isempty", 1, 1;
    Keys = "keys", 1, 1;
    Labels = "labels", 1, 1;
    Last = "last", 1, 1;
    Left = "left", 2, 2;
    Length = "length", 1, 1;
    Log = "log", 1, 1;
    Log10 = "log10", 1, 1;
    LeftTrim = "ltrim", 1, 1;
    Nodes = "nodes", 1, 1;
    Pi = "pi", 0, 0;
    Properties = "properties", 1, 1;
    Radians = "radians", 1, 1;
    Random = "rand", 0, 0;
    Range = "range", 2, 3;
    Relationships = "relationships", 1, 1;
    Replace = "replace", 3, 3;
    Reverse = "reverse", 1, 1;
    Right = "right", 2, 2;
    Round = "round", 1, 2;
    RightTrim = "rtrim", 1, 1;
    Sign = "sign", 1, 1;
    Sin = "sin", 1, 1;
    Size = "size", 1, 1;
    Split = "split", 2, 2;
    SquareRoot = "sqrt", 1, 1;
    StartNode = "startnode", 1, 1;
    Substring = "substring", 2, 3;
    Tail = "tail", 1, 1;
    Tan = "tan", 1, 1;
    ToBoolean = "toboolean", 1, 1;
    ToFloat = "tofloat", 1, 1;
    ToInteger = "tointeger", 1, 1;
    ToLower = "tolower", 1, 1;
    ToString = "tostring", 1, 1;
    ToUpper = "toupper", 1, 1;
    Trim = "trim", 1, 1;
    Type = "type", 1, 1;
}

/// A function over the rows of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    Sum,
    Average,
    Minimum,
    Maximum,
    Collect,
    SampleDeviation,
    PopulationDeviation,
    PercentileDiscrete,
    PercentileContinuous,
}

/// Returns the function of a name in lower case, with the fewest and the most arguments.
pub(crate) fn function(name: &str) -> Option<(Function, usize, usize)> {
    let name = match name {
        "lower" => "tolower",
        "upper" => "toupper",
        "ceiling" => "ceil",
        "rels" => "relationships",
        name => name,
    };
    let found = Function::ALL.iter().find(|(_, known, ..)| *known == name);
    found.map(|(function, _, fewest, most)| (*function, *fewest, *most))
}

/// Returns all names of functions, for suggestions.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    Function::ALL.iter().map(|(_, name, ..)| *name)
}

/// Returns the aggregate function of a name in lower case, with the number of its arguments.
pub(crate) fn aggregate(name: &str) -> Option<(AggregateFunction, usize)> {
    Some(match name {
        "count" => (AggregateFunction::Count, 1),
        "sum" => (AggregateFunction::Sum, 1),
        "avg" => (AggregateFunction::Average, 1),
        "min" => (AggregateFunction::Minimum, 1),
        "max" => (AggregateFunction::Maximum, 1),
        "collect" => (AggregateFunction::Collect, 1),
        "stdev" => (AggregateFunction::SampleDeviation, 1),
        "stdevp" => (AggregateFunction::PopulationDeviation, 1),
        "percentiledisc" => (AggregateFunction::PercentileDiscrete, 2),
        "percentilecont" => (AggregateFunction::PercentileContinuous, 2),
        _ => return None,
    })
}

/// Computes a function.
pub(crate) fn call(function: Function, arguments: &[Value], around: &Surroundings<'_>) -> Result<Value> {
    use Function as F;
    let first = arguments.first().unwrap_or(&Value::Null);
    match function {
        F::Coalesce => Ok(arguments.iter().find(|value| !value.is_null()).cloned().unwrap_or_default()),
        F::Exists => Ok(Value::Boolean(!first.is_null())),
        F::E => Ok(Value::Float(std::f64::consts::E)),
        F::Pi => Ok(Value::Float(std::f64::consts::PI)),
        F::Random => Ok(Value::Float(mathematics::random())),
        F::Range => list::range(arguments, around),
        // Every function below returns null for an argument that is null.
        _ if arguments.iter().any(Value::is_null) => Ok(Value::Null),
        F::Head | F::Last | F::Tail | F::Reverse | F::Size | F::IsEmpty | F::Length => {
            list::call(function, first)
        }
        F::ToBoolean | F::ToFloat | F::ToInteger | F::ToString => conversion::call(function, first),
        F::ElementId
        | F::EndNode
        | F::Id
        | F::Keys
        | F::Labels
        | F::Nodes
        | F::Properties
        | F::Relationships
        | F::StartNode
        | F::Type => entity::call(function, first, around.graph),
        F::Left
        | F::LeftTrim
        | F::Replace
        | F::Right
        | F::RightTrim
        | F::Split
        | F::Substring
        | F::ToLower
        | F::ToUpper
        | F::Trim => text::call(function, arguments, around),
        _ => mathematics::call(function, arguments),
    }
}

/// Returns the error of a function that does not take a value.
fn refused(function: Function, value: &Value) -> Error {
    Error::wrong_type(format!("`{}` does not take {}.", name_of(function), value.type_name()))
}

/// Returns that error with the detail of conversions and of functions of entities.
fn refused_value(function: Function, value: &Value) -> Error {
    Error { detail: Detail::InvalidArgumentValue, ..refused(function, value) }
}

fn name_of(function: Function) -> &'static str {
    Function::ALL.iter().find(|(known, ..)| *known == function).map_or("?", |(_, name, ..)| name)
}

/// Returns the error of an argument outside of its domain.
fn out_of_range(message: impl Into<String>) -> Error {
    Error::runtime(ErrorClass::ArgumentError, Detail::NumberOutOfRange, message)
}

/// Returns the error of a value that would be larger than the budget.
pub(crate) fn too_large(bytes: usize, budget: usize) -> Error {
    let message = format!("A value of {bytes} bytes exceeds the {budget} bytes of memory that are left.");
    Error::limit(Detail::MemoryExceeded, message)
}
