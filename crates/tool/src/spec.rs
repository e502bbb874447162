use std::time::Duration;

use crate::Level;

/// All that is fixed about a tool. One constant per tool, most important first.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The canonical name: `[a-z][a-z0-9_]*`, at most 40 characters.
    pub name: &'static str,
    /// A short name for people.
    pub title: &'static str,
    /// What the model reads to decide when to use the tool. The example is added to it.
    pub description: &'static str,
    /// One worked example, which is also a test and a part of the manual.
    pub example: Example,
    /// The level of a call, unless its plan says another one.
    pub level: Level,
    /// What a client may assume about calls of this tool.
    pub class: Class,
    /// How long a call may take.
    pub timeout: Timeout,
    /// What admits a call.
    pub lane: Lane,
    /// How much text an answer may hold.
    pub text: TextCap,
    /// How an answer is shown to a model.
    pub presentation: Presentation,
}

impl Spec {
    /// A tool that reads on this machine and answers with a record, within a minute and without an example of its own. What is
    /// different about another one is named before it: `Spec { level: Level::Moderate, ..Spec::reading(name, description) }`.
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

/// A worked example: in a workspace with these files, this call has this result.
#[derive(Debug, Clone, Copy)]
pub struct Example {
    /// Files that exist before the call: path in the workspace, content.
    pub files: &'static [(&'static str, &'static str)],
    /// The arguments, as a JSON object.
    pub arguments: &'static str,
    /// What the result contains, as a JSON object. Fields that are not named here may have any value.
    pub result: &'static str,
}

/// What a client may assume about calls of a tool (the four annotations of MCP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// Changes nothing.
    pub reads_only: bool,
    /// May destroy something that was there.
    pub destructive: bool,
    /// The same call twice leaves the same world as once.
    pub idempotent: bool,
    /// Reaches beyond this machine.
    pub open_world: bool,
}

impl Class {
    /// Reads on this machine.
    pub const READ: Class =
        Class { reads_only: true, destructive: false, idempotent: true, open_world: false };
}

/// How long a call may take: what it gets unless it asks, and the most it may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeout {
    /// Without a wish of the caller.
    pub default: Duration,
    /// The most that a caller can wish for.
    pub max: Duration,
}

impl Timeout {
    /// For tools whose arguments name no timeout.
    pub const fn fixed(seconds: u64) -> Self {
        Self { default: Duration::from_secs(seconds), max: Duration::from_secs(seconds) }
    }
}

/// What admits a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Bounded by the bytes of the answers in flight.
    Read,
    /// A change of files: bounded like a read.
    Write,
    /// A command or another heavy call: bounded in number (5 run, 10 wait, the 16th is refused).
    Command,
}

/// How much text an answer may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextCap {
    /// At most [`TextCap::DEFAULT_CHARACTERS`]; the whole stays readable by reference.
    Default,
    /// The tool's own arguments bound it.
    ByArguments,
}

impl TextCap {
    /// Characters of text in one answer (design section 4: what hosts of models show without cutting themselves).
    pub const DEFAULT_CHARACTERS: usize = 25_000;
}

/// How an answer is shown to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presentation {
    /// A record, as JSON.
    Record,
    /// A text behind one line, which holds the other fields.
    Text {
        /// The field of the output that is the text.
        field: &'static str,
    },
    /// The output of a command, as a terminal shows it: `stdout`, then `stderr`, then an `exit_code` that is not 0.
    Command,
}
