//! Builds the file system of the cell and detaches the host's.
//!
//! First, all trees that the cell shows of the host are taken as detached trees. Then the process
//! changes to an empty root in memory and detaches the old one. Only then the trees are put in
//! place. So from there on no path, however manipulated, can reach a file that the cell does not
//! show.
//!
//! INVARIANT: as in the module above, nothing here allocates, locks or panics.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, IntoRawFd, OwnedFd};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, StatxAttributes, StatxFlags,
    fstat, fstatvfs, mkdirat, openat, openat2, rmdir, statx, symlinkat,
};
use rustix::io::{Errno, write};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, open_tree, unmount,
};
use rustix::process::{chdir, fchdir, pivot_root};

use super::blueprint::{ExpectedEntry, Kind, LOWER, Mount, Place, Source, Step};
use super::mount::{clone_tree, open_exactly, put};
use super::placeholder;
use super::report::{Fault, Stage};
use crate::sys;

/// Size of the root file system, which contains only mount points.
const ROOT_SIZE: &CStr = c"1m";

/// Path in the new root at which the host's file system waits for a call's needs.
const HOST: &CStr = c"/.cell/host";

/// Builds everything at once.
pub(super) fn build(steps: &mut [Step]) -> Result<(), Fault> {
    separate_from_host().map_err(|errno| Stage::PrivateMounts.fault(errno))?;
    each(steps, Stage::TakeTree, |step| take(step, None))?;
    enter_new_root().and_then(|()| leave_host(c".")).map_err(|errno| Stage::NewRoot.fault(errno))?;
    each(steps, Stage::Step, place)?;
    finish()
}

/// Builds the parts that do not depend on the call. With `keep_host`, the host's file system stays
/// reachable until [`add`]; without it, [`add`] accepts only trees that were handed over.
///
/// Mounts and unmounts on the host still propagate to that file system, so that a waiting cell
/// keeps no mount busy. The trees taken here are detached from the host at once.
pub(super) fn prepare(steps: &mut [Step], keep_host: bool) -> Result<(), Fault> {
    if !keep_host {
        separate_from_host().map_err(|errno| Stage::PrivateMounts.fault(errno))?;
    }
    each(steps, Stage::TakeTree, |step| take(step, None))?;
    let entered = if keep_host {
        enter_new_root_above_host()
    } else {
        enter_new_root().and_then(|()| leave_host(c"."))
    };
    entered.map_err(|errno| Stage::NewRoot.fault(errno))?;
    each(steps, Stage::Step, place)
}

/// Builds more on top of [`prepare`], and detaches the host's file system if it is still there.
pub(super) fn add(steps: &mut [Step], host_kept: bool) -> Result<(), Fault> {
    let new_root = |errno| Stage::NewRoot.fault(errno);
    let host = if host_kept { Some(open_folder(HOST).map_err(new_root)?) } else { None };
    each(steps, Stage::TakeTree, |step| take(step, host.as_ref().map(AsFd::as_fd)))?;
    if host.is_some() {
        drop(host);
        leave_host(HOST).and_then(|()| rmdir(HOST)).map_err(new_root)?;
    }
    each(steps, Stage::Step, place)
}

/// Completes the build by making the root read-only.
pub(super) fn finish() -> Result<(), Fault> {
    seal(c"/").map_err(|errno| Stage::SealRoot.fault(errno))
}

fn each(steps: &mut [Step], stage: Stage, act: impl Fn(&mut Step) -> Result<(), Errno>) -> Result<(), Fault> {
    for (index, step) in (0_u32..).zip(steps) {
        act(step).map_err(|errno| Fault { stage, step: index, errno })?;
    }
    Ok(())
}

/// Stops the propagation of the host's mounts and unmounts to this mount namespace.
fn separate_from_host() -> Result<(), Errno> {
    sys::mount_setattr(open_folder(c"/")?.as_fd(), true, MountAttrFlags::empty(), None, true)
}

