//! Judging a whole tree before anything in it is moved or removed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::beneath::{may_change, open_child_on_same_file_system};
use crate::{DEEPEST, EntryKind, Folder, Result, Roots, RootsError};

/// What is asked of every entry of a tree.
pub(crate) struct Judge<'a> {
    pub(crate) roots: &'a Roots,
    /// Says no to a place.
    pub(crate) allows: &'a dyn Fn(&Path) -> Result<()>,
    /// Whether folders are to be emptied. In a dry run this process must be able to.
    pub(crate) empties: bool,
    /// The caller's own reason to stop.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Judge<'_> {
    /// That every entry below the folder is allowed, lies on its file system and is not too deep.
    // BOUNDED: by `DEEPEST`.
    pub(crate) fn tree(&self, folder: &Folder, depth: usize) -> Result<()> {
        if depth >= DEEPEST {
            return Err(RootsError::TooDeep { path: folder.real.clone(), limit: DEEPEST });
        }
        let mut asked = !(self.empties && self.roots.dry_run);
        folder.for_each(|entry| {
            if (self.stop)() {
                return Err(RootsError::Stopped);
            }
            if !std::mem::replace(&mut asked, true) {
                may_change(folder.descriptor.as_fd())
                    .map_err(RootsError::while_doing("remove what is in", &folder.real))?;
            }
            let real = folder.real.join(entry.name);
            (self.allows)(&real)?;
            if entry.kind == EntryKind::Folder {
                let child = self.roots.child_folder(folder.descriptor.as_fd(), &folder.real, entry.name);
                match child.and_then(|child| self.tree(&child, depth + 1)) {
                    // It vanished since its name was read.
                    Err(RootsError::NotFound { .. }) => {}
                    judged => judged?,
                }
            }
            Ok(())
        })
    }
}

impl Roots {
    /// The folder called `name` in the open folder at `around`, neither a link nor a mount point. The guard is not asked.
    pub(crate) fn child_folder(&self, folder: BorrowedFd<'_>, around: &Path, name: &OsStr) -> Result<Folder> {
        let real = around.join(name);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let place = match open_child_on_same_file_system(folder, name, flags) {
            Err(Errno::XDEV) => return Err(RootsError::OtherFileSystem { path: real }),
            // It became something else since its name was read.
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(RootsError::Changed { path: real }),
            opened => opened.map_err(RootsError::while_doing("open", &real))?,
        };
        self.folder(place.as_fd(), real.clone(), &real)
    }
}
