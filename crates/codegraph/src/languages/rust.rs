//! Rust: modules are files and blocks, methods stand in `impl`, and macros hide what they call in their tokens.

use tree_sitter::Node;

use crate::facts::{DefinitionKind, Expression, ExpressionId, Import, ImportKind, VariableKind, Visibility};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of, value_at};

/// The dialect of Rust.
pub(super) struct Rust;

impl Dialect for Rust {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "line_comment"
            | "block_comment"
            | "doc_comment"
            | "string_content"
            | "escape_sequence"
            | "lifetime"
            | "inner_attribute_item"
            | "mutable_specifier"
            | "macro_rule" => Role::Skip,
            "identifier" | "type_identifier" | "primitive_type" | "crate" | "metavariable" => {
                Role::Identifier
            }
            "field_identifier" => Role::MemberName,
            "string_literal" | "raw_string_literal" => Role::Text,
            "integer_literal" => Role::Number,
            "self" => Role::This,
            "super" => Role::Super,
            "field_expression" => Role::Member,
            "scoped_identifier" | "scoped_type_identifier" => Role::Path,
            "call_expression" => Role::Call,
            "arguments" | "array_expression" | "tuple_expression" | "tuple_pattern" | "type_arguments"
            | "tuple_type" | "trait_bounds" => Role::List,
            "generic_type" | "generic_function" => Role::Generic,
            "index_expression" => Role::Index,
            "assignment_expression" => Role::Assign,
            "let_declaration" => Role::Declare,
            "const_item"
            | "static_item"
            | "let_condition"
            | "match_expression"
            | "match_pattern"
            | "tuple_struct_pattern"
            | "struct_pattern"
            | "field_pattern"
            | "struct_expression"
            | "field_initializer"
            | "shorthand_field_initializer"
            | "macro_invocation"
            | "token_tree"
            | "use_declaration"
            | "attribute"
            | "extern_crate_declaration"
            | "associated_type"
            | "where_predicate"
            | "foreign_mod_item"
            | "array_type" => Role::Special,
            "use_list" | "scoped_use_list" | "use_as_clause" | "use_wildcard" => Role::Skip,
            "for_expression" => Role::Loop,
            "function_item" | "function_signature_item" => Role::Function,
            "closure_expression" => Role::Lambda,
            "macro_definition" => Role::Function,
            "struct_item" | "union_item" => Role::Type(DefinitionKind::Struct),
            "enum_item" => Role::Type(DefinitionKind::Enum),
            "trait_item" => Role::Type(DefinitionKind::Trait),
            "impl_item" => Role::Extension,
            "mod_item" => Role::Namespace,
            "type_item" => Role::TypeAlias,
            "parameters" | "closure_parameters" => Role::Parameters,
            "parameter" => Role::Parameter,
            "self_parameter" => Role::Receiver,
            "type_parameter" => Role::TypeParameter,
            "field_declaration" => Role::Field,
            "enum_variant" => Role::Case,
            "return_expression" => Role::Return,
            "attribute_item" => Role::Decorator,
            "visibility_modifier" => Role::Modifier,
            "block" | "unsafe_block" | "async_block" | "const_block" | "match_block" | "match_arm" => {
                Role::Block
            }
            "if_expression" | "else_clause" => Role::Choice,
            "try_expression" | "await_expression" => Role::Inner,
            "reference_expression"
            | "parenthesized_expression"
            | "unary_expression"
            | "reference_type"
            | "pointer_type"
            | "dynamic_type"
            | "abstract_type"
            | "bounded_type"
            | "ref_pattern"
            | "mut_pattern"
            | "reference_pattern"
            | "captured_pattern"
            | "slice_pattern"
            | "or_pattern"
            | "type_cast_expression"
            | "break_expression"
            | "higher_ranked_trait_bound"
            | "bracketed_type"
            | "qualified_type"
            | "removed_trait_bound" => Role::Pass,
            _ => Role::Plain,
        }
    }

    fn habits(&self) -> Habits {
        Habits {
            assigning_declares: false,
            blocks_have_values: true,
            first_parameter_is_receiver: false,
            classes_hide: true,
            receiver_is_explicit: true,
        }
    }

    fn visibility_of(&self, _name: &str) -> Visibility {
        Visibility::Private
    }

    fn modify(&self, lowering: &mut Lowering<'_>, text: &str) {
        let visibility = if text == "pub" { Visibility::Public } else { Visibility::Internal };
        lowering.apply_visibility(visibility);
    }

    fn opens(&self, node: Node<'_>, _role: Role) -> bool {
        node.kind() != "mod_item" || node.child_by_field_name("body").is_some()
    }

    fn finish_definition<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, _children: &[Child<'a>]) {
        if node.kind() == "macro_definition" {
            lowering.builder.change(|definition| definition.kind = DefinitionKind::Macro);
        }
        let scope = lowering.builder.scope();
        let parent = lowering.builder.definition(scope).map_or(0, |definition| definition.parent);
        let is_in_trait = lowering.builder.definition(parent).is_some_and(|around| {
            around.kind == DefinitionKind::Trait
                || around.kind == DefinitionKind::Extension
                    && around.bases.iter().any(|base| base.is_implemented)
        });
        lowering.builder.change(|definition| {
            definition.traits.is_static =
                definition.kind == DefinitionKind::Method && definition.receiver.is_none();
            if is_in_trait && definition.kind == DefinitionKind::Method {
                definition.visibility = Visibility::Public;
            }
        });
    }

    fn enter<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>) {
        if node.kind() == "match_expression" {
            lowering.cases.push(Vec::new());
        }
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        match node.kind() {
            "const_item" | "static_item" => constant(lowering, children),
            "let_condition" => {
                let pattern = value_at(children, &[Field::Target]);
                let value = value_at(children, &[Field::Value]);
                lowering.declare_targets(pattern, VariableKind::Local);
                lowering.builder.assign(pattern, value);
                0
            }
            "match_pattern" => {
                let pattern = children.first().map_or(0, |child| child.value);
                lowering.declare_targets(pattern, VariableKind::Local);
                if let Some(cases) = lowering.cases.last_mut() {
                    cases.push(pattern);
                }
                0
            }
            "match_expression" => {
                let value = value_at(children, &[Field::Value]);
                for pattern in lowering.cases.pop().unwrap_or_default() {
                    lowering.builder.assign(pattern, value);
                }
                value_at(children, &[Field::Body])
            }
            "tuple_struct_pattern" => {
                let parts: Vec<ExpressionId> = children
                    .iter()
                    .filter(|child| child.field != Field::Type)
                    .map(|child| child.value)
                    .collect();
                match parts.as_slice() {
                    [only] if *only != 0 => lowering.builder.push(Expression::Inner(*only)),
                    _ => lowering.list(children.get(1..).unwrap_or_default()),
                }
            }
            "array_type" => lowering.container_of(children.first().map_or(0, |child| child.value)),
            "struct_pattern" => pairs(lowering, children),
            "field_pattern" | "field_initializer" | "shorthand_field_initializer" => {
                named_value(lowering, node, children)
            }
            "struct_expression" => creation(lowering, children),
            "macro_invocation" => invocation(lowering, node, children),
            "token_tree" => tokens(lowering, node, children),
            "attribute" => children.first().map_or(0, |child| child.value),
            "use_declaration" => {
                lowering.drop_decorators();
                imports(lowering, node);
                0
            }
            "where_predicate" => {
                let target = value_at(children, &[Field::Target]);
                for bound in lowering.parts(value_at(children, &[Field::Bases])) {
                    if matches!(lowering.builder.expression(target), Expression::Variable(_)) {
                        lowering.builder.assign(target, bound);
                    }
                }
                0
            }
            _ => 0,
        }
    }
}