/// Takes the tree that a step needs of the host, while the host's file system is still reachable:
/// below `host`, or as the root.
fn take(step: &mut Step, host: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let Step::Mount(mount) = step else { return Ok(()) };
    let taken = match &mount.source {
        Source::Host(path) => match clone_host_tree(path, host) {
            Err(Errno::NOENT | Errno::NOTDIR) if !mount.required => return Ok(()),
            taken => taken?,
        },
        // The kernel mounts a process table only for a process that can still see one, so this
        // cannot wait.
        Source::Processes => new_file_system(c"proc", &[(c"hidepid", c"2")])?,
        Source::Handed(handed) => {
            mount.tree = *handed;
            return Ok(());
        }
        Source::Inside(_) | Source::Overlay { .. } | Source::Memory { .. } | Source::Terminals => {
            return Ok(());
        }
    };
    // Make the tree private, in case the host as a whole is not: no later mount may appear in the
    // cell.
    sys::mount_setattr(taken.as_fd(), true, mount.attributes, None, true)?;
    mount.tree = taken.into_raw_fd();
    Ok(())
}

fn clone_host_tree(path: &CStr, host: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
    let Some(host) = host else { return clone_tree(path) };
    // A symbolic link in the path resolves as on the host.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = openat2(host, path, flags, Mode::empty(), ResolveFlags::IN_ROOT)?;
    open_tree(
        found,
        c"",
        OpenTreeFlags::OPEN_TREE_CLONE
            | OpenTreeFlags::OPEN_TREE_CLOEXEC
            | OpenTreeFlags::AT_RECURSIVE
            | OpenTreeFlags::AT_EMPTY_PATH,
    )
}

fn new_file_system(name: &CStr, settings: &[(&CStr, &CStr)]) -> Result<OwnedFd, Errno> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in settings {
        fsconfig_set_string(context.as_fd(), *key, *value)?;
    }
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)
}

/// Makes an overlay of [`LOWER`] that stores changes in `upper`.
fn overlay(upper: &CStr, work: &CStr) -> Result<OwnedFd, Errno> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [(c"lowerdir", LOWER), (c"upperdir", upper), (c"workdir", work)] {
        fsconfig_set_string(context.as_fd(), key, value)?;
    }
    // The overlay need not survive a crash of the machine, so its data need not reach the disk
    // before the end (`volatile`). `userxattr` stores the overlay's attributes under names that an
    // unprivileged user may write.
    for flag in [c"userxattr", c"volatile"] {
        fsconfig_set_flag(context.as_fd(), flag)?;
    }
    fsconfig_create(context.as_fd())?;
    let mount = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::MOUNT_ATTR_NOSUID)?;
    // If the kernel cannot use the work folder, it makes the overlay read-only without an error.
    if fstatvfs(&mount)?.f_flag.contains(StatVfsMountFlags::RDONLY) {
        return Err(Errno::ROFS);
    }
    Ok(mount)
}

/// Changes the root; afterwards the old root lies on top of the new one, at the current directory.
fn enter_new_root() -> Result<(), Errno> {
    mount_new_root()?;
    pivot_root(c".", c".")
}

/// Changes the root; afterwards the old root lies at [`HOST`] in the new one.
fn enter_new_root_above_host() -> Result<(), Errno> {
    mount_new_root()?;
    mkdirat(CWD, c".cell", Mode::from_raw_mode(0o755))?;
    mkdirat(CWD, c".cell/host", Mode::from_raw_mode(0o700))?;
    pivot_root(c".", c".cell/host")?;
    chdir(c"/")
}

fn mount_new_root() -> Result<(), Errno> {
    let root = new_file_system(c"tmpfs", &[(c"size", ROOT_SIZE), (c"mode", c"0755")])?;
    put(root.as_fd(), CWD, c"/")?;
    fchdir(&root)
}

fn leave_host(at: &CStr) -> Result<(), Errno> {
    unmount(at, UnmountFlags::DETACH)?;
    chdir(c"/")
}

