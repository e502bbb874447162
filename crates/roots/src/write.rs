use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::beneath::{Links, flush_folder, may_change, open_beneath};
use crate::root::Found;
use crate::slot::Slot;
use crate::temporary::{self, Temporary};
use crate::{EntryKind, Identity, LastLink, Metadata, OpenedFile, Result, Roots, RootsError, attributes};

/// A complete file on the disk that does not have its name yet.
///
/// Dropped, it leaves nothing behind.
#[must_use = "a staged file has no name until it is committed"]
pub struct Staged {
    path: PathBuf,
    slot: Slot,
    /// None in a dry run.
    temporary: Option<Temporary>,
}

/// A file that is still being written and does not have its name yet.
///
/// Dropped, it leaves nothing behind.
#[must_use = "what is written is no file until it is finished and committed"]
pub struct Staging(Staged);

impl Staging {
    /// The file, to be written to; none in a dry run.
    pub fn file(&mut self) -> Option<&mut File> {
        self.0.temporary.as_mut().map(|temporary| &mut temporary.file)
    }

    /// Puts what was written on the disk.
    ///
    /// # Errors
    /// [`RootsError::Io`].
    pub fn finish(self) -> Result<Staged> {
        if let Some(temporary) = &self.0.temporary {
            let path = self.0.path.clone();
            temporary.file.sync_all().map_err(|source| RootsError::Io { doing: "write", path, source })?;
        }
        Ok(self.0)
    }
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where the file really lies.
    pub real: PathBuf,
    /// Whether there was nothing before.
    pub created: bool,
}

/// How much of a file is copied between two looks at whether to stop.
const COPY_BYTES: u64 = 16 << 20;

impl Roots {
    /// Writes all of `content` to the disk, to become the file at `path` when it is committed.
    ///
    /// A link at `path` is followed: it stays, and what it points to is replaced or made.
    /// A file with several names (hard links) gets its new content under this one alone; the others keep the old.
    ///
    /// # Errors
    /// [`RootsError::WrongKind`] where something is there that is no regular file, [`RootsError::NoFolder`],
    /// [`RootsError::OwnerNotKept`], or [`RootsError::Io`] such as for want of space. Nothing changed in any case.
    pub fn stage(&self, path: &Path, content: &[u8]) -> Result<Staged> {
        let slot = self.slot(path, LastLink::Follow)?;
        self.may_write(&slot.real)?;
        let replaced = replaced(&slot, path)?;
        self.stage_in(slot, path, replaced.as_ref(), |file| file.write_all(content))
    }

    /// Begins what [`Roots::stage`] does at once, for content that comes piece by piece.
    ///
    /// # Errors
    /// As [`Roots::stage`].
    pub fn begin_staging(&self, path: &Path) -> Result<Staging> {
        let slot = self.slot(path, LastLink::Follow)?;
        self.may_write(&slot.real)?;
        let replaced = replaced(&slot, path)?;
        self.stage_in(slot, path, replaced.as_ref(), |_| Ok(())).map(Staging)
    }

    /// Makes the file at `copy` a copy of the one at `original`, with its attributes, in place of what is there.
    ///
    /// Holes stay holes. `stop` is asked every now and then.
    ///
    /// # Errors
    /// As [`Roots::stage`], and where the guard does not let the original be read.
    pub fn copy_file(&self, original: &Path, copy: &Path, stop: &dyn Fn() -> bool) -> Result<Written> {
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
        like: Option<&Found>,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Staged> {
        let mut temporary = None;
        if self.dry_run {
            could_be_made(&slot, path, like)?;
        } else {
            let mut made =
                Temporary::begin(slot.folder.as_fd()).map_err(RootsError::while_doing("write", path))?;
            // First who may read it, then what there is to read.
            belong(&made.file, &slot, path, like)?;
            fill(&mut made.file).and_then(|()| made.file.sync_all()).map_err(|source| RootsError::Io {
                doing: "write",
                path: path.to_owned(),
                source,
            })?;
            temporary = Some(made);
        }
        Ok(Staged { path: path.to_owned(), slot, temporary })
    }
}

impl Staged {
    /// Where the file will really lie.
    pub fn real(&self) -> &Path {
        &self.slot.real
    }

