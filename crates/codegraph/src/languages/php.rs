//! PHP: variables begin with a dollar sign, and namespaces are declared.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of PHP.
pub(super) struct Php;

impl Dialect for Php {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment" | "string_content" | "escape_sequence" | "php_tag" | "text" => Role::Skip,
            "name" => Role::Identifier,
            "variable_name" | "qualified_name" | "relative_scope" => Role::Special,
            "string" | "encapsed_string" => Role::Text,
            "integer" => Role::Number,
            "member_access_expression"
            | "nullsafe_member_access_expression"
            | "scoped_property_access_expression"
            | "class_constant_access_expression" => Role::Member,
            "function_call_expression" | "member_call_expression" | "nullsafe_member_call_expression" => {
                Role::Call
            }
            "scoped_call_expression" => Role::Call,
            "object_creation_expression" => Role::Special,
            "arguments" | "list_literal" => Role::List,
            "argument" => Role::Special,
            "array_creation_expression" => Role::Special,
            "array_element_initializer" => Role::List,
            "subscript_expression" => Role::Index,
            "assignment_expression"
            | "reference_assignment_expression"
            | "augmented_assignment_expression" => Role::Assign,
            "foreach_statement" => Role::Special,
            "function_definition" | "method_declaration" => Role::Function,
            "anonymous_function" | "anonymous_function_creation_expression" | "arrow_function" => {
                Role::Lambda
            }
            "class_declaration" => Role::Type(DefinitionKind::Class),
            "interface_declaration" => Role::Type(DefinitionKind::Interface),
            "trait_declaration" => Role::Type(DefinitionKind::Trait),
            "enum_declaration" => Role::Type(DefinitionKind::Enum),
            "namespace_definition" => Role::Namespace,
            "formal_parameters" => Role::Parameters,
            "simple_parameter" => Role::Parameter,
            "property_promotion_parameter" => Role::Special,
            "variadic_parameter" => Role::Rest,
            "base_clause" => Role::Bases,
            "class_interface_clause" => Role::Interfaces,
            "use_declaration" => Role::Bases,
            "property_declaration" | "const_element" | "enum_case" => Role::Special,
            "property_element" => Role::Declare,
            "return_statement" => Role::Return,
            "attribute" => Role::Decorator,
            "visibility_modifier" | "static_modifier" => Role::Modifier,
            "conditional_expression"
            | "union_type"
            | "match_expression"
            | "match_block"
            | "match_conditional_expression"
            | "match_default_expression" => Role::Choice,
            "parenthesized_expression" | "named_type" | "optional_type" | "clone_expression" | "by_ref" => {
                Role::Pass
            }
            "namespace_use_declaration"
            | "binary_expression"
            | "include_expression"
            | "require_expression"
            | "require_once_expression"
            | "include_once_expression" => Role::Special,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: true,
            blocks_have_values: false,
            first_parameter_is_receiver: false,
            classes_hide: true,
            receiver_is_explicit: false,
        }
    }

    fn opens(&self, node: Node<'_>, role: Role) -> bool {
        role != Role::Namespace || node.child_by_field_name("body").is_some()
    }

    fn is_constructor(&self, name: &str) -> bool {
        name == "__construct"
    }

    fn decorates_from_inside(&self) -> bool {
        true
    }

    fn modify(&self, lowering: &mut Lowering<'_>, text: &str) {
        match text {
            "private" => lowering.apply_visibility(Visibility::Private),
            "protected" => lowering.apply_visibility(Visibility::Internal),
            "static" if lowering.above(0) == Some(Role::Function) => {
                lowering.builder.change(|definition| definition.traits.is_static = true);
            }
            _ => {}
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "variable_name" => {
                let text = lowering.text(node).trim_start_matches('$');
                if text == "this" {
                    let scope = lowering.builder.scope();
                    return lowering.builder.push(Expression::This { scope });
                }
                return lowering.builder.use_name(text);
            }
            "qualified_name" => return qualified(lowering, lowering.text(node)),
            "relative_scope" => {
                let scope = lowering.builder.scope();
                return match lowering.text(node) {
                    "parent" => lowering.builder.push(Expression::Super { scope }),
                    text => lowering.builder.use_name(text),
                };
            }
            "argument" => {
                let value = children.last().map_or(0, |child| child.value);
                if let Some(name) = child_at(children, &[Field::Name]) {
                    let name = lowering.builder.name(lowering.text(name.node));
                    return lowering.builder.push(Expression::Keyword { name, value });
                }
                return value;
            }
            "object_creation_expression" => {
                let class =
                    children.iter().find(|child| child.role != Role::List).map_or(0, |child| child.value);
                let arguments = lowering.arguments(children);
                let arguments = lowering.builder.span(&arguments);
                return lowering.builder.push(Expression::New { class, arguments });
            }
            "array_creation_expression" => return array(lowering, children),
            "foreach_statement" => {
                let value = children.first().map_or(0, |child| child.value);
                let target = children.get(1).map_or(0, |child| child.value);
                let target = lowering.parts(target).last().copied().unwrap_or(0);
                lowering.declare_targets(target, VariableKind::Local);
                lowering.bind_elements(target, value);
            }
            "property_promotion_parameter" => return promoted(lowering, node, children),
            "property_declaration" => {
                let type_ = value_at(children, &[Field::Type]);
                let visibility = lowering.take_visibility().unwrap_or(Visibility::Public);
                for child in children.iter().filter(|child| child.role == Role::Declare) {
                    if let Expression::Variable(variable) = lowering.builder.expression(child.value) {
                        lowering
                            .builder
                            .change_variable(variable, |variable| variable.visibility = visibility);
                    }
                    lowering.annotate(child.value, type_);
                }
            }
            "const_element" | "enum_case" => {
                let kind =
                    if node.kind() == "enum_case" { VariableKind::Case } else { VariableKind::Constant };
                if let Some(name) = children.first() {
                    let name = lowering.builder.name(lowering.text(name.node));
                    lowering.builder.declare(name, kind, 0);
                }
            }
            "namespace_definition" => {
                let name = node.child_by_field_name("name").map_or("", |name| lowering.text(name)).to_owned();
                lowering.builder.set_package(&name);
            }
            "namespace_use_declaration" => uses(lowering, node),
            "binary_expression" => {
                let operator =
                    node.child_by_field_name("operator").map_or("", |operator| lowering.text(operator));
                if matches!(operator, "??" | "||" | "&&") {
                    let parts: Vec<ExpressionId> = children.iter().map(|child| child.value).collect();
                    return lowering.builder.choice(&parts);
                }
            }
            "include_expression"
            | "require_expression"
            | "require_once_expression"
            | "include_once_expression" => {
                include(lowering, node);
            }
            _ => {}
        }
        0
    }
}

