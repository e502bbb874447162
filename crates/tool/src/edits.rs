//! Lines that a call would change, and the code graph's knowledge of who depends on them.

use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use crate::{Context, ToolError};

/// Lines of one file that a call would change, by the present state of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedFile {
    /// Absolute path.
    pub path: PathBuf,
    /// Lines.
    pub lines: EditedLines,
}

/// Lines that a call would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EditedLines {
    /// All lines: the file or folder is removed or moved, or the lines are not known.
    All,
    /// Ranges of lines, counted from 0. An empty range is an insertion before its line.
    Ranges(Vec<Range<u64>>),
}

impl EditedLines {
    /// Returns true if a part of a file is changed that has these lines, counted from 0. An insertion at
    /// the edge of the part is not in it.
    pub fn touch(&self, part: &Range<u64>) -> bool {
        let touches = |edited: &Range<u64>| edited.start < part.end && part.start < edited.end;
        let is_within = |edited: &Range<u64>| part.start < edited.start && edited.start < part.end;
        match self {
            Self::All => true,
            Self::Ranges(ranges) => ranges
                .iter()
                .any(|edited| if edited.is_empty() { is_within(edited) } else { touches(edited) }),
        }
    }
}

/// A symbol that a call would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EditedSymbol {
    /// Name, qualified within its file.
    pub name: String,
    /// File, relative to the workspace.
    pub file: String,
    /// First line of the symbol, from 1.
    pub line: u64,
    /// Number of its callers.
    pub callers: u64,
    /// First callers, in the order of their places.
    pub first: Vec<CodeCaller>,
}

/// A caller of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CodeCaller {
    /// File, relative to the workspace.
    pub file: String,
    /// Line of the call, from 1.
    pub line: u64,
    /// Name of the caller, qualified within its file.
    pub name: String,
}

/// Knowledge of who calls the code of the workspace. A service of the runtime, as an `Arc` of it.
pub trait CodeCallers: Send + Sync {
    /// Returns, for each edited file, the symbols of it that are changed and have more than `over` callers.
    /// Knows the files that the context's roots let read, as they are now. Blocks, and does not begin further
    /// work after the time.
    ///
    /// # Errors
    /// Fails if the callers are not known in time.
    fn callers(
        &self,
        context: &Context,
        edited: &[EditedFile],
        over: u64,
        within: Duration,
    ) -> Result<Vec<Vec<EditedSymbol>>, ToolError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_touches_what_it_changes_and_an_insertion_only_what_is_around_it() {
        let touch = |edited: Range<u64>| EditedLines::Ranges(vec![edited]).touch(&(10..20));
        for (edited, expected) in [
            (9..10, false),
            (9..11, true),
            (19..20, true),
            (20..21, false),
            (10..10, false),
            (11..11, true),
            (19..19, true),
            (20..20, false),
        ] {
            assert_eq!(touch(edited.clone()), expected, "{edited:?}");
        }
        assert!(EditedLines::All.touch(&(3..4)));
        assert!(!EditedLines::Ranges(Vec::new()).touch(&(3..4)));
    }
}
