//! The meaning of a grammar's nodes: each kind of node has a role, each field a name of its own. A language is
//! a table of roles and a few functions for what no table can say.

use tree_sitter::{Language as Parser, Node};

use super::Lowering;
use crate::facts::{DefinitionKind, ExpressionId, Visibility};
use crate::language::Language;

/// The meaning of a node, for the step after all its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// A node of which nothing matters.
    Skip,
    /// A node without a value; its children are statements or parts without meaning of their own.
    Plain,
    /// The value of its first child with a value.
    Pass,
    /// The value of its last child; it hides the variables declared in it.
    Block,
    /// A node without a value that hides the variables declared in it.
    Statement,
    /// The value of one of its children.
    Choice,
    /// The value inside of its first child with a value.
    Inner,
    /// A name.
    Identifier,
    /// A name of a member, which is not looked up.
    MemberName,
    /// A text.
    Text,
    /// A whole number.
    Number,
    /// The receiver.
    This,
    /// The receiver as its base class.
    Super,
    /// `object.name`.
    Member,
    /// `object::name`.
    Path,
    /// A call; of `name` at an object, if it has one.
    Call,
    /// `new Class(...)`.
    New,
    /// A list of arguments, elements or names.
    List,
    /// Keys and values.
    Dictionary,
    /// A key and a value of a dictionary.
    Pair,
    /// An argument with a name.
    Keyword,
    /// Several arguments from one value.
    Spread,
    /// An element of a container.
    Index,
    /// A type with type arguments.
    Generic,
    /// An assignment to existing places, or to new ones where assigning declares.
    Assign,
    /// A declaration of a variable.
    Declare,
    /// A declaration whose type stands beside several declarators.
    DeclareAll,
    /// A loop over the elements of a value.
    Loop,
    /// A function.
    Function,
    /// A function without a name.
    Lambda,
    /// A type with members.
    Type(DefinitionKind),
    /// A module or namespace in the file.
    Namespace,
    /// Methods for a type of another place.
    Extension,
    /// Another name for a type.
    TypeAlias,
    /// The list of parameters.
    Parameters,
    /// A parameter.
    Parameter,
    /// A parameter that takes the remaining arguments.
    Rest,
    /// A parameter that takes the remaining named arguments.
    NamedRest,
    /// The receiver of a method, in its list of parameters.
    Receiver,
    /// A type parameter.
    TypeParameter,
    /// Types that the type around it inherits from.
    Bases,
    /// Types that the type around it implements.
    Interfaces,
    /// A field of a type.
    Field,
    /// A case of an enum.
    Case,
    /// A result.
    Return,
    /// One of several results.
    Yield,
    /// A decorator, attribute or annotation of what follows.
    Decorator,
    /// A visibility or another modifier of what it stands in.
    Modifier,
    /// An import or anything else that only the language's own code understands.
    Special,
}

/// The field of a node in its parent. Fields with equal meaning for the roles share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// No field, or one that does not matter.
    None,
    /// `name`.
    Name,
    /// `body`.
    Body,
    /// `parameters`, `parameter`.
    Parameters,
    /// `return_type`, `result`, `returns`.
    Result,
    /// `type`.
    Type,
    /// `value`, `right`, `default_value`.
    Value,
    /// `left`, `pattern`, `declarator`.
    Target,
    /// `function`, `constructor`, `macro`.
    Callee,
    /// `arguments`, `type_arguments`.
    Arguments,
    /// `object`, `operand`, `receiver`, `scope`, `path`, `expression`, `argument`, `qualifier`.
    Object,
    /// `property`, `field`, `attribute`, `method`.
    Property,
    /// `index`, `subscript`, `key`, `indices`.
    Key,
    /// `condition`.
    Condition,
    /// `operator`.
    Operator,
    /// `alias`.
    Alias,
    /// `superclass`, `superclasses`, `bounds`.
    Bases,
    /// `interfaces`, `trait`.
    Interfaces,
    /// `source`, `module_name`.
    Source,
    /// `consequence`, `alternative`.
    Branch,
}

/// Returns the field of a name.
fn field_of(name: &str) -> Field {
    match name {
        "name" => Field::Name,
        "body" => Field::Body,
        "parameters" | "parameter" => Field::Parameters,
        "return_type" | "result" | "returns" => Field::Result,
        "type" => Field::Type,
        "value" | "right" | "default_value" => Field::Value,
        "left" | "pattern" | "declarator" | "variable" => Field::Target,
        "function" | "constructor" | "macro" => Field::Callee,
        "arguments" | "type_arguments" => Field::Arguments,
        "object" | "operand" | "receiver" | "scope" | "path" | "expression" | "argument" | "qualifier"
        | "module" | "package" => Field::Object,
        "property" | "field" | "attribute" | "method" => Field::Property,
        "index" | "subscript" | "key" | "indices" => Field::Key,
        "condition" => Field::Condition,
        "operator" => Field::Operator,
        "alias" => Field::Alias,
        "superclass" | "superclasses" | "bounds" => Field::Bases,
        "interfaces" | "trait" => Field::Interfaces,
        "source" | "module_name" => Field::Source,
        "consequence" | "alternative" => Field::Branch,
        _ => Field::None,
    }
}