    /// What it would replace, as it was when it was staged.
    pub fn replaces(&self) -> Option<Metadata> {
        self.slot.found.as_ref().map(Metadata::of)
    }

    /// Gives the file its name in place of the file that was opened, in one step, and only if that has changed in no way since.
    ///
    /// # Errors
    /// [`RootsError::Changed`] where something else is there by now: it stays. As [`Staged::commit`] otherwise.
    pub fn commit_over(self, opened: &OpenedFile) -> Result<Written> {
        let Self { path, slot, temporary } = self;
        if slot.found.as_ref().map(Identity::of) != Some(opened.identity) {
            return Err(RootsError::Changed { path });
        }
        let Some(temporary) = temporary else { return Ok(Written { real: slot.real, created: false }) };
        match temporary.place_instead(&slot.name, &opened.file, &opened.identity) {
            Ok(()) => {}
            Err(Errno::STALE | Errno::NOENT | Errno::ISDIR) => return Err(RootsError::Changed { path }),
            Err(errno) => return Err(RootsError::system("write", &path, errno)),
        }
        flush_folder(slot.folder.as_fd())
            .map_err(|source| RootsError::Io { doing: "flush the folder of", path, source }.partly())?;
        Ok(Written { real: slot.real, created: false })
    }

    /// Gives the file its name, in one step: whatever happens, the path has its old content or all of the new.
    ///
    /// # Errors
    /// [`RootsError::Changed`] where something took a name that was free; [`RootsError::Partly`] where the file is in place
    /// but its folder could not be flushed, so that a loss of power might bring the old content back.
    pub fn commit(self) -> Result<Written> {
        let Self { path, slot, temporary } = self;
        let created = slot.found.is_none();
        let Some(temporary) = temporary else { return Ok(Written { real: slot.real, created }) };
        let placed = if created { temporary.place_new(&slot.name) } else { temporary.place_over(&slot.name) };
        match placed {
            Ok(()) => {}
            Err(Errno::EXIST | Errno::ISDIR) => return Err(RootsError::Changed { path }),
            Err(errno) => return Err(RootsError::system("write", &path, errno)),
        }
        flush_folder(slot.folder.as_fd())
            .map_err(|source| RootsError::Io { doing: "flush the folder of", path, source }.partly())?;
        Ok(Written { real: slot.real, created })
    }
}

/// The regular file in the slot, if there is anything.
fn replaced(slot: &Slot, path: &Path) -> Result<Option<Found>> {
    if slot.found.is_none() {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let place = open_beneath(slot.folder.as_fd(), Path::new(&slot.name), flags, Links::Inside)
        .map_err(RootsError::while_doing("open", path))?;
    let found = Found::look(place, path)?;
    found.expect(EntryKind::File, path)?;
    Ok(Some(found))
}

/// Gives a new file the owner and the attributes of the one that it is like, or what any new file gets in its folder.
fn belong(file: &File, slot: &Slot, path: &Path, like: Option<&Found>) -> Result<()> {
    match like {
        Some(found) => attributes::keep(found, file, path),
        None => attributes::belong_to_folder(file, &slot.folder_stat)
            .map_err(RootsError::while_doing("set the owner of", path)),
    }
}

/// That a file could be made in the slot, and would keep what it has to: tried on one that never gets a name.
fn could_be_made(slot: &Slot, path: &Path, like: Option<&Found>) -> Result<()> {
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
            // Only a hole is left.
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
                // It was shortened meanwhile.
                to.set_len(position)?;
                return Ok(());
            }
            position += copied;
        }
    }
}
