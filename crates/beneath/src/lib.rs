//! Resolution of paths beneath an open folder, with `openat2`.
//!
//! A path that is checked by its name may lead elsewhere by the time it is used. So the kernel
//! resolves each path beneath a folder that is already open, and the caller acts on the descriptor
//! that it gets. No other crate resolves the paths of file tools, checkpoints and watches.
//!
//! [`remove_tree`] removes what a hostile program has left in a folder of this program.
//!
//! This crate knows no root and no rule, and judges nothing that it opens.

mod list;
mod remove;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{Errno, Result};

pub use list::{is_empty, names};
pub use remove::remove_tree;

/// Maximum number of attempts at a resolution that a rename elsewhere disturbs (EAGAIN,
/// `openat2(2)`).
///
/// A command that renames in a loop can disturb several attempts in a row, but each one costs it a
/// rename.
const TRIES: usize = 128;

/// Maximum length in bytes of a path that is passed to the kernel in one call. `PATH_MAX` is 4,096.
const LONGEST: usize = 3_500;

/// Choice of what a path may pass through.
#[derive(Debug, Clone, Copy)]
pub enum Through {
    /// Mount points, and links whose targets stay beneath the folder.
    InnerLinks,
    /// Mount points, and no link.
    Mounts,
    /// No mount point and no link. Such a path may have any length.
    Nothing,
}

/// Opens the entry at `path` beneath `folder`. An empty path is the folder itself.
///
/// # Errors
/// EXDEV if a link or a `..` leads out of the folder, or at a mount point that is not permitted.
/// ELOOP at a link that is not permitted. EAGAIN if renames have disturbed every attempt.
pub fn open(folder: BorrowedFd<'_>, path: &Path, flags: OFlags, through: Through) -> Result<OwnedFd> {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let resolve = match through {
        Through::InnerLinks => inside,
        Through::Mounts => inside | ResolveFlags::NO_SYMLINKS,
        Through::Nothing => inside | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV,
    };
    if path.as_os_str().len() <= LONGEST || !matches!(through, Through::Nothing) {
        return retrying(folder, path, flags, resolve);
    }
    let mut opened: Option<OwnedFd> = None;
    let mut part = PathBuf::new();
    for name in path {
        if part.as_os_str().len() + name.len() > LONGEST {
            let place = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            opened = Some(retrying(opened.as_ref().map_or(folder, AsFd::as_fd), &part, place, resolve)?);
            part = PathBuf::new();
        }
        part.push(name);
    }
    retrying(opened.as_ref().map_or(folder, AsFd::as_fd), &part, flags, resolve)
}

/// Opens an absolute path anywhere, always with `O_PATH`, to find its real name.
///
/// # Errors
/// The errors of `openat2(2)`.
pub fn open_anywhere(path: &Path, flags: OFlags) -> Result<OwnedFd> {
    retrying(CWD, path, flags | OFlags::PATH, ResolveFlags::NO_MAGICLINKS)
}

fn retrying(folder: BorrowedFd<'_>, path: &Path, flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    for _ in 0..TRIES {
        match openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            done => return done,
        }
    }
    Err(Errno::AGAIN)
}

/// Returns the path through which the kernel reaches an open descriptor.
pub fn descriptor_path(descriptor: BorrowedFd<'_>) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use rustix::fs::{fstat, mkdirat};

    use super::*;

    fn opens(folder: &File, path: &str, through: Through) -> Option<Errno> {
        open(folder.as_fd(), Path::new(path), OFlags::PATH, through).err()
    }

    #[test]
    fn only_permitted_links_are_followed_and_none_leads_out() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("root");
        fs::create_dir_all(root.join("folder")).unwrap();
        fs::write(root.join("folder/file"), "").unwrap();
        for (target, name) in [("folder", "inner"), ("..", "outer"), ("/etc", "absolute")] {
            symlink(target, root.join(name)).unwrap();
        }
        let folder = File::open(&root).unwrap();
        for through in [Through::InnerLinks, Through::Mounts, Through::Nothing] {
            for path in ["", "folder/file", "folder/../folder"] {
                assert_eq!(opens(&folder, path, through), None, "{path} {through:?}");
            }
            for path in ["..", "folder/../..", "/etc"] {
                assert_eq!(opens(&folder, path, through), Some(Errno::XDEV), "{path} {through:?}");
            }
            let (inner, outer) = match through {
                Through::InnerLinks => (None, Errno::XDEV),
                _ => (Some(Errno::LOOP), Errno::LOOP),
            };
            assert_eq!(opens(&folder, "inner/file", through), inner, "{through:?}");
            for path in ["outer", "absolute/passwd"] {
                assert_eq!(opens(&folder, path, through), Some(outer), "{path} {through:?}");
            }
        }
    }

    #[test]
    fn a_mount_point_is_entered_only_where_mounts_are_permitted() {
        let top = File::open("/").unwrap();
        assert_eq!(opens(&top, "proc/self", Through::Nothing), Some(Errno::XDEV));
        assert_eq!(opens(&top, "proc/version", Through::Mounts), None);
    }

    #[test]
    fn a_path_of_any_length_is_resolved_without_links_and_a_link_in_its_middle_is_refused() {
        let temporary = tempfile::tempdir().unwrap();
        let root = File::open(temporary.path()).unwrap();
        let name = "n".repeat(200);
        let (mut path, mut place) = (PathBuf::new(), root.try_clone().unwrap().into());
        for _ in 0..30 {
            mkdirat(&place, &name, Mode::RWXU).unwrap();
            place = open(OwnedFd::as_fd(&place), Path::new(&name), OFlags::PATH, Through::Nothing).unwrap();
            path.push(&name);
        }
        assert!(path.as_os_str().len() > 4_096);
        let found = open(root.as_fd(), &path, OFlags::PATH, Through::Nothing).unwrap();
        assert_eq!(fstat(&found).unwrap().st_ino, fstat(&place).unwrap().st_ino);
        assert_eq!(opens(&root, path.to_str().unwrap(), Through::Mounts), Some(Errno::NAMETOOLONG));
        // A link takes the place of the first folder.
        fs::rename(temporary.path().join(&name), temporary.path().join("moved")).unwrap();
        symlink("moved", temporary.path().join(&name)).unwrap();
        assert_eq!(opens(&root, path.to_str().unwrap(), Through::Nothing), Some(Errno::LOOP));
    }
}
