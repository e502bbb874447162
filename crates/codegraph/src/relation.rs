//! The schema of the graph: labels, types of relationships, properties, and how sure a relationship is.

use serde::{Deserialize, Serialize};

/// The type of a relationship.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// A folder contains a folder or a file.
    Contains,
    /// A file, module or type defines something.
    Defines,
    /// A file imports a file, or something outside of the project.
    Imports,
    /// A file makes something of another file importable from itself.
    ReExports,
    /// A function or the top level of a file calls a function.
    Calls,
    /// A call that only the name connects with a function.
    MayCall,
    /// A function names a function or type without calling it.
    References,
    /// A type inherits from another one.
    Inherits,
    /// A type implements an interface or trait.
    Implements,
    /// A method overrides one of a base.
    Overrides,
    /// A function creates an instance of a type.
    Instantiates,
    /// A function declares the type of its result.
    ReturnsType,
    /// A field or variable has a declared type.
    HasType,
    /// A test calls a function.
    Tests,
    /// A function decorates a definition.
    Decorates,
}

impl Relation {
    /// Every type, in the order of this list.
    pub const ALL: [Self; 15] = [
        Self::Contains,
        Self::Defines,
        Self::Imports,
        Self::ReExports,
        Self::Calls,
        Self::MayCall,
        Self::References,
        Self::Inherits,
        Self::Implements,
        Self::Overrides,
        Self::Instantiates,
        Self::ReturnsType,
        Self::HasType,
        Self::Tests,
        Self::Decorates,
    ];

    /// Returns the name of the type in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contains => "CONTAINS",
            Self::Defines => "DEFINES",
            Self::Imports => "IMPORTS",
            Self::ReExports => "RE_EXPORTS",
            Self::Calls => "CALLS",
            Self::MayCall => "MAY_CALL",
            Self::References => "REFERENCES",
            Self::Inherits => "INHERITS",
            Self::Implements => "IMPLEMENTS",
            Self::Overrides => "OVERRIDES",
            Self::Instantiates => "INSTANTIATES",
            Self::ReturnsType => "RETURNS_TYPE",
            Self::HasType => "HAS_TYPE",
            Self::Tests => "TESTS",
            Self::Decorates => "DECORATES",
        }
    }
}

/// The certainty of a relationship.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Confidence {
    /// The text says so: by a name in scope, an import, or a declared type.
    Exact,
    /// A value that was followed through the text leads there.
    Inferred,
    /// The name alone fits.
    NameOnly,
}

impl Confidence {
    /// Returns its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Inferred => "inferred",
            Self::NameOnly => "name_only",
        }
    }
}

/// The way by which a call was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Via {
    /// A name in the same file or module.
    Local,
    /// An import.
    Import,
    /// The type of the receiver.
    ReceiverType,
    /// A member that the type of the receiver inherits.
    Inheritance,
    /// A value that was passed or stored, or an implementation of an interface.
    Dynamic,
    /// Something outside of the project.
    External,
    /// The name alone.
    Name,
    /// An index that a compiler made.
    Compiler,
}

impl Via {
    /// Returns its name in queries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Import => "import",
            Self::ReceiverType => "receiver_type",
            Self::Inheritance => "inheritance",
            Self::Dynamic => "dynamic",
            Self::External => "external",
            Self::Name => "name",
            Self::Compiler => "compiler",
        }
    }
}

/// Labels of nodes, in the order in which [`crate::CodeIndex`] documents them.
pub const LABELS: [&str; 16] = [
    "Repo",
    "Directory",
    "File",
    "Module",
    "Class",
    "Struct",
    "Enum",
    "Interface",
    "Trait",
    "TypeAlias",
    "Function",
    "Method",
    "Field",
    "Variable",
    "External",
    "Macro",
];

/// Property keys of nodes and relationships.
pub const PROPERTIES: [&str; 26] = [
    "id",
    "name",
    "qualified_name",
    "path",
    "file",
    "start_line",
    "decorated_from",
    "end_line",
    "language",
    "visibility",
    "is_test",
    "unresolved_calls",
    "content_hash",
    "size",
    "lines",
    "parse_errors",
    "gap",
    "package",
    "symbol",
    "line",
    "confidence",
    "count",
    "via",
    "kind",
    "alias",
    "resolved",
];
