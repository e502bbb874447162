//! Python: names are declared by assigning, classes by their statements, and modules by files.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, value_at};

/// The dialect of Python.
pub(super) struct Python;

impl Dialect for Python {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment" | "escape_sequence" | "string_start" | "string_end" | "string_content"
            | "type_conversion" | "format_specifier" | "line_continuation" => Role::Skip,
            "identifier" => Role::Identifier,
            "string" | "concatenated_string" => Role::Text,
            "integer" => Role::Number,
            "attribute" => Role::Member,
            "call" => Role::Call,
            "argument_list" | "list" | "tuple" | "set" | "expression_list" | "pattern_list"
            | "tuple_pattern" | "list_pattern" | "type_parameter" | "subject_list" => Role::List,
            "dictionary" => Role::Dictionary,
            "pair" => Role::Pair,
            "keyword_argument" => Role::Keyword,
            "list_splat" | "list_splat_pattern" | "dictionary_splat" => Role::Spread,
            "subscript" => Role::Index,
            "generic_type" => Role::Generic,
            "assignment" | "augmented_assignment" | "named_expression" => Role::Assign,
            "for_statement" | "for_in_clause" => Role::Special,
            "function_definition" => Role::Function,
            "lambda" => Role::Lambda,
            "class_definition" => Role::Type(DefinitionKind::Class),
            "parameters" | "lambda_parameters" => Role::Parameters,
            "default_parameter" | "typed_parameter" | "typed_default_parameter" => Role::Parameter,
            "dictionary_splat_pattern" => Role::NamedRest,
            "return_statement" => Role::Return,
            "yield" => Role::Special,
            "decorator" => Role::Decorator,
            "await"
            | "parenthesized_expression"
            | "type"
            | "with_item"
            | "as_pattern_target"
            | "union_type" => Role::Pass,
            "conditional_expression" | "boolean_operator" => Role::Choice,
            "list_comprehension"
            | "set_comprehension"
            | "generator_expression"
            | "dictionary_comprehension"
            | "as_pattern"
            | "import_statement"
            | "import_from_statement"
            | "future_import_statement"
            | "global_statement"
            | "nonlocal_statement"
            | "interpolation"
            | "raise_statement" => Role::Special,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: true,
            blocks_have_values: false,
            first_parameter_is_receiver: true,
            classes_hide: true,
            receiver_is_explicit: true,
        }
    }

    fn is_constructor(&self, name: &str) -> bool {
        name == "__init__"
    }

    fn is_test_name(&self, name: &str) -> bool {
        name.starts_with("test_")
    }

    fn visibility_of(&self, name: &str) -> Visibility {
        if name.starts_with('_') && !name.ends_with("__") { Visibility::Private } else { Visibility::Public }
    }

    fn enter<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>) {
        if matches!(node.kind(), "global_statement" | "nonlocal_statement") {
            let mut cursor = node.walk();
            for name in node.named_children(&mut cursor) {
                let name = lowering.builder.name(lowering.text(name));
                lowering.builder.take_from_outside(name);
            }
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "import_statement" => import(lowering, node),
            "import_from_statement" => import_from(lowering, node),
            "for_statement" | "for_in_clause" => {
                let target = value_at(children, &[Field::Target]);
                lowering.declare_targets(target, VariableKind::Local);
                lowering.bind_elements(target, value_at(children, &[Field::Value]));
            }
            "as_pattern" => {
                let value = children.first().map_or(0, |child| child.value);
                let target = value_at(children, &[Field::Alias]);
                lowering.declare_targets(target, VariableKind::Local);
                lowering.builder.assign(target, value);
                return value;
            }
            "raise_statement" => {
                // A class that is raised is called without arguments.
                let raised = children.first().map_or(0, |child| child.value);
                let is_call =
                    matches!(lowering.builder.expression(raised), crate::facts::Expression::Call { .. });
                if raised != 0 && !is_call {
                    let arguments = lowering.builder.span(&[]);
                    lowering.builder.push(crate::facts::Expression::New { class: raised, arguments });
                }
            }
            "yield" => return yielded(lowering, node, children),
            "list_comprehension" | "set_comprehension" | "generator_expression" => {
                let body = value_at(children, &[Field::Body]);
                let span = lowering.builder.span(&[body]);
                let spread = lowering.builder.push(crate::facts::Expression::List(span));
                return spread;
            }
            "dictionary_comprehension" => {
                let body = value_at(children, &[Field::Body]);
                let parts = lowering.parts(body);
                let value = parts.get(1).copied().unwrap_or(0);
                let span = lowering.builder.span(&[0, value]);
                return lowering.builder.push(crate::facts::Expression::Dictionary(span));
            }
            _ => {}
        }
        0
    }
}

/// Lowers `yield` and `yield from`.
fn yielded(lowering: &mut Lowering<'_>, node: Node<'_>, children: &[Child<'_>]) -> ExpressionId {
    let value = children.iter().map(|child| child.value).find(|value| *value != 0).unwrap_or(0);
    let function = lowering.builder.function();
    lowering.builder.change_definition(function, |definition| definition.traits.is_generator = true);
    let is_from = node.child(1).is_some_and(|child| child.kind() == "from");
    let value = if is_from && value != 0 {
        lowering.builder.push(crate::facts::Expression::Element(value))
    } else {
        value
    };
    if value != 0 {
        lowering.builder.flow(crate::facts::Flow::Yield { function, value });
    }
    0
}

/// Lowers `import a.b, c as d`.
fn import(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
    for name in names {
        let (path, alias) = aliased(lowering, name);
        let bound = alias.unwrap_or_else(|| path.split('.').next().unwrap_or(path));
        // Without an alias, `import a.b` binds `a`, and loads `a.b`.
        let target = if alias.is_some() { path } else { bound };
        add(lowering, node, ImportKind::Path, (target, 0), "", bound);
        if alias.is_none() && target != path {
            add(lowering, node, ImportKind::Include, (path, 0), "", "");
        }
    }
}

/// Lowers `from a import b`.
fn import_from(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let Some(module) = node.child_by_field_name("module_name") else { return };
    let text = lowering.text(module);
    let level = text.bytes().take_while(|byte| *byte == b'.').count();
    let path = text.trim_start_matches(['.', ' ']);
    let level = u16::try_from(level).unwrap_or(u16::MAX);
    let mut cursor = node.walk();
    let names: Vec<Node<'_>> = node.children_by_field_name("name", &mut cursor).collect();
    for name in &names {
        let (member, alias) = aliased(lowering, *name);
        add(lowering, node, ImportKind::Member, (path, level), member, alias.unwrap_or(member));
    }
    let mut cursor = node.walk();
    if node.named_children(&mut cursor).any(|child| child.kind() == "wildcard_import") {
        add(lowering, node, ImportKind::All, (path, level), "", "");
    }
}

fn aliased<'a>(lowering: &Lowering<'a>, node: Node<'a>) -> (&'a str, Option<&'a str>) {
    let name = node.child_by_field_name("name").unwrap_or(node);
    let alias = node.child_by_field_name("alias").map(|alias| lowering.text(alias));
    (lowering.text(name), alias)
}

fn add(
    lowering: &mut Lowering<'_>,
    node: Node<'_>,
    kind: ImportKind,
    (path, level): (&str, u16),
    member: &str,
    alias: &str,
) {
    let member = lowering.builder.name(member);
    let alias = lowering.builder.name(alias);
    let scope = lowering.builder.scope();
    let line = crate::lowering::line_of(node);
    lowering.builder.import(Import {
        kind,
        scope,
        path: path.into(),
        level,
        member,
        alias,
        line,
        is_exported: true,
    });
}
