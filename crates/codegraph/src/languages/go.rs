//! Go: packages are folders, methods stand outside of their types, and names in upper case are exported.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of Go.
pub(super) struct Go;

impl Dialect for Go {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment"
            | "interpreted_string_literal_content"
            | "raw_string_literal_content"
            | "escape_sequence"
            | "import_spec_list" => Role::Skip,
            "identifier" | "type_identifier" | "package_identifier" => Role::Identifier,
            "field_identifier" => Role::MemberName,
            "interpreted_string_literal" | "raw_string_literal" => Role::Text,
            "int_literal" => Role::Number,
            "selector_expression" | "qualified_type" => Role::Member,
            "call_expression" => Role::Call,
            "argument_list" | "expression_list" | "type_arguments" => Role::List,
            "index_expression" => Role::Index,
            "generic_type" => Role::Generic,
            "assignment_statement" => Role::Assign,
            "short_var_declaration" | "var_spec" | "const_spec" => Role::Special,
            "range_clause" => Role::Special,
            "function_declaration" | "method_declaration" | "method_elem" => Role::Function,
            "func_literal" => Role::Lambda,
            "type_spec" => Role::Type(DefinitionKind::Struct),
            "type_alias" => Role::TypeAlias,
            "parameter_list" => Role::Parameters,
            "parameter_declaration" => Role::Special,
            "variadic_parameter_declaration" => Role::Rest,
            "type_parameter_declaration" => Role::TypeParameter,
            "field_declaration" | "type_elem" => Role::Special,
            "return_statement" => Role::Return,
            "block" | "if_statement" | "for_statement" | "expression_case" | "type_case"
            | "communication_case" => Role::Statement,
            "type_switch_statement"
            | "type_assertion_expression"
            | "composite_literal"
            | "keyed_element"
            | "literal_value"
            | "package_clause"
            | "import_declaration"
            | "type_conversion_expression" => Role::Special,
            "pointer_type"
            | "parenthesized_expression"
            | "unary_expression"
            | "parenthesized_type"
            | "literal_element"
            | "slice_expression"
            | "type_constraint" => Role::Pass,
            "map_type" | "slice_type" | "array_type" | "channel_type" => Role::Special,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: false,
            blocks_have_values: false,
            first_parameter_is_receiver: false,
            classes_hide: true,
            receiver_is_explicit: true,
        }
    }

    fn visibility_of(&self, name: &str) -> Visibility {
        if name.chars().next().is_some_and(char::is_uppercase) {
            Visibility::Public
        } else {
            Visibility::Internal
        }
    }

    fn is_test_name(&self, name: &str) -> bool {
        ["Test", "Benchmark", "Fuzz", "Example"]
            .iter()
            .any(|start| name.strip_prefix(start).is_some_and(|rest| !rest.starts_with(char::is_lowercase)))
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, _children: &[Child<'a>]) {
        match node.kind() {
            "method_declaration" => {
                let id = lowering.builder.scope();
                let first =
                    lowering.builder.definition(id).and_then(|found| found.parameters.first().copied());
                let Some(receiver) = first else { return };
                let variables = &lowering.builder.facts().variables;
                let declared = variables.get(receiver as usize).map_or(0, |variable| variable.declared);
                lowering.builder.change_variable(receiver, |variable| variable.kind = VariableKind::Receiver);
                lowering.builder.change(|definition| {
                    definition.kind = DefinitionKind::Method;
                    definition.parameters.remove(0);
                    definition.receiver = Some(receiver);
                    definition.attached_to = declared;
                });
            }
            "method_elem" => lowering.builder.change(|definition| definition.kind = DefinitionKind::Method),
            "type_spec" => {
                let type_ = node.child_by_field_name("type").map_or("", |type_| type_.kind());
                let kind = match type_ {
                    "interface_type" => DefinitionKind::Interface,
                    "struct_type" => DefinitionKind::Struct,
                    _ => DefinitionKind::Class,
                };
                lowering.builder.change(|definition| definition.kind = kind);
            }
            _ => {}
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "short_var_declaration" => {
                let target = value_at(children, &[Field::Target]);
                let value = single(lowering, value_at(children, &[Field::Value]));
                lowering.declare_targets(target, VariableKind::Local);
                let target = single(lowering, target);
                lowering.builder.assign(target, value);
            }
            "var_spec" | "const_spec" => variables(lowering, children),
            "range_clause" => {
                let target = value_at(children, &[Field::Target]);
                let value = value_at(children, &[Field::Value]);
                lowering.declare_targets(target, VariableKind::Local);
                // The first variable is the index, the second one the element.
                if let Some(element) = lowering.parts(target).get(1).copied() {
                    lowering.bind_elements(element, value);
                }
            }
            "parameter_declaration" => return parameters(lowering, children),
            "field_declaration" | "type_elem" => field(lowering, node, children),
            "type_assertion_expression" => {
                let type_ = value_at(children, &[Field::Type]);
                if type_ != 0 {
                    return lowering.builder.push(Expression::Instance(type_));
                }
            }
            "type_conversion_expression" => {
                let type_ = value_at(children, &[Field::Type]);
                return lowering.builder.push(Expression::Instance(type_));
            }
            "composite_literal" => {
                let type_ = value_at(children, &[Field::Type]);
                let arguments = lowering.builder.span(&[]);
                let is_named = node.child_by_field_name("type").is_some_and(|type_| {
                    matches!(type_.kind(), "type_identifier" | "qualified_type" | "generic_type")
                });
                if is_named {
                    return lowering.builder.push(Expression::New { class: type_, arguments });
                }
                return lowering.builder.push(Expression::Instance(type_));
            }
            "map_type" => return lowering.container_of(value_at(children, &[Field::Value])),
            "slice_type" | "array_type" | "channel_type" => {
                return lowering.container_of(children.last().map_or(0, |child| child.value));
            }
            "package_clause" => {
                let name = node.named_child(0).map_or("", |name| lowering.text(name)).to_owned();
                lowering.builder.set_package(&name);
            }
            "import_declaration" => imports(lowering, node),
            _ => {}
        }
        0
    }
}

