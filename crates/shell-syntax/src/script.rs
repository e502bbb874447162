//! Types of a parsed shell line.

/// A shell line as both parsers read it: the commands in the order in which they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Commands and groups of commands, joined.
    pub steps: Vec<Step>,
}

/// One member of a list or a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Connection to the step before.
    pub joint: Joint,
    /// True if `!` stands before the step.
    pub negated: bool,
    /// True if the step is the last of a list that ends in `&`.
    pub background: bool,
    /// Command or construct that the step runs.
    pub node: Node,
}

/// Connection of a step to the one before. The first step of a list has [`Joint::Then`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// `;`, `&`, a newline, or the start: the step runs whatever the status of the step before.
    Then,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|`: the step reads the output of the step before.
    Pipe,
}

/// A command or construct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A program, a builtin, or a mere assignment or redirection.
    Command(Command),
    /// `( ... )`: changes of directory and variables end with it.
    Subshell(Block),
    /// `{ ...; }`.
    Group(Block),
    /// An `if` or a `case`: conditions and branches in their order. Not all of them run.
    Branches(Vec<Vec<Step>>, Vec<Redirect>),
    /// A loop (`for`, `while`, `until`): the condition and the body, or the body once for each value. Each
    /// runs any number of times.
    Rounds(Vec<Vec<Step>>, Vec<Redirect>),
}

/// Steps with common redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Steps of the block.
    pub steps: Vec<Step>,
    /// Redirections that apply to all steps.
    pub redirects: Vec<Redirect>,
}

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// Assignments before the program. Without a program they apply to the shell itself.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments; empty for mere assignments and redirections.
    pub words: Vec<Word>,
    /// Redirections, in their order.
    pub redirects: Vec<Redirect>,
    /// Scripts of `$( )`, which run to expand the words, assignments and redirections.
    pub substituted: Vec<Vec<Step>>,
}

/// `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// Name of the variable.
    pub name: String,
    /// Value of the variable.
    pub value: Word,
}

/// One word, as the program will see it except for the parts that the marks below describe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// Text without quotes and escapes. An unknown part is spelled `$NAME` or `$()`.
    pub text: String,
    /// True if the shell replaces the word with file names: it contains `*`, `?` or `[` outside
    /// quotes. `$?` counts as `*`.
    pub glob: bool,
    /// True if a part of the word is unknown before the script runs.
    pub varies: bool,
    /// True if that part is outside quotes, so that the word may become none or several.
    pub splits: bool,
}

impl Word {
    /// Creates a word that stands for itself.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns true if the program sees exactly this text.
    pub fn is_literal(&self) -> bool {
        !self.glob && !self.varies
    }
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// `<`: a file is read.
    Read(Word),
    /// `>`, `>>`, `>|`, `&>`, `&>>`, `>&FILE`: a file is written.
    Write(Word),
    /// `2>&1`, `>&-`: a descriptor is duplicated from another one, or closed.
    Descriptor,
    /// A here-document or a here-string without an expansion: standard input is this text.
    Text(String),
}
