//! Reading of an examined file: once, and with as few system calls as prove that it still is the
//! same file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::attributes;
use crate::folder::open;
use crate::sparse::{self, Sparse};
use crate::{ContentHash, Entry, Error, Result, State};

/// Maximum size in bytes of a file that is read in one piece. Its bytes are passed on only after the
/// file is verified, and each thread needs that much memory.
const IN_ONE_PIECE: u64 = 1 << 20;

/// A callback that takes the bytes of a file.
pub(crate) type Take<'a> = &'a dyn Fn(&mut dyn Read) -> io::Result<ContentHash>;

/// Result of reading a file.
pub(crate) enum ReadOnce {
    /// State of the file, with its bytes.
    As(State),
    /// The file was replaced, or changed during the read.
    Changed,
    /// The file is closed to this process.
    Closed,
}

/// Reads the regular file `name` of an open folder, whose metadata is `entry`, and passes its bytes
/// to `take`. The buffer is reused from one file to the next.
///
/// # Errors
/// Returns an error if the system or `take` fails; `doing` names the operation.
pub(crate) fn read_once(
    folder: BorrowedFd<'_>,
    (name, path): (&OsStr, &Path),
    entry: &Entry,
    buffer: &mut Vec<u8>,
    (doing, take): (&'static str, Take<'_>),
) -> Result<ReadOnce> {
    // If the entry is another kind by now, opening does not block. A device could notice the open,
    // but only root of the host can have put one there.
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::NONBLOCK;
    let mut file = match open(folder, Path::new(name), flags) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::NXIO) => return Ok(ReadOnce::Changed),
        Err(Errno::ACCESS | Errno::PERM) => return Ok(ReadOnce::Closed),
        Err(errno) => return Err(Error::while_doing("open", path)(errno)),
    };
    let failed = |source: io::Error| Error::system(doing, path, source);
    let is_still = |file: &File| -> Result<bool> {
        let now = Entry::of(&fstat(file).map_err(Error::while_doing("inspect", path))?);
        Ok(now.is_unchanged_content(entry) && now.changed == entry.changed)
    };
    let mut is_sparse = false;
    let (content, attributes) = if entry.size_bytes <= IN_ONE_PIECE {
        let read = read_whole(&mut file, entry.size_bytes, buffer);
        let attributes = attributes::kept_of(file.as_fd());
        // The results count only if the file is still the expected one.
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        read.map_err(failed)?;
        (take(&mut buffer.as_slice()).map_err(failed)?, attributes)
    } else {
        // No byte of another file is passed on.
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        is_sparse = sparse::is_sparse(&fstat(&file).map_err(Error::while_doing("inspect", path))?);
        let content =
            if is_sparse { take(&mut Sparse::new(&file, entry.size_bytes)) } else { take(&mut file) };
        let content = content.map_err(failed)?;
        let attributes = attributes::kept_of(file.as_fd());
        if !is_still(&file)? {
            return Ok(ReadOnce::Changed);
        }
        (content, attributes)
    };
    let attributes = attributes.map_err(Error::while_doing("inspect", path))?;
    Ok(ReadOnce::As(State { entry: *entry, attributes, target: None, content: Some(content), is_sparse }))
}

/// Reads exactly `size` bytes into the buffer. The size of the file shows whether more follow.
fn read_whole(file: &mut File, size: u64, buffer: &mut Vec<u8>) -> io::Result<()> {
    buffer.resize(usize::try_from(size).map_err(io::Error::other)?, 0);
    file.read_exact(buffer)
}
