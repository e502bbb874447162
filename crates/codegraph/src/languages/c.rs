//! C and C++: definitions are declarators, and names are global unless they are static or in a namespace.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, line_of, value_at};

/// The dialect of C and C++.
pub(super) struct C;

impl Dialect for C {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment"
            | "string_content"
            | "escape_sequence"
            | "preproc_directive"
            | "preproc_arg"
            | "system_lib_string"
            | "attribute_specifier"
            | "storage_class_specifier"
            | "type_qualifier" => Role::Skip,
            "identifier" | "type_identifier" | "namespace_identifier" => Role::Identifier,
            "field_identifier" => Role::MemberName,
            "string_literal" | "raw_string_literal" => Role::Text,
            "number_literal" => Role::Number,
            "this" => Role::This,
            "field_expression" => Role::Member,
            "qualified_identifier" => Role::Path,
            "call_expression" => Role::Call,
            "argument_list" | "template_argument_list" | "initializer_list" => Role::List,
            "new_expression" => Role::New,
            "template_type" | "template_function" | "template_method" => Role::Generic,
            "subscript_expression" => Role::Index,
            "assignment_expression" => Role::Assign,
            "declaration" | "init_declarator" | "field_declaration" | "for_range_loop"
            | "condition_clause" => Role::Special,
            "function_definition" => Role::Function,
            "lambda_expression" => Role::Lambda,
            "class_specifier" => Role::Type(DefinitionKind::Class),
            "struct_specifier" | "union_specifier" => Role::Type(DefinitionKind::Struct),
            "enum_specifier" => Role::Type(DefinitionKind::Enum),
            "namespace_definition" => Role::Namespace,
            "alias_declaration" => Role::TypeAlias,
            "type_definition"
            | "preproc_include"
            | "using_declaration"
            | "base_class_clause"
            | "access_specifier"
            | "cast_expression"
            | "function_declarator"
            | "static_cast" => Role::Special,
            "parameter_list" => Role::Parameters,
            "parameter_declaration" | "optional_parameter_declaration" => Role::Parameter,
            "variadic_parameter_declaration" => Role::Rest,
            "type_parameter_declaration" | "optional_type_parameter_declaration" => Role::TypeParameter,
            "enumerator" => Role::Case,
            "return_statement" | "co_return_statement" => Role::Return,
            "compound_statement" | "for_statement" | "catch_clause" => Role::Statement,
            "conditional_expression" => Role::Choice,
            "co_await_expression" => Role::Inner,
            "pointer_declarator"
            | "reference_declarator"
            | "array_declarator"
            | "parenthesized_expression"
            | "pointer_expression"
            | "unary_expression"
            | "type_descriptor"
            | "parenthesized_declarator"
            | "abstract_pointer_declarator"
            | "abstract_reference_declarator"
            | "dependent_type"
            | "argument"
            | "attributed_declarator"
            | "pointer_type_declarator" => Role::Pass,
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

    fn opens(&self, node: Node<'_>, role: Role) -> bool {
        match role {
            Role::Type(_) => node.child_by_field_name("body").is_some(),
            Role::Function => declarator_of(node).is_some(),
            _ => true,
        }
    }

    fn name<'a>(&self, lowering: &Lowering<'a>, node: Node<'a>) -> Option<&'a str> {
        if node.kind() != "function_definition" {
            return None;
        }
        let mut at = declarator_of(node)?.child_by_field_name("declarator")?;
        while at.kind() == "qualified_identifier" {
            at = at.child_by_field_name("name")?;
        }
        Some(lowering.text(at).trim_start_matches(['*', '&', ' ']))
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "struct_specifier" | "class_specifier" | "enum_specifier" | "union_specifier" => {
                return value_at(children, &[Field::Name]);
            }
            "declaration" => declaration(lowering, node, children),
            "init_declarator" => return initialised(lowering, node, children),
            "field_declaration" => field(lowering, node, children),
            "for_range_loop" => {
                let target = value_at(children, &[Field::Target]);
                lowering.bind_elements(target, value_at(children, &[Field::Value]));
            }
            "type_definition" => {
                let type_ = value_at(children, &[Field::Type]);
                for child in children.iter().filter(|child| child.field == Field::Target) {
                    alias(lowering, child.node, type_);
                }
            }
            "preproc_include" => include(lowering, node),
            "using_declaration" => using(lowering, node),
            "base_class_clause" => {
                for child in children.iter().filter(|child| child.value != 0) {
                    lowering.add_base(child.value, false);
                }
            }
            "access_specifier" => {
                let visibility = match lowering.text(node) {
                    "public" => "public",
                    "protected" => "internal",
                    _ => "private",
                };
                lowering.section = visibility;
            }
            "cast_expression" => {
                let type_ = value_at(children, &[Field::Type]);
                return if type_ == 0 { 0 } else { lowering.builder.push(Expression::Instance(type_)) };
            }
            "function_declarator" => {
                return children
                    .iter()
                    .find(|child| child.field == Field::Target)
                    .map_or(0, |child| child.value);
            }
            _ => {}
        }
        0
    }

    fn enter<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>) {
        if matches!(node.kind(), "declaration" | "field_declaration") {
            lowering.marks.push(lowering.builder.open_block());
        }
        if node.kind() == "for_range_loop"
            && let Some(mut name) = node.child_by_field_name("declarator")
        {
            while let Some(inner) = name.named_child(0) {
                name = inner;
            }
            let name = lowering.builder.name(lowering.text(name));
            lowering.builder.declare(name, VariableKind::Local, 0);
        }
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
        if node.kind() != "function_definition" {
            return;
        }
        let mut cursor = node.walk();
        let is_static = node
            .named_children(&mut cursor)
            .any(|child| child.kind() == "storage_class_specifier" && lowering.text(child) == "static");
        let scope = lowering.builder.scope();
        let parent = lowering.builder.definition(scope).map_or(0, |definition| definition.parent);
        let is_member = lowering.builder.kind(parent).is_type();
        let declared =
            children.iter().find(|child| child.field == Field::Target).map_or(0, |child| child.value);
        let mut attached = 0;
        if let Expression::Path { object, .. } = lowering.builder.expression(declared) {
            attached = object;
        }
        let section = lowering.section;
        lowering.builder.change(|definition| {
            if is_member {
                definition.traits.is_static = is_static;
                if section == "private" {
                    definition.visibility = Visibility::Private;
                }
            } else if is_static {
                definition.visibility = Visibility::Private;
            }
            if attached != 0 {
                definition.attached_to = attached;
                definition.kind = DefinitionKind::Method;
            }
        });
    }
}

