//! Patches: the unified format in git's dialect, and the envelope of `*** Begin Patch` that coding models write.
//!
//! A patch is read into [`FileChange`]s before anything is looked up, so that who plans it knows every path.
//! [`apply`] then finds the place of each hunk in a file's content.

mod apply;
mod envelope;
mod find;
mod names;
mod unified;

pub use apply::{Applied, Drift, HunkRefused, apply};

/// A patch as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Its parts, in order.
    pub files: Vec<FileChange>,
}

/// What a patch does with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The line of the patch in which it begins, from 1.
    pub line: usize,
    /// What happens.
    pub action: Action,
    /// The file, as the patch names it, without git's `a/` and `b/`.
    pub path: String,
    /// Its old name, for [`Action::Rename`] and [`Action::Copy`].
    pub source: Option<String>,
    /// What it is to become, where the patch says so; [`Mode::Link`] also where it is one and stays one.
    pub mode: Option<Mode>,
    /// Whether the content that goes must be what the patch says; the envelope deletes without saying.
    pub shows_old_content: bool,
    /// The changes of its content, in order.
    pub hunks: Vec<Hunk>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is made. Nothing may be there.
    Add,
    /// It goes.
    Delete,
    /// Its content or mode changes.
    Update,
    /// It gets another name, where nothing may be; its content may change, too.
    Rename,
    /// Another file like it is made, where nothing may be.
    Copy,
}

/// What kind of file git makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// 100644
    Regular,
    /// 100755
    Executable,
    /// 120000: the content is where the link leads.
    Link,
}

/// One change of a file's content: lines that are there, and what becomes of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// The line of the patch in which it begins, from 1.
    pub line: usize,
    /// The line of the file at which it says it begins, from 1; 0 for the beginning of an empty file.
    pub start: Option<usize>,
    /// Lines that come before it, each behind the one before, by which the envelope finds its place.
    pub anchors: Vec<String>,
    /// Whether it reaches the end of the file.
    pub at_end: bool,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// What becomes of it.
    pub sign: Sign,
    /// Without its LF; a CR before that belongs to it.
    pub text: String,
    /// Whether an LF ends it: not where the file ends without one.
    pub ended: bool,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// It stays.
    Context,
    /// It goes.
    Removed,
    /// It comes.
    Added,
}

impl Hunk {
    /// The lines that must be there.
    pub fn old(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.sign != Sign::Added)
    }

    /// How many lines come.
    pub fn added(&self) -> usize {
        self.lines.iter().filter(|line| line.sign == Sign::Added).count()
    }

    /// How many lines go.
    pub fn removed(&self) -> usize {
        self.lines.iter().filter(|line| line.sign == Sign::Removed).count()
    }
}

/// Why a text is no patch that can be applied: what, in which line of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub struct Malformed {
    /// From 1.
    pub line: usize,
    /// What is wrong.
    pub problem: String,
}

impl Malformed {
    fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// The first line of an envelope.
const BEGIN: &str = "*** Begin Patch";
/// Its last.
const END: &str = "*** End Patch";

impl Patch {
    /// Reads a patch in either form. `path` is the file that a patch without any name of one is about.
    ///
    /// # Errors
    /// [`Malformed`], also where there is nothing in it.
    pub fn read(text: &str, path: Option<&str>) -> Result<Self, Malformed> {
        let files = if text.trim_start().starts_with(BEGIN) {
            envelope::read(text)?
        } else {
            unified::read(text, path)?
        };
        if files.is_empty() {
            return Err(Malformed::at(
                1,
                format!(
                    "it changes no file; a unified diff has lines `--- a/FILE` and `+++ b/FILE`, the other form begins with `{BEGIN}`"
                ),
            ));
        }
        Ok(Self { files })
    }
}
