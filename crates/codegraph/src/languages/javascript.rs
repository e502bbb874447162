//! JavaScript and TypeScript: modules are files, functions are values, and classes have declared types only in
//! TypeScript.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of JavaScript and TypeScript.
pub(super) struct JavaScript;

impl Dialect for JavaScript {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment"
            | "html_comment"
            | "string_fragment"
            | "escape_sequence"
            | "regex"
            | "jsx_text"
            | "import_clause"
            | "export_clause"
            | "hash_bang_line"
            | "template_literal_type" => Role::Skip,
            "identifier"
            | "type_identifier"
            | "shorthand_property_identifier"
            | "shorthand_property_identifier_pattern" => Role::Identifier,
            "property_identifier" | "private_property_identifier" => Role::MemberName,
            "string" | "template_string" => Role::Text,
            "number" => Role::Number,
            "this" => Role::This,
            "super" => Role::Super,
            "member_expression" | "nested_identifier" | "nested_type_identifier" => Role::Member,
            "call_expression" => Role::Call,
            "new_expression" => Role::New,
            "arguments" | "array" | "array_pattern" | "type_arguments" => Role::List,
            "object" | "object_pattern" => Role::Dictionary,
            "pair" | "pair_pattern" => Role::Special,
            "spread_element" | "rest_pattern" => Role::Spread,
            "subscript_expression" => Role::Index,
            "generic_type" => Role::Generic,
            "assignment_expression"
            | "augmented_assignment_expression"
            | "assignment_pattern"
            | "object_assignment_pattern" => Role::Special,
            "variable_declarator" => Role::Declare,
            "for_in_statement" => Role::Special,
            "function_declaration"
            | "generator_function_declaration"
            | "method_definition"
            | "method_signature"
            | "abstract_method_signature"
            | "function_signature"
            | "generator_function"
            | "function_expression"
            | "function" => Role::Function,
            "arrow_function" => Role::Lambda,
            "class_declaration" | "abstract_class_declaration" | "class" => Role::Type(DefinitionKind::Class),
            "interface_declaration" => Role::Type(DefinitionKind::Interface),
            "enum_declaration" => Role::Type(DefinitionKind::Enum),
            "internal_module" | "module" => Role::Namespace,
            "type_alias_declaration" => Role::TypeAlias,
            "formal_parameters" => Role::Parameters,
            "required_parameter" | "optional_parameter" | "array_type" => Role::Special,
            "type_parameter" => Role::TypeParameter,
            "extends_clause" | "extends_type_clause" => Role::Bases,
            "class_heritage" => Role::Special,
            "implements_clause" => Role::Interfaces,
            "field_definition" | "public_field_definition" | "property_signature" => Role::Special,
            "enum_assignment" => Role::Case,
            "enum_body" => Role::Special,
            "return_statement" => Role::Return,
            "yield_expression" => Role::Yield,
            "decorator" => Role::Decorator,
            "accessibility_modifier" | "override_modifier" => Role::Modifier,
            "statement_block" | "class_static_block" => Role::Block,
            "for_statement" | "switch_case" => Role::Statement,
            "ternary_expression" | "union_type" | "intersection_type" => Role::Choice,
            "binary_expression" => Role::Special,
            "await_expression" => Role::Inner,
            "parenthesized_expression"
            | "type_annotation"
            | "as_expression"
            | "non_null_expression"
            | "satisfies_expression"
            | "sequence_expression"
            | "type_assertion"
            | "parenthesized_type"
            | "readonly_type"
            | "type_query"
            | "constraint"
            | "optional_type" => Role::Pass,
            "import_statement" | "export_statement" | "jsx_opening_element" | "jsx_self_closing_element" => {
                Role::Special
            }
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: false,
            blocks_have_values: false,
            first_parameter_is_receiver: false,
            classes_hide: true,
            receiver_is_explicit: false,
        }
    }

    fn is_constructor(&self, name: &str) -> bool {
        name == "constructor"
    }

    fn modify(&self, lowering: &mut Lowering<'_>, text: &str) {
        match text {
            "private" => lowering.apply_visibility(Visibility::Private),
            "protected" => lowering.apply_visibility(Visibility::Internal),
            _ => {}
        }
    }

    fn opens(&self, node: Node<'_>, role: Role) -> bool {
        // `class` and `function` are also the names of keywords, which have no body.
        match role {
            Role::Type(_) | Role::Function => {
                node.child_by_field_name("body").is_some() || node.kind().ends_with("signature")
            }
            _ => true,
        }
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, _children: &[Child<'a>]) {
        let mut cursor = node.walk();
        for child in node.children(&mut cursor) {
            match child.kind() {
                "static" => lowering.builder.change(|definition| definition.traits.is_static = true),
                "get" => lowering.builder.change(|definition| definition.traits.is_property = true),
                "*" => lowering.builder.change(|definition| definition.traits.is_generator = true),
                "statement_block" | "class_body" => break,
                _ => {}
            }
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "import_statement" => imports(lowering, node),
            "export_statement" => exports(lowering, node, children),
            "assignment_expression" | "augmented_assignment_expression" => return assign(lowering, children),
            "assignment_pattern" | "object_assignment_pattern" => {
                let target = value_at(children, &[Field::Target]);
                let value = value_at(children, &[Field::Value]);
                lowering.builder.assign(target, value);
                return target;
            }
            "pair" | "pair_pattern" => return pair(lowering, children),
            "field_definition" | "public_field_definition" | "property_signature" => {
                field(lowering, node, children);
            }
            "array_type" => return lowering.container_of(children.first().map_or(0, |child| child.value)),
            "required_parameter" | "optional_parameter" => return parameter(lowering, node, children),
            "enum_body" => {
                for child in children.iter().filter(|child| child.field == Field::Name) {
                    case(lowering, child.node);
                }
            }
            "class_heritage" => {
                for child in children.iter().filter(|child| child.value != 0) {
                    lowering.add_base(child.value, false);
                }
            }
            "for_in_statement" => {
                let target = value_at(children, &[Field::Target]);
                let value = value_at(children, &[Field::Value]);
                let is_declared = node.child_by_field_name("kind").is_some();
                if is_declared {
                    lowering.declare_targets(target, VariableKind::Local);
                }
                lowering.bind_elements(target, value);
            }
            "binary_expression" => {
                let operator =
                    node.child_by_field_name("operator").map_or("", |operator| lowering.text(operator));
                if matches!(operator, "||" | "&&" | "??") {
                    let parts: Vec<ExpressionId> = children.iter().map(|child| child.value).collect();
                    return lowering.builder.choice(&parts);
                }
            }
            "jsx_opening_element" | "jsx_self_closing_element" => {
                // An element with a name in upper case is a call of its component.
                let name = value_at(children, &[Field::Name]);
                let text = node.child_by_field_name("name").map_or("", |name| lowering.text(name));
                if name != 0 && text.starts_with(char::is_uppercase) {
                    return lowering.call_of(name, &[]);
                }
            }
            _ => {}
        }
        0
    }
}

