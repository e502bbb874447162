//! Turns a syntax tree into facts. One walk goes through the tree without recursion, and gives each node its
//! value after its children have theirs.

mod definitions;
mod expressions;
mod flows;
mod grammar;

use tree_sitter::{Node, Tree};

pub(crate) use grammar::{Child, Dialect, Entry, Field, Grammar, Habits, Role, child_at, value_at};

use crate::builder::FactsBuilder;
use crate::facts::{ExpressionId, FileFacts, Gap};

/// Maximum number of nodes of a file that are looked at.
const MAXIMUM_NODES: usize = 20_000_000;

/// A file while its tree becomes facts.
pub(crate) struct Lowering<'a> {
    /// Facts so far.
    pub(crate) builder: FactsBuilder,
    /// Text of the file; what is no UTF-8 in it has no text.
    source: &'a [u8],
    /// Grammar of the language.
    pub(crate) grammar: &'a Grammar,
    /// Patterns of the cases of each open match, the innermost last.
    pub(crate) cases: Vec<Vec<ExpressionId>>,
    /// Decorators that wait for their definition, with the depth and the line at which they stand.
    decorators: Vec<(usize, u32, ExpressionId)>,
    /// Number of definitions that were opened by nodes and wait to be closed.
    depth: usize,
    /// Modifiers of the definition that comes next, in the language's own meaning.
    pub(crate) pending: Vec<String>,
    /// Roles of the nodes around the present one, the innermost last.
    above: Vec<(Role, Field, bool)>,
    /// Visibility of the members that follow, in languages with sections of a class.
    pub(crate) section: &'static str,
    /// Value of the condition that was left last.
    pub(crate) condition: ExpressionId,
    /// Marks of blocks that the language's own code opened.
    pub(crate) marks: Vec<usize>,
}

/// A node whose children are being walked.
struct Frame {
    role: Role,
    field: Field,
    /// Number of children with values that were there before.
    first_child: usize,
    /// Mark of the block.
    block: usize,
    /// True if leaving it closes a definition.
    opens: bool,
}

/// Returns the facts of a tree.
pub(crate) fn lower(entry: &Entry, tree: &Tree, source: &[u8]) -> FileFacts {
    let lines = memory_lines(source);
    let mut lowering = Lowering {
        builder: FactsBuilder::new(entry.language, lines),
        source,
        grammar: &entry.grammar,
        cases: Vec::new(),
        decorators: Vec::new(),
        depth: 0,
        pending: Vec::new(),
        above: Vec::new(),
        section: "",
        condition: 0,
        marks: Vec::new(),
    };
    lowering.walk(tree);
    lowering.builder.finish(entry.grammar.habits.classes_hide)
}

/// Counts the lines of a text.
pub(crate) fn memory_lines(source: &[u8]) -> u32 {
    let ends = memchr::memchr_iter(b'\n', source).count();
    let open = usize::from(source.last().is_some_and(|byte| *byte != b'\n'));
    crate::builder::count(ends + open)
}

impl<'a> Lowering<'a> {
    /// Walks the tree.
    fn walk(&mut self, tree: &'a Tree) {
        let mut cursor = tree.walk();
        let mut frames: Vec<Frame> = Vec::new();
        let mut values: Vec<Child<'a>> = Vec::new();
        let mut nodes = 0_usize;
        loop {
            let node = cursor.node();
            nodes += 1;
            if nodes > MAXIMUM_NODES {
                self.builder.set_gap(Gap::TooManyNodes);
                break;
            }
            if node.is_error() || node.is_missing() {
                self.builder.count_error();
            }
            let role = self.grammar.role(node.kind_id());
            let field = self.grammar.field(cursor.field_id());
            let frame = Frame {
                role,
                field,
                first_child: values.len(),
                block: self.builder.open_block(),
                opens: false,
            };
            let enters = role != Role::Skip && !is_leaf(role);
            if enters {
                let frame = self.enter(node, frame);
                if cursor.goto_first_child() {
                    self.above.push((frame.role, frame.field, frame.opens));
                    frames.push(frame);
                    continue;
                }
                self.leave_frame(node, &frame, &mut values);
            } else if role != Role::Skip {
                self.leave_frame(node, &frame, &mut values);
            }
            loop {
                if cursor.goto_next_sibling() {
                    break;
                }
                if !cursor.goto_parent() {
                    return;
                }
                let Some(frame) = frames.pop() else { return };
                self.above.pop();
                self.leave_frame(cursor.node(), &frame, &mut values);
            }
        }
    }

    /// Acts before the children of a node.
    fn enter(&mut self, node: Node<'a>, mut frame: Frame) -> Frame {
        self.builder.line = line_of(node);
        frame.opens = self.open(node, frame.role);
        if frame.opens {
            self.depth += 1;
        }
        if frame.role == Role::Special {
            let dialect = self.grammar.dialect;
            dialect.enter(self, node);
        }
        frame
    }

