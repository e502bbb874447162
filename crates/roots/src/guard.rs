//! The caller's judge of reads and writes.

use std::ffi::OsStr;
use std::path::Path;

/// A judge that every operation asks about the real path it reached, before it acts.
///
/// Paths are absolute, without links, `.` and `..`, as the kernel names the opened entry. Answers
/// must be quick: a listing asks once per entry.
pub trait Guard: Send + Sync {
    /// Checks whether the entry at `real` may be read, listed or shown.
    ///
    /// # Errors
    /// The reason for the denial.
    fn may_read(&self, real: &Path) -> Result<(), Refusal>;

    /// Returns [`Guard::may_read`] for the names in one folder. A listing asks about many names,
    /// which a guard may answer more quickly together.
    fn readable_names<'a>(&'a self, folder: &'a Path) -> ReadableNames<'a> {
        Box::new(move |name| self.may_read(&folder.join(name)).is_ok())
    }

    /// Checks whether the content of a regular file with further names (hard links) may be read.
    /// Another name of the file may be one that must not be read. The check is in addition to
    /// [`Guard::may_read`]. `file` is its device and inode number.
    ///
    /// # Errors
    /// The reason for the denial.
    fn may_read_under_any_name(&self, _real: &Path, _file: (u64, u64)) -> Result<(), Refusal> {
        Ok(())
    }

    /// Checks whether the entry at `real` may be created, changed, moved or removed.
    ///
    /// # Errors
    /// The reason for the denial.
    fn may_write(&self, real: &Path) -> Result<(), Refusal>;
}

/// A function that returns true if the entry with a name may be read.
pub type ReadableNames<'a> = Box<dyn Fn(&OsStr) -> bool + 'a>;

/// Reason for a denial by the guard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that denies, as text for people.
    pub reason: String,
    /// A way to change the rule.
    pub hint: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}