/// Executes one step inside the new root.
fn place(step: &mut Step) -> Result<(), Errno> {
    match step {
        Step::Mount(mount) => match attach(mount) {
            // LOOP: only a link leads to the place, so the place does not exist under this name.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if !mount.required => Ok(()),
            other => other,
        },
        Step::Link { at, text } => match parent(at)? {
            None => symlinkat(text.as_c_str(), CWD, at.name.as_c_str()),
            Some(folder) => symlinkat(text.as_c_str(), folder, at.name.as_c_str()),
        },
        Step::File { at, content, mode } => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(*mode);
            let file = match parent(at)? {
                None => openat(CWD, at.name.as_c_str(), flags, mode)?,
                Some(folder) => openat(folder, at.name.as_c_str(), flags, mode)?,
            };
            let mut rest = content.as_slice();
            while !rest.is_empty() {
                let written = write(&file, rest)?;
                rest = rest.get(written..).unwrap_or_default();
            }
            Ok(())
        }
        Step::Folder { at, mode } => make_folder(at, *mode),
        Step::Folders { at, names } => {
            let folder = open_exactly(&at.full, OFlags::PATH)?;
            names.iter().try_for_each(|name| mkdirat(&folder, name.as_c_str(), Mode::from_raw_mode(0o700)))
        }
        Step::Placeholder { at, placeholder } => placeholder::put_in_place(at, placeholder),
        Step::Seal { at } => seal(&at.full),
        Step::Setting { at, value } => {
            let file = match open_exactly(&at.full, OFlags::WRONLY) {
                Err(Errno::NOENT) => return Ok(()),
                file => file?,
            };
            write(&file, value.to_bytes()).map(drop)
        }
        Step::Check { at, is } => check(at, *is),
    }
}

/// Verifies the file system that another program has built.
pub(super) fn verify(steps: &mut [Step]) -> Result<(), Fault> {
    each(steps, Stage::Check, place)
}

fn check(at: &Place, is: ExpectedEntry) -> Result<(), Errno> {
    // Follow no link: a hidden file that is also shown elsewhere is not hidden.
    let found = open_exactly(&at.full, OFlags::PATH | OFlags::NOFOLLOW)?;
    let status = fstat(&found)?;
    let mount = fstatvfs(&found)?.f_flag;
    let wanted = StatxFlags::BASIC_STATS;
    let statx = statx(&found, c"", AtFlags::EMPTY_PATH, wanted)?;
    let is_mount = statx.stx_attributes.contains(StatxAttributes::MOUNT_ROOT);
    let holds = match is {
        ExpectedEntry::Same { device, inode, read_only } => {
            status.st_dev == device
                && status.st_ino == inode
                && (!read_only || mount.contains(StatVfsMountFlags::RDONLY))
        }
        ExpectedEntry::Hidden => match FileType::from_raw_mode(status.st_mode) {
            FileType::CharacterDevice => mount.contains(StatVfsMountFlags::NODEV),
            FileType::Directory => {
                Mode::from_raw_mode(status.st_mode).is_empty() && mount.contains(StatVfsMountFlags::RDONLY)
            }
            _ => false,
        },
    };
    if is_mount && holds { Ok(()) } else { Err(Errno::STALE) }
}

fn attach(mount: &Mount) -> Result<(), Errno> {
    let made;
    let tree = match &mount.source {
        Source::Host(_) | Source::Processes | Source::Handed(_) => {
            if mount.tree < 0 {
                return Ok(());
            }
            sys::borrow(mount.tree)
        }
        Source::Inside(path) => {
            made = clone_tree(path)?;
            sys::mount_setattr(made.as_fd(), true, mount.attributes, None, false)?;
            made.as_fd()
        }
        Source::Memory { size, mode } => {
            made = new_file_system(c"tmpfs", &[(c"size", size), (c"mode", mode), (c"nr_inodes", c"200k")])?;
            sys::mount_setattr(made.as_fd(), false, mount.attributes, None, false)?;
            made.as_fd()
        }
        Source::Overlay { upper, work } => {
            made = overlay(upper, work)?;
            sys::mount_setattr(made.as_fd(), false, mount.attributes, None, false)?;
            made.as_fd()
        }
        Source::Terminals => {
            made = new_file_system(c"devpts", &[(c"ptmxmode", c"0666"), (c"mode", c"0620")])?;
            made.as_fd()
        }
    };
    let point = mount_point(mount)?;
    put(tree, point.as_fd(), c"")
}