    /// Acts after the children of a node, and leaves its value.
    fn leave_frame(&mut self, node: Node<'a>, frame: &Frame, values: &mut Vec<Child<'a>>) {
        self.builder.line = line_of(node);
        let children = values.split_off(frame.first_child.min(values.len()));
        let is_own_name = frame.field == Field::Name
            && is_leaf(frame.role)
            && self.above.last().is_some_and(|(.., opens)| *opens);
        let value = if is_own_name {
            0
        } else if frame.opens {
            let value = self.close(node, frame.role, &children);
            self.depth = self.depth.saturating_sub(1);
            value
        } else {
            self.leave(node, frame.role, frame.field, &children)
        };
        if matches!(frame.role, Role::Block | Role::Statement | Role::Loop | Role::Lambda) {
            self.builder.close_block(frame.block);
        }
        if frame.field == Field::Target && self.above(0) == Some(Role::Loop) {
            // The variables of a loop are visible in its body, which comes next.
            self.declare_targets(value, crate::facts::VariableKind::Local);
        }
        if frame.field == Field::Condition && value != 0 {
            self.condition = value;
        }
        values.push(Child { field: frame.field, role: frame.role, value, node });
    }

    /// Returns the value of a node that opens no definition.
    fn leave(&mut self, node: Node<'a>, role: Role, field: Field, children: &[Child<'a>]) -> ExpressionId {
        match role {
            Role::Skip | Role::Plain | Role::Statement | Role::MemberName => 0,
            Role::Pass => children.iter().map(|child| child.value).find(|value| *value != 0).unwrap_or(0),
            Role::Block => self.block(children),
            Role::Choice => self.alternatives(children),
            Role::Assign => self.assignment(children),
            Role::Declare => self.declaration(children),
            Role::DeclareAll => self.declarations(children),
            Role::Loop => self.iteration(children),
            Role::Return | Role::Yield => self.result(role, children),
            Role::Parameters if field == Field::Result => self.list(children),
            Role::Parameters => self.parameters(children),
            Role::Parameter | Role::Rest | Role::NamedRest | Role::Receiver => {
                self.parameter(node, role, children)
            }
            Role::TypeParameter => self.type_parameter(node, children),
            Role::Bases | Role::Interfaces => self.bases(role, children),
            Role::Field | Role::Case => self.field(node, role, children),
            Role::Decorator => self.decorator(children),
            Role::Modifier => {
                let text = self.text(node).to_owned();
                let dialect = self.grammar.dialect;
                dialect.modify(self, &text);
                0
            }
            Role::Special => {
                let dialect = self.grammar.dialect;
                dialect.leave(self, node, children)
            }
            role if definitions::is_definition(role) => {
                let dialect = self.grammar.dialect;
                dialect.leave(self, node, children)
            }
            _ => self.expression(node, role, children),
        }
    }

    /// Returns the text of a node, or an empty text if it is no UTF-8.
    pub(crate) fn text(&self, node: Node<'_>) -> &'a str {
        let bytes = self.source.get(node.start_byte()..node.end_byte()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or("")
    }

    /// Returns the text between two nodes, without spaces around it.
    pub(crate) fn between(&self, before: Node<'_>, after: Node<'_>) -> &'a str {
        let bytes = self.source.get(before.end_byte()..after.start_byte()).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or("").trim()
    }

    /// Returns the role of the node around the present one, or of one further out.
    pub(crate) fn above(&self, steps: usize) -> Option<Role> {
        self.above.iter().rev().nth(steps).map(|(role, ..)| *role)
    }

    /// Returns the field of the node around the present one, or of one further out.
    pub(crate) fn field_above(&self, steps: usize) -> Field {
        self.above.iter().rev().nth(steps).map_or(Field::None, |(_, field, _)| *field)
    }

    /// Returns the role of a node.
    pub(crate) fn role_of(&self, node: Node<'_>) -> Role {
        self.grammar.role(node.kind_id())
    }
}

/// Returns true for roles whose nodes need no look at their children.
fn is_leaf(role: Role) -> bool {
    matches!(
        role,
        Role::Identifier | Role::MemberName | Role::Number | Role::This | Role::Super | Role::Modifier
    )
}

/// Returns the first line of a node, from 1.
pub(crate) fn line_of(node: Node<'_>) -> u32 {
    crate::builder::count(node.start_position().row).saturating_add(1)
}

/// Returns the last line of a node, from 1.
pub(crate) fn last_line_of(node: Node<'_>) -> u32 {
    let end = node.end_position();
    let row = crate::builder::count(end.row);
    if end.column == 0 { row.max(line_of(node)) } else { row.saturating_add(1) }
}