/// Lowers a constant or a static variable.
fn constant(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    lowering.drop_decorators();
    let Some(name) = child_at(children, &[Field::Name]) else { return 0 };
    let name = lowering.builder.name(lowering.text(name.node));
    let visibility = lowering.take_visibility();
    let variable = lowering.builder.declare(name, VariableKind::Constant, 0);
    if let Some(visibility) = visibility {
        lowering.builder.change_variable(variable, |variable| variable.visibility = visibility);
    }
    let place = lowering.builder.push(Expression::Variable(variable));
    lowering.annotate(place, value_at(children, &[Field::Type]));
    lowering.builder.assign(place, value_at(children, &[Field::Value]));
    0
}

/// Returns a field and its value as a pair; a field alone is its own value.
fn named_value<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let name = child_at(children, &[Field::Name, Field::Property]).or_else(|| children.first());
    let text = name.map_or_else(|| lowering.text(node), |child| lowering.text(child.node));
    let value = value_at(children, &[Field::Value, Field::Target]);
    let value = if value == 0 && child_at(children, &[Field::Target, Field::Value]).is_none() {
        lowering.builder.use_name(text)
    } else {
        value
    };
    let key = lowering.builder.name(text);
    let key = lowering.builder.push(Expression::Text(key));
    let span = lowering.builder.span(&[key, value]);
    lowering.builder.push(Expression::List(span))
}

