//! Comparison of two entries.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, readlinkat};

use crate::attributes;
use crate::folder::open_known;
use crate::{Entry, Kind};

/// Returns true if the upper entry is an unchanged copy of the lower one. A command that opens a
/// file for writing and does not write leaves copies of this kind.
///
/// An entry that cannot be read counts as different.
pub(crate) fn is_faithful_copy(
    upper: BorrowedFd<'_>,
    lower: BorrowedFd<'_>,
    name: &OsStr,
    new: &Entry,
    old: &Entry,
) -> bool {
    let known = |entry: &Entry| (entry.size_bytes, entry.modified, entry.kind);
    let attributes = || -> rustix::io::Result<bool> {
        Ok(attributes::kept(upper, name)? == attributes::kept(lower, name)?)
    };
    known(new) == known(old)
        && new.has_same_rights(old)
        && has_same_content(upper, lower, name, new, old)
        && attributes().unwrap_or(false)
}

/// Returns true if both have the same kind and content: the bytes of files, the target of links.
///
/// An entry that cannot be read counts as different.
pub(crate) fn has_same_content(
    upper: BorrowedFd<'_>,
    lower: BorrowedFd<'_>,
    name: &OsStr,
    new: &Entry,
    old: &Entry,
) -> bool {
    if new.kind != old.kind {
        return false;
    }
    match new.kind {
        Kind::File if new.size_bytes != old.size_bytes => false,
        Kind::File => {
            let open = |folder, entry| open_known(folder, name, entry, OFlags::RDONLY).map(File::from);
            match (open(upper, new), open(lower, old)) {
                (Ok(new), Ok(old)) => have_same_bytes(new, old).unwrap_or(false),
                _ => false,
            }
        }
        Kind::Link => match (readlinkat(upper, name, Vec::new()), readlinkat(lower, name, Vec::new())) {
            (Ok(new), Ok(old)) => new == old,
            _ => false,
        },
        Kind::Fifo => true,
        Kind::Folder | Kind::Socket | Kind::Device | Kind::Whiteout => false,
    }
}

fn have_same_bytes(mut one: File, mut other: File) -> io::Result<bool> {
    let (mut first, mut second) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let length = one.read(&mut first)?;
        if length == 0 {
            return Ok(other.read(&mut second[..1])? == 0);
        }
        match other.read_exact(&mut second[..length]) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
        if first[..length] != second[..length] {
            return Ok(false);
        }
    }
}
