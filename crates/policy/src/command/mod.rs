//! Commands: conversion of a line to words, and the verdict of rules on them.
//!
//! `shell-syntax` reports what a line runs, or that it is opaque, which never passes by a rule. The
//! tables list the forms of programs that only read. Deny rules and dangerous patterns check
//! everything that a line could reach, even in lines that no parser understands.
//!
//! None of this is a boundary: the sandbox is. A mistake here costs a missing question, never the sandbox.

mod checks;
mod dangerous;
mod dangerous_programs;
mod environment;
mod fetched;
mod find;
mod lenient_split;
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
mod xargs;

pub(crate) use dangerous::{HostEnvironment, dangerous};
pub use dangerous::{StatementFile, dangerous_statements, statement_files};
pub(crate) use dangerous_programs::is_guarded;
pub(crate) use environment::is_harmless_assignment;
pub use fetched::hosts_fetched;
pub(crate) use matching::{CommandEffect, Operand, known_form, possible_paths};
pub(crate) use prefix::{CommandRules, word_matches};
pub(crate) use programs::{base_name, is_interpreter};
pub(crate) use reach::ReachedCommands;
pub(crate) use runs::{is_never_leased, is_of_the_project};
pub use scripts_run::Runs;
pub(crate) use scripts_run::runs;
pub(crate) use table::{Class, Kind, has_table};
pub(crate) use wrappers::{shell_line, unwrap};
pub(crate) use xargs::fed_command;
