//! Slots: names in folders, for operations that change an entry.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, Stat, statat};
use rustix::io::Errno;

use crate::metadata::kind_of;
use crate::root::OpenEntry;
use crate::{EntryKind, LastLink, Result, Right, Roots, RootsError};

/// A name in an open folder, at which an entry is created, replaced, moved or removed.
pub(crate) struct Slot {
    /// `O_PATH` descriptor of the folder.
    pub(crate) folder: OwnedFd,
    /// Metadata of the folder.
    pub(crate) folder_stat: Stat,
    /// Name in the folder.
    pub(crate) name: OsString,
    /// Real path of the slot.
    pub(crate) real: PathBuf,
    /// Metadata of the entry, if one exists. Links are not followed.
    pub(crate) found: Option<Stat>,
}

/// Maximum number of chained links that a write follows, each of which may cross into another root.
const LONGEST_CHAIN: usize = 8;

impl Roots {
    /// Finds the slot that `path` names, in a writable root. The caller asks the guard.
    pub(crate) fn slot(&self, path: &Path, last: LastLink) -> Result<Slot> {
        let mut target = path.to_owned();
        for _ in 0..LONGEST_CHAIN {
            let slot = self.slot_without_following(path, &target)?;
            if last == LastLink::Keep || slot.kind() != Some(EntryKind::Link) {
                return Ok(slot);
            }
            target = crate::real_path(&slot.real, LastLink::Follow)?;
        }
        Err(RootsError::TooManyLinks { path: path.to_owned() })
    }

    /// Finds the slot of `target`, the current target of the links behind `path`. `path` is the
    /// caller's spelling.
    fn slot_without_following(&self, path: &Path, target: &Path) -> Result<Slot> {
        let located = self.locate(target).map_err(|error| match error {
            RootsError::NotInRoots { .. } if target != path => {
                RootsError::LeadsOutside { path: path.to_owned(), target: target.to_owned() }
            }
            other => other,
        })?;
        if located.relative.as_os_str().is_empty() {
            return Err(RootsError::IsRoot { path: path.to_owned() });
        }
        let opened = self.resolve(target, LastLink::Keep, |spot, through| {
            let (Some(parent), Some(name)) = (spot.relative.parent(), spot.relative.file_name()) else {
                // A link in the parents leads to a root itself.
                return Err(Errno::BUSY);
            };
            let folder = spot.root.descriptor.as_fd();
            let flags = OFlags::PATH | OFlags::DIRECTORY;
            Ok((beneath::open(folder, parent, flags, through)?, name.to_owned()))
        });
        let (folder, name) = opened.map_err(|error| match error {
            RootsError::NotFound { path } => {
                RootsError::NoFolder { folder: path.parent().unwrap_or(&path).to_owned() }
            }
            other => other,
        })?;
        let folder = OpenEntry::look(folder, path)?;
        let real = folder.real.join(&name);
        self.reach(path, &real, Right::Write)?;
        let found = match statat(&folder.descriptor, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(stat),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(RootsError::system("inspect", path, errno)),
        };
        Ok(Slot { folder: folder.descriptor, folder_stat: folder.stat, name, real, found })
    }
}

impl Slot {
    pub(crate) fn kind(&self) -> Option<EntryKind> {
        self.found.as_ref().map(kind_of)
    }
}
