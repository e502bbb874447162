//! Removal of entries and trees.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;

use crate::descriptor::may_change;
use crate::slot::Slot;
use crate::tree::Judge;
use crate::{EntryKind, Folder, LastLink, Result, Roots, RootsError};

/// Extent of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removal {
    /// A file, a link, or an empty folder.
    Entry,
    /// Additionally, a folder with all its contents.
    Tree,
}

/// Result of a removal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovalResult {
    /// Real path of the removed entry.
    pub real: PathBuf,
    /// Number of removed entries, including folders.
    pub entries: u64,
}

/// Maximum number of times that a folder is read while new entries appear during its removal.
const ROUNDS: usize = 8;

impl Roots {
    /// Removes the entry at `path`: a link itself, never its target.
    ///
    /// A tree is judged as a whole first: if the guard denies reading or writing one entry in it,
    /// nothing is removed. `stop` is called at every entry.
    ///
    /// # Errors
    /// [`RootsError::NotFound`], [`RootsError::NotEmpty`], [`RootsError::IsRoot`],
    /// [`RootsError::Refused`], [`RootsError::TooDeep`]; [`RootsError::OtherFileSystem`] if the tree
    /// contains a mount point; [`RootsError::Partly`] around any error that follows the removal of a
    /// part.
    pub fn remove(&self, path: &Path, removal: Removal, stop: &dyn Fn() -> bool) -> Result<RemovalResult> {
        let slot = self.slot(path, LastLink::Keep)?;
        let kind = slot.kind().ok_or_else(|| RootsError::NotFound { path: path.to_owned() })?;
        if self.holds_a_root(&slot.real) {
            return Err(RootsError::IsRoot { path: path.to_owned() });
        }
        self.may_write(&slot.real)?;
        let mut gone = 0;
        let folder = kind == EntryKind::Folder;
        if self.dry_run {
            return self.could_remove(slot, path, removal, stop);
        }
        if folder && removal == Removal::Tree {
            self.remove_contents(&slot, stop, &mut gone)?;
        }
        let flags = if folder { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        unlinkat(&slot.folder, &slot.name, flags).map_err(|errno| {
            let error = match errno {
                // The folder was emptied, and another process filled it again.
                Errno::NOTEMPTY | Errno::EXIST if removal == Removal::Tree => {
                    RootsError::Changed { path: path.to_owned() }
                }
                Errno::NOTEMPTY | Errno::EXIST => RootsError::NotEmpty { path: path.to_owned() },
                Errno::ISDIR | Errno::NOTDIR => RootsError::Changed { path: path.to_owned() },
                errno => RootsError::system("remove", path, errno),
            };
            if gone == 0 { error } else { error.partly() }
        })?;
        Ok(RemovalResult { real: slot.real, entries: gone + 1 })
    }

    /// Checks that everything could be removed.
    fn could_remove(
        &self,
        slot: Slot,
        path: &Path,
        removal: Removal,
        stop: &dyn Fn() -> bool,
    ) -> Result<RemovalResult> {
        may_change(slot.folder.as_fd()).map_err(RootsError::while_doing("remove", path))?;
        let entries = Cell::new(1);
        if slot.kind() == Some(EntryKind::Folder) {
            let folder = self.slot_folder(&slot)?;
            let allows = |real: &Path| {
                if removal == Removal::Entry {
                    return Err(RootsError::NotEmpty { path: path.to_owned() });
                }
                entries.set(entries.get() + 1);
                self.may_read(real).and_then(|()| self.may_write(real))
            };
            Judge { roots: self, allows: &allows, empties: true, stop }.tree(&folder, 0)?;
        }
        Ok(RemovalResult { real: slot.real, entries: entries.get() })
    }

    fn remove_contents(&self, slot: &Slot, stop: &dyn Fn() -> bool, gone: &mut u64) -> Result<()> {
        let allows = |real: &Path| self.may_read(real).and_then(|()| self.may_write(real));
        let judge = Judge { roots: self, allows: &allows, empties: true, stop };
        let folder = self.slot_folder(slot)?;
        judge.tree(&folder, 0)?;
        let emptied = empty(&judge, &folder, gone);
        emptied.map_err(|error| if *gone == 0 { error } else { error.partly() })
    }

    /// Opens the folder in a slot for listing.
    pub(crate) fn slot_folder(&self, slot: &Slot) -> Result<Folder> {
        let around = slot.real.parent().unwrap_or(Path::new("/"));
        self.child_folder(slot.folder.as_fd(), around, &slot.name)
    }
}

/// Removes all entries of a folder. Entries that appeared since the first judgement are judged now.
// BOUNDED: by `DEEPEST`, to which the tree was judged; deeper folders that appear later fail for
// lack of descriptors.
fn empty(judge: &Judge<'_>, folder: &Folder, gone: &mut u64) -> Result<()> {
    for _ in 0..ROUNDS {
        let before = *gone;
        folder.for_each(|entry| {
            if (judge.stop)() {
                return Err(RootsError::Stopped);
            }
            let real = folder.real.join(entry.name);
            (judge.allows)(&real)?;
            let flags = if entry.kind == EntryKind::Folder {
                let child = judge.roots.child_folder(folder.descriptor.as_fd(), &folder.real, entry.name);
                match child.and_then(|child| empty(judge, &child, gone)) {
                    // Another process removed the folder after its name was read.
                    Err(RootsError::NotFound { .. }) => return Ok(()),
                    emptied => emptied?,
                }
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            match unlinkat(&folder.descriptor, entry.name, flags) {
                Ok(()) => *gone += 1,
                Err(Errno::NOENT) => {}
                Err(Errno::NOTEMPTY | Errno::EXIST) => return Err(RootsError::Changed { path: real }),
                Err(errno) => return Err(RootsError::system("remove", &real, errno)),
            }
            Ok(())
        })?;
        if *gone == before {
            return Ok(());
        }
    }
    Err(RootsError::Changed { path: folder.real.clone() })
}