/// Returns the declarator of a function within a definition.
fn declarator_of(node: Node<'_>) -> Option<Node<'_>> {
    let mut at = node.child_by_field_name("declarator")?;
    for _ in 0..16 {
        if at.kind() == "function_declarator" {
            return Some(at);
        }
        let inner = at.child_by_field_name("declarator");
        at = inner.or_else(|| at.named_child(0))?;
    }
    None
}

/// Lowers a declaration: of variables, or of a function without a body, which is no definition.
fn declaration<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    let mark = lowering.marks.pop();
    let type_ = value_at(children, &[Field::Type]);
    for child in children.iter().filter(|child| child.field == Field::Target) {
        let is_function = child.node.kind() == "function_declarator" || {
            let mut at = child.node;
            let mut found = false;
            for _ in 0..8 {
                let Some(inner) = at.child_by_field_name("declarator").or_else(|| at.named_child(0)) else {
                    break;
                };
                found |= inner.kind() == "function_declarator";
                at = inner;
            }
            found && child.node.kind() != "init_declarator"
        };
        if is_function && let Some(mark) = mark {
            // The parameters of a function without a body are visible nowhere.
            lowering.builder.close_block(mark);
        }
        if is_function || child.value == 0 {
            continue;
        }
        if child.node.kind() != "init_declarator" {
            lowering.declare_targets(child.value, VariableKind::Local);
        }
        lowering.annotate(child.value, type_);
        lowering.builder.line = line_of(node);
    }
}

/// Lowers a declarator with a value.
fn initialised<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let target = value_at(children, &[Field::Target]);
    let value = value_at(children, &[Field::Value]);
    lowering.declare_targets(target, VariableKind::Local);
    let is_arguments = node.child_by_field_name("value").is_some_and(|value| value.kind() == "argument_list");
    if !is_arguments {
        lowering.builder.assign(target, value);
    }
    target
}

/// Lowers a field of a struct or class. A method without a body stays a declaration of its class.
fn field<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    if let Some(mark) = lowering.marks.pop() {
        lowering.builder.close_block(mark);
    }
    let type_ = value_at(children, &[Field::Type]);
    for child in children.iter().filter(|child| child.field == Field::Target) {
        let mut at = child.node;
        let mut is_function = false;
        for _ in 0..16 {
            is_function |= at.kind() == "function_declarator";
            let Some(inner) = at
                .child_by_field_name("declarator")
                .or_else(|| at.named_child(0).filter(|_| at.kind().ends_with("declarator")))
            else {
                break;
            };
            at = inner;
        }
        let text = lowering.text(at);
        if text.is_empty() || text.len() > 200 {
            continue;
        }
        if is_function {
            lowering.declare_method(text, node, type_);
            continue;
        }
        let name = lowering.builder.name(text);
        lowering.builder.line = line_of(node);
        let variable = lowering.builder.declare(name, VariableKind::Field, type_);
        if lowering.section == "private" {
            lowering.builder.change_variable(variable, |variable| variable.visibility = Visibility::Private);
        }
        let place = lowering.builder.push(Expression::Variable(variable));
        lowering.annotate(place, type_);
    }
}

/// Lowers another name for a type.
fn alias<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, type_: ExpressionId) {
    let text = lowering.text(node).trim_start_matches(['*', ' ']);
    if text.is_empty() || text.contains(['(', '[']) {
        return;
    }
    // `typedef struct { ... } name` gives the struct its name.
    if let Expression::Definition(definition) = lowering.builder.expression(type_) {
        let name = lowering.builder.name(text);
        let is_unnamed =
            lowering.builder.definition(definition).is_some_and(|definition| definition.name == 0);
        if is_unnamed {
            lowering.builder.change_definition(definition, |definition| definition.name = name);
            return;
        }
    }
    lowering.declare_alias(text, node, type_);
}

/// Lowers `#include`.
fn include(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let path = node.child_by_field_name("path").map_or("", |path| lowering.text(path));
    let path = path.trim_matches(['"', '<', '>']).into();
    let line = line_of(node);
    let kind = ImportKind::Include;
    let import = Import { kind, scope: 0, path, level: 0, member: 0, alias: 0, line, is_exported: false };
    lowering.builder.import(import);
}

/// Lowers `using namespace`.
fn using(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let text = lowering.text(node);
    let is_namespace = text.contains("namespace");
    let path = node.named_child(0).map_or("", |path| lowering.text(path)).replace("::", ".");
    let alias = path.rsplit('.').next().unwrap_or("").to_owned();
    let (kind, alias) = if is_namespace { (ImportKind::All, "") } else { (ImportKind::Path, alias.as_str()) };
    let alias = lowering.builder.name(alias);
    let scope = lowering.builder.scope();
    let line = line_of(node);
    let path = path.into();
    lowering.builder.import(Import {
        kind,
        scope,
        path,
        level: 0,
        member: 0,
        alias,
        line,
        is_exported: false,
    });
}
