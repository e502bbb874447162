//! Names in an open folder.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;

use rustix::fs::Dir;
use rustix::io::Result;

/// Lists the names in a folder that is open for listing, in the order of the file system.
///
/// # Errors
/// The errors of `getdents64(2)`.
pub fn names(folder: &OwnedFd) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(folder)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

/// Returns true if a folder that is open for listing is empty. Reads no more of it than necessary.
///
/// # Errors
/// The errors of `getdents64(2)`.
pub fn is_empty(folder: &OwnedFd) -> Result<bool> {
    for entry in Dir::read_from(folder)? {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}