/// Returns a name with its namespaces.
fn qualified(lowering: &mut Lowering<'_>, text: &str) -> ExpressionId {
    let is_absolute = text.starts_with('\\');
    let mut value = 0;
    for (at, part) in text.split('\\').filter(|part| !part.is_empty()).enumerate() {
        value = match at {
            0 if !is_absolute => lowering.builder.use_name(part),
            _ => lowering.path_of(value, part),
        };
    }
    value
}

/// Returns an array: a dictionary if its elements have keys, else a list.
fn array(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let elements: Vec<Vec<ExpressionId>> = children.iter().map(|child| lowering.parts(child.value)).collect();
    if elements.iter().any(|element| element.len() > 1) {
        let pairs: Vec<ExpressionId> =
            elements.iter().filter(|element| element.len() == 2).flatten().copied().collect();
        let span = lowering.builder.span(&pairs);
        return lowering.builder.push(Expression::Dictionary(span));
    }
    let values: Vec<ExpressionId> =
        elements.into_iter().map(|element| element.first().copied().unwrap_or(0)).collect();
    let span = lowering.builder.span(&values);
    lowering.builder.push(Expression::List(span))
}

/// Lowers a parameter that is a field of the class too.
fn promoted<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let place = lowering.parameter(node, Role::Parameter, children);
    lowering.pending.clear();
    let Expression::Variable(variable) = lowering.builder.expression(place) else { return place };
    let known =
        lowering.builder.facts().variables.get(variable as usize).map(|known| (known.name, known.declared));
    let (name, declared) = known.unwrap_or((0, 0));
    let function = lowering.builder.scope();
    let class = lowering.builder.definition(function).map_or(0, |definition| definition.parent);
    let field = lowering.builder.declare_in(class, name, VariableKind::Field, declared);
    let target = lowering.builder.push(Expression::Variable(field));
    lowering.annotate(target, declared);
    lowering.builder.assign(target, place);
    place
}

/// Lowers `use` of a namespace.
fn uses(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut open: Vec<(Node<'_>, String)> = vec![(node, String::new())];
    while let Some((at, prefix)) = open.pop() {
        if at.kind() == "namespace_use_clause" {
            let mut cursor = at.walk();
            let path = at.named_children(&mut cursor).next().map_or("", |path| lowering.text(path));
            let path = if prefix.is_empty() { path.to_owned() } else { format!("{prefix}\\{path}") };
            let alias = at.child_by_field_name("alias").map(|alias| lowering.text(alias));
            let alias = alias.unwrap_or_else(|| path.rsplit('\\').next().unwrap_or("")).to_owned();
            let alias = lowering.builder.name(&alias);
            let scope = lowering.builder.scope();
            let line = line_of(at);
            let kind = ImportKind::Path;
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
            continue;
        }
        let mut cursor = at.walk();
        let mut prefix = prefix;
        for child in at.named_children(&mut cursor) {
            if child.kind() == "namespace_name" {
                lowering.text(child).clone_into(&mut prefix);
            } else {
                open.push((child, prefix.clone()));
            }
        }
    }
}

/// Lowers `require` of a file with a constant path.
fn include(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let text = lowering.text(node);
    let path = text.rsplit(['"', '\'']).nth(1).unwrap_or("").trim_start_matches('/');
    if path.is_empty() {
        return;
    }
    let (path, line) = (path.into(), line_of(node));
    let kind = ImportKind::Include;
    let import = Import { kind, scope: 0, path, level: 0, member: 0, alias: 0, line, is_exported: false };
    lowering.builder.import(import);
}
