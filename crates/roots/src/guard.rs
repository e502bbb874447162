use std::ffi::OsStr;
use std::path::Path;

/// Who is asked about every place that an operation really reached, before it acts.
///
/// Paths are absolute, without links, `.` and `..`, as the kernel names what was opened.
/// Answers must be quick: a listing asks once per entry.
pub trait Guard: Send + Sync {
    /// Whether what lies at `real` may be read, listed or shown.
    ///
    /// # Errors
    /// Why not.
    fn may_read(&self, real: &Path) -> Result<(), Refusal>;

    /// [`Guard::may_read`] for the names in one folder. A listing asks about many, which a guard may answer more quickly.
    fn readable_names<'a>(&'a self, folder: &'a Path) -> ReadableNames<'a> {
        Box::new(move |name| self.may_read(&folder.join(name)).is_ok())
    }

    /// Whether the content of a regular file may be read that has further names (hard links), besides what was said to its name:
    /// another of its names may be one that must not be read. `file` is its device and its number there.
    ///
    /// # Errors
    /// Why not.
    fn may_read_under_any_name(&self, _real: &Path, _file: (u64, u64)) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether what lies at `real` may be created, changed, moved or removed.
    ///
    /// # Errors
    /// Why not.
    fn may_write(&self, real: &Path) -> Result<(), Refusal>;
}

/// Whether what has a name may be read.
pub type ReadableNames<'a> = Box<dyn Fn(&OsStr) -> bool + 'a>;

/// Why the guard says no.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The rule that refuses, for people.
    pub reason: String,
    /// How to change it.
    pub hint: Option<String>,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.reason)
    }
}