/// A child of a node that is being left.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Child<'tree> {
    /// Field in the parent.
    pub(crate) field: Field,
    /// Role.
    pub(crate) role: Role,
    /// Value, or 0.
    pub(crate) value: ExpressionId,
    /// Node.
    pub(crate) node: Node<'tree>,
}

/// Returns the value of the first child with one of the fields.
pub(crate) fn value_at(children: &[Child<'_>], fields: &[Field]) -> ExpressionId {
    child_at(children, fields).map_or(0, |child| child.value)
}

/// Returns the first child with one of the fields, in the order of the fields.
pub(crate) fn child_at<'a, 'tree>(
    children: &'a [Child<'tree>],
    fields: &[Field],
) -> Option<&'a Child<'tree>> {
    fields.iter().find_map(|field| children.iter().find(|child| child.field == *field))
}

/// The rules of a language that are not about single nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Habits {
    /// Assigning to a name declares a variable of the function around it.
    pub(crate) assigning_declares: bool,
    /// The last expression of a block is its value, and that of a function its result.
    pub(crate) blocks_have_values: bool,
    /// The first parameter of a method is its receiver.
    pub(crate) first_parameter_is_receiver: bool,
    /// Variables of a class are not visible by their names alone in its methods.
    pub(crate) classes_hide: bool,
    /// Methods without a receiver parameter are static.
    pub(crate) receiver_is_explicit: bool,
}

/// The code of a language for what its tables cannot say.
pub(crate) trait Dialect: Sync {
    /// Returns the role of a kind of node.
    fn role(&self, kind: &str) -> Role;

    /// Returns the rules of the language.
    fn habits(&self) -> Habits;

    /// Returns the name of a definition that begins at a node, if it is not in the field `name`.
    fn name<'a>(&self, _lowering: &Lowering<'a>, _node: Node<'a>) -> Option<&'a str> {
        None
    }

    /// Returns true if a node with the role of a definition is one.
    fn opens(&self, _node: Node<'_>, _role: Role) -> bool {
        true
    }

    /// Returns true if a method with this name is a constructor.
    fn is_constructor(&self, _name: &str) -> bool {
        false
    }

    /// Returns true if a function with this name is a test.
    fn is_test_name(&self, _name: &str) -> bool {
        false
    }

    /// Returns the visibility of a definition without modifiers.
    fn visibility_of(&self, _name: &str) -> Visibility {
        Visibility::Public
    }

    /// Returns true if decorators stand inside of what they decorate.
    fn decorates_from_inside(&self) -> bool {
        false
    }

    /// Acts before the children of a node with the role [`Role::Special`].
    fn enter<'a>(&self, _lowering: &mut Lowering<'a>, _node: Node<'a>) {}

    /// Acts after the children of a node with the role [`Role::Special`], and returns its value.
    fn leave<'a>(
        &self,
        _lowering: &mut Lowering<'a>,
        _node: Node<'a>,
        _children: &[Child<'a>],
    ) -> ExpressionId {
        0
    }

    /// Acts before a definition is closed.
    fn finish_definition<'a>(&self, _lowering: &mut Lowering<'a>, _node: Node<'a>, _children: &[Child<'a>]) {}

    /// Acts on a modifier, with its text.
    fn modify(&self, _lowering: &mut Lowering<'_>, _text: &str) {}
}

/// A grammar, with the roles of its kinds and fields by their numbers.
pub(crate) struct Grammar {
    /// Parser tables.
    pub(crate) parser: Parser,
    /// Code of the language.
    pub(crate) dialect: &'static dyn Dialect,
    /// Rules.
    pub(crate) habits: Habits,
    roles: Vec<Role>,
    fields: Vec<Field>,
}

impl Grammar {
    /// Creates the tables of a grammar.
    pub(crate) fn new(parser: Parser, dialect: &'static dyn Dialect) -> Self {
        let kinds = u16::try_from(parser.node_kind_count()).unwrap_or(u16::MAX);
        let role = |id: u16| {
            if !parser.node_kind_is_named(id) {
                return Role::Skip;
            }
            parser.node_kind_for_id(id).map_or(Role::Plain, |kind| dialect.role(kind))
        };
        let roles = (0..kinds).map(role).collect();
        let fields = u16::try_from(parser.field_count()).unwrap_or(u16::MAX);
        let field = |id: u16| parser.field_name_for_id(id).map_or(Field::None, field_of);
        let fields = (0..=fields).map(field).collect();
        Self { habits: dialect.habits(), parser, dialect, roles, fields }
    }

    /// Returns the role of a kind of node.
    pub(crate) fn role(&self, kind: u16) -> Role {
        self.roles.get(usize::from(kind)).copied().unwrap_or(Role::Plain)
    }

    /// Returns the field with a number of the grammar.
    pub(crate) fn field(&self, number: Option<std::num::NonZeroU16>) -> Field {
        number.and_then(|number| self.fields.get(usize::from(number.get()))).copied().unwrap_or(Field::None)
    }
}

/// The entry of a language in the list of languages.
pub(crate) struct Entry {
    /// Language.
    pub(crate) language: Language,
    /// Grammar.
    pub(crate) grammar: Grammar,
}