/// Lowers an assignment. A function that is assigned to a member has the name of the member.
fn assign(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let target = value_at(children, &[Field::Target]);
    let value = value_at(children, &[Field::Value]);
    lowering.builder.assign(target, value);
    if let Expression::Member { name, .. } = lowering.builder.expression(target) {
        lowering.name_lambda(value, name);
    }
    value
}

/// Returns a key and a value as a list of two. A function has the name of its key.
fn pair(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let (Some(key), Some(value)) = (children.first(), children.get(1)) else { return 0 };
    let text = lowering.text(key.node).trim_matches(['"', '\'', '`']);
    let name = lowering.builder.name(text);
    let is_constant = matches!(key.role, Role::MemberName | Role::Text | Role::Number);
    let key = if is_constant { lowering.builder.push(Expression::Text(name)) } else { key.value };
    if is_constant {
        lowering.name_lambda(value.value, name);
    }
    let span = lowering.builder.span(&[key, value.value]);
    lowering.builder.push(Expression::List(span))
}

/// Lowers a field of a class or interface.
fn field<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    let Some(name) = child_at(children, &[Field::Property, Field::Name]) else { return };
    let text = lowering.text(name.node);
    if text.is_empty() || text.len() > 200 {
        return;
    }
    let name = lowering.builder.name(text);
    let type_ = value_at(children, &[Field::Type]);
    let value = value_at(children, &[Field::Value]);
    lowering.builder.line = line_of(node);
    let visibility = lowering.take_visibility();
    let variable = lowering.builder.declare(name, VariableKind::Field, type_);
    if let Some(visibility) = visibility {
        lowering.builder.change_variable(variable, |variable| variable.visibility = visibility);
    }
    let place = lowering.builder.push(Expression::Variable(variable));
    lowering.annotate(place, type_);
    lowering.builder.assign(place, value);
    lowering.name_lambda(value, name);
}

