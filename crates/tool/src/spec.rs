//! The fixed properties of a tool.

use std::time::Duration;

use crate::Level;

/// Fixed properties of a tool. Each tool has one constant of this type, with its fields in the
/// order of their importance.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Canonical name: `[a-z][a-z0-9_]*`, at most 40 characters.
    pub name: &'static str,
    /// Short name for people.
    pub title: &'static str,
    /// Description by which a model decides when to use the tool. The example is appended to it.
    pub description: &'static str,
    /// Worked example, which is also a test and a part of the manual.
    pub example: Example,
    /// Level of a call, unless its plan sets another level.
    pub level: Level,
    /// Properties of calls that a client may rely on.
    pub class: Class,
    /// Time that a call may take.
    pub timeout: Timeout,
    /// Lane that admits a call.
    pub lane: Lane,
    /// Maximum amount of text in a response.
    pub text: TextCap,
    /// Form in which a model sees a response.
    pub presentation: Presentation,
}

impl Spec {
    /// Returns the specification of a tool that reads on this machine and responds with a record,
    /// within a minute and without an example of its own. Another tool states its differences
    /// first: `Spec { level: Level::Moderate, ..Spec::reading(name, description) }`.
    pub const fn reading(name: &'static str, description: &'static str) -> Self {
        Self {
            name,
            title: name,
            description,
            example: Example { files: &[], arguments: "{}", result: "{}" },
            level: Level::Safe,
            class: Class::READ,
            timeout: Timeout::fixed(60),
            lane: Lane::Read,
            text: TextCap::Default,
            presentation: Presentation::Record,
        }
    }
}

/// Worked example: the result of a call in a workspace with the given files.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// Files that exist before the call, as pairs of a path in the workspace and a content.
    pub files: &'static [(&'static str, &'static str)],
    /// Arguments, as a JSON object.
    pub arguments: &'static str,
    /// Required part of the result, as a JSON object. Other fields may have any value.
    pub result: &'static str,
}

/// Properties of a tool's calls that a client may rely on (the four annotations of MCP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// True if a call changes nothing.
    pub reads_only: bool,
    /// True if a call may destroy existing data.
    pub destructive: bool,
    /// True if two identical calls leave the world in the same state as one.
    pub idempotent: bool,
    /// True if a call reaches beyond this machine.
    pub open_world: bool,
}

impl Class {
    /// Class of tools that read on this machine.
    pub const READ: Class =
        Class { reads_only: true, destructive: false, idempotent: true, open_world: false };
}

/// Default and maximum time of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// Time for a caller that requests no timeout.
    pub default: Duration,
    /// Maximum time that a caller can request.
    pub max: Duration,
}

impl Timeout {
    /// Creates a timeout for tools whose arguments name no timeout.
    pub const fn fixed(seconds: u64) -> Self {
        Self { default: Duration::from_secs(seconds), max: Duration::from_secs(seconds) }
    }
}

/// Lane that admits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Lane for reads, bounded by the bytes of the responses in flight.
    Read,
    /// Lane for changes of files, bounded like reads.
    Write,
    /// Lane for calls that use the browser of their session, bounded like reads. Each gets a source
    /// of the browser's cell.
    Browser,
    /// Lane for calls that use a long-lived program of their own cell, such as an MCP server or a plugin, bounded
    /// like reads. Each gets a source of that cell. The plan names the program by an effect `UseTool`.
    Service,
    /// Lane for commands and other heavy calls, bounded in number (5 run, 10 wait, the 16th is
    /// refused).
    Command,
}

/// Maximum amount of text in a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCap {
    /// A maximum of [`TextCap::DEFAULT_CHARACTERS`]; the full text stays readable by reference.
    Default,
    /// The tool's own arguments bound the text.
    ByArguments,
}

impl TextCap {
    /// Maximum number of characters of text in one response (design section 4: the amount that
    /// hosts of models show without truncation of their own).
    pub const DEFAULT_CHARACTERS: usize = 25_000;

    /// Maximum number of lines in a page of default size. The client `OpenCode` 1.18 cuts a result at 2,000 lines.
    pub const DEFAULT_LINES: usize = 1_900;

    /// Returns the length of the first [`TextCap::DEFAULT_LINES`] lines, if more bytes follow.
    pub fn length_of_default_lines(bytes: &[u8]) -> Option<usize> {
        let newlines = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        let last = newlines.map(|(index, _)| index + 1).nth(Self::DEFAULT_LINES - 1)?;
        (last < bytes.len()).then_some(last)
    }
}

/// Form in which a model sees a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// Record, shown as JSON.
    Record,
    /// Text after one line, which holds the other fields.
    Text {
        /// Field of the output that holds the text.
        field: &'static str,
    },
    /// Output of a command, as in a terminal: `stdout`, then `stderr`, then an `exit_code` that is
    /// not 0.
    Command,
}
