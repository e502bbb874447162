//! Parser for shell lines, as two independent parsers agree on them.
//!
//! [`read`] returns the commands with their assignments and redirections, and with words cooked as
//! bash would cook them. Both `tree-sitter-bash` and `brush-parser` must read the line, and into
//! the same commands. A line is [`Opaque`] if either fails, if the results differ, or if it has a
//! construct beyond a short list. An opaque line could do anything, and no caller may conclude more
//! from it.
//!
//! This crate judges nothing, knows no program, and does no input or output.

mod brush;
mod expand;
mod heredoc;
mod raw;
mod script;
mod sitter;
mod unquote;
mod variables;

pub use script::{Assignment, Block, Command, Joint, Node, Redirect, Script, Step, Word};
pub use variables::is_of_the_script;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Maximum length of a line, in bytes: no smaller bound on a parser's time is known.
pub const LONGEST_LINE: usize = 32 * 1024;

/// Maximum depth of groups, branches, loops and substitutions.
const DEEPEST: usize = 8;

/// Maximum number of steps, counted after loops are unrolled.
const MAX_STEPS: usize = 256;

/// Maximum number of operators: a parser's time grows with the square of some of them.
const MAX_OPERATORS: usize = 400;

/// Maximum number of words and operators; a here-document is one word.
const MAX_TOKENS: usize = 3_000;

/// Maximum number of brackets that are open at once, at any position: each may be a level to a parser.
const MAX_BRACKETS: usize = 64;

/// The reason why a line could do anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// The first part that is not understood, as a sentence about the line that begins with "it".
    pub reason: &'static str,
}

impl Opaque {
    pub(crate) fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

/// Parses a line.
///
/// # Errors
/// Returns [`Opaque`] if the line could do anything.
pub fn read(line: &str) -> Result<Script, Opaque> {
    if line.len() > LONGEST_LINE {
        return Err(Opaque::new("it is too long"));
    }
    if line.chars().any(is_deceptive) {
        return Err(Opaque::new("it holds a control character, or one that changes how the line looks"));
    }
    if deepest_bracket(line) > MAX_BRACKETS {
        return Err(Opaque::new("it is nested too deeply"));
    }
    let tokens = caught(|| brush::tokens(line))?;
    if tokens.len() > MAX_TOKENS || brush::operators(&tokens) > MAX_OPERATORS {
        return Err(Opaque::new("it holds too many words or commands"));
    }
    let second = sitter::read(line)?;
    // INVARIANT: the recursive parser comes last, and sees only lines that the other one has found
    // to be shallow.
    let first = caught(|| brush::read(&tokens))?;
    if first != second {
        return Err(Opaque::new("it can be read in more than one way"));
    }
    if first.is_empty() {
        return Err(Opaque::new("it holds no command"));
    }
    expand::settle(&first)
}

/// Turns a panic of a parser into [`Opaque`]. No line is known that causes one, so the program's
/// panic hook reports it like any other.
fn caught<T>(read: impl FnOnce() -> Result<T, Opaque>) -> Result<T, Opaque> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err(Opaque::new("a parser gave up on it")))
}

/// Returns true for control characters except tab and newline, and for characters that hide,
/// reorder or look like space.
fn is_deceptive(character: char) -> bool {
    let control = character.is_control() && !matches!(character, '\t' | '\n');
    let space = character.is_whitespace() && !matches!(character, ' ' | '\t' | '\n');
    control || space || tool::is_invisible(character)
}

fn deepest_bracket(line: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for byte in line.bytes() {
        match byte {
            b'(' | b'{' | b'[' => open += 1,
            b')' | b'}' | b']' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}
