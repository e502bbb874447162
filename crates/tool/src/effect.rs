use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// One thing that a call would do to the world.
///
/// A tool's plan is a list of these, and the policy decides on nothing else.
/// Paths are absolute and lexically normal (no `.`, no `..`); the engine adds where they really lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "snake_case")]
pub enum Effect {
    /// Reads a file, or a folder and all below it.
    Read {
        /// What is read.
        path: PathBuf,
    },
    /// Creates or changes a file or a folder.
    Write {
        /// What is written.
        path: PathBuf,
    },
    /// Removes a file, or a folder and all below it.
    Delete {
        /// What is removed.
        path: PathBuf,
    },
    /// Runs a program in a cell.
    Run {
        /// What is run.
        command: CommandLine,
        /// The directory it starts in.
        directory: PathBuf,
    },
    /// Speaks to another machine.
    Connect {
        /// A host name or address, without brackets.
        host: String,
        /// The TCP port.
        port: u16,
        /// The HTTP method, where there is one.
        method: Option<String>,
    },
    /// Hands a secret to a host.
    UseSecret {
        /// The secret's name in the vault.
        name: String,
        /// The host that receives it.
        host: String,
    },
    /// Changes a database.
    DatabaseWrite {
        /// The statement's kind, such as `insert`.
        statement: String,
    },
    /// Changes Handfast itself: its policy, its plugins, its source.
    ChangeHandfast {
        /// What is changed.
        what: String,
    },
}

/// A command as the caller gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandLine {
    /// A line for the shell.
    Shell(String),
    /// A program and its arguments, without a shell.
    Argv(Vec<String>),
}

/// What is done to a path, the part of an effect that path rules look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// The content or the listing is read.
    Read,
    /// The content or the entry is created, changed or removed.
    Write,
}

impl Effect {
    /// The path this effect touches and how, for the effects that touch one.
    pub fn path(&self) -> Option<(Access, &Path)> {
        match self {
            Effect::Read { path } => Some((Access::Read, path)),
            Effect::Write { path } | Effect::Delete { path } => Some((Access::Write, path)),
            _ => None,
        }
    }

    /// Whether the effect leaves this machine, so that its intent must be on disk before it happens.
    pub fn leaves_the_machine(&self) -> bool {
        matches!(self, Effect::Connect { .. } | Effect::UseSecret { .. })
    }

    /// Whether the effect only reads.
    pub fn only_reads(&self) -> bool {
        matches!(self, Effect::Read { .. })
    }
}
