//! The facts of one file: everything that its text alone says. They name no path and no other file, so equal
//! texts have equal facts, wherever they are and whatever is around them.

use serde::{Deserialize, Serialize};

use crate::language::Language;

/// Version of the extraction. Facts of another version are never used.
pub const EXTRACTOR_VERSION: u32 = 4;

/// The number of a name within [`FileFacts::names`].
pub type Name = u32;
/// The number of a definition within [`FileFacts::definitions`]; 0 is the file itself.
pub type DefinitionId = u32;
/// The number of a variable within [`FileFacts::variables`].
pub type VariableId = u32;
/// The number of an expression within [`FileFacts::expressions`]; 0 is an unknown one.
pub type ExpressionId = u32;

/// Everything that the text of one file says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFacts {
    /// Language whose grammar parsed the text.
    pub language: Language,
    /// Names, each once.
    pub names: Vec<Box<str>>,
    /// Definitions in the order of the text. The first is the file itself.
    pub definitions: Vec<Definition>,
    /// Variables, parameters, fields and constants.
    pub variables: Vec<Variable>,
    /// Package or namespace that the whole file says it belongs to, or an empty text.
    pub package: Box<str>,
    /// Imports, and what they bind.
    pub imports: Vec<Import>,
    /// Expressions, each after its parts.
    pub expressions: Vec<Expression>,
    /// Line of each expression, from 1.
    pub lines: Vec<u32>,
    /// Innermost definition around each expression.
    pub owners: Vec<DefinitionId>,
    /// Parts of expressions with several parts, which refer to ranges of it.
    pub lists: Vec<ExpressionId>,
    /// Flows of values, in the order of the text.
    pub flows: Vec<Flow>,
    /// Number of lines.
    pub line_count: u32,
    /// Number of error nodes and missing nodes of the parse, counted up to 65,535.
    pub parse_errors: u16,
    /// Reason why the facts are not those of the whole text, if there is one.
    pub gap: Option<Gap>,
}

/// The reason why facts are incomplete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Gap {
    /// The file is longer than the limit; only the file itself is known.
    TooLarge,
    /// Parsing was more work than the limit; only the file itself is known.
    TooMuchWork,
    /// The text has more nodes than the limit; facts of the rest are missing.
    TooManyNodes,
    /// The program with the grammar failed; only the file itself is known.
    Failed,
}

/// The kind of a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum DefinitionKind {
    /// The file itself.
    Module,
    /// A module or namespace within a file.
    Namespace,
    /// A class.
    Class,
    /// A struct or union.
    Struct,
    /// An enum.
    Enum,
    /// An interface.
    Interface,
    /// A trait.
    Trait,
    /// Another name for a type.
    TypeAlias,
    /// A block that adds methods to a type of another place, such as `impl` of Rust.
    Extension,
    /// A function.
    Function,
    /// A function of a class, or of another type.
    Method,
    /// A constructor.
    Constructor,
    /// A function without a name.
    Lambda,
    /// A macro.
    Macro,
}

impl DefinitionKind {
    /// Returns true for definitions that have members and instances.
    pub fn is_type(self) -> bool {
        matches!(self, Self::Class | Self::Struct | Self::Enum | Self::Interface | Self::Trait)
    }

    /// Returns true for definitions that can be called as functions.
    pub fn is_function(self) -> bool {
        matches!(self, Self::Function | Self::Method | Self::Constructor | Self::Lambda | Self::Macro)
    }

    /// Returns true for interfaces and traits.
    pub fn is_interface(self) -> bool {
        matches!(self, Self::Interface | Self::Trait)
    }
}

/// The places from which a definition can be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Visibility {
    /// Everywhere.
    Public,
    /// The package, the crate or the subclasses.
    Internal,
    /// The file, the module or the class.
    Private,
}

