//! Ruby: a name alone can be a call, classes are open, and constants are looked up from the inside outwards.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of Ruby.
pub(super) struct Ruby;

impl Dialect for Ruby {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment" | "string_content" | "escape_sequence" | "heredoc_beginning" | "heredoc_body"
            | "heredoc_end" => Role::Skip,
            "identifier" | "constant" => Role::Identifier,
            "instance_variable" | "class_variable" => Role::Special,
            "string" | "simple_symbol" | "hash_key_symbol" => Role::Text,
            "integer" => Role::Number,
            "self" => Role::This,
            "super" => Role::Super,
            "scope_resolution" => Role::Path,
            "call" => Role::Special,
            "argument_list"
            | "array"
            | "left_assignment_list"
            | "right_assignment_list"
            | "destructured_left_assignment" => Role::List,
            "hash" => Role::Dictionary,
            "pair" => Role::Pair,
            "splat_argument" | "hash_splat_argument" | "rest_assignment" | "block_argument" => Role::Pass,
            "element_reference" => Role::Index,
            "assignment" | "operator_assignment" => Role::Assign,
            "for" | "exception_variable" => Role::Special,
            "method" | "singleton_method" => Role::Function,
            "block" | "do_block" | "lambda" => Role::Lambda,
            "class" => Role::Type(DefinitionKind::Class),
            "module" => Role::Type(DefinitionKind::Trait),
            "superclass" => Role::Bases,
            "method_parameters" | "block_parameters" | "lambda_parameters" => Role::Parameters,
            "optional_parameter" | "keyword_parameter" | "block_parameter" => Role::Parameter,
            "splat_parameter" => Role::Rest,
            "hash_splat_parameter" => Role::NamedRest,
            "return" => Role::Special,
            "yield" => Role::Special,
            "body_statement" | "block_body" | "then" | "else" | "begin" | "do" => Role::Block,
            "if" | "unless" | "conditional" | "case" | "when" | "elsif" | "if_modifier"
            | "unless_modifier" => Role::Choice,
            "parenthesized_statements" => Role::Pass,
            "binary" => Role::Special,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: true,
            blocks_have_values: true,
            first_parameter_is_receiver: false,
            classes_hide: true,
            receiver_is_explicit: false,
        }
    }

    fn opens(&self, node: Node<'_>, _role: Role) -> bool {
        // `class` and `module` are also the names of keywords.
        node.child_count() > 0
    }

    fn is_constructor(&self, name: &str) -> bool {
        name == "initialize"
    }

    fn is_test_name(&self, name: &str) -> bool {
        name.starts_with("test_")
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, _children: &[Child<'a>]) {
        if node.kind() == "singleton_method" {
            lowering.builder.change(|definition| definition.traits.is_static = true);
        }
    }

    fn name<'a>(&self, lowering: &Lowering<'a>, node: Node<'a>) -> Option<&'a str> {
        let name = node.child_by_field_name("name")?;
        let text = lowering.text(name);
        Some(text.rsplit("::").next().unwrap_or(text))
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "instance_variable" | "class_variable" => {
                let scope = lowering.builder.scope();
                let this = lowering.builder.push(Expression::This { scope });
                return lowering.member_of(this, lowering.text(node).trim_start_matches('@'));
            }
            "call" => return call(lowering, node, children),
            "return" => {
                let value = children.first().map_or(0, |child| child.value);
                let value = match lowering.parts(value).as_slice() {
                    [only] => *only,
                    _ => value,
                };
                let function = lowering.builder.function();
                if value != 0 {
                    lowering.builder.flow(crate::facts::Flow::Return { function, value });
                }
            }
            "for" => {
                let target = value_at(children, &[Field::Target]);
                lowering.declare_targets(target, VariableKind::Local);
                lowering.bind_elements(target, value_at(children, &[Field::Value]));
            }
            "exception_variable" => {
                let target = children.first().map_or(0, |child| child.value);
                lowering.declare_targets(target, VariableKind::Local);
            }
            "binary" => {
                let operator =
                    node.child_by_field_name("operator").map_or("", |operator| lowering.text(operator));
                if matches!(operator, "||" | "&&" | "or" | "and") {
                    let parts: Vec<ExpressionId> = children.iter().map(|child| child.value).collect();
                    return lowering.builder.choice(&parts);
                }
            }
            _ => {}
        }
        0
    }
}

/// Lowers a call. `require` loads a file, and `include` adds a base.
fn call<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let method = child_at(children, &[Field::Property]).map_or("", |child| lowering.text(child.node));
    let has_receiver = child_at(children, &[Field::Object]).is_some();
    let arguments = lowering.arguments(children);
    let text = arguments.first().map(|argument| lowering.builder.expression(*argument));
    match (has_receiver, method) {
        (false, "require" | "require_relative" | "load") => {
            if let Some(Expression::Text(path)) = text {
                let path = lowering.builder.text(path).into();
                let scope = lowering.builder.scope();
                let line = line_of(node);
                let kind = ImportKind::Include;
                let import =
                    Import { kind, scope, path, level: 0, member: 0, alias: 0, line, is_exported: false };
                lowering.builder.import(import);
            }
            return 0;
        }
        (false, "include" | "extend" | "prepend") => {
            let scope = lowering.builder.scope();
            if lowering.builder.kind(scope).is_type() {
                for argument in &arguments {
                    lowering.add_base(*argument, true);
                }
                return 0;
            }
        }
        _ => {}
    }
    lowering.call(children)
}
