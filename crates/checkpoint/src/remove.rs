//! Removal of trees of any shape from folders of this program.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, RenameFlags, renameat_with, unlinkat};
use rustix::io::Errno;

use crate::folder::{LIST, look, names, open, set_mode};
use crate::{Entry, Kind};

/// Number of levels that are descended with a descriptor each. Deeper folders are moved up first.
const LEVELS: usize = 64;

/// Removes the entry `name` with all its contents. A missing entry is not an error.
///
/// The folder must belong to this program: meanwhile no other process may change it.
pub(crate) fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<()> {
    let Some(entry) = look(parent, name)? else { return Ok(()) };
    if entry.kind != Kind::Folder {
        return unlinkat(parent, name, AtFlags::empty());
    }
    let top = open_freely(parent, name, &entry)?;
    let mut moved = 0;
    loop {
        let mut deeper = false;
        empty(&top, &top, 0, &mut moved, &mut deeper)?;
        if !deeper {
            break;
        }
    }
    unlinkat(parent, name, AtFlags::REMOVEDIR)
}

/// Removes everything in an open folder except the entry `name`.
///
/// The folder must belong to this program: meanwhile no other process may change it.
pub(crate) fn remove_all_but(folder: &OwnedFd, name: &str) -> rustix::io::Result<()> {
    for found in names(folder)? {
        if found != name {
            remove_tree(folder.as_fd(), &found)?;
        }
    }
    Ok(())
}

// BOUNDED: by `LEVELS`.
fn empty(
    top: &OwnedFd,
    folder: &OwnedFd,
    level: usize,
    moved: &mut u64,
    deeper: &mut bool,
) -> rustix::io::Result<()> {
    for name in names(folder)? {
        match unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        let Some(entry) = look(folder, &name)? else { continue };
        if entry.kind != Kind::Folder {
            return Err(Errno::PERM);
        }
        let child = open_freely(folder.as_fd(), &name, &entry)?;
        if level < LEVELS {
            empty(top, &child, level + 1, moved, deeper)?;
            unlinkat(folder, &name, AtFlags::REMOVEDIR)?;
        } else {
            lift(top, folder, &name, moved)?;
            *deeper = true;
        }
    }
    Ok(())
}

/// Moves a folder up to a place where the next round finds it.
fn lift(top: &OwnedFd, folder: &OwnedFd, name: &OsStr, moved: &mut u64) -> rustix::io::Result<()> {
    loop {
        *moved += 1;
        let place = OsString::from(format!("handfast-lifted-{moved}"));
        match renameat_with(folder, name, top, &place, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
}

/// Opens a folder whatever its mode, which its owner may change.
pub(crate) fn open_freely(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    entry: &Entry,
) -> rustix::io::Result<OwnedFd> {
    if entry.mode & 0o700 != 0o700 {
        let place = open(parent, Path::new(name), OFlags::PATH)?;
        set_mode(place.as_fd(), entry.mode | 0o700)?;
    }
    open(parent, Path::new(name), LIST)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{Mode, mkdirat};

    use super::*;

    #[test]
    fn a_tree_deeper_than_the_levels_goes() {
        let parent = tempfile::tempdir().unwrap();
        let opened = OwnedFd::from(File::open(parent.path()).unwrap());
        let long = OsString::from("n".repeat(255));
        mkdirat(&opened, "top", Mode::from_raw_mode(0o700)).unwrap();
        let mut at = open(opened.as_fd(), Path::new("top"), LIST).unwrap();
        for _ in 0..300 {
            mkdirat(&at, &long, Mode::from_raw_mode(0o700)).unwrap();
            mkdirat(&at, "handfast-lifted-1", Mode::from_raw_mode(0o700)).unwrap();
            at = open(at.as_fd(), Path::new(&long), LIST).unwrap();
        }
        remove_tree(opened.as_fd(), OsStr::new("top")).unwrap();
        assert_eq!(names(&opened).unwrap(), Vec::<OsString>::new());
    }

    #[test]
    fn folders_without_rights_go_and_links_are_not_followed() {
        let parent = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        fs::write(outside.path().join("stays"), "x").unwrap();
        let opened = File::open(parent.path()).unwrap();
        let closed = parent.path().join("top/closed");
        fs::create_dir_all(closed.join("inner")).unwrap();
        std::os::unix::fs::symlink(outside.path(), closed.join("inner/link")).unwrap();
        fs::set_permissions(closed.join("inner"), fs::Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
        remove_tree(opened.as_fd(), OsStr::new("top")).unwrap();
        assert!(!parent.path().join("top").exists());
        assert!(outside.path().join("stays").exists());
    }

    #[test]
    fn a_hundred_thousand_entries_go() {
        let parent = tempfile::tempdir().unwrap();
        let opened = File::open(parent.path()).unwrap();
        fs::create_dir(parent.path().join("top")).unwrap();
        let first = parent.path().join("top/first");
        fs::write(&first, "").unwrap();
        let top = File::open(parent.path().join("top")).unwrap();
        for number in 0..100_000 {
            // Hard links are cheaper to create than files; ext4 allows 65,000 per file.
            let from = if number % 50_000 == 0 {
                fs::write(parent.path().join(format!("top/f{number}")), "").unwrap();
                continue;
            } else {
                format!("f{}", number / 50_000 * 50_000)
            };
            rustix::fs::linkat(&top, from, &top, format!("l{number}"), AtFlags::empty()).unwrap();
        }
        remove_tree(opened.as_fd(), OsStr::new("top")).unwrap();
        assert!(!parent.path().join("top").exists());
    }
}
