//! Writing of files.

use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use beneath::Through;
use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::descriptor::{flush_folder, may_change};
use crate::root::OpenEntry;
use crate::slot::Slot;
use crate::temporary::{self, Temporary};
use crate::{EntryKind, Identity, LastLink, Metadata, OpenedFile, Result, Roots, RootsError, attributes};

/// A complete file on disk that does not have its name yet.
///
/// Dropping it leaves nothing behind.
#[must_use = "a staged file has no name until it is committed"]
pub struct StagedFile {
    path: PathBuf,
    slot: Slot,
    /// The unnamed file, `None` in a dry run.
    temporary: Option<Temporary>,
}

/// A file that is still being written and does not have its name yet.
///
/// Dropping it leaves nothing behind.
#[must_use = "the file exists only after it is finished and committed"]
pub struct Staging(StagedFile);

impl Staging {
    /// Returns the file to write to, or `None` in a dry run.
    pub fn file(&mut self) -> Option<&mut File> {
        self.0.temporary.as_mut().map(|temporary| &mut temporary.file)
    }

    /// Flushes the written content to disk.
    ///
    /// # Errors
    /// [`RootsError::Io`].
    pub fn finish(self) -> Result<StagedFile> {
        if let Some(temporary) = &self.0.temporary {
            let path = self.0.path.clone();
            temporary.file.sync_all().map_err(|source| RootsError::Io { doing: "write", path, source })?;
        }
        Ok(self.0)
    }
}

/// Result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitResult {
    /// Real path of the file.
    pub real: PathBuf,
    /// True if no entry existed there before.
    pub created: bool,
}

/// Number of bytes copied between two calls of `stop`.
const COPY_BYTES: u64 = 16 << 20;

impl Roots {
    /// Writes all of `content` to disk, as a file that becomes visible at `path` when it is
    /// committed.
    ///
    /// A link at `path` is followed: the link stays, and its target is replaced or created. A file
    /// with several names (hard links) gets its new content only under this one; the others keep the
    /// old content.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] if the entry is not a regular file, [`RootsError::NoFolder`],
    /// [`RootsError::OwnerNotKept`], or [`RootsError::Io`], for example on a full disk. No error
    /// leaves a change behind.
    pub fn stage(&self, path: &Path, content: &[u8]) -> Result<StagedFile> {
        let slot = self.slot(path, LastLink::Follow)?;
        self.may_write(&slot.real)?;
        let replaced = replaced(&slot, path)?;
        self.stage_in(slot, path, replaced.as_ref(), |file| file.write_all(content))
    }

    /// Begins a write like [`Roots::stage`], for content that arrives in pieces.
    ///
    /// # Errors
    /// Same as [`Roots::stage`].
    pub fn begin_staging(&self, path: &Path) -> Result<Staging> {
        let slot = self.slot(path, LastLink::Follow)?;
        self.may_write(&slot.real)?;
        let replaced = replaced(&slot, path)?;
        self.stage_in(slot, path, replaced.as_ref(), |_| Ok(())).map(Staging)
    }

    /// Copies the file at `original`, with its attributes, to `copy`, and replaces the file that is
    /// there.
    ///
    /// Holes stay holes. `stop` is called now and then.
    ///
    /// # Errors
    /// Same as [`Roots::stage`], and an error if the guard denies reading the original.
    pub fn copy_file(&self, original: &Path, copy: &Path, stop: &dyn Fn() -> bool) -> Result<CommitResult> {
        let from = self.find(original, LastLink::Follow)?;
        self.may_read(&from.real)?;
        let mut source = crate::OpenedFile::of(&from, original, self.guard().as_ref())?.file;
        let slot = self.slot(copy, LastLink::Follow)?;
        self.may_write(&slot.real)?;
        replaced(&slot, copy)?;
        let staged = self.stage_in(slot, copy, Some(&from), |file| copy_content(&mut source, file, stop));
        match staged {
            Err(_) if stop() => Err(RootsError::Stopped),
            staged => staged?.commit(),
        }
    }

    fn stage_in(
        &self,
        slot: Slot,
        path: &Path,
        like: Option<&OpenEntry>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<StagedFile> {
        let mut temporary = None;
        if self.dry_run {
            could_be_made(&slot, path, like)?;
        } else {
            let mut made =
                Temporary::begin(slot.folder.as_fd()).map_err(RootsError::while_doing("write", path))?;
            // Restrict the readers of the file before it has content.
            belong(&made.file, &slot, path, like)?;
            fill(&mut made.file).and_then(|()| made.file.sync_all()).map_err(|source| RootsError::Io {
                doing: "write",
                path: path.to_owned(),
                source,
            })?;
            temporary = Some(made);
        }
        Ok(StagedFile { path: path.to_owned(), slot, temporary })
    }
}

impl StagedFile {
    /// Returns the real path of the file after the commit.
    pub fn real(&self) -> &Path {
        &self.slot.real
    }

