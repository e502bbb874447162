//! Replaces files that are visible through an overlay with placeholders.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, Timespec, Timestamps, XattrFlags, fchmod, fstat, lsetxattr,
    openat, renameat, statat, unlinkat, utimensat,
};
use rustix::io::{Errno, write};

use super::blueprint::{Place, Placeholder};
use super::cover::{Cover, cover_one};
use super::mount::open_exactly;

/// Puts the placeholder in place. If the overlay refuses that, for example for a file whose owner
/// is unknown in the cell, a mask covers the file.
pub(super) fn put_in_place(at: &Place, placeholder: &Placeholder) -> Result<(), Errno> {
    let folder = open_exactly(&placeholder.folder, OFlags::PATH | OFlags::DIRECTORY)?;
    let there = statat(&folder, at.name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
        // An earlier check found a regular file, so a process has just replaced it.
        return Err(Errno::STALE);
    }
    let before = fstat(&folder)?;
    let made = make(folder.as_fd(), placeholder).and_then(|file| {
        let replaced = fill(&file, placeholder).and_then(|()| {
            let name = at.name.as_c_str();
            renameat(&folder, placeholder.made_as.as_c_str(), &folder, name)
        });
        if replaced.is_err() {
            unlinkat(&folder, placeholder.made_as.as_c_str(), AtFlags::empty())?;
        }
        replaced
    });
    if made.is_err() {
        cover_one(&at.full, Cover::Hide)?;
    }
    // Without a change to the folder, this process may have no right to set its times.
    restore_times(folder.as_fd(), &before).or_else(|errno| if made.is_ok() { Err(errno) } else { Ok(()) })
}

/// Makes the placeholder under a temporary name, so that the file's name always exists.
fn make(folder: BorrowedFd<'_>, placeholder: &Placeholder) -> Result<OwnedFd, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, placeholder.made_as.as_c_str(), flags, Mode::RUSR | Mode::WUSR)
}

fn fill(file: &OwnedFd, placeholder: &Placeholder) -> Result<(), Errno> {
    let mut rest = placeholder.content.as_slice();
    while !rest.is_empty() {
        let written = write(file, rest)?;
        rest = rest.get(written..).unwrap_or_default();
    }
    // INVARIANT: set below the overlay, which would store the attribute under another name. So no
    // command can make a mark like this.
    lsetxattr(&placeholder.upper, &placeholder.mark, b"", XattrFlags::CREATE)?;
    fchmod(file, Mode::from_raw_mode(placeholder.mode))
}

fn restore_times(folder: BorrowedFd<'_>, before: &Stat) -> Result<(), Errno> {
    let time = |seconds, nanoseconds: u64| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    let times = Timestamps {
        last_access: time(before.st_atime, before.st_atime_nsec),
        last_modification: time(before.st_mtime, before.st_mtime_nsec),
    };
    utimensat(folder, c"", &times, AtFlags::EMPTY_PATH)
}