/// Properties of a definition that are true or false.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Traits {
    /// True for a test.
    pub is_test: bool,
    /// True for a member of the class itself, and not of an instance.
    pub is_static: bool,
    /// True if its parameter list begins with the class (`@classmethod`).
    pub is_class_method: bool,
    /// True if reading it calls it (`@property`, `get`).
    pub is_property: bool,
    /// True without a body.
    pub is_abstract: bool,
    /// True if its calls give their results one by one.
    pub is_generator: bool,
    /// True for the default export of a file.
    pub is_default_export: bool,
    /// True if other files can import it.
    pub is_exported: bool,
}

/// A definition: the file, a class, a function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Definition {
    /// Name; empty for a lambda.
    pub name: Name,
    /// Kind.
    pub kind: DefinitionKind,
    /// Definition around it; the file's own is 0.
    pub parent: DefinitionId,
    /// First line, from 1.
    pub first_line: u32,
    /// Line of the first decorator; the first line if there is none before it.
    pub decorated_from: u32,
    /// Last line.
    pub last_line: u32,
    /// Visibility.
    pub visibility: Visibility,
    /// Further properties.
    pub traits: Traits,
    /// Parameters, without the receiver.
    pub parameters: Vec<VariableId>,
    /// Receiver, such as `self`.
    pub receiver: Option<VariableId>,
    /// Declared type of the result, or 0.
    pub result: ExpressionId,
    /// Types that it inherits from or implements.
    pub bases: Vec<Base>,
    /// Decorators, attributes and annotations.
    pub decorators: Vec<ExpressionId>,
    /// The type that an extension or a method outside its class belongs to, or 0.
    pub attached_to: ExpressionId,
}

/// A type that another one inherits from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    /// Expression that names the type.
    pub expression: ExpressionId,
    /// True if the text says that it is implemented, and not inherited.
    pub is_implemented: bool,
}

/// The kind of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum VariableKind {
    /// A variable of a function.
    Local,
    /// A variable of a file.
    Global,
    /// A constant of a file or class.
    Constant,
    /// A field of a class.
    Field,
    /// A case of an enum.
    Case,
    /// A parameter.
    Parameter,
    /// A parameter that takes the remaining arguments.
    Rest,
    /// A parameter that takes the remaining named arguments.
    NamedRest,
    /// The receiver of a method.
    Receiver,
    /// A type parameter.
    TypeParameter,
}

impl VariableKind {
    /// Returns true for variables that other functions and files can name: of files and types.
    pub fn is_shared(self) -> bool {
        matches!(self, Self::Global | Self::Constant | Self::Field | Self::Case)
    }
}

/// A variable, parameter, field or constant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// Name.
    pub name: Name,
    /// Definition that it belongs to.
    pub scope: DefinitionId,
    /// Kind.
    pub kind: VariableKind,
    /// Declared type, or 0.
    pub declared: ExpressionId,
    /// Line of its first declaration.
    pub line: u32,
    /// Visibility.
    pub visibility: Visibility,
}

/// A range of [`FileFacts::lists`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// First index.
    pub start: u32,
    /// Number of elements.
    pub length: u32,
}

/// An expression, reduced to what decides which functions it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Expression {
    /// An expression of which nothing is known.
    Unknown,
    /// A name that is looked up from a definition outwards.
    Name {
        /// Name.
        name: Name,
        /// Definition in which it stands.
        scope: DefinitionId,
    },
    /// A variable of this file.
    Variable(VariableId),
    /// A definition of this file, such as a lambda.
    Definition(DefinitionId),
    /// A member of a value: `object.name`.
    Member {
        /// Object.
        object: ExpressionId,
        /// Name of the member.
        name: Name,
    },
    /// A member of a module or type: `object::name`.
    Path {
        /// Module or type; 0 for the root.
        object: ExpressionId,
        /// Name of the member.
        name: Name,
    },
    /// A call.
    Call {
        /// Function or class.
        callee: ExpressionId,
        /// Arguments.
        arguments: Span,
    },
    /// The creation of an instance by the name of its class.
    New {
        /// Class.
        class: ExpressionId,
        /// Arguments.
        arguments: Span,
    },
    /// The receiver of the method around it.
    This {
        /// Definition in which it stands.
        scope: DefinitionId,
    },
    /// The receiver, as an instance of the base class.
    Super {
        /// Definition in which it stands.
        scope: DefinitionId,
    },
    /// An argument with a name.
    Keyword {
        /// Name.
        name: Name,
        /// Value.
        value: ExpressionId,
    },
    /// The elements of a value, as several arguments or elements.
    Spread(ExpressionId),
    /// A list or tuple.
    List(Span),
    /// A dictionary or object, as keys and values in turn.
    Dictionary(Span),
    /// An element by its key or index.
    Index {
        /// Container.
        object: ExpressionId,
        /// Key.
        key: ExpressionId,
    },
    /// Any element of a value: the variable of a loop.
    Element(ExpressionId),
    /// The value inside of another one: of an optional, a future, a reference.
    Inner(ExpressionId),
    /// One of several values.
    Choice(Span),
    /// A text.
    Text(Name),
    /// A whole number, if it is small.
    Number(u32),
    /// An instance of a type.
    Instance(ExpressionId),
    /// A type with type arguments.
    Generic {
        /// Type.
        base: ExpressionId,
        /// Type arguments.
        arguments: Span,
    },
}

