//! Writing of restored files in the folder of a call.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, futimens, openat};
use rustix::io::Errno;

use crate::exchange_dirs::name_of;
use crate::folder::{Holders, LIST, PLACE, open, open_known, times};
use crate::renamed::WorkspaceFile;
use crate::sparse;
use crate::{ContentHash, Contents, Draft, Entry, Error, Result, State, attributes};

/// Number of bytes of a file that are in memory at a time.
const PIECE: u64 = 1 << 16;

/// Size of a piece, as an offset for seeking.
const SKIP: i64 = 1 << 16;

/// A writer of files in sequence; each thread has its own.
pub(crate) struct Writer<'a> {
    draft: &'a Draft,
    contents: &'a dyn Contents,
    holders: Holders<'a>,
    /// Last folder written to, and whether it passes an access control list on to new entries.
    last: Option<(PathBuf, bool)>,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(draft: &'a Draft, contents: &'a dyn Contents) -> Self {
        let holders = Holders::new(draft.upper.as_fd(), LIST);
        Self { draft, contents, holders, last: None, buffer: Vec::new() }
    }

    /// Creates a file in an existing folder, and records its final state for the commit. If its
    /// bytes were not saved, they are those of the file `there`.
    pub(crate) fn write(
        &mut self,
        path: &Path,
        state: &State,
        there: Option<WorkspaceFile<'_>>,
    ) -> Result<()> {
        let failed = Error::while_doing("create", path);
        let parent = self.holders.of(path).map_err(&failed)?;
        let around = path.parent().unwrap_or(Path::new(""));
        let passes_on = match &self.last {
            Some((last, passes_on)) if last == around => *passes_on,
            _ => {
                let passes_on = attributes::passes_on(parent.as_fd()).map_err(&failed)?;
                self.last = Some((around.to_owned(), passes_on));
                passes_on
            }
        };
        let wanted = state.entry.mode & 0o1777;
        // No other process can enter the parent folder, so the file can have its final mode from the
        // beginning. However, an ordinary user cannot set attributes on a read-only file.
        let mode = if state.attributes.is_empty() { wanted } else { 0o600 };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(parent, name_of(path), flags, Mode::from_raw_mode(mode));
        let mut file = File::from(made.map_err(&failed)?);
        let content = match (state.content, there) {
            (None, Some((there, found))) => {
                let from = open_file(self.draft.workspace.as_fd(), there, &found)?;
                let content = fill(&mut file, path, &mut &from, &mut self.buffer)?;
                let is_still = Entry::of(&fstat(&from).map_err(&failed)?).changed == found.changed;
                if is_still { content } else { return Err(failed(Errno::STALE)) }
            }
            (wanted, _) => {
                let unread = |source: io::Error| Error::system("restore", path, source);
                let lost = || unread(io::Error::new(io::ErrorKind::NotFound, "it was not saved"));
                let mut from = self.contents.open(&wanted.ok_or_else(lost)?).map_err(unread)?;
                let content = if state.is_sparse {
                    let mut hashing = HashingReader { from: &mut from, hasher: blake3::Hasher::new() };
                    sparse::write(&file, &mut hashing).map_err(unread)?;
                    *hashing.hasher.finalize().as_bytes()
                } else {
                    fill(&mut file, path, &mut from, &mut self.buffer)?
                };
                if Some(content) == wanted {
                    content
                } else {
                    return Err(Error::Damaged { path: path.to_owned() });
                }
            }
        };
        if passes_on || !state.attributes.is_empty() {
            attributes::set_of(file.as_fd(), &state.attributes).map_err(&failed)?;
        }
        futimens(&file, &times(state.entry.modified)).map_err(&failed)?;
        let look = || fstat(&file).map(|found| Entry::of(&found)).map_err(&failed);
        let mut entry = look()?;
        let is_owned = (entry.owner, entry.group) == (state.entry.owner, state.entry.group);
        if !is_owned {
            let (owner, group) = (Uid::from_raw(state.entry.owner), Gid::from_raw(state.entry.group));
            fchown(&file, Some(owner), Some(group)).map_err(&failed)?;
        }
        // The mode comes after the owner, because changing the owner clears mode bits. The call also
        // restores the bits that the umask removed.
        if !is_owned || entry.mode != wanted {
            fchmod(&file, Mode::from_raw_mode(wanted)).map_err(&failed)?;
            entry = look()?;
        }
        self.draft.known.note_written(State { entry, content: Some(content), ..state.clone() }, false);
        Ok(())
    }
}

fn open_file(root: BorrowedFd<'_>, path: &Path, found: &Entry) -> Result<File> {
    let failed = Error::while_doing("read", path);
    let folder = open(root, path.parent().unwrap_or(Path::new("")), PLACE).map_err(&failed)?;
    open_known(&folder, name_of(path), found, OFlags::RDONLY).map(File::from).map_err(failed)
}

/// A reader that hashes the bytes read through it.
struct HashingReader<'a> {
    from: &'a mut dyn Read,
    hasher: blake3::Hasher,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.from.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// Copies everything except blocks of zeros, which become holes, and returns the hash of everything.
fn fill(to: &mut File, path: &Path, from: &mut dyn Read, buffer: &mut Vec<u8>) -> Result<ContentHash> {
    let failed = |source: io::Error| Error::system("restore", path, source);
    let mut hasher = blake3::Hasher::new();
    loop {
        buffer.clear();
        let length = from.take(PIECE).read_to_end(buffer).map_err(failed)?;
        hasher.update(buffer);
        if length as u64 == PIECE && sparse::is_zero(buffer) {
            to.seek(io::SeekFrom::Current(SKIP)).map_err(failed)?;
        } else {
            to.write_all(buffer).map_err(failed)?;
        }
        if length as u64 != PIECE {
            let end = to.stream_position().map_err(failed)?;
            to.set_len(end).map_err(failed)?;
            return Ok(*hasher.finalize().as_bytes());
        }
    }
}
