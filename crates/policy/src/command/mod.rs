//! Commands: from a line to words, and what rules say to them.
//!
//! `shell-syntax` says what a line runs, or that it is opaque, which never passes by a rule. The tables say which forms of which
//! programs only read; deny rules and the dangerous patterns look at everything that a line could reach, also where nobody
//! vouches for how it was read.
//! None of this is a boundary: the sandbox is. A mistake here costs a question too few, never the sandbox.

mod checks;
mod dangerous;
mod environment;
mod fed;
mod fetched;
mod find;
mod guarded;
mod loose;
mod matching;
mod prefix;
mod programs;
mod reach;
mod runs;
mod scripts;
mod scripts_run;
mod table;
mod values;
mod wrappers;

pub use dangerous::{StatementFile, dangerous_statements, statement_files};
pub(crate) use dangerous::{Surroundings, dangerous};
pub(crate) use environment::is_harmless_assignment;
pub(crate) use fed::fed_command;
pub use fetched::hosts_fetched;
pub(crate) use guarded::is_guarded;
pub(crate) use matching::{Operand, Use, known_form, possible_paths};
pub(crate) use prefix::{CommandRules, word_matches};
pub(crate) use programs::{base_name, is_interpreter};
pub(crate) use reach::Reached;
pub(crate) use runs::is_never_leased;
pub use scripts_run::Runs;
pub(crate) use scripts_run::runs;
pub(crate) use table::{Class, Kind, has_table};
pub(crate) use wrappers::{shell_line, unwrap};