/// A flow of a value to a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flow {
    /// An assignment.
    Assign {
        /// Place: a variable, a member, an element or a pattern of them.
        target: ExpressionId,
        /// Value.
        value: ExpressionId,
    },
    /// A result of a function.
    Return {
        /// Function.
        function: DefinitionId,
        /// Value.
        value: ExpressionId,
    },
    /// One of the results that a generator gives one by one.
    Yield {
        /// Function.
        function: DefinitionId,
        /// Value.
        value: ExpressionId,
    },
}

/// The kind of an import.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ImportKind {
    /// Binding of a module, or of whatever the path leads to.
    Path,
    /// Binding of a member of a module.
    Member,
    /// Visibility of all members of a module.
    All,
    /// Binding of the default export of a module.
    Default,
    /// Inclusion or run of a file, without a name.
    Include,
}

/// An import.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// Kind.
    pub kind: ImportKind,
    /// Definition in which it stands.
    pub scope: DefinitionId,
    /// Path as the language writes it: `a::b`, `a.b`, `./a`.
    pub path: Box<str>,
    /// Number of leading dots of a relative import of Python.
    pub level: u16,
    /// Name of the member in the module, if [`ImportKind::Member`].
    pub member: Name,
    /// Name that it binds.
    pub alias: Name,
    /// Line, from 1.
    pub line: u32,
    /// True if other files can import what it binds from this file.
    pub is_exported: bool,
}

impl FileFacts {
    /// Returns a name, or an empty text for an unknown number.
    pub fn name(&self, name: Name) -> &str {
        self.names.get(name as usize).map_or("", |name| name)
    }

    /// Returns an expression.
    pub fn expression(&self, id: ExpressionId) -> Expression {
        self.expressions.get(id as usize).copied().unwrap_or(Expression::Unknown)
    }

    /// Returns the parts of an expression.
    pub fn list(&self, span: Span) -> &[ExpressionId] {
        let start = span.start as usize;
        self.lists.get(start..start + span.length as usize).unwrap_or_default()
    }

    /// Returns the line of an expression.
    pub fn line(&self, id: ExpressionId) -> u32 {
        self.lines.get(id as usize).copied().unwrap_or(1)
    }

    /// Returns the innermost definition around an expression.
    pub fn owner(&self, id: ExpressionId) -> DefinitionId {
        self.owners.get(id as usize).copied().unwrap_or(0)
    }

    /// Encodes the facts.
    ///
    /// # Errors
    /// Returns [`FactsError`] if they cannot be encoded.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FactsError> {
        postcard::to_allocvec(self).map_err(FactsError)
    }

    /// Decodes facts that [`FileFacts::to_bytes`] encoded.
    ///
    /// # Errors
    /// Returns [`FactsError`] if the bytes are damaged.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, FactsError> {
        postcard::from_bytes(bytes).map_err(FactsError)
    }
}

/// Facts that cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[error("the facts of a file are damaged: extract them anew")]
pub struct FactsError(#[source] postcard::Error);
