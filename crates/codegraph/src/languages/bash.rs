//! Bash: commands are calls, and `source` makes the functions of another file visible.

use tree_sitter::Node;

use crate::facts::{ExpressionId, Import, ImportKind};
use crate::lowering::{Child, Dialect, Field, Habits, Lowering, Role, child_at, line_of};

/// The dialect of Bash.
pub(super) struct Bash;

impl Dialect for Bash {
    fn role(&self, kind: &str) -> Role {
        match kind {
            "comment" | "heredoc_body" | "variable_name" | "raw_string" | "regex" => Role::Skip,
            "function_definition" => Role::Function,
            "command" | "command_name" => Role::Special,
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

    fn is_test_name(&self, name: &str) -> bool {
        name.starts_with("test_")
    }

    fn leave<'a>(&self, lowering: &mut Lowering<'a>, node: Node<'a>, children: &[Child<'a>]) -> ExpressionId {
        if node.kind() == "command_name" {
            let text = lowering.text(node);
            let is_plain = text.chars().all(|at| at.is_alphanumeric() || "_-.:/".contains(at));
            return if is_plain && !text.is_empty() { lowering.builder.use_name(text) } else { 0 };
        }
        let Some(name) = child_at(children, &[Field::Name]) else { return 0 };
        let text = lowering.text(name.node);
        if matches!(text, "source" | ".") {
            source(lowering, node);
            return 0;
        }
        if name.value == 0 {
            return 0;
        }
        lowering.call_of(name.value, &[])
    }
}

/// Lowers `source FILE`. Of a path that begins with an expansion only the rest is known.
fn source(lowering: &mut Lowering<'_>, node: Node<'_>) {
    let argument = node.child_by_field_name("argument").map_or("", |argument| lowering.text(argument));
    let argument = argument.trim_matches(['"', '\'']);
    let path = match argument.rfind(['}', ')']) {
        Some(at) => argument.get(at + 1..).unwrap_or(""),
        None if argument.starts_with('$') => argument.split_once('/').map_or("", |(_, rest)| rest),
        None => argument,
    };
    let path = path.trim_matches(['"', '\'', '/']);
    if path.is_empty() {
        return;
    }
    let (path, line) = (path.into(), line_of(node));
    let kind = ImportKind::All;
    let import = Import { kind, scope: 0, path, level: 0, member: 0, alias: 0, line, is_exported: true };
    lowering.builder.import(import);
}
