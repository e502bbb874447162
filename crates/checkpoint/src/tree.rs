//! Size, move and removal of trees of any shape that commands left behind.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, FileType, RenameFlags, Stat, renameat_with, statat};
use rustix::io::Errno;

use crate::folder::{LIST, look, names, open};
use crate::remove::{open_freely, remove_tree};
use crate::{Error, Kind, Result};

/// Maximum number of examined entries of one tree, more than the largest caches have.
const MAX_ENTRIES: u64 = 4_000_000;

/// Disk usage of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// Measured size.
    Known {
        /// Bytes of the file system's blocks; a file with several names counts under each.
        bytes: u64,
        /// Latest time at which anything in the tree was read or written, as far as the file system
        /// records it. Some file systems record reads once a day, and a program may set the times.
        used: SystemTime,
    },
    /// Unknown size: a folder is closed to its owner, paths are longer than the kernel takes, or
    /// there are too many entries.
    Unknown,
}

/// Measures the entry `name` in `folder`, while others may change it. Links are not followed.
///
/// # Errors
/// [`Error::System`] if the file system fails.
pub fn size_of(folder: BorrowedFd<'_>, name: &OsStr) -> Result<Size> {
    measure(folder, name, MAX_ENTRIES).map_err(Error::while_doing("measure", Path::new(name)))
}

fn measure(folder: BorrowedFd<'_>, name: &OsStr, most: u64) -> rustix::io::Result<Size> {
    let (mut bytes, mut used, mut entries) = (0_u64, UNIX_EPOCH, 0_u64);
    let mut count = |stat: &Stat| {
        bytes = bytes.saturating_add(u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512));
        used = used.max(latest(stat));
    };
    let mut folders = VecDeque::new();
    match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Size::Known { bytes, used }),
        stat => {
            let stat = stat?;
            count(&stat);
            if is_folder(&stat) {
                folders.push_back(PathBuf::from(name));
            }
        }
    }
    // Folders are opened by their paths from the top, so that any depth takes at most two
    // descriptors.
    while let Some(path) = folders.pop_front() {
        if path.as_os_str().len() > LONGEST {
            return Ok(Size::Unknown);
        }
        let opened = match open(folder, &path, LIST) {
            // The folder is gone, or is another kind by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
            Err(Errno::ACCESS) => return Ok(Size::Unknown),
            opened => opened?,
        };
        let names = match names(&opened) {
            Err(Errno::ACCESS) => return Ok(Size::Unknown),
            Err(Errno::NOENT) => continue,
            names => names?,
        };
        for name in names {
            entries += 1;
            if entries > most {
                return Ok(Size::Unknown);
            }
            match statat(&opened, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    count(&stat);
                    if is_folder(&stat) {
                        folders.push_back(path.join(&name));
                    }
                }
                Err(Errno::NOENT) => {}
                Err(Errno::ACCESS) => return Ok(Size::Unknown),
                Err(errno) => return Err(errno),
            }
        }
    }
    Ok(Size::Known { bytes, used })
}

/// Maximum length in bytes of a path. Paths in caches are far shorter; in a deep tree, each level is
/// looked up from the top, and this bounds that work too.
const LONGEST: usize = 3_000;