/// Opens the mount point, and makes it if it is missing and may be made. The kernel checks that its
/// kind is right.
fn mount_point(mount: &Mount) -> Result<OwnedFd, Errno> {
    let at = &mount.at;
    match open_exactly(&at.full, OFlags::PATH) {
        Err(Errno::NOENT) if mount.make_point => {}
        other => return other,
    }
    match mount.kind {
        Kind::Folder => make_folder(at, 0o755)?,
        Kind::File => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
            match parent(at)? {
                None => openat(CWD, at.name.as_c_str(), flags, Mode::from_raw_mode(0o644))?,
                Some(folder) => openat(folder, at.name.as_c_str(), flags, Mode::from_raw_mode(0o644))?,
            };
        }
    }
    open_exactly(&at.full, OFlags::PATH)
}

fn make_folder(at: &Place, mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    match parent(at)? {
        None => mkdirat(CWD, at.name.as_c_str(), mode),
        Some(folder) => mkdirat(folder, at.name.as_c_str(), mode),
    }
}

/// Opens the parent folder of `at`, making missing folders; `None` stands for the root, which is
/// also the current directory.
fn parent(at: &Place) -> Result<Option<OwnedFd>, Errno> {
    let mut folder: Option<OwnedFd> = None;
    for name in &at.parents {
        let within = folder.as_ref().map_or(CWD, AsFd::as_fd);
        folder = match open_beneath(within, name) {
            Err(Errno::NOENT) => {
                mkdirat(within, name.as_c_str(), Mode::from_raw_mode(0o755))?;
                Some(open_beneath(within, name)?)
            }
            other => Some(other?),
        };
    }
    Ok(folder)
}

fn open_folder(path: &CStr) -> Result<OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Opens the folder of that name in another folder, following no link, for the reason given at
/// [`open_exactly`].
fn open_beneath(folder: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

fn seal(path: &CStr) -> Result<(), Errno> {
    let mount = open_exactly(path, OFlags::PATH)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NODEV;
    sys::mount_setattr(mount.as_fd(), false, attributes, None, false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn is_so(path: &std::path::Path, is: ExpectedEntry) -> Result<(), Errno> {
        check(&Place::new(path).unwrap(), is)
    }

    #[test]
    fn only_the_mount_that_was_asked_for_passes_for_it() {
        let same = |path: &str, read_only| {
            let found = std::fs::metadata(path).unwrap();
            ExpectedEntry::Same { device: found.dev(), inode: found.ino(), read_only }
        };
        let processes = std::path::Path::new("/proc");
        assert_eq!(is_so(processes, same("/proc", false)), Ok(()));
        assert_eq!(is_so(processes, same("/proc", true)), Err(Errno::STALE), "it can be written");
        assert_eq!(is_so(processes, same("/dev", false)), Err(Errno::STALE), "it is something else");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let name = path.to_str().unwrap();
        assert_eq!(is_so(&path, same(name, false)), Err(Errno::STALE), "nothing is mounted there");
        std::os::unix::fs::symlink("/proc", path.join("link")).unwrap();
        assert_eq!(is_so(&path.join("link"), same("/proc", false)), Err(Errno::STALE), "it is a link");
        assert_eq!(is_so(&path.join("link/sys"), same("/proc/sys", false)), Err(Errno::LOOP));
    }

    #[test]
    fn nothing_passes_for_hidden_that_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        std::fs::write(path.join("file"), "x").unwrap();
        for path in [&path, &path.join("file"), std::path::Path::new("/dev/null")] {
            assert_eq!(is_so(path, ExpectedEntry::Hidden), Err(Errno::STALE), "{}", path.display());
        }
        assert_eq!(is_so(&path.join("gone"), ExpectedEntry::Hidden), Err(Errno::NOENT));
    }
}
