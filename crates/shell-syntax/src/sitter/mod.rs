//! The second opinion: the tree of `tree-sitter-bash`, with words cooked by [`crate::unquote`].

mod conditions;
mod redirect;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser};

use crate::raw::{RawCommand, RawNode, RawStep, RawWord, refuse_extended_test};
use crate::unquote::{Substitution, cook, is_name};
use crate::{DEEPEST, Joint, MAX_STEPS, Opaque};

thread_local! {
    /// Parser of this thread, kept because creating one takes longer than parsing a line.
    static PARSER: RefCell<Option<Parser>> = const { RefCell::new(None) };
}

/// Maximum number of progress reports of the parser (one for each 100 operations) for one line. 32
/// kB of short words take about 400, a here-document none.
const MAX_PROGRESS: usize = 800;

pub(crate) fn read(line: &str) -> Result<Vec<RawStep>, Opaque> {
    PARSER.with_borrow_mut(|kept| {
        let parser = match kept {
            Some(parser) => parser,
            None => {
                let mut parser = Parser::new();
                parser
                    .set_language(&tree_sitter_bash::LANGUAGE.into())
                    .map_err(|_| Opaque::new("the second parser does not know its grammar"))?;
                kept.insert(parser)
            }
        };
        let mut progress = 0_usize;
        let mut count = |_: &tree_sitter::ParseState| {
            progress += 1;
            if progress > MAX_PROGRESS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let bytes = line.as_bytes();
        let tree = parser.parse_with_options(
            &mut |at, _| bytes.get(at..).unwrap_or_default(),
            None,
            Some(ParseOptions::new().progress_callback(&mut count)),
        );
        let Some(tree) = tree else {
            parser.reset();
            return Err(Opaque::new("it is too intricate"));
        };
        let root = tree.root_node();
        if root.has_error() {
            return Err(Opaque::new("it does not read as a script"));
        }
        let mut reader = Reader { line, depth: 0, steps: 0 };
        let mut steps = Vec::new();
        reader.statements(&children(root), &mut steps)?;
        Ok(steps)
    })
}

struct Reader<'a> {
    line: &'a str,
    depth: usize,
    steps: usize,
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

fn refused(node: Node<'_>) -> Opaque {
    Opaque::new(match node.kind() {
        "function_definition" => "it defines a function",
        "process_substitution" => "it holds a process substitution",
        "command_substitution" | "expansion" | "simple_expansion" | "arithmetic_expansion" => {
            "it holds an expansion"
        }
        "brace_expression" => "it holds braces",
        "c_style_for_statement" | "select" => "it holds a loop of another kind",
        "|&" => "it holds `|&`",
        _ => "it holds a construct that is not read",
    })
}

impl<'a> Reader<'a> {
    fn text(&self, node: Node<'_>) -> Result<&'a str, Opaque> {
        self.line.get(node.byte_range()).ok_or_else(|| Opaque::new("it is cut within a character"))
    }

    fn enter<T>(&mut self, inside: impl FnOnce(&mut Self) -> Result<T, Opaque>) -> Result<T, Opaque> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(Opaque::new("it is nested too deeply"));
        }
        let result = inside(self);
        self.depth -= 1;
        result
    }

    fn statements(&mut self, nodes: &[Node<'a>], steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        for node in nodes {
            match node.kind() {
                ";" | "\n" => {}
                "&" => match steps.last_mut() {
                    Some(last) => last.background = true,
                    None => return Err(refused(*node)),
                },
                _ => self.append(*node, Joint::Then, steps)?,
            }
        }
        Ok(())
    }

    fn block(&mut self, nodes: &[Node<'a>]) -> Result<Vec<RawStep>, Opaque> {
        self.enter(|reader| {
            let mut steps = Vec::new();
            reader.statements(nodes, &mut steps)?;
            Ok(steps)
        })
    }

    fn push(&mut self, joint: Joint, node: RawNode, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Opaque::new("it holds too many commands"));
        }
        steps.push(RawStep { joint, negated: false, background: false, node });
        Ok(())
    }

    // BOUNDED: by `MAX_STEPS` and `DEEPEST`.
    fn append(&mut self, node: Node<'a>, joint: Joint, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        let parts = children(node);
        match node.kind() {
            // A list leans to the left: one level for each of its commands, which the limit of
            // steps bounds.
            "list" => self.list(&parts, joint, steps),
            "pipeline" => self.pipeline(&parts, joint, steps),
            "redirected_statement" => self.redirected(&parts, joint, steps),
            "command"
            | "variable_assignment"
            | "variable_assignments"
            | "declaration_command"
            | "unset_command"
            | "test_command" => {
                let command = self.command(node, &parts)?;
                self.push(joint, RawNode::Command(command), steps)
            }
            "negated_command" => {
                let [mark, command] = parts.as_slice() else { return Err(refused(node)) };
                if mark.kind() != "!" {
                    return Err(refused(node));
                }
                let at = steps.len();
                self.append(*command, joint, steps)?;
                steps.get_mut(at).map(|step| step.negated = true).ok_or_else(|| refused(node))
            }
            "subshell" => {
                let inner = self.block(inside(&parts, "(", ")").ok_or_else(|| refused(node))?)?;
                self.push(joint, RawNode::Subshell(inner, Vec::new()), steps)
            }
            "compound_statement" => {
                let inner = self.block(inside(&parts, "{", "}").ok_or_else(|| refused(node))?)?;
                self.push(joint, RawNode::Group(inner, Vec::new()), steps)
            }
            "if_statement" => {
                let mut branches = Vec::new();
                self.branches(&parts, &mut branches)?;
                self.push(joint, RawNode::If(branches, Vec::new()), steps)
            }
            "while_statement" => {
                let [_, condition @ .., body] = parts.as_slice() else { return Err(refused(node)) };
                let condition = self.block(condition)?;
                let body = self.loop_body(*body)?;
                self.push(joint, RawNode::While(condition, body, Vec::new()), steps)
            }
            "for_statement" => {
                let node = self.for_loop(node, &parts)?;
                self.push(joint, node, steps)
            }
            "case_statement" => {
                let node = self.case(node, &parts)?;
                self.push(joint, node, steps)
            }
            _ => Err(refused(node)),
        }
    }

    fn list(&mut self, parts: &[Node<'a>], joint: Joint, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        let [left, operator, right] = parts else {
            return Err(Opaque::new("it holds a list of another shape"));
        };
        let next = match operator.kind() {
            "&&" => Joint::And,
            "||" => Joint::Or,
            _ => return Err(refused(*operator)),
        };
        self.enter_list(*left, joint, steps)?;
        self.append(*right, next, steps)
    }

    /// Reads the left side of a list. It is as deep as the list is long, which does not count as nesting.
    fn enter_list(&mut self, left: Node<'a>, joint: Joint, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(Opaque::new("it holds too many commands"));
        }
        self.append(left, joint, steps)
    }

    fn pipeline(&mut self, parts: &[Node<'a>], joint: Joint, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        let mut joint = joint;
        for part in parts {
            if part.kind() == "|" {
                joint = Joint::Pipe;
            } else {
                self.append(*part, joint, steps)?;
            }
        }
        Ok(())
    }

    // BOUNDED: once, for the clauses of an `if`.
    fn branches(&mut self, parts: &[Node<'a>], branches: &mut Vec<Vec<RawStep>>) -> Result<(), Opaque> {
        let mut section: Option<Vec<Node<'a>>> = None;
        for part in parts {
            match part.kind() {
                "if" | "elif" | "then" | "else" | "fi" | "elif_clause" | "else_clause" => {
                    if let Some(nodes) = section.take() {
                        branches.push(self.block(&nodes)?);
                    }
                    match part.kind() {
                        "fi" => {}
                        "elif_clause" | "else_clause" => self.branches(&children(*part), branches)?,
                        _ => section = Some(Vec::new()),
                    }
                }
                _ => section.as_mut().ok_or_else(|| refused(*part))?.push(*part),
            }
        }
        if let Some(nodes) = section {
            branches.push(self.block(&nodes)?);
        }
        Ok(())
    }

    fn loop_body(&mut self, node: Node<'a>) -> Result<Vec<RawStep>, Opaque> {
        let parts = children(node);
        self.block(inside(&parts, "do", "done").ok_or_else(|| refused(node))?)
    }

    fn for_loop(&mut self, node: Node<'a>, parts: &[Node<'a>]) -> Result<RawNode, Opaque> {
        let [keyword, variable, word, rest @ .., body] = parts else { return Err(refused(node)) };
        let name = self.text(*variable)?;
        if keyword.kind() != "for" || word.kind() != "in" || !is_name(name) {
            return Err(refused(node));
        }
        let values = rest
            .iter()
            .filter(|part| !matches!(part.kind(), ";" | "\n"))
            .map(|value| self.word(*value))
            .collect::<Result<_, _>>()?;
        let body = self.loop_body(*body)?;
        Ok(RawNode::For { name: name.to_owned(), values, body, redirects: Vec::new() })
    }

    fn command(&mut self, node: Node<'a>, parts: &[Node<'a>]) -> Result<RawCommand, Opaque> {
        let mut command = RawCommand::default();
        match node.kind() {
            "variable_assignment" => command.assignments.push(self.assignment(node, parts)?),
            "variable_assignments" => {
                for part in parts {
                    command.assignments.push(self.assignment(*part, &children(*part))?);
                }
            }
            "declaration_command" | "unset_command" => {
                for part in parts {
                    command.words.push(self.word(*part)?);
                }
            }
            "test_command" => {
                if parts.first().is_some_and(|first| first.kind() == "[[") {
                    self.extended_test(node, parts, &mut command.words)?;
                    return Ok(command);
                }
                self.leaves(parts, &mut command.words)?;
            }
            _ => {
                for part in parts {
                    match part.kind() {
                        "variable_assignment" => {
                            command.assignments.push(self.assignment(*part, &children(*part))?);
                        }
                        "file_redirect" | "herestring_redirect" => {
                            let (redirect, words) = self.read_redirect(*part)?;
                            command.redirects.push(redirect);
                            command.words.extend(words);
                        }
                        "subshell" => return Err(refused(*part)),
                        _ => command.words.push(self.word(*part)?),
                    }
                }
            }
        }
        refuse_extended_test(&command)?;
        Ok(command)
    }

    /// Adds the words of `[ ... ]`, which the grammar reads as an expression.
    fn leaves(&mut self, parts: &[Node<'a>], words: &mut Vec<RawWord>) -> Result<(), Opaque> {
        for part in parts {
            match part.kind() {
                "unary_expression" | "binary_expression" => {
                    self.enter(|reader| reader.leaves(&children(*part), words))?;
                }
                // The shell sees one word, however the grammar divides it.
                "[" => words.push(RawWord::text("[")),
                _ => words.push(self.word(*part)?),
            }
        }
        Ok(())
    }

    fn assignment(&mut self, node: Node<'a>, parts: &[Node<'a>]) -> Result<(String, RawWord), Opaque> {
        let [name, operator, value @ ..] = parts else { return Err(refused(node)) };
        let name = self.text(*name)?;
        if operator.kind() != "=" || !is_name(name) {
            return Err(Opaque::new("it assigns in another way than by `NAME=VALUE`"));
        }
        let value = match value {
            [] => RawWord::default(),
            [value] => self.word(*value)?,
            _ => return Err(refused(node)),
        };
        Ok((name.to_owned(), value))
    }

    fn word(&mut self, node: Node<'a>) -> Result<RawWord, Opaque> {
        let parts = children(node);
        match (node.kind(), parts.as_slice()) {
            ("process_substitution" | "brace_expression" | "arithmetic_expansion" | "array", _) => {
                return Err(refused(node));
            }
            ("command_substitution", parts) => return self.output(node, parts, false),
            ("command_name", [inner]) if inner.kind() == "command_substitution" => {
                return self.output(*inner, &children(*inner), false);
            }
            ("string", [open, inner, close])
                if inner.kind() == "command_substitution"
                    && open.end_byte() == inner.start_byte()
                    && inner.end_byte() == close.start_byte() =>
            {
                return self.output(*inner, &children(*inner), true);
            }
            _ => {}
        }
        let mut substitutions = VecDeque::new();
        self.substitutions(node, node.start_byte(), &mut substitutions)?;
        cook(self.text(node)?, substitutions)
    }

    /// Collects the scripts in a word, in their order. Scripts in other expansions are left for
    /// [`cook`] to refuse.
    // BOUNDED: by `MAX_BRACKETS`: words nest in brackets alone.
    fn substitutions(
        &mut self,
        node: Node<'a>,
        begin: usize,
        found: &mut VecDeque<Substitution>,
    ) -> Result<(), Opaque> {
        for part in children(node) {
            match part.kind() {
                "command_substitution" => {
                    let steps = self.script(part, &children(part))?;
                    // In quotes, the grammar counts blanks between two scripts as part of the
                    // second one.
                    let text = self.text(part)?;
                    let length = text.trim_start().len();
                    let at = part.end_byte() - length - begin;
                    found.push_back(Substitution { at, length, steps });
                }
                "string" | "concatenation" => self.substitutions(part, begin, found)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn output(&mut self, node: Node<'a>, parts: &[Node<'a>], quoted: bool) -> Result<RawWord, Opaque> {
        Ok(RawWord::output(self.script(node, parts)?, quoted))
    }

    fn script(&mut self, node: Node<'a>, parts: &[Node<'a>]) -> Result<Vec<RawStep>, Opaque> {
        let inner = inside(parts, "$(", ")").ok_or_else(|| refused(node))?;
        if inner.iter().any(|part| part.kind() == "file_redirect") {
            return Err(refused(node));
        }
        self.block(inner)
    }
}

/// Returns the parts between the first and the last, if these two are `open` and `close`.
fn inside<'p, 'a>(parts: &'p [Node<'a>], open: &str, close: &str) -> Option<&'p [Node<'a>]> {
    match parts {
        [first, inner @ .., last] if first.kind() == open && last.kind() == close => Some(inner),
        _ => None,
    }
}
