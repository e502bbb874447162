//! Writing files that are put back into the folder of a call.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Gid, Mode, OFlags, Uid, fchmod, fchown, fstat, futimens, openat};

use crate::beneath::{Holders, LIST, times};
use crate::sides::name_of;
use crate::{Contents, Draft, Entry, Error, Result, State, attributes};

/// How much of a file is in memory at a time, in bytes.
const PIECE: u64 = 1 << 16;

/// Writes files, one after the other; each thread has its own.
pub(crate) struct Writer<'a> {
    draft: &'a Draft,
    contents: &'a dyn Contents,
    holders: Holders<'a>,
    /// The folder that was written in last, and whether it passes an access control list on to what is made in it.
    last: Option<(PathBuf, bool)>,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(draft: &'a Draft, contents: &'a dyn Contents) -> Self {
        let holders = Holders::new(draft.upper.as_fd(), LIST);
        Self { draft, contents, holders, last: None, buffer: Vec::new() }
    }

    /// Makes a file in a folder that is there. What it is in the end is known to the commit.
    pub(crate) fn write(&mut self, path: &Path, state: &State) -> Result<()> {
        let failed = Error::while_doing("lay out", path);
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
        // Nobody else comes into the folder above, so it can have its mode from the beginning; but an ordinary user gives
        // attributes to no file that is read-only.
        let mode = if state.attributes.is_empty() { wanted } else { 0o600 };
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(parent, name_of(path), flags, Mode::from_raw_mode(mode));
        let mut file = File::from(made.map_err(&failed)?);
        fill(self.contents, &mut file, path, state, &mut self.buffer)?;
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
        // After the owner, because a change of owner clears bits of the mode; and what the mask of this process took away.
        if !is_owned || entry.mode != wanted {
            fchmod(&file, Mode::from_raw_mode(wanted)).map_err(&failed)?;
            entry = look()?;
        }
        self.draft.known.note_written(State { entry, ..state.clone() }, false);
        Ok(())
    }
}

fn fill(
    contents: &dyn Contents,
    to: &mut File,
    path: &Path,
    state: &State,
    buffer: &mut Vec<u8>,
) -> Result<()> {
    let failed = |source: io::Error| Error::system("restore", path, source);
    let lost = || failed(io::Error::new(io::ErrorKind::NotFound, "it was not saved"));
    let content = state.content.as_ref().ok_or_else(lost)?;
    let mut from = contents.open(content).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    loop {
        buffer.clear();
        let length = from.by_ref().take(PIECE).read_to_end(buffer).map_err(failed)?;
        hasher.update(buffer);
        to.write_all(buffer).map_err(failed)?;
        if length as u64 != PIECE {
            break;
        }
    }
    if hasher.finalize().as_bytes() != content {
        return Err(Error::Damaged { path: path.to_owned() });
    }
    Ok(())
}
