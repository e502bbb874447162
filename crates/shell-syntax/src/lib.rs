//! What a line for the shell runs, as two independent parsers agree on it.
//!
//! [`read`] answers with commands whose words are cooked as bash would cook them, with their assignments and redirections.
//! `tree-sitter-bash` and `brush-parser` both have to read the line, both into the same commands; what one of them does not
//! read, what they read differently, and every construct beyond a short list is [`Opaque`], and nobody may conclude anything
//! from an opaque line but that it could be anything.
//!
//! This crate judges nothing, knows no program, and does no input or output.

mod cook;
mod first;
mod here;
mod quiet;
mod raw;
mod script;
mod second;
mod settle;
mod variables;

pub use script::{Assignment, Block, Command, Joint, Node, Redirect, Script, Step, Word};
pub use variables::is_of_the_script;

use quiet::caught;

/// Longer lines are not read, in bytes: no parser's time is bounded by less.
pub const LONGEST_LINE: usize = 32 * 1024;

/// More levels of groups, branches, loops and substitutions are not read.
const DEEPEST: usize = 8;

/// More steps than this are not read, nor are loops that come to more when they are written out.
const MOST_STEPS: usize = 256;

/// More operators than this are not read: a parser's time grows with the square of some of them.
const MOST_OPERATORS: usize = 400;

/// More words and operators than this are not read; a here-document is one word.
const MOST_TOKENS: usize = 3_000;

/// More open brackets than this at once are not read, wherever they stand: each may be a level to a parser.
const MOST_BRACKETS: usize = 64;

/// Why a line could be anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opaque {
    /// The first thing that is not understood, as a sentence about the line that begins with "it".
    pub reason: &'static str,
}

impl Opaque {
    pub(crate) fn new(reason: &'static str) -> Self {
        Self { reason }
    }
}

/// Reads a line.
///
/// # Errors
/// Why the line could be anything.
pub fn read(line: &str) -> Result<Script, Opaque> {
    if line.len() > LONGEST_LINE {
        return Err(Opaque::new("it is too long"));
    }
    if line.chars().any(is_deceptive) {
        return Err(Opaque::new("it holds a control character, or one that changes how the line looks"));
    }
    if deepest_bracket(line) > MOST_BRACKETS {
        return Err(Opaque::new("it is nested too deeply"));
    }
    let tokens = caught(|| first::tokens(line))?;
    if tokens.len() > MOST_TOKENS || first::operators(&tokens) > MOST_OPERATORS {
        return Err(Opaque::new("it holds too many words or commands"));
    }
    let second = second::read(line)?;
    // INVARIANT: the recursive parser comes last, and sees only what the other one has found to be shallow.
    let first = caught(|| first::read(&tokens))?;
    if first != second {
        return Err(Opaque::new("it can be read in more than one way"));
    }
    if first.is_empty() {
        return Err(Opaque::new("it holds no command"));
    }
    settle::settle(&first)
}

/// Control characters but the tab and the new line, and characters that hide, reorder or look like space.
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
