//! Reading a file that was looked at: once, and with as few system calls as tell that it is still that one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::attributes;
use crate::beneath::open;
use crate::sparse::{self, Sparse};
use crate::{ContentHash, Entry, Error, Result, State};

/// Up to which size a file is read in one piece, in bytes. It is handed on only when it was found to be the one that was
/// looked at, and takes so much memory for each thread.
const IN_ONE_PIECE: u64 = 1 << 20;

/// Takes the bytes of a file.
pub(crate) type Take<'a> = &'a dyn Fn(&mut dyn Read) -> io::Result<ContentHash>;

/// What came of reading a file.
pub(crate) enum ReadOnce {
    /// It is this, with its bytes.
    As(State),
    /// It is not what was looked at any more, or changed while it was read.
    Changed,
    /// This process may not read it.
    Closed,
}

/// Reads the regular file `name` of an open folder, which was found to be `entry`, and hands its bytes to `take`. The buffer
/// is for use from one file to the next.
///
/// # Errors
/// Where the system fails, or `take` does: `doing` says with what.
pub(crate) fn read_once(
    folder: BorrowedFd<'_>,
    (name, path): (&OsStr, &Path),
    entry: &Entry,
    buffer: &mut Vec<u8>,
    (doing, take): (&'static str, Take<'_>),
) -> Result<ReadOnce> {
    // Where it is something else by now, opening does not block. A device could notice that it was opened, but only root of
    // the host can have put one there.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut file = match open(folder, Path::new(name), flags) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(ReadOnce::Changed),
        Err(Errno::ACCESS | Errno::PERM) => return Ok(ReadOnce::Closed),
        Err(errno) => return Err(Error::while_doing("open", path)(errno)),
    };
    let failed = |source: io::Error| Error::system(doing, path, source);
    let is_still = |file: &File| -> Result<bool> {
        let now = Entry::of(&fstat(file).map_err(Error::while_doing("look at", path))?);
        Ok(now.is_unchanged_content(entry) && now.changed == entry.changed)
    };
    let mut is_sparse = false;
    let (content, attributes) = if entry.size_bytes <= IN_ONE_PIECE {
        let read = read_whole(&mut file, entry.size_bytes, buffer);
        let attributes = attributes::kept_of(file.as_fd());
        // What it says counts only of the file that was meant.
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        read.map_err(failed)?;
        (take(&mut buffer.as_slice()).map_err(failed)?, attributes)
    } else {
        // Not a byte of another one is handed on.
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        is_sparse = sparse::is_sparse(&fstat(&file).map_err(Error::while_doing("look at", path))?);
        let content =
            if is_sparse { take(&mut Sparse::new(&file, entry.size_bytes)) } else { take(&mut file) };
        let content = content.map_err(failed)?;
        let attributes = attributes::kept_of(file.as_fd());
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        (content, attributes)
    };
    let attributes = attributes.map_err(Error::while_doing("look at", path))?;
    Ok(ReadOnce::As(State { entry: *entry, attributes, target: None, content: Some(content), is_sparse }))
}

/// Reads so many bytes into the buffer, and nothing else. Whether there are more behind them shows in the size of the file.
fn read_whole(file: &mut File, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
    file.read_exact(buffer)
}
