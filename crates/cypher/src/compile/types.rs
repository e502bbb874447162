//! Types of expressions, as far as a query without its data shows them.

use crate::functions::Function;
use crate::value::Value;

/// The type of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Type {
    /// Any type, or an unknown one.
    Any,
    Null,
    Boolean,
    Integer,
    Float,
    /// An integer or a float.
    Number,
    String,
    List(Box<Type>),
    Map,
    Node,
    Relationship,
    Path,
}

impl Type {
    /// Returns the type of a value.
    // BOUNDED: by the depth of a value.
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Boolean(_) => Self::Boolean,
            Value::Integer(_) => Self::Integer,
            Value::Float(_) => Self::Float,
            Value::String(_) => Self::String,
            Value::List(list) => Self::list_of(list.items().iter().map(Self::of)),
            Value::Map(_) => Self::Map,
            Value::Node(_) => Self::Node,
            Value::Relationship(_) => Self::Relationship,
            Value::Path(_) => Self::Path,
        }
    }

    pub(super) fn list(inner: Self) -> Self {
        Self::List(Box::new(inner))
    }

    /// Returns the type of a list of items of these types.
    pub(super) fn list_of(items: impl Iterator<Item = Self>) -> Self {
        Self::list(items.reduce(Self::or).unwrap_or(Self::Any))
    }

    /// Returns the type of a value that has one of two types.
    pub(super) fn or(self, other: Self) -> Self {
        if self == other || other == Self::Null {
            self
        } else if self == Self::Null {
            other
        } else if self.is_number() && other.is_number() {
            Self::Number
        } else if matches!((&self, &other), (Self::List(_), Self::List(_))) {
            Self::list(Self::Any)
        } else {
            Self::Any
        }
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self, Self::Any | Self::Null)
    }

    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Integer | Self::Float | Self::Number)
    }

    pub(super) fn is_entity(&self) -> bool {
        matches!(self, Self::Node | Self::Relationship)
    }

    /// Returns true if a value of the type can be a truth value.
    pub(super) fn may_be_boolean(&self) -> bool {
        self.is_open() || *self == Self::Boolean
    }

    pub(super) fn may_be_number(&self) -> bool {
        self.is_open() || self.is_number()
    }

    pub(super) fn may_be_list(&self) -> bool {
        self.is_open() || matches!(self, Self::List(_))
    }

    pub(super) fn may_be_node(&self) -> bool {
        self.is_open() || *self == Self::Node
    }

    pub(super) fn may_be_relationship(&self) -> bool {
        self.is_open() || *self == Self::Relationship
    }

    /// Returns true if a value of the type can have properties.
    pub(super) fn may_have_properties(&self) -> bool {
        self.is_open() || self.is_entity() || *self == Self::Map
    }

    /// Returns the type of the items of a list.
    pub(super) fn item(&self) -> Self {
        match self {
            Self::List(inner) => (**inner).clone(),
            _ => Self::Any,
        }
    }

    /// Returns the name of the type, for messages.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Any => "any value",
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Integer => "an integer",
            Self::Float => "a float",
            Self::Number => "a number",
            Self::String => "a string",
            Self::List(_) => "a list",
            Self::Map => "a map",
            Self::Node => "a node",
            Self::Relationship => "a relationship",
            Self::Path => "a path",
        }
    }
}

/// Returns true if a function can take a first argument of a type.
pub(super) fn accepts(function: Function, kind: &Type) -> bool {
    use Function as F;
    let is_list = matches!(kind, Type::List(_));
    kind.is_open()
        || match function {
            F::Labels => *kind == Type::Node,
            F::Type | F::StartNode | F::EndNode => *kind == Type::Relationship,
            F::Id | F::ElementId => kind.is_entity(),
            F::Nodes | F::Relationships | F::Length => *kind == Type::Path,
            F::Properties | F::Keys => kind.may_have_properties(),
            F::Size | F::IsEmpty => is_list || matches!(kind, Type::String | Type::Map),
            F::Reverse => is_list || *kind == Type::String,
            F::Head | F::Last | F::Tail => is_list,
            _ => true,
        }
}

/// Returns the type of the result of a function.
pub(super) fn result(function: Function, arguments: &[Type]) -> Type {
    use Function as F;
    let first = arguments.first().cloned().unwrap_or(Type::Any);
    match function {
        F::Labels | F::Keys | F::Split => Type::list(Type::String),
        F::Range => Type::list(Type::Integer),
        F::Nodes => Type::list(Type::Node),
        F::Relationships => Type::list(Type::Relationship),
        F::StartNode | F::EndNode => Type::Node,
        F::Properties => Type::Map,
        F::Head | F::Last => first.item(),
        F::Tail | F::Reverse => first,
        F::Coalesce => arguments.iter().cloned().reduce(Type::or).unwrap_or(Type::Any),
        F::Exists | F::IsEmpty | F::ToBoolean => Type::Boolean,
        F::Id | F::Length | F::Sign | F::Size | F::ToInteger => Type::Integer,
        F::Abs => Type::Number,
        F::ElementId
        | F::Left
        | F::LeftTrim
        | F::Replace
        | F::Right
        | F::RightTrim
        | F::Substring
        | F::ToLower
        | F::ToString
        | F::ToUpper
        | F::Trim
        | F::Type => Type::String,
        _ => Type::Float,
    }
}
