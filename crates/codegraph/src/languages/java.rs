//! Java: packages are declared, names of one package need no import, and every type is declared.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of Java.
pub(super) struct Java;

impl Dialect for Java {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "line_comment" | "block_comment" | "string_fragment" | "escape_sequence" | "dimensions" => {
                Role::Skip
            }
            "identifier" | "type_identifier" => Role::Identifier,
            "string_literal" => Role::Text,
            "decimal_integer_literal" => Role::Number,
            "this" => Role::This,
            "super" => Role::Super,
            "field_access" | "scoped_identifier" | "scoped_type_identifier" => Role::Member,
            "method_invocation" => Role::Special,
            "object_creation_expression" => Role::Special,
            "explicit_constructor_invocation" => Role::Special,
            "argument_list" | "type_arguments" | "type_list" | "array_initializer" => Role::List,
            "array_access" => Role::Index,
            "generic_type" => Role::Generic,
            "assignment_expression" => Role::Assign,
            "variable_declarator" | "resource" => Role::Declare,
            "local_variable_declaration" => Role::DeclareAll,
            "field_declaration" | "constant_declaration" => Role::Special,
            "enhanced_for_statement" => Role::Special,
            "method_declaration" | "constructor_declaration" | "compact_constructor_declaration" => {
                Role::Function
            }
            "lambda_expression" => Role::Lambda,
            "class_declaration" | "record_declaration" => Role::Type(DefinitionKind::Class),
            "interface_declaration" | "annotation_type_declaration" => Role::Type(DefinitionKind::Interface),
            "enum_declaration" => Role::Type(DefinitionKind::Enum),
            "formal_parameters" | "inferred_parameters" => Role::Parameters,
            "formal_parameter" => Role::Parameter,
            "catch_formal_parameter" => Role::Declare,
            "spread_parameter" => Role::Rest,
            "type_parameter" => Role::TypeParameter,
            "superclass" => Role::Bases,
            "super_interfaces" => Role::Interfaces,
            "extends_interfaces" => Role::Bases,
            "enum_constant" => Role::Case,
            "return_statement" => Role::Return,
            "annotation" | "marker_annotation" => Role::Decorator,
            "modifiers"
            | "method_reference"
            | "package_declaration"
            | "import_declaration"
            | "array_type"
            | "cast_expression"
            | "instanceof_expression" => Role::Special,
            "block" | "for_statement" | "catch_clause" | "try_with_resources_statement" => Role::Statement,
            "constructor_body" | "lambda_body" => Role::Statement,
            "ternary_expression" => Role::Choice,
            "parenthesized_expression" | "annotated_type" | "type_bound" | "catch_type" => Role::Pass,
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

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "method_invocation" => {
                let callee = match (child_at(children, &[Field::Object]), child_at(children, &[Field::Name]))
                {
                    (Some(object), Some(name)) => lowering.member_of(object.value, lowering.text(name.node)),
                    (None, Some(name)) => name.value,
                    _ => 0,
                };
                let arguments = lowering.arguments(children);
                return lowering.call_of(callee, &arguments);
            }
            "object_creation_expression" => {
                let class = value_at(children, &[Field::Type]);
                let arguments = lowering.arguments(children);
                let arguments = lowering.builder.span(&arguments);
                return lowering.builder.push(Expression::New { class, arguments });
            }
            "explicit_constructor_invocation" => {
                let callee = children.iter().find(|child| matches!(child.role, Role::Super));
                let Some(callee) = callee.map(|child| child.value) else { return 0 };
                let arguments = lowering.arguments(children);
                return lowering.call_of(callee, &arguments);
            }
            "enhanced_for_statement" => {
                let target = value_at(children, &[Field::Name]);
                lowering.bind_elements(target, value_at(children, &[Field::Value]));
            }
            "field_declaration" | "constant_declaration" => fields(lowering, node, children),
            "modifiers" => modifiers(lowering, node),
            "cast_expression" => {
                let type_ = value_at(children, &[Field::Type]);
                return if type_ == 0 { 0 } else { lowering.builder.push(Expression::Instance(type_)) };
            }
            "instanceof_expression" => {
                // `x instanceof Type name` declares a variable.
                let type_ = value_at(children, &[Field::Value]);
                let name = value_at(children, &[Field::Name]);
                if name != 0 {
                    lowering.declare_targets(name, VariableKind::Local);
                    lowering.annotate(name, type_);
                }
            }
            "array_type" => return lowering.container_of(children.first().map_or(0, |child| child.value)),
            "method_reference" => {
                let (Some(object), Some(name)) = (children.first(), children.last()) else { return 0 };
                let text = lowering.text(name.node);
                return if children.len() > 1 {
                    lowering.member_of(object.value, text)
                } else {
                    object.value
                };
            }
            "package_declaration" => {
                let name =
                    node.named_children(&mut node.walk()).last().map_or("", |name| lowering.text(name));
                let name: String = name.split_whitespace().collect();
                lowering.builder.set_package(&name);
            }
            "import_declaration" => import(lowering, node),
            _ => {}
        }
        0
    }

    fn enter<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>) {
        if node.kind() == "enhanced_for_statement" {
            // The variable is declared before the body, which is one of the children.
            let Some(name) = node.child_by_field_name("name") else { return };
            let name = lowering.builder.name(lowering.text(name));
            lowering.builder.declare(name, VariableKind::Local, 0);
        }
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
        if node.kind() == "record_declaration" {
            // The components of a record are its fields.
            let id = lowering.builder.scope();
            let parameters = lowering.builder.definition(id).map(|found| found.parameters.clone());
            for parameter in parameters.unwrap_or_default() {
                let known = lowering.builder.facts().variables.get(parameter as usize);
                let (name, declared) = known.map_or((0, 0), |known| (known.name, known.declared));
                lowering.builder.declare_in(id, name, VariableKind::Field, declared);
            }
        }
        let interface = lowering.above(0) == Some(Role::Plain)
            && lowering.above(1) == Some(Role::Type(DefinitionKind::Interface));
        if interface && child_at(children, &[Field::Body]).is_none() {
            lowering.builder.change(|definition| {
                definition.visibility = Visibility::Public;
                definition.traits.is_abstract = true;
            });
        }
    }
}

