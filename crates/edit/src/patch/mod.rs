//! Patches: the unified format in git's dialect, and the `*** Begin Patch` envelope that coding
//! models write.
//!
//! A patch is read into [`FileChange`]s before any file is looked up, so that a caller knows every
//! path when it plans. [`apply`] then finds the place of each hunk in a file's content.

mod apply;
mod envelope;
mod find;
mod names;
mod unified;

pub use apply::{Drift, HunkRefused, PatchedContent, apply};

/// A patch after parsing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Changes by file, in order.
    pub files: Vec<FileChange>,
}

/// A change of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The line of the patch on which the change begins, counted from 1.
    pub line: usize,
    /// Kind of the change.
    pub action: Action,
    /// Path of the file as in the patch, without git's `a/` and `b/`.
    pub path: String,
    /// Old path, for [`Action::Rename`] and [`Action::Copy`].
    pub source: Option<String>,
    /// New mode, if the patch names one. [`Mode::Link`] also for a symbolic link that stays one.
    pub mode: Option<Mode>,
    /// True if the patch shows the content that it removes, so that the file must match. An
    /// envelope deletes a file without its content.
    pub shows_old_content: bool,
    /// Changes of the content, in order.
    pub hunks: Vec<Hunk>,
}

/// A kind of change to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Creation of a file. The path must be free.
    Add,
    /// Deletion of a file.
    Delete,
    /// Change of the content or the mode.
    Update,
    /// Rename to a path that must be free. The content may change too.
    Rename,
    /// Copy of another file to a path that must be free.
    Copy,
}

/// A kind of file that git creates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// 100644
    Regular,
    /// 100755
    Executable,
    /// 120000: the content is the target of the symbolic link.
    Link,
}

/// A change within a file: lines that the file has, and their replacement.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hunk {
    /// The line of the patch on which the hunk begins, counted from 1.
    pub line: usize,
    /// The stated first line in the file, counted from 1; 0 for the beginning of an empty file.
    pub start: Option<usize>,
    /// Lines that precede the hunk in the file, in their order. The envelope format locates a hunk
    /// by these.
    pub anchors: Vec<String>,
    /// True if the hunk reaches the end of the file.
    pub at_end: bool,
    /// Lines of the hunk.
    pub lines: Vec<Line>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// The role of the line.
    pub sign: Sign,
    /// Text without its LF. A CR before the LF is part of the text.
    pub text: String,
    /// True if an LF ends the line; false for a last line without one.
    pub ended: bool,
}

/// A role of a line in a hunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Unchanged line.
    Context,
    /// Removed line.
    Removed,
    /// Added line.
    Added,
}

impl Hunk {
    /// Returns the lines that the file must have.
    pub fn old(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.sign != Sign::Added)
    }

    /// Returns the number of added lines.
    pub fn added(&self) -> usize {
        self.lines.iter().filter(|line| line.sign == Sign::Added).count()
    }

    /// Returns the number of removed lines.
    pub fn removed(&self) -> usize {
        self.lines.iter().filter(|line| line.sign == Sign::Removed).count()
    }
}

/// An error for a text that is no applicable patch, with the line of the problem.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the patch: {problem}")]
pub struct PatchError {
    /// Line of the patch, counted from 1.
    pub line: usize,
    /// Description of the problem.
    pub problem: String,
}

impl PatchError {
    fn at(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// First line of an envelope.
const BEGIN: &str = "*** Begin Patch";
/// Last line of an envelope.
const END: &str = "*** End Patch";

impl Patch {
    /// Parses a patch in either format. `path` is the file of a patch that names none.
    ///
    /// # Errors
    /// [`PatchError`], also for a patch without changes.
    pub fn read(text: &str, path: Option<&str>) -> Result<Self, PatchError> {
        let files = if text.trim_start().starts_with(BEGIN) {
            envelope::read(text)?
        } else {
            unified::read(text, path)?
        };
        if files.is_empty() {
            return Err(PatchError::at(
                1,
                format!(
                    "it changes no file; a unified diff has lines `--- a/FILE` and `+++ b/FILE`, the other format begins with `{BEGIN}`"
                ),
            ));
        }
        Ok(Self { files })
    }
}
