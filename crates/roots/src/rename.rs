//! Moves of entries.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::descriptor::may_change;
use crate::tree::Judge;
use crate::{EntryKind, LastLink, Result, Roots, RootsError, real_path};

impl Roots {
    /// Moves the entry at `from` to `to`, in one step and never over another entry. A link itself is
    /// moved.
    ///
    /// A file can be read under its new name after a move. The guard must therefore allow reading
    /// and writing of the source, and writing of the destination. For a folder, the guard must allow
    /// both for every entry in it.
    ///
    /// Returns the real path of the moved entry.
    ///
    /// # Errors
    /// [`RootsError::NotFound`], [`RootsError::NoFolder`], [`RootsError::Exists`],
    /// [`RootsError::IsRoot`], [`RootsError::IntoItself`], [`RootsError::Refused`];
    /// [`RootsError::OtherFileSystem`], because a copy cannot be made in one step.
    pub fn rename(&self, from: &Path, to: &Path, stop: &dyn Fn() -> bool) -> Result<PathBuf> {
        let source = self.slot(from, LastLink::Keep)?;
        let kind = source.kind().ok_or_else(|| RootsError::NotFound { path: from.to_owned() })?;
        if self.holds_a_root(&source.real) {
            return Err(RootsError::IsRoot { path: from.to_owned() });
        }
        let target = match self.slot(to, LastLink::Keep) {
            // A dry run: the folder would be created first, and that check has already passed.
            Err(RootsError::NoFolder { .. }) if self.dry_run => None,
            found => Some(found?),
        };
        if let Some(found) = target.as_ref().and_then(crate::slot::Slot::kind) {
            return Err(RootsError::Exists { path: to.to_owned(), found });
        }
        let target_real = match &target {
            Some(target) => target.real.clone(),
            None => real_path(to, LastLink::Keep)?,
        };
        if target_real.starts_with(&source.real) {
            return Err(RootsError::IntoItself { path: to.to_owned() });
        }
        let allows = |real: &Path| {
            self.may_read(real)?;
            self.may_write(real)?;
            let rest = real.strip_prefix(&source.real).unwrap_or(Path::new(""));
            let moved =
                if rest.as_os_str().is_empty() { target_real.clone() } else { target_real.join(rest) };
            self.may_write(&moved)
        };
        allows(&source.real)?;
        if kind == EntryKind::Folder {
            Judge { roots: self, allows: &allows, empties: false, stop }
                .tree(&self.slot_folder(&source)?, 0)?;
        }
        let Some(target) = target else {
            may_change(source.folder.as_fd()).map_err(RootsError::while_doing("move", from))?;
            return Ok(target_real);
        };
        if self.dry_run {
            for folder in [&source.folder, &target.folder] {
                may_change(folder.as_fd()).map_err(RootsError::while_doing("move", from))?;
            }
            let stays = source.found.is_some_and(|found| found.st_dev == target.folder_stat.st_dev);
            return if stays {
                Ok(target.real)
            } else {
                Err(RootsError::OtherFileSystem { path: to.to_owned() })
            };
        }
        renameat_with(&source.folder, &source.name, &target.folder, &target.name, RenameFlags::NOREPLACE)
            .map_err(|errno| match errno {
                Errno::EXIST | Errno::NOTEMPTY => {
                    RootsError::Exists { path: to.to_owned(), found: EntryKind::Unknown }
                }
                Errno::XDEV => RootsError::OtherFileSystem { path: to.to_owned() },
                errno => RootsError::system("move", from, errno),
            })?;
        Ok(target.real)
    }
}