fn is_folder(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn latest(stat: &Stat) -> SystemTime {
    let time = |seconds: i64| {
        u64::try_from(seconds).ok().and_then(|seconds| UNIX_EPOCH.checked_add(Duration::from_secs(seconds)))
    };
    let modified = time(stat.st_mtime).unwrap_or(UNIX_EPOCH);
    // Listing a folder, as this function does, counts as reading it.
    if is_folder(stat) { modified } else { modified.max(time(stat.st_atime).unwrap_or(UNIX_EPOCH)) }
}

/// Moves the entry `name` into another folder of the same file system, in which `new_name` must be
/// free.
///
/// # Errors
/// [`Error::System`] if the entry is missing or cannot be moved.
pub fn move_away(from: BorrowedFd<'_>, name: &OsStr, to: BorrowedFd<'_>, new_name: &OsStr) -> Result<()> {
    let moved = || {
        if let Some(entry) = look(from, name)?
            && entry.kind == Kind::Folder
        {
            // The owner must be able to write to a moving folder, because its `..` changes.
            drop(open_freely(from, name, &entry)?);
        }
        renameat_with(from, name, to, new_name, RenameFlags::NOREPLACE)
    };
    moved().map_err(Error::while_doing("move away", Path::new(name)))
}

/// Removes the entry `name` in `folder` with all its contents; no other process may change it
/// meanwhile. A missing entry is not an error.
///
/// # Errors
/// [`Error::System`] if any part of it cannot be removed.
pub fn remove(folder: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    remove_tree(folder.as_fd(), name).map_err(Error::while_doing("remove", Path::new(name)))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn known(size: Size) -> (u64, SystemTime) {
        match size {
            Size::Known { bytes, used } => (bytes, used),
            Size::Unknown => panic!("its size is not known"),
        }
    }

    #[test]
    fn a_size_counts_blocks_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("tree/a/b")).unwrap();
        fs::write(path.join("tree/a/b/file"), vec![b'x'; 1 << 20]).unwrap();
        fs::create_dir(path.join("large")).unwrap();
        fs::write(path.join("large/file"), vec![b'x'; 4 << 20]).unwrap();
        std::os::unix::fs::symlink("../large", path.join("tree/link")).unwrap();
        let sparse = File::create(path.join("tree/sparse")).unwrap();
        sparse.set_len(1 << 40).unwrap();
        let opened = File::open(path).unwrap();
        let (bytes, _) = known(size_of(opened.as_fd(), OsStr::new("tree")).unwrap());
        assert!((1 << 20..2 << 20).contains(&bytes), "{bytes}");
        assert_eq!(known(size_of(opened.as_fd(), OsStr::new("missing")).unwrap()).0, 0);
    }

    #[test]
    fn it_was_used_when_its_last_file_was() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        let at = |days: u64| UNIX_EPOCH + Duration::from_secs(days * 86_400);
        for (name, read, written) in [("one", 20, 10), ("two", 5, 15)] {
            let file = File::create(folder.path().join("tree").join(name)).unwrap();
            file.set_times(fs::FileTimes::new().set_accessed(at(read)).set_modified(at(written))).unwrap();
        }
        let tree = File::open(folder.path().join("tree")).unwrap();
        tree.set_times(fs::FileTimes::new().set_modified(at(1))).unwrap();
        assert_eq!(known(size_of(opened.as_fd(), OsStr::new("tree")).unwrap()).1, at(20));
    }

    #[test]
    fn a_tree_that_cannot_be_looked_through_has_no_size() {
        let folder = tempfile::tempdir().unwrap();
        let opened = File::open(folder.path()).unwrap();
        fs::create_dir(folder.path().join("many")).unwrap();
        for number in 0..10 {
            fs::write(folder.path().join(format!("many/{number}")), "").unwrap();
        }
        assert_eq!(measure(opened.as_fd(), OsStr::new("many"), 9).unwrap(), Size::Unknown);
        assert!(measure(opened.as_fd(), OsStr::new("many"), 10).unwrap() != Size::Unknown);
        let long = "n".repeat(250);
        let mut deep = open(opened.as_fd(), Path::new("many"), LIST).unwrap();
        for _ in 0..14 {
            rustix::fs::mkdirat(&deep, &long, rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
            deep = open(deep.as_fd(), Path::new(&long), LIST).unwrap();
        }
        assert_eq!(size_of(opened.as_fd(), OsStr::new("many")).unwrap(), Size::Unknown);
        remove(opened.as_fd(), OsStr::new("many")).unwrap();
        assert!(!folder.path().join("many").exists());
    }

    #[test]
    fn a_closed_folder_is_moved_away_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("from/closed/inner")).unwrap();
        fs::create_dir(folder.path().join("to")).unwrap();
        fs::set_permissions(folder.path().join("from/closed"), fs::Permissions::from_mode(0o000)).unwrap();
        let [from, to] = ["from", "to"].map(|name| File::open(folder.path().join(name)).unwrap());
        move_away(from.as_fd(), OsStr::new("closed"), to.as_fd(), OsStr::new("1")).unwrap();
        assert!(folder.path().join("to/1/inner").is_dir() && !folder.path().join("from/closed").exists());
        remove(to.as_fd(), OsStr::new("1")).unwrap();
        assert_eq!(fs::read_dir(folder.path().join("to")).unwrap().count(), 0);
    }
}