/// Applies the words before a declaration.
fn modifiers(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let words: Vec<&str> = node.children(&mut cursor).map(|word| lowering.text(word)).collect();
    for word in words {
        match word {
            "public" => lowering.apply_visibility(Visibility::Public),
            "private" => lowering.apply_visibility(Visibility::Private),
            "static" if lowering.above(0) == Some(Role::Function) => {
                lowering.builder.change(|definition| definition.traits.is_static = true);
            }
            _ => {}
        }
    }
}

/// Lowers the fields of a declaration.
fn fields<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) {
    let type_ = value_at(children, &[Field::Type]);
    let visibility = lowering.take_visibility().unwrap_or(Visibility::Internal);
    for child in children.iter().filter(|child| child.field == Field::Target) {
        if let Expression::Variable(variable) = lowering.builder.expression(child.value) {
            lowering.builder.change_variable(variable, |variable| {
                variable.kind = VariableKind::Field;
                variable.visibility = visibility;
                variable.line = line_of(node);
            });
            lowering.annotate(child.value, type_);
        }
    }
}

/// Lowers `import`.
fn import(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let mut cursor = node.walk();
    let parts: Vec<Node<'_>> = node.children(&mut cursor).collect();
    let is_all = parts.iter().any(|part| part.kind() == "asterisk");
    let path = parts.iter().find(|part| matches!(part.kind(), "scoped_identifier" | "identifier"));
    let path: String = path.map_or("", |path| lowering.text(*path)).split_whitespace().collect();
    let alias = path.rsplit('.').next().unwrap_or("").to_owned();
    let (kind, alias) = if is_all { (ImportKind::All, "") } else { (ImportKind::Path, alias.as_str()) };
    let alias = lowering.builder.name(alias);
    let line = line_of(node);
    let path = path.into();
    let import = Import { kind, scope: 0, path, level: 0, member: 0, alias, line, is_exported: false };
    lowering.builder.import(import);
}
