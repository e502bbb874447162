//! Opening of regular files.

use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, readlinkat};

use crate::descriptor::reopen;
use crate::root::OpenEntry;
use crate::{EntryKind, Guard, Identity, LastLink, Metadata, Result, Roots, RootsError};

/// A regular file, open for reading at its start.
#[derive(Debug)]
pub struct OpenedFile {
    /// The open file.
    pub file: File,
    /// Real path of the file.
    pub real: PathBuf,
    /// Metadata of the file when it was opened.
    pub metadata: Metadata,
    /// Identity of the state that was opened.
    pub identity: Identity,
}

impl Roots {
    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] for any other kind. The entry is not touched: opening a FIFO or a
    /// device has side effects.
    pub fn open_file(&self, path: &Path) -> Result<OpenedFile> {
        let found = self.find(path, LastLink::Follow)?;
        self.may_read(&found.real)?;
        OpenedFile::of(&found, path, self.guard().as_ref())
    }

    /// Reads the target of a link, without resolving it.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] for any other kind.
    pub fn link_target(&self, path: &Path) -> Result<PathBuf> {
        let found = self.find(path, LastLink::Keep)?;
        self.may_read(&found.real)?;
        found.expect(EntryKind::Link, path)?;
        let target = readlinkat(&found.descriptor, "", Vec::new())
            .map_err(RootsError::while_doing("read the link", path))?;
        Ok(PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes())))
    }
}

impl OpenedFile {
    /// Opens a found entry for reading. The caller has asked the guard about its name.
    pub(crate) fn of(found: &OpenEntry, path: &Path, guard: &dyn Guard) -> Result<Self> {
        found.expect(EntryKind::File, path)?;
        if found.stat.st_nlink > 1 {
            let file = (found.stat.st_dev, found.stat.st_ino);
            guard
                .may_read_under_any_name(&found.real, file)
                .map_err(|refusal| RootsError::Refused { path: found.real.clone(), refusal })?;
        }
        let opened = reopen(found.descriptor.as_fd(), OFlags::RDONLY)
            .map_err(RootsError::while_doing("read", path))?;
        Ok(Self {
            file: File::from(opened),
            real: found.real.clone(),
            metadata: Metadata::of(&found.stat),
            identity: Identity::of(&found.stat),
        })
    }
}