/// Returns the only element of a list, or the list.
fn single(lowering: &Lowering<'_>, list: ExpressionId) -> ExpressionId {
    match lowering.parts(list).as_slice() {
        [only] => *only,
        _ => list,
    }
}

/// Lowers the names of a declaration with `var` or `const`.
fn variables(lowering: &mut Lowering<'_>, children: &[Child<'_>]) {
    let type_ = value_at(children, &[Field::Type]);
    let values = value_at(children, &[Field::Value]);
    let values = lowering.parts(values);
    let names: Vec<ExpressionId> =
        children.iter().filter(|child| child.field == Field::Name).map(|child| child.value).collect();
    for (at, name) in names.into_iter().enumerate() {
        lowering.declare_targets(name, VariableKind::Local);
        lowering.annotate(name, type_);
        lowering.builder.assign(name, values.get(at).copied().unwrap_or(0));
    }
}

/// Lowers parameters with one type. Their value is a list of their variables.
fn parameters(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let type_ = value_at(children, &[Field::Type]);
    let names: Vec<ExpressionId> =
        children.iter().filter(|child| child.field == Field::Name).map(|child| child.value).collect();
    let mut places = Vec::new();
    if lowering.field_above(0) == Field::Result {
        return type_;
    }
    if names.is_empty() {
        let Some(variable) = lowering.declare_parameter(0, VariableKind::Parameter, type_) else { return 0 };
        return lowering.builder.push(Expression::Variable(variable));
    }
    for name in names {
        if let Some(variable) = lowering.declare_parameter(name, VariableKind::Parameter, type_) {
            places.push(lowering.builder.push(Expression::Variable(variable)));
        }
    }
    let span = lowering.builder.span(&places);
    lowering.builder.push(Expression::List(span))
}

/// Lowers a field of a struct. One without a name embeds its type.
fn field<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    let type_ = value_at(children, &[Field::Type]);
    let type_ = if type_ == 0 { children.first().map_or(0, |child| child.value) } else { type_ };
    if child_at(children, &[Field::Name]).is_none() {
        lowering.add_base(type_, false);
        return;
    }
    for child in children.iter().filter(|child| child.field == Field::Name) {
        let text = lowering.text(child.node);
        let name = lowering.builder.name(text);
        lowering.builder.line = line_of(node);
        let variable = lowering.builder.declare(name, VariableKind::Field, type_);
        let visibility = Go.visibility_of(text);
        lowering.builder.change_variable(variable, |variable| variable.visibility = visibility);
        let place = lowering.builder.push(Expression::Variable(variable));
        lowering.annotate(place, type_);
    }
}

/// Lowers `import`.
fn imports(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut open = vec![node];
    while let Some(at) = open.pop() {
        if at.kind() != "import_spec" {
            let mut cursor = at.walk();
            open.extend(at.named_children(&mut cursor));
            continue;
        }
        let path =
            at.child_by_field_name("path").map_or("", |path| lowering.text(path)).trim_matches(['"', '`']);
        let name = at.child_by_field_name("name").map(|name| lowering.text(name));
        let last = path.rsplit('/').next().unwrap_or(path);
        let is_version =
            last.strip_prefix('v').is_some_and(|rest| rest.chars().all(|digit| digit.is_ascii_digit()));
        let parent = path.rsplit('/').nth(1).filter(|_| is_version);
        let default = parent.unwrap_or(last);
        let default = default.strip_prefix("go-").unwrap_or(default);
        let default = default.split('.').next().unwrap_or(default);
        let (kind, alias) = match name {
            Some(".") => (ImportKind::All, ""),
            Some("_") => (ImportKind::Path, ""),
            Some(alias) => (ImportKind::Path, alias),
            None => (ImportKind::Path, default),
        };
        let alias = lowering.builder.name(alias);
        let line = line_of(at);
        let path = path.into();
        let import = Import { kind, scope: 0, path, level: 0, member: 0, alias, line, is_exported: false };
        lowering.builder.import(import);
    }
}
