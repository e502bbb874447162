//! `[[ ]]` and `case` in the tree.

use tree_sitter::Node;

use super::{Reader, children, refused};
use crate::Opaque;
use crate::raw::{EXTENDED_TEST, RawNode, RawWord, pattern};

impl<'a> Reader<'a> {
    pub(super) fn case(&mut self, node: Node<'a>, parts: &[Node<'a>]) -> Result<RawNode, Opaque> {
        let [_, value, rest @ ..] = parts else { return Err(refused(node)) };
        let mut words = vec![self.word(*value)?];
        let mut branches = Vec::new();
        for part in rest {
            match part.kind() {
                "case_item" => {
                    let parts = children(*part);
                    let end =
                        parts.iter().position(|part| part.kind() == ")").ok_or_else(|| refused(*part))?;
                    let (patterns, body) = parts.split_at(end);
                    for pattern in patterns.iter().filter(|part| !matches!(part.kind(), "(" | "|")) {
                        words.push(self.word(*pattern)?);
                    }
                    let ends = |part: &&Node<'a>| !matches!(part.kind(), ";;" | ";&" | ";;&");
                    let body: Vec<Node<'a>> = body.iter().skip(1).filter(ends).copied().collect();
                    branches.push(self.block(&body)?);
                }
                "in" | "esac" | ";" | "\n" => {}
                _ => return Err(refused(*part)),
            }
        }
        Ok(RawNode::Case { words, branches, redirects: Vec::new() })
    }

    pub(super) fn extended_test(
        &mut self,
        node: Node<'a>,
        parts: &[Node<'a>],
        words: &mut Vec<RawWord>,
    ) -> Result<(), Opaque> {
        let [_, expression, close] = parts else { return Err(refused(node)) };
        if close.kind() != "]]" {
            return Err(refused(node));
        }
        let mut parts = Vec::new();
        self.flatten(*expression, &mut parts)?;
        words.push(RawWord::text(EXTENDED_TEST));
        self.condition(node, &parts, words)?;
        words.push(RawWord::text("]]"));
        Ok(())
    }

    /// Lists operators and operands in their order. The precedence of the grammar is not that of
    /// the shell.
    fn flatten(&mut self, node: Node<'a>, flat: &mut Vec<Node<'a>>) -> Result<(), Opaque> {
        let parts = children(node);
        let opens = match (node.kind(), parts.first().map(Node::kind)) {
            ("binary_expression" | "parenthesized_expression", _)
            | ("unary_expression", Some("!" | "test_operator")) => true,
            ("unary_expression" | "postfix_expression" | "ternary_expression", _) => {
                return Err(refused(node));
            }
            _ => false,
        };
        if !opens {
            flat.push(node);
            return Ok(());
        }
        self.enter(|reader| parts.iter().try_for_each(|part| reader.flatten(*part, flat)))
    }

    /// Adds the words of an expression in their order, each test with its operator.
    fn condition(
        &mut self,
        whole: Node<'a>,
        mut parts: &[Node<'a>],
        words: &mut Vec<RawWord>,
    ) -> Result<(), Opaque> {
        // True if a test must begin here, false if one has ended.
        let mut begins = true;
        while let [first, rest @ ..] = parts {
            let text = self.text(*first)?;
            parts = rest;
            match (begins, text, rest) {
                (true, "!" | "(", _) | (false, ")", _) => words.push(RawWord::text(text)),
                (false, "&&" | "||", _) => {
                    words.push(RawWord::text(text));
                    begins = true;
                }
                (true, _, [operator, right, rest @ ..]) if BINARY.contains(&self.text(*operator)?) => {
                    let operator = self.text(*operator)?;
                    words.push(self.word(*first)?);
                    words.push(RawWord::text(if operator == "=" { "==" } else { operator }));
                    let text = self.text(*right)?;
                    words.push(match operator {
                        "=~" if !text.starts_with(['"', '\'']) => pattern(text)?,
                        _ => self.word(*right)?,
                    });
                    parts = rest;
                    begins = false;
                }
                (true, _, [operand, rest @ ..]) if first.kind() == "test_operator" => {
                    words.push(RawWord::text(match text {
                        "-a" => "-e",
                        "-L" => "-h",
                        operator => operator,
                    }));
                    words.push(self.word(*operand)?);
                    parts = rest;
                    begins = false;
                }
                // A single word tests whether it is not empty.
                (true, ..) => {
                    words.push(RawWord::text("-n"));
                    words.push(self.word(*first)?);
                    begins = false;
                }
                _ => return Err(refused(whole)),
            }
        }
        Ok(())
    }
}

const BINARY: [&str; 15] =
    ["=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"];
