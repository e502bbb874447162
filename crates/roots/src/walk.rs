//! Walks over the entries below a folder.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{Entry, EntryKind, Folder, ReadableNames, Result, RootsError};

/// Maximum depth of a walk or a removal, in folders.
///
/// Each level uses a descriptor, of which a process usually has 1,024. Trees that people make stay
/// below 50.
pub const DEEPEST: usize = 100;

/// A walk over a folder in a fixed order: depth first, the names of each folder by their bytes.
///
/// Links are shown and never followed. Memory is bounded, however many entries a folder has. The
/// order is that of [`Path`]'s comparison, so a walk can resume after any path.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// True if the walk enters subfolders.
    pub recursive: bool,
    /// Last path that an earlier walk visited, relative to the folder.
    pub after: Option<PathBuf>,
}

/// The callbacks of a walk.
pub trait Visit {
    /// Handles an opened folder, including the first one.
    ///
    /// # Errors
    /// An error ends the walk.
    fn enter(&mut self, _folder: &Folder, _relative: &Path) -> Result<()> {
        Ok(())
    }

    /// Handles the end of the folder entered last.
    fn leave(&mut self) {}

    /// Returns true if an entry is of interest. The guard is not asked about other entries, and the
    /// walk does not enter other folders.
    fn wants(&mut self, entry: Entry<'_>, relative: &Path) -> bool;

    /// Handles an entry that is of interest and that the guard allows, in its open parent folder.
    ///
    /// # Errors
    /// An error ends the walk.
    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> Result<Step>;
}

/// Choice between continuing and ending a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Continue with the next entry.
    Next,
    /// End the walk.
    End,
}

/// Summary of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WalkSummary {
    /// True if a visit ended the walk.
    pub ended: bool,
    /// Number of entries that the guard hides.
    pub refused: u64,
    /// Number of folders that the system does not allow to be read.
    pub unreadable: u64,
    /// Number of folders more than [`DEEPEST`] levels down.
    pub too_deep: u64,
}

/// Maximum number of names of one folder in memory: the top folder gets a whole page of any listing,
/// subfolders get less.
const NAMES_AT_THE_TOP: usize = 25_000;
const NAMES_BELOW: usize = 4_000;

impl Walk {
    /// Walks over the entries of `folder`.
    ///
    /// # Errors
    /// Passes on the errors of the visitor, and the system errors other than a denied folder.
    pub fn over(&self, folder: &Folder, visitor: &mut dyn Visit) -> Result<WalkSummary> {
        let mut walker =
            Walker { recursive: self.recursive, visitor, walked: WalkSummary::default(), depth: 0 };
        let after = self.after.as_deref().unwrap_or(Path::new(""));
        walker.level(folder, Path::new(""), after)?;
        Ok(walker.walked)
    }
}

struct Walker<'a> {
    recursive: bool,
    visitor: &'a mut dyn Visit,
    walked: WalkSummary,
    depth: usize,
}

impl Walker<'_> {
    /// Walks over one folder at `relative`. `after` is relative to the folder, and empty for a walk
    /// from its beginning.
    fn level(&mut self, folder: &Folder, relative: &Path, after: &Path) -> Result<()> {
        self.visitor.enter(folder, relative)?;
        let mut last = after.components().next().map(|part| part.as_os_str().to_owned());
        if let Some(begun) = &last {
            self.resume(folder, relative, begun, after)?;
        }
        let readable = folder.readable_names();
        let at_once = if self.depth == 0 { NAMES_AT_THE_TOP } else { NAMES_BELOW };
        while !self.walked.ended {
            let (entries, more) = match folder.first_entries(last.as_deref(), at_once) {
                // The names may be readable without the entries (mode r--), or the folder was
                // removed after it was opened.
                Err(error) if self.depth > 0 && is_forbidden(&error) => {
                    self.walked.unreadable += 1;
                    break;
                }
                Err(RootsError::NotFound { .. }) if self.depth > 0 => break,
                listed => listed?,
            };
            // All paths of this folder share one buffer: each name is appended after `around`, and
            // removed again.
            let mut path = relative.as_os_str().as_bytes().to_vec();
            if !path.is_empty() {
                path.push(b'/');
            }
            let around = path.len();
            for entry in entries.iter() {
                path.truncate(around);
                path.extend_from_slice(entry.name.as_bytes());
                self.entry(folder, entry, Path::new(OsStr::from_bytes(&path)), &readable)?;
                if self.walked.ended {
                    break;
                }
            }
            if !more {
                break;
            }
            last = entries.iter().next_back().map(|entry| entry.name.to_owned());
        }
        self.visitor.leave();
        Ok(())
    }

    /// Continues in the entry at which an earlier walk ended, or after it.
    fn resume(&mut self, folder: &Folder, relative: &Path, begun: &OsStr, after: &Path) -> Result<()> {
        let Ok(metadata) = folder.metadata(begun) else { return Ok(()) };
        let entry = Entry { name: begun, kind: metadata.kind };
        let path = relative.join(begun);
        if self.visitor.wants(entry, &path) && folder.may_read(begun) {
            self.below(folder, entry, &path, after.strip_prefix(begun).unwrap_or(Path::new("")))?;
        }
        Ok(())
    }

    fn entry(
        &mut self,
        folder: &Folder,
        entry: Entry<'_>,
        path: &Path,
        readable: &ReadableNames<'_>,
    ) -> Result<()> {
        if !self.visitor.wants(entry, path) {
            return Ok(());
        }
        if !readable(entry.name) {
            self.walked.refused += 1;
            return Ok(());
        }
        if self.visitor.visit(folder, entry, path)? == Step::End {
            self.walked.ended = true;
            return Ok(());
        }
        self.below(folder, entry, path, Path::new(""))
    }

    fn below(&mut self, folder: &Folder, entry: Entry<'_>, path: &Path, after: &Path) -> Result<()> {
        if !self.recursive || entry.kind != EntryKind::Folder {
            return Ok(());
        }
        if self.depth + 1 >= DEEPEST {
            self.walked.too_deep += 1;
            return Ok(());
        }
        let child = match folder.open_folder(entry.name) {
            Ok(child) => child,
            // The entry vanished, or changed its kind, after its name was read.
            Err(
                RootsError::NotFound { .. } | RootsError::WrongKind { .. } | RootsError::TooManyLinks { .. },
            ) => return Ok(()),
            Err(error) if is_forbidden(&error) => {
                self.walked.unreadable += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        self.depth += 1;
        let done = self.level(&child, path, after);
        self.depth -= 1;
        done
    }
}

fn is_forbidden(error: &RootsError) -> bool {
    matches!(error, RootsError::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied)
}
