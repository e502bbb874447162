//! Redirections and here-documents in the tree.

use tree_sitter::Node;

use super::{Reader, children, refused};
use crate::heredoc::here_document;
use crate::raw::{Operator, RawCommand, RawNode, RawRedirect, RawStep, RawWord, last_redirects};
use crate::{Joint, Opaque};

impl<'a> Reader<'a> {
    pub(super) fn redirected(
        &mut self,
        parts: &[Node<'a>],
        joint: Joint,
        steps: &mut Vec<RawStep>,
    ) -> Result<(), Opaque> {
        let redirects = parts.iter().position(|part| part.kind().ends_with("_redirect"));
        let (body, redirects) = parts.split_at(redirects.unwrap_or(parts.len()));
        match body {
            [] => self.push(joint, RawNode::Command(RawCommand::default()), steps)?,
            // The grammar attaches the redirection to a whole list; in the shell it belongs to the
            // last command.
            [body] => self.append(*body, joint, steps)?,
            _ => return Err(Opaque::new("it holds a redirection of another shape")),
        }
        if let (Some(body), Some(redirect)) = (body.last(), redirects.first()) {
            // The grammar loses a lone dash before a here-document.
            let between = self.line.get(body.end_byte()..redirect.start_byte());
            if between.is_some_and(|text| text.trim() == "-") {
                Self::more_words(vec![RawWord::text("-")], steps)?;
            }
        }
        for redirect in redirects {
            match redirect.kind() {
                "heredoc_redirect" => self.here_document(*redirect, steps)?,
                _ => self.redirect(*redirect, steps)?,
            }
        }
        Ok(())
    }

    /// Reads a redirection to a file, and the words after it, which the grammar takes for more files.
    fn redirect(&mut self, node: Node<'a>, steps: &mut [RawStep]) -> Result<(), Opaque> {
        let (redirect, words) = self.read_redirect(node)?;
        last_redirects(steps)?.push(redirect);
        Self::more_words(words, steps)
    }

    pub(super) fn more_words(words: Vec<RawWord>, steps: &mut [RawStep]) -> Result<(), Opaque> {
        if words.is_empty() {
            return Ok(());
        }
        match steps.last_mut().map(|step| &mut step.node) {
            Some(RawNode::Command(command)) => command.words.extend(words),
            _ => return Err(Opaque::new("it holds words behind a redirection")),
        }
        Ok(())
    }

    pub(super) fn read_redirect(&mut self, node: Node<'a>) -> Result<(RawRedirect, Vec<RawWord>), Opaque> {
        let parts = children(node);
        let mut parts = parts.as_slice();
        let descriptor = self.descriptor(&mut parts)?;
        let (operator, rest) = parts.split_first().ok_or_else(|| refused(node))?;
        let kind = match operator.kind() {
            "<" => Operator::Read,
            ">" => Operator::Write,
            ">>" => Operator::Append,
            ">|" => Operator::Clobber,
            "&>" => Operator::Both,
            "&>>" => Operator::BothAppend,
            "<&" | "<&-" => Operator::DuplicateInput,
            ">&" | ">&-" => Operator::DuplicateOutput,
            "<<<" => Operator::HereString,
            _ => return Err(refused(*operator)),
        };
        let mut words = rest.iter().map(|part| self.word(*part)).collect::<Result<Vec<_>, _>>()?;
        let target = if operator.kind().ends_with("&-") {
            RawWord::text("-")
        } else if words.is_empty() {
            return Err(refused(node));
        } else {
            words.remove(0)
        };
        Ok((RawRedirect { descriptor, operator: kind, target }, words))
    }

    fn descriptor(&self, parts: &mut &[Node<'a>]) -> Result<Option<u32>, Opaque> {
        match parts.split_first() {
            Some((first, rest)) if first.kind() == "file_descriptor" => {
                *parts = rest;
                let number = self.text(*first)?.parse();
                number.map(Some).map_err(|_| Opaque::new("it names a descriptor by a variable"))
            }
            _ => Ok(None),
        }
    }

    /// Reads a here-document, and the rest of its first line.
    fn here_document(&mut self, node: Node<'a>, steps: &mut Vec<RawStep>) -> Result<(), Opaque> {
        let parts = children(node);
        let mut parts = parts.as_slice();
        let descriptor = self.descriptor(&mut parts)?;
        let (mark, mut start, mut body) = (parts.first(), None, None);
        let strips = match mark.map(Node::kind) {
            Some("<<") => false,
            Some("<<-") => true,
            _ => return Err(refused(node)),
        };
        let at = {
            for part in parts {
                match part.kind() {
                    "heredoc_start" => start = Some(*part),
                    "heredoc_body" => body = Some(*part),
                    _ => {}
                }
            }
            last_redirects(steps)?.len()
        };
        let start = self.text(start.ok_or_else(|| refused(node))?)?;
        let quoted = start.contains(['\'', '"', '\\']);
        let end = parts.last().filter(|part| part.kind() == "heredoc_end").ok_or_else(|| refused(node))?;
        // The text reaches from the end of the first line to the start of the end marker's line.
        let text = match body {
            Some(body) => {
                let range = body.start_byte()..end.start_byte();
                let text = self.line.get(range).ok_or_else(|| refused(node))?;
                let indent = if strips { text.rfind('\n').map_or(0, |at| at + 1) } else { text.len() };
                if strips { text.get(..indent).unwrap_or_default() } else { text }
            }
            None => "",
        };
        let target = here_document(text, strips, quoted)?;
        last_redirects(steps)?
            .insert(at, RawRedirect { descriptor, operator: Operator::HereDocument, target });
        let mut joint = None;
        for part in parts.get(1..).unwrap_or_default() {
            match part.kind() {
                "heredoc_start" | "heredoc_body" | "heredoc_end" | "\n" => {}
                "file_redirect" | "herestring_redirect" => self.redirect(*part, steps)?,
                "&&" => joint = Some(Joint::And),
                "||" => joint = Some(Joint::Or),
                "pipeline" => {
                    let [mark, rest] = children(*part)[..] else { return Err(refused(*part)) };
                    if mark.kind() != "|" {
                        return Err(refused(mark));
                    }
                    self.append(rest, Joint::Pipe, steps)?;
                }
                _ => match joint.take() {
                    Some(joint) => self.append(*part, joint, steps)?,
                    None => {
                        let word = self.word(*part)?;
                        Self::more_words(vec![word], steps)?;
                    }
                },
            }
        }
        Ok(())
    }
}
