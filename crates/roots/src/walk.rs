use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::{Entry, EntryKind, Folder, ReadableNames, Result, RootsError};

/// How many folders deep a walk or a removal goes.
///
/// Each level holds a descriptor, of which a process usually has 1,024; trees that people make stay below 50.
pub const DEEPEST: usize = 100;

/// A walk over a folder in a fixed order: depth first, the names of each folder by their bytes.
///
/// Links are shown and never followed. Memory is bounded, however many entries a folder has.
/// The order is that of [`Path`]'s comparison, so a walk can be taken up again behind any path.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// Whether to go into folders.
    pub recursive: bool,
    /// Where an earlier walk ended: the last path it visited, relative to the folder.
    pub after: Option<PathBuf>,
}

/// What a walk does with what it meets.
pub trait Visit {
    /// A folder was opened, the first one included.
    ///
    /// # Errors
    /// Ends the walk.
    fn enter(&mut self, _folder: &Folder, _relative: &Path) -> Result<()> {
        Ok(())
    }

    /// The folder entered last is done.
    fn leave(&mut self) {}

    /// Whether an entry is of any interest. If not, the guard is not asked about it, and a folder is not gone into.
    fn wants(&mut self, entry: Entry<'_>, relative: &Path) -> bool;

    /// An entry that is wanted and that the guard lets be seen, in the open folder that holds it.
    ///
    /// # Errors
    /// Ends the walk.
    fn visit(&mut self, folder: &Folder, entry: Entry<'_>, relative: &Path) -> Result<Step>;
}

/// Whether a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// To the next entry.
    Next,
    /// No further.
    End,
}

/// How a walk went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Walked {
    /// Whether a visit ended it.
    pub ended: bool,
    /// Entries that the guard hides.
    pub refused: u64,
    /// Folders that the system does not let be read.
    pub unreadable: u64,
    /// Folders more than [`DEEPEST`] levels down.
    pub too_deep: u64,
}

/// Names of one folder in memory at once: in the first folder a whole page of any listing, below it less.
const NAMES_AT_THE_TOP: usize = 25_000;
const NAMES_BELOW: usize = 4_000;

impl Walk {
    /// Walks over what lies in `folder`.
    ///
    /// # Errors
    /// What the visitor says, or where the system fails in another way than by forbidding a folder.
    pub fn over(&self, folder: &Folder, visitor: &mut dyn Visit) -> Result<Walked> {
        let mut walker = Walker { recursive: self.recursive, visitor, walked: Walked::default(), depth: 0 };
        let after = self.after.as_deref().unwrap_or(Path::new(""));
        walker.level(folder, Path::new(""), after)?;
        Ok(walker.walked)
    }
}

struct Walker<'a> {
    recursive: bool,
    visitor: &'a mut dyn Visit,
    walked: Walked,
    depth: usize,
}

impl Walker<'_> {
    /// One folder, lying at `relative`. `after` is relative to it, and empty from its beginning on.
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
                // Its names may be read and not what they name (mode r--), or it went since it was opened.
                Err(error) if self.depth > 0 && is_forbidden(&error) => {
                    self.walked.unreadable += 1;
                    break;
                }
                Err(RootsError::NotFound { .. }) if self.depth > 0 => break,
                listed => listed?,
            };
            // One piece of memory for all paths of this folder: a name is put behind `around`, and taken off again.
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

    /// The entry in which, or behind which, an earlier walk ended.
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
            // It vanished, or became something else, since its name was read.
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
