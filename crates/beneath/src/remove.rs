//! Removal of trees of any shape, also of those that a hostile program made.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, RenameFlags, chmod, fstat, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, Result};

use crate::{Through, descriptor_path, names, open};

/// Number of levels that are descended with a descriptor each. Deeper folders are moved up first.
const LEVELS: usize = 64;

/// Rights that a folder needs to be emptied.
const OWN: u32 = 0o700;

/// Removes the entry `name` with all its contents, whatever the modes and the depth of its folders. Follows no link.
/// A missing entry is not an error.
///
/// The folder must belong to this program: meanwhile no other process may change it.
///
/// # Errors
/// The first error of the file system. The rest of the tree stays.
pub fn remove_tree(parent: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    let kind = match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(facts) => FileType::from_raw_mode(facts.st_mode),
        Err(Errno::NOENT) => return Ok(()),
        Err(errno) => return Err(errno),
    };
    if kind != FileType::Directory {
        return unlinkat(parent, name, AtFlags::empty());
    }
    let top = open_freely(parent, name)?;
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

// BOUNDED: by `LEVELS`.
fn empty(top: &OwnedFd, folder: &OwnedFd, level: usize, moved: &mut u64, deeper: &mut bool) -> Result<()> {
    for name in names(folder)? {
        match unlinkat(folder, &name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(Errno::ISDIR | Errno::PERM) => {}
            Err(errno) => return Err(errno),
        }
        let facts = match statat(folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => continue,
            facts => facts?,
        };
        if FileType::from_raw_mode(facts.st_mode) != FileType::Directory {
            return Err(Errno::PERM);
        }
        let child = open_freely(folder.as_fd(), &name)?;
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
fn lift(top: &OwnedFd, folder: &OwnedFd, name: &OsStr, moved: &mut u64) -> Result<()> {
    loop {
        *moved += 1;
        let place = OsString::from(format!("handfast-lifted-{moved}"));
        match renameat_with(folder, name, top, &place, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
}

/// Opens a folder for listing, whatever its mode, which its owner may change.
fn open_freely(parent: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let place = open(parent, Path::new(name), flags | OFlags::PATH, Through::Nothing)?;
    let mode = fstat(&place)?.st_mode & 0o7777;
    if mode & OWN != OWN {
        chmod(descriptor_path(place.as_fd()), Mode::from_raw_mode(mode | OWN))?;
    }
    open(parent, Path::new(name), flags | OFlags::RDONLY, Through::Nothing)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::os::unix::fs::PermissionsExt;

    use rustix::fs::{fchmod, mkdirat};

    use super::*;

    #[test]
    fn a_tree_of_six_thousand_levels_without_rights_goes() {
        let parent = tempfile::tempdir().unwrap();
        let opened = OwnedFd::from(File::open(parent.path()).unwrap());
        let long = OsString::from("n".repeat(255));
        mkdirat(&opened, "top", Mode::from_raw_mode(0o700)).unwrap();
        let list = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut at = open(opened.as_fd(), Path::new("top"), list, Through::Nothing).unwrap();
        for _ in 0..6_000 {
            mkdirat(&at, &long, Mode::from_raw_mode(0o700)).unwrap();
            mkdirat(&at, "handfast-lifted-1", Mode::from_raw_mode(0o700)).unwrap();
            let above = at;
            at = open(above.as_fd(), Path::new(&long), list, Through::Nothing).unwrap();
            fchmod(&above, Mode::empty()).unwrap();
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