/// Lowers a parameter. One with a modifier is a field of the class too.
fn parameter<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let place = lowering.parameter(node, Role::Parameter, children);
    let mut cursor = node.walk();
    let is_field =
        node.children(&mut cursor).any(|child| matches!(child.kind(), "accessibility_modifier" | "readonly"));
    lowering.pending.clear();
    if let Expression::Variable(variable) = lowering.builder.expression(place)
        && is_field
    {
        let known = lowering
            .builder
            .facts()
            .variables
            .get(variable as usize)
            .map(|known| (known.name, known.declared));
        let (name, declared) = known.unwrap_or((0, 0));
        let function = lowering.builder.scope();
        let class = lowering.builder.definition(function).map_or(0, |definition| definition.parent);
        let field = lowering.builder.declare_in(class, name, VariableKind::Field, declared);
        let target = lowering.builder.push(Expression::Variable(field));
        lowering.annotate(target, declared);
        lowering.builder.assign(target, place);
    }
    place
}

fn case(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let name = lowering.builder.name(lowering.text(node));
    lowering.builder.declare(name, VariableKind::Case, 0);
}

fn text_of(lowering: &Lowering<'_>, node: Option<Node<'_>>) -> String {
    node.map_or("", |node| lowering.text(node)).trim_matches(['"', '\'', '`']).to_owned()
}

/// Lowers `import ... from "..."`.
fn imports(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let source = text_of(lowering, node.child_by_field_name("source"));
    let mut cursor = node.walk();
    let clause = node.named_children(&mut cursor).find(|child| child.kind() == "import_clause");
    let Some(clause) = clause else {
        add(lowering, node, ImportKind::Include, &source, ("", ""), false);
        return;
    };
    let mut cursor = clause.walk();
    let parts: Vec<Node<'_>> = clause.named_children(&mut cursor).collect();
    for part in parts {
        match part.kind() {
            "identifier" => {
                let alias = lowering.text(part).to_owned();
                add(lowering, node, ImportKind::Default, &source, ("default", &alias), false);
            }
            "namespace_import" => {
                let alias = text_of(lowering, part.named_child(0));
                add(lowering, node, ImportKind::Path, &source, ("", &alias), false);
            }
            "named_imports" => specifiers(lowering, part, node, &source, false),
            _ => {}
        }
    }
}

/// Lowers the names in braces of an import or export.
fn specifiers(lowering: &mut Lowering<'_>, list: Node<'_>, node: Node<'_>, source: &str, is_exported: bool) {
    let mut cursor = list.walk();
    let parts: Vec<Node<'_>> = list.named_children(&mut cursor).collect();
    for part in parts {
        let name = text_of(lowering, part.child_by_field_name("name"));
        let alias = part.child_by_field_name("alias");
        let alias = if alias.is_some() { text_of(lowering, alias) } else { name.clone() };
        let binds_itself = source.is_empty() && name == alias;
        if !name.is_empty() && !binds_itself {
            add(lowering, node, ImportKind::Member, source, (&name, &alias), is_exported);
        }
    }
}

/// Lowers `export`.
fn exports(lowering: &mut Lowering<'_>, node: Node<'_>, children: &[Child<'_>]) {
    let source = text_of(lowering, node.child_by_field_name("source"));
    let mut cursor = node.walk();
    let parts: Vec<Node<'_>> = node.children(&mut cursor).collect();
    for part in &parts {
        match part.kind() {
            "export_clause" => specifiers(lowering, *part, node, &source, true),
            "namespace_export" => {
                let alias = text_of(lowering, part.named_child(0));
                add(lowering, node, ImportKind::Path, &source, ("", &alias), true);
            }
            "*" if !source.is_empty() && !parts.iter().any(|part| part.kind() == "namespace_export") => {
                add(lowering, node, ImportKind::All, &source, ("", ""), true);
            }
            _ => {}
        }
    }
    let is_default = parts.iter().any(|part| part.kind() == "default");
    let value = children.iter().map(|child| child.value).find(|value| *value != 0).unwrap_or(0);
    if let Expression::Definition(definition) = lowering.builder.expression(value) {
        let default = lowering.builder.name("default");
        if is_default {
            lowering.name_lambda(value, default);
        }
        lowering.builder.change_definition(definition, |definition| {
            definition.traits.is_exported = true;
            definition.traits.is_default_export = is_default;
        });
    } else if is_default && value != 0 {
        let name = lowering.builder.name("default");
        let variable = lowering.builder.declare(name, VariableKind::Global, 0);
        let place = lowering.builder.push(Expression::Variable(variable));
        lowering.builder.assign(place, value);
    }
}

fn add(
    lowering: &mut Lowering<'_>,
    node: Node<'_>,
    kind: ImportKind,
    path: &str,
    (member, alias): (&str, &str),
    is_exported: bool,
) {
    let member = lowering.builder.name(member);
    let alias = lowering.builder.name(alias);
    let scope = lowering.builder.scope();
    let line = line_of(node);
    let path = path.into();
    lowering.builder.import(Import { kind, scope, path, level: 0, member, alias, line, is_exported });
}
