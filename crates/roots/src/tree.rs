//! Judgement of a whole tree before anything in it is moved or removed.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use beneath::Through;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::descriptor::may_change;
use crate::{DEEPEST, EntryKind, Folder, Result, Roots, RootsError};

/// The checks that every entry of a tree must pass.
pub(crate) struct Judge<'a> {
    pub(crate) roots: &'a Roots,
    /// Returns an error for a denied path.
    pub(crate) allows: &'a dyn Fn(&Path) -> Result<()>,
    /// True if folders will be emptied. A dry run then checks that this process has the permission.
    pub(crate) empties: bool,
    /// The caller's stop condition.
    pub(crate) stop: &'a dyn Fn() -> bool,
}

impl Judge<'_> {
    /// Checks that every entry below the folder is allowed, lies on the folder's file system, and is
    /// not too deep.
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
                    .map_err(RootsError::while_doing("remove the content of", &folder.real))?;
            }
            let real = folder.real.join(entry.name);
            (self.allows)(&real)?;
            if entry.kind == EntryKind::Folder {
                let child = self.roots.child_folder(folder.descriptor.as_fd(), &folder.real, entry.name);
                match child.and_then(|child| self.tree(&child, depth + 1)) {
                    // The entry vanished after its name was read.
                    Err(RootsError::NotFound { .. }) => {}
                    judged => judged?,
                }
            }
            Ok(())
        })
    }
}

impl Roots {
    /// Opens the folder `name` in the open folder at `around`, unless it is a link or a mount point.
    /// The guard is not asked.
    pub(crate) fn child_folder(&self, folder: BorrowedFd<'_>, around: &Path, name: &OsStr) -> Result<Folder> {
        let real = around.join(name);
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let place = match beneath::open(folder, Path::new(name), flags, Through::Nothing) {
            Err(Errno::XDEV) => return Err(RootsError::OtherFileSystem { path: real }),
            // The entry changed its kind after its name was read.
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(RootsError::Changed { path: real }),
            opened => opened.map_err(RootsError::while_doing("open", &real))?,
        };
        self.folder(place.as_fd(), real.clone(), &real)
    }
}
