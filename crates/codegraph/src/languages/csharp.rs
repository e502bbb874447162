//! C#: namespaces are declared, `using` makes their names visible, and every type is declared.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of C#.
pub(super) struct CSharp;

impl Dialect for CSharp {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment" | "string_literal_content" | "escape_sequence" => Role::Skip,
            "identifier" => Role::Identifier,
            "string_literal" | "verbatim_string_literal" | "raw_string_literal" => Role::Text,
            "integer_literal" => Role::Number,
            "this" | "this_expression" => Role::This,
            "base" | "base_expression" => Role::Super,
            "member_access_expression" | "qualified_name" => Role::Member,
            "conditional_access_expression" | "member_binding_expression" => Role::Special,
            "invocation_expression" => Role::Call,
            "object_creation_expression" | "implicit_object_creation_expression" => Role::Special,
            "argument_list"
            | "type_argument_list"
            | "initializer_expression"
            | "bracketed_argument_list"
            | "tuple_expression" => Role::List,
            "argument" => Role::Pass,
            "element_access_expression" => Role::Index,
            "generic_name" => Role::Generic,
            "assignment_expression" => Role::Assign,
            "variable_declarator" => Role::Declare,
            "variable_declaration" => Role::DeclareAll,
            "field_declaration" | "event_field_declaration" => Role::Special,
            "foreach_statement" => Role::Special,
            "method_declaration"
            | "constructor_declaration"
            | "local_function_statement"
            | "operator_declaration"
            | "destructor_declaration" => Role::Function,
            "lambda_expression" | "anonymous_method_expression" => Role::Lambda,
            "class_declaration" | "record_declaration" => Role::Type(DefinitionKind::Class),
            "struct_declaration" => Role::Type(DefinitionKind::Struct),
            "interface_declaration" => Role::Type(DefinitionKind::Interface),
            "enum_declaration" => Role::Type(DefinitionKind::Enum),
            "namespace_declaration" => Role::Namespace,
            "parameter_list" | "implicit_parameter" => Role::Parameters,
            "parameter" => Role::Parameter,
            "type_parameter" => Role::TypeParameter,
            "base_list" => Role::Bases,
            "property_declaration" => Role::Special,
            "enum_member_declaration" => Role::Case,
            "return_statement" => Role::Return,
            "yield_statement" => Role::Yield,
            "attribute" => Role::Decorator,
            "modifier" => Role::Modifier,
            "file_scoped_namespace_declaration"
            | "using_directive"
            | "declaration_pattern"
            | "cast_expression"
            | "array_type"
            | "as_expression" => Role::Special,
            "block" | "for_statement" | "catch_clause" | "using_statement" | "switch_section" => {
                Role::Statement
            }
            "conditional_expression" | "switch_expression" => Role::Choice,
            "await_expression" => Role::Inner,
            "parenthesized_expression"
            | "nullable_type"
            | "arrow_expression_clause"
            | "switch_expression_arm"
            | "primary_constructor_base_type"
            | "type"
            | "ref_type"
            | "equals_value_clause" => Role::Pass,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: false,
            blocks_have_values: false,
            first_parameter_is_receiver: false,
            classes_hide: false,
            receiver_is_explicit: false,
        }
    }

    fn decorates_from_inside(&self) -> bool {
        true
    }

    fn visibility_of(&self, _name: &str) -> Visibility {
        Visibility::Internal
    }

    fn modify(&self, lowering: &mut Lowering<'_>, text: &str) {
        match text {
            "public" => lowering.apply_visibility(Visibility::Public),
            "private" => lowering.apply_visibility(Visibility::Private),
            "static" if lowering.above(0) == Some(Role::Function) => {
                lowering.builder.change(|definition| definition.traits.is_static = true);
            }
            _ => {}
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "object_creation_expression" => {
                let class = value_at(children, &[Field::Type]);
                let arguments = lowering.arguments(children);
                let arguments = lowering.builder.span(&arguments);
                return lowering.builder.push(Expression::New { class, arguments });
            }
            "conditional_access_expression" => {
                let bound = children.last().map_or(0, |child| child.value);
                return bound;
            }
            "member_binding_expression" => {
                // The object of `?.` is the condition of the expression around it, which was left before.
                let name = child_at(children, &[Field::Name]).or_else(|| children.last());
                let Some(name) = name else { return 0 };
                let text = lowering.text(name.node);
                let object = lowering.condition;
                return lowering.member_of(object, text);
            }
            "foreach_statement" => {
                let target = value_at(children, &[Field::Target]);
                lowering.bind_elements(target, value_at(children, &[Field::Value]));
            }
            "field_declaration" | "event_field_declaration" => {
                lowering.pending.clear();
                lowering.drop_decorators();
            }
            "property_declaration" => property(lowering, node, children),
            "declaration_pattern" => {
                let type_ = value_at(children, &[Field::Type]);
                let name = value_at(children, &[Field::Name]);
                lowering.declare_targets(name, VariableKind::Local);
                lowering.annotate(name, type_);
            }
            "cast_expression" => {
                let type_ = value_at(children, &[Field::Type]);
                return if type_ == 0 { 0 } else { lowering.builder.push(Expression::Instance(type_)) };
            }
            "as_expression" => {
                let type_ = value_at(children, &[Field::Value]);
                return if type_ == 0 { 0 } else { lowering.builder.push(Expression::Instance(type_)) };
            }
            "array_type" => return lowering.container_of(children.first().map_or(0, |child| child.value)),
            "file_scoped_namespace_declaration" => {
                let name = node.child_by_field_name("name").map_or("", |name| lowering.text(name)).to_owned();
                lowering.builder.set_package(&name);
            }
            "using_directive" => using(lowering, node),
            _ => {}
        }
        0
    }

    fn enter<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>) {
        if node.kind() == "foreach_statement"
            && let Some(name) = node.child_by_field_name("left")
            && name.kind() == "identifier"
        {
            let name = lowering.builder.name(lowering.text(name));
            lowering.builder.declare(name, VariableKind::Local, 0);
        }
    }
}

/// Lowers a property: a field with a type.
fn property<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    let Some(name) = node.child_by_field_name("name") else { return };
    let name = lowering.builder.name(lowering.text(name));
    let type_ = value_at(children, &[Field::Type]);
    let visibility = lowering.take_visibility().unwrap_or(Visibility::Private);
    lowering.builder.line = line_of(node);
    let variable = lowering.builder.declare(name, VariableKind::Field, type_);
    lowering.builder.change_variable(variable, |variable| variable.visibility = visibility);
    let place = lowering.builder.push(Expression::Variable(variable));
    lowering.annotate(place, type_);
    lowering.builder.assign(place, value_at(children, &[Field::Value]));
}

/// Lowers `using`.
fn using(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let parts: Vec<Node<'_>> = node.named_children(&mut cursor).collect();
    let Some(path) = parts.last() else { return };
    let path: String = lowering.text(*path).split_whitespace().collect();
    let alias = node.child_by_field_name("name").map(|name| lowering.text(name));
    let (kind, alias) = match alias {
        Some(alias) => (ImportKind::Path, alias),
        None => (ImportKind::All, ""),
    };
    let alias = lowering.builder.name(alias);
    let scope = lowering.builder.scope();
    let line = line_of(node);
    let path = path.into();
    let import = Import { kind, scope, path, level: 0, member: 0, alias, line, is_exported: false };
    lowering.builder.import(import);
}