    /// Returns the metadata of the file to be replaced, as of the staging.
    pub fn replaces(&self) -> Option<Metadata> {
        self.slot.found.as_ref().map(Metadata::of)
    }

    /// Gives the file its name in place of the opened file, in one step, and only if that file has
    /// not changed since.
    ///
    /// # Errors
    /// [`RootsError::Changed`] if another file is there by now, which stays. Otherwise the same as
    /// [`StagedFile::commit`].
    pub fn commit_over(self, opened: &OpenedFile) -> Result<CommitResult> {
        let Self { path, slot, temporary } = self;
        if slot.found.as_ref().map(Identity::of) != Some(opened.identity) {
            return Err(RootsError::Changed { path });
        }
        let Some(temporary) = temporary else { return Ok(CommitResult { real: slot.real, created: false }) };
        match temporary.place_instead(&slot.name, &opened.file, &opened.identity) {
            Ok(()) => {}
            Err(Errno::STALE | Errno::NOENT | Errno::ISDIR) => return Err(RootsError::Changed { path }),
            Err(errno) => return Err(RootsError::system("write", &path, errno)),
        }
        flush_folder(slot.folder.as_fd())
            .map_err(|source| RootsError::Io { doing: "flush the folder of", path, source }.partly())?;
        Ok(CommitResult { real: slot.real, created: false })
    }

    /// Gives the file its name in one step: after any crash, the path has its old content or all of
    /// the new.
    ///
    /// # Errors
    /// [`RootsError::Changed`] if another entry took a free name. [`RootsError::Partly`] if the file
    /// is in place but its folder could not be flushed, so that a power loss might bring the old
    /// content back.
    pub fn commit(self) -> Result<CommitResult> {
        let Self { path, slot, temporary } = self;
        let created = slot.found.is_none();
        let Some(temporary) = temporary else { return Ok(CommitResult { real: slot.real, created }) };
        let placed = if created { temporary.place_new(&slot.name) } else { temporary.place_over(&slot.name) };
        match placed {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::ISDIR) => return Err(RootsError::Changed { path }),
            Err(errno) => return Err(RootsError::system("write", &path, errno)),
        }
        flush_folder(slot.folder.as_fd())
            .map_err(|source| RootsError::Io { doing: "flush the folder of", path, source }.partly())?;
        Ok(CommitResult { real: slot.real, created })
    }
}

/// Opens the regular file in the slot, if an entry exists.
fn replaced(slot: &Slot, path: &Path) -> Result<Option<OpenEntry>> {
    if slot.found.is_none() {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let place = beneath::open(slot.folder.as_fd(), Path::new(&slot.name), flags, Through::InnerLinks)
        .map_err(RootsError::while_doing("open", path))?;
    let found = OpenEntry::look(place, path)?;
    found.expect(EntryKind::File, path)?;
    Ok(Some(found))
}

/// Gives a new file the owner and attributes of the file `like`, or the defaults of its folder.
fn belong(file: &File, slot: &Slot, path: &Path, like: Option<&OpenEntry>) -> Result<()> {
    match like {
        Some(found) => attributes::keep(found, file, path),
        None => attributes::belong_to_folder(file, &slot.folder_stat)
            .map_err(RootsError::while_doing("set the owner of", path)),
    }
}

/// Checks that a file could be created in the slot with its attributes, by means of a file that
/// never gets a name.
fn could_be_made(slot: &Slot, path: &Path, like: Option<&OpenEntry>) -> Result<()> {
    let failed = RootsError::while_doing("write", path);
    may_change(slot.folder.as_fd()).map_err(&failed)?;
    match temporary::unnamed(slot.folder.as_fd()).map_err(&failed)? {
        Some(file) => belong(&file, slot, path, like),
        None => Ok(()),
    }
}

fn copy_content(from: &mut File, to: &mut File, stop: &dyn Fn() -> bool) -> io::Result<()> {
    let length = from.metadata()?.len();
    to.set_len(length)?;
    let mut position = 0;
    loop {
        position = match rustix::fs::seek(&*from, rustix::fs::SeekFrom::Data(position)) {
            Ok(start) => start,
            // The rest of the file is a hole.
            Err(Errno::NXIO) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(&*from, rustix::fs::SeekFrom::Hole(position))?;
        from.seek(SeekFrom::Start(position))?;
        to.seek(SeekFrom::Start(position))?;
        while position < end {
            if stop() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let part = COPY_BYTES.min(end - position);
            let copied = io::copy(&mut io::Read::take(&mut *from, part), to)?;
            if copied == 0 {
                // The source was shortened meanwhile.
                to.set_len(position)?;
                return Ok(());
            }
            position += copied;
        }
    }
}