/// Returns the pairs among the children as a dictionary.
fn pairs(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let mut parts = Vec::new();
    for child in children.iter().filter(|child| child.field != Field::Type && child.field != Field::Name) {
        if let [key, value] = lowering.parts(child.value).as_slice() {
            parts.extend([*key, *value]);
        }
    }
    let span = lowering.builder.span(&parts);
    lowering.builder.push(Expression::Dictionary(span))
}

/// Returns a struct expression as the creation of an instance. The values of its fields go to the fields.
fn creation(lowering: &mut Lowering<'_>, children: &[Child<'_>]) -> ExpressionId {
    let class = value_at(children, &[Field::Name, Field::Type]);
    let arguments = lowering.builder.span(&[]);
    lowering.builder.push(Expression::New { class, arguments })
}

/// Lowers the call of a macro: the macro itself is called, and what its tokens show.
fn invocation<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let callee = value_at(children, &[Field::Callee]);
    let name = node.child_by_field_name("macro").map_or("", |name| lowering.text(name));
    // The macros of the standard library are calls of nothing that the graph could show.
    if callee == 0 || is_standard_macro(name) {
        return 0;
    }
    lowering.call_of(callee, &[])
}

fn is_standard_macro(name: &str) -> bool {
    matches!(
        name,
        "println"
            | "print"
            | "eprintln"
            | "eprint"
            | "format"
            | "write"
            | "writeln"
            | "vec"
            | "assert"
            | "assert_eq"
            | "assert_ne"
            | "debug_assert"
            | "debug_assert_eq"
            | "debug_assert_ne"
            | "matches"
            | "panic"
            | "todo"
            | "unreachable"
            | "unimplemented"
            | "concat"
            | "stringify"
            | "include_str"
            | "include_bytes"
            | "env"
            | "option_env"
            | "cfg"
            | "line"
            | "file"
            | "column"
            | "dbg"
            | "thread_local"
            | "compile_error"
    )
}

/// Finds calls in the tokens of a macro: a name or a path before a parenthesis.
fn tokens<'a>(lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
    let _ = node;
    for at in 1..children.len() {
        let (Some(name), Some(list)) = (children.get(at - 1), children.get(at)) else { continue };
        let is_call = list.node.kind() == "token_tree"
            && name.node.kind() == "identifier"
            && list.node.start_byte() == name.node.end_byte()
            && lowering.text(list.node).starts_with('(');
        if is_call {
            let callee = callee_before(lowering, children, at - 1);
            lowering.builder.line = line_of(name.node);
            lowering.call_of(callee, &[]);
        }
    }
    0
}

