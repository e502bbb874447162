//! Where the whole of what a command printed is kept.

use std::io;

use tool::Meta;

/// Keeps the whole output of commands where whoever sends requests cannot reach it.
pub trait ExecLog: Send + Sync {
    /// Keeps one command with all that it printed, and gives what the answer names it by: a path relative to the workspace.
    /// `seen` is given the bytes of both streams as they are kept. Blocks.
    ///
    /// # Errors
    /// Where it cannot be kept. What `seen` has got by then is not said.
    fn keep(&self, record: &Record<'_>, seen: &mut dyn FnMut(StreamKind, &[u8])) -> io::Result<String>;
}

/// A command that has ended.
pub struct Record<'a> {
    /// The line, with secrets covered.
    pub command: &'a str,
    /// What the layers have to say of its call.
    pub meta: &'a Meta,
    /// What came of it, as the answer says it: such as `OK exit:0`.
    pub outcome: &'a str,
    /// What it printed.
    pub streams: [Stream<'a>; 2],
}

/// One stream of a command.
#[derive(Clone, Copy)]
pub struct Stream<'a> {
    /// Which.
    pub kind: StreamKind,
    /// All of it, or where `whole` says so its first and last part.
    pub text: &'a str,
    /// What the whole is kept as, where the text is only a part.
    pub whole: Option<&'a str>,
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl StreamKind {
    /// The name of the field of the result.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}
