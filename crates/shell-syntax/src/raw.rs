//! Result of each parser in one shape, so that the two can be compared: words in bits, variables
//! not yet replaced.

use crate::{Joint, Opaque};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawStep {
    pub(crate) joint: Joint,
    pub(crate) negated: bool,
    pub(crate) background: bool,
    pub(crate) node: RawNode,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RawNode {
    Command(RawCommand),
    Subshell(Vec<RawStep>, Vec<RawRedirect>),
    Group(Vec<RawStep>, Vec<RawRedirect>),
    If(Vec<Vec<RawStep>>, Vec<RawRedirect>),
    While(Vec<RawStep>, Vec<RawStep>, Vec<RawRedirect>),
    For {
        name: String,
        values: Vec<RawWord>,
        body: Vec<RawStep>,
        redirects: Vec<RawRedirect>,
    },
    /// `case`: its word and the patterns for comparison, and the branches.
    Case {
        words: Vec<RawWord>,
        branches: Vec<Vec<RawStep>>,
        redirects: Vec<RawRedirect>,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawCommand {
    pub(crate) assignments: Vec<(String, RawWord)>,
    pub(crate) words: Vec<RawWord>,
    pub(crate) redirects: Vec<RawRedirect>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RawRedirect {
    pub(crate) descriptor: Option<u32>,
    pub(crate) operator: Operator,
    /// The file, the other descriptor, or the text of a here-document.
    pub(crate) target: RawWord,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operator {
    Read,
    Write,
    Append,
    Clobber,
    Both,
    BothAppend,
    DuplicateInput,
    DuplicateOutput,
    HereDocument,
    HereString,
}

/// A word in bits. Neighbouring texts are merged, so that equal words have equal shapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RawWord {
    pub(crate) bits: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// Literal text.
    Text(String),
    /// `*`, `?` or `[` outside quotes.
    Glob(char),
    /// `$NAME`, `$1`, `$!`, or `${NAME...}` in a form that takes another value of the variable (`changed`).
    Variable { name: String, quoted: bool, changed: bool },
    /// An unknown number: `$?`, `$#`, `$$`, `${#NAME}`.
    Digits,
    /// `$( )`.
    Output { steps: Vec<RawStep>, quoted: bool },
}

impl RawWord {
    pub(crate) fn push(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.bits.last_mut() {
            Some(Part::Text(before)) => before.push_str(text),
            _ => self.bits.push(Part::Text(text.to_owned())),
        }
    }

    pub(crate) fn push_char(&mut self, character: char) {
        self.push(character.encode_utf8(&mut [0; 4]));
    }

    /// Creates a word of one text.
    pub(crate) fn text(text: &str) -> Self {
        let mut word = Self::default();
        word.push(text);
        word
    }

    /// Returns the word's text, if it has no other bits.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match self.bits.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Creates a word that is one `$( )`.
    pub(crate) fn output(steps: Vec<RawStep>, quoted: bool) -> Self {
        Self { bits: vec![Part::Output { steps, quoted }] }
    }
}

/// Name of the builtin `[[`. Once it is read, it is a command of words like any other.
pub(crate) const EXTENDED_TEST: &str = "[[";

/// Refuses a simple command whose first word is spelled like `[[`.
pub(crate) fn refuse_extended_test(command: &RawCommand) -> Result<(), Opaque> {
    match command.words.first().and_then(RawWord::as_text) {
        Some(EXTENDED_TEST) => Err(Opaque::new("it holds `[[` as a word")),
        _ => Ok(()),
    }
}

/// Returns the right side of `=~`, a word with its own grammar: its literal text, if nothing except
/// variables expands in it.
pub(crate) fn pattern(text: &str) -> Result<RawWord, Opaque> {
    if ["`", "$(", "${", "$[", "<(", ">("].iter().any(|expansion| text.contains(expansion)) {
        return Err(Opaque::new("it holds an expansion"));
    }
    Ok(RawWord::text(text))
}

/// Returns the text that the steps print, if they are only a `cat` of a here-document. The newlines
/// at its end are removed, as in `$(cat <<'EOF' ... EOF)`.
pub(crate) fn printed(steps: &[RawStep]) -> Option<&str> {
    let [RawStep { negated: false, background: false, node: RawNode::Command(command), .. }] = steps else {
        return None;
    };
    let ([program], [redirect], []) =
        (command.words.as_slice(), command.redirects.as_slice(), command.assignments.as_slice())
    else {
        return None;
    };
    let reads = redirect.operator == Operator::HereDocument && matches!(redirect.descriptor, None | Some(0));
    let text = redirect.target.as_text().filter(|_| reads && program.as_text() == Some("cat"))?;
    Some(text.trim_end_matches('\n'))
}

/// Returns the redirections of the last step that was read, so that more can be added.
pub(crate) fn last_redirects(steps: &mut [RawStep]) -> Result<&mut Vec<RawRedirect>, Opaque> {
    match steps.last_mut().map(|step| &mut step.node) {
        Some(RawNode::Command(command)) => Ok(&mut command.redirects),
        Some(
            RawNode::Subshell(_, redirects)
            | RawNode::Group(_, redirects)
            | RawNode::If(_, redirects)
            | RawNode::While(_, _, redirects)
            | RawNode::For { redirects, .. }
            | RawNode::Case { redirects, .. },
        ) => Ok(redirects),
        None => Err(Opaque::new("a redirection stands alone")),
    }
}
