/// A line for the shell, as both parsers read it: what runs, in the order in which it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// The commands and groups of commands, joined.
    pub steps: Vec<Step>,
}

/// One member of a list or a pipeline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// How it stands to the step before it.
    pub joint: Joint,
    /// Whether `!` stands before it.
    pub negated: bool,
    /// Whether `&` ends the list that it is the last of.
    pub background: bool,
    /// What runs.
    pub node: Node,
}

/// How a step stands to the one before it. The first of a list stands as [`Joint::Then`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Joint {
    /// `;`, `&`, a new line, or the begin: it runs whatever the step before came to.
    Then,
    /// `&&`.
    And,
    /// `||`.
    Or,
    /// `|`: it reads what the step before writes.
    Pipe,
}

/// What a step runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A program, a builtin or a mere assignment or redirection.
    Command(Command),
    /// `( ... )`: changes of directory and variables end with it.
    Subshell(Block),
    /// `{ ...; }`.
    Group(Block),
    /// `if`, `case`: conditions and branches in their order. Not all of them run.
    Branches(Vec<Vec<Step>>, Vec<Redirect>),
    /// `for`, `while`, `until`: the condition and the body, or the body once for each value. Each runs any number of times.
    Rounds(Vec<Vec<Step>>, Vec<Redirect>),
}

/// Steps with redirections of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What runs.
    pub steps: Vec<Step>,
    /// What holds for all of them.
    pub redirects: Vec<Redirect>,
}

/// A simple command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Command {
    /// The assignments before the program. Without a program they hold for the shell itself.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments; none for mere assignments and redirections.
    pub words: Vec<Word>,
    /// Its redirections, in their order.
    pub redirects: Vec<Redirect>,
    /// What runs in order to make its words, assignments and redirections: the scripts of `$( )`.
    pub substituted: Vec<Vec<Step>>,
}

/// `NAME=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable.
    pub name: String,
    /// Its value.
    pub value: Word,
}

/// One word as the program will see it, but for what its marks say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Word {
    /// The text without quotes and escapes. A part that is not known is spelled `$NAME` or `$()`.
    pub text: String,
    /// Whether the shell replaces it with names of files: it holds `*`, `?` or `[` outside quotes. `$?` counts as `*`.
    pub glob: bool,
    /// Whether a part of it is not known before it runs.
    pub varies: bool,
    /// Whether that part stands outside quotes, so that the word may become none or several.
    pub splits: bool,
}

impl Word {
    /// A word that stands for itself.
    pub fn literal(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Whether the program sees exactly this text.
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
    /// `2>&1`, `>&-`: a descriptor is made the same as another one, or closed.
    Descriptor,
    /// A here-document or a here-string that holds no expansion: standard input is this text.
    Text(String),
}
