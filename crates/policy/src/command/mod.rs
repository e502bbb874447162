//! Commands: from a line to words, and what rules say to them.
//!
//! The lexer understands less than a shell on purpose: what it does not understand is opaque, which never passes by a rule.
//! None of this is a boundary: the sandbox is. A mistake here costs a question too few, never the sandbox.

mod dangerous;
mod lexer;
mod loose;
mod prefix;
mod programs;
mod reach;
mod read_only;

pub(crate) use dangerous::{Surroundings, dangerous};
pub use lexer::{Parsed, SimpleCommand, Word, parse};
pub(crate) use prefix::CommandRules;
pub(crate) use reach::Reached;
pub(crate) use read_only::{Operand, reads_only};