/// Returns the expression that ends with a name among the tokens of a macro.
fn callee_before<'a>(lowering: &mut Lowering<'a>, children: &[Child<'a>], at: usize) -> ExpressionId {
    let mut first = at;
    while first > 0 {
        let (Some(before), Some(this)) = (children.get(first - 1), children.get(first)) else { break };
        let gap = lowering.between(before.node, this.node);
        let is_part = matches!(before.node.kind(), "identifier" | "self" | "super" | "crate");
        if !is_part || !matches!(gap, "::" | ".") {
            if gap == "." {
                // The object is no plain name, so only the name of the method is known.
                let text = children.get(at).map_or("", |child| lowering.text(child.node));
                return lowering.member_of(0, text);
            }
            break;
        }
        first -= 1;
    }
    let mut value = children.get(first).map_or(0, |child| child.value);
    for index in first + 1..=at {
        let (Some(before), Some(this)) = (children.get(index - 1), children.get(index)) else { break };
        let text = lowering.text(this.node);
        value = if lowering.between(before.node, this.node) == "." {
            lowering.member_of(value, text)
        } else {
            lowering.path_of(value, text)
        };
    }
    value
}

/// Lowers `use`. Trees of paths become one import for each leaf.
fn imports(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let Some(argument) = node.child_by_field_name("argument") else { return };
    let mut cursor = node.walk();
    let is_exported = node.named_children(&mut cursor).any(|child| child.kind() == "visibility_modifier");
    lowering.pending.clear();
    let mut open: Vec<(Node<'_>, String)> = vec![(argument, String::new())];
    let joined = |prefix: &str, text: &str| {
        if prefix.is_empty() { text.to_owned() } else { format!("{prefix}::{text}") }
    };
    while let Some((at, prefix)) = open.pop() {
        match at.kind() {
            "scoped_use_list" => {
                let path = at.child_by_field_name("path").map_or("", |path| lowering.text(path));
                let prefix = joined(&prefix, path);
                open.extend(at.child_by_field_name("list").map(|list| (list, prefix)));
            }
            "use_list" => {
                let mut cursor = at.walk();
                open.extend(at.named_children(&mut cursor).map(|child| (child, prefix.clone())));
            }
            "use_wildcard" => {
                let path = at.named_child(0).map_or("", |path| lowering.text(path));
                add(lowering, node, ImportKind::All, &joined(&prefix, path), "", is_exported);
            }
            "use_as_clause" => {
                let path = at.child_by_field_name("path").map_or("", |path| lowering.text(path));
                let alias = at.child_by_field_name("alias").map_or("", |alias| lowering.text(alias));
                add(lowering, node, ImportKind::Path, &joined(&prefix, path), alias, is_exported);
            }
            "self" => {
                let alias = prefix.rsplit("::").next().unwrap_or("").to_owned();
                add(lowering, node, ImportKind::Path, &prefix, &alias, is_exported);
            }
            "identifier" | "scoped_identifier" | "crate" | "super" => {
                let path = joined(&prefix, lowering.text(at));
                let alias = path.rsplit("::").next().unwrap_or("").to_owned();
                add(lowering, node, ImportKind::Path, &path, &alias, is_exported);
            }
            _ => {}
        }
    }
}

fn add(
    lowering: &mut Lowering<'_>,
    node: Node<'_>,
    kind: ImportKind,
    path: &str,
    alias: &str,
    is_exported: bool,
) {
    let path: String = path.split_whitespace().collect();
    let alias = lowering.builder.name(alias);
    let scope = lowering.builder.scope();
    let line = line_of(node);
    let path = path.into();
    lowering.builder.import(Import { kind, scope, path, level: 0, member: 0, alias, line, is_exported });
}
