//! Preparation of the two folders of an overlay, and early detection of an overlay that cannot be
//! mounted.
//!
//! The cell itself mounts the overlay, in its own namespaces: the kernel removes the mount with the
//! last process of the cell.

mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use beneath::is_empty;
use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, fchmod, fchown,
    fgetxattr, flistxattr, fremovexattr, fsetxattr, fstat, futimens, makedev, mkdirat, mknodat, openat,
    unlinkat,
};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::child::blueprint::c_string;
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::Identity;
use crate::mounts;
use crate::roots::Roots;
use crate::spec::{CellSpec, Overlay};
pub use trial::distrust_overlay;
pub(crate) use trial::{ForeseenOverlay, foreseen_overlay};

/// Path of the folder around those for the changes, which no process of the finished cell can
/// reach.
pub(crate) const LAYERS: &str = "/.cell/overlay/layers";

/// The prepared folders of one overlay.
#[derive(Debug)]
pub(crate) struct Layers {
    /// Resolved path of the workspace.
    pub(crate) workspace: PathBuf,
    /// Folder that contains the other folders.
    pub(crate) folder: PathBuf,
    /// Path of the upper folder in the cell, escaped for the mount options, as is `work`.
    pub(crate) upper: CString,
    pub(crate) work: CString,
    /// Path of the upper folder in the cell, without escapes.
    pub(crate) upper_at: PathBuf,
    /// Mounts below the workspace, which no overlay includes.
    pub(crate) submounts: Vec<PathBuf>,
    key: Key,
    upper_folder: OwnedFd,
    looks: FolderProperties,
}

/// Properties that the upper folder takes over from the workspace.
#[derive(Debug, PartialEq, Eq)]
struct FolderProperties {
    mode: u32,
    owner: (u32, u32),
    attributes: Vec<(CString, Vec<u8>)>,
}

/// Facts that decide whether an overlay can be mounted: the device and inode of the workspace, and
/// the device of the upper folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    workspace: (u64, u64),
    upper: u64,
}

/// Overlays that the kernel has refused, with its error.
static REFUSED: Mutex<BTreeMap<Key, Errno>> = Mutex::new(BTreeMap::new());

/// Returns the time from which a change has a later change time, for a command that writes
/// directly.
pub(crate) fn now() -> SystemTime {
    // File systems stamp changes with this clock.
    system_time(clock_gettime(ClockId::RealtimeCoarse))
}

/// Prepares the folders and returns the time from which changes count; returns `None` if the
/// workspace is not writable.
pub(crate) fn prepare(
    spec: &CellSpec,
    roots: &Roots,
    identity: Identity,
) -> Result<Option<(Layers, SystemTime)>, SandboxError> {
    let Some(overlay) = &spec.overlay else { return Ok(None) };
    let Some(root) = roots.workspace().filter(|root| root.writable) else { return Ok(None) };
    let failed = |reason: &str, source: io::Error| failed(&root.real, reason, source);
    let (folder, names) = split(overlay)?;
    let Surroundings { folder, workspace, below, inner, around, submounts, key } =
        Surroundings::of(&root.real, &folder, roots, identity, spec.overlay_only)?;
    if around.st_mode & 0o077 != 0 {
        return Err(invalid("the folder around the upper folder is not closed to others"));
    }
    let open = |name: &OsStr| {
        open_folder(inner.as_fd(), Path::new(name))
            .map_err(|errno| failed("the folders for the changes cannot be opened", errno.into()))
    };
    let (upper, mut work) = (open(names.0)?, open(names.1)?);
    // The kernel mounts no overlay with a work folder that was in use before, for example by a
    // prepared cell that was not used.
    let mut name_of_work = names.1.to_owned();
    if !is_empty(&work).map_err(SandboxError::io("looking at the folders of an overlay"))? {
        name_of_work.push(".again");
        mkdirat(&inner, &name_of_work, Mode::RWXU)
            .map_err(|errno| failed("another work folder cannot be made", errno.into()))?;
        work = open(&name_of_work)?;
    }
    if identity.mapping == UserMapping::IdMapped {
        for fd in [&inner, &upper, &work] {
            give(fd, &below).map_err(SandboxError::io("giving the folders of an overlay to its user"))?;
        }
    }
    takes_changes(&upper, inner.as_fd(), around.st_dev)
        .map_err(|errno| failed("the file system of the upper folder cannot hold changes", errno.into()))?;
    let imitating = "making the upper folder like the workspace";
    let looks = FolderProperties::of(&workspace, &below).map_err(SandboxError::io(imitating))?;
    looks.give_to(&upper).map_err(SandboxError::io(imitating))?;
    let started_at = stamp(&below, &upper).map_err(SandboxError::io(imitating))?;
    let layers = Layers {
        workspace: root.real.clone(),
        folder,
        upper: option(names.0)?,
        upper_at: Path::new(LAYERS).join(names.0),
        work: option(&name_of_work)?,
        submounts,
        key,
        upper_folder: upper,
        looks,
    };
    Ok(Some((layers, started_at)))
}

/// Folders around an overlay that can be mounted, as far as that is known without a mount.
struct Surroundings {
    /// Resolved path of the folder around the upper folder.
    folder: PathBuf,
    workspace: OwnedFd,
    below: Stat,
    inner: OwnedFd,
    around: Stat,
    submounts: Vec<PathBuf>,
    key: Key,
}

impl Surroundings {
    /// Inspects the workspace and the folder around the upper folder.
    ///
    /// # Errors
    /// [`SandboxError::Overlay`] with the reason why no overlay is possible.
    fn of(
        root: &Path,
        folder: &Path,
        roots: &Roots,
        identity: Identity,
        overlay_only: bool,
    ) -> Result<Self, SandboxError> {
        let failed = |reason: &str, source: io::Error| failed(root, reason, source);
        let folder = fs::canonicalize(folder)
            .map_err(|error| failed("the folder around the upper folder cannot be found", error))?;
        if let Some(root) = roots.all().find(|root| folder.starts_with(&root.real)) {
            let reason = format!("the folder for them is inside `{}`", root.real.display());
            return Err(failed(&reason, io::ErrorKind::Unsupported.into()));
        }
        let workspace =
            open_folder(CWD, root).map_err(|errno| failed("the workspace cannot be opened", errno.into()))?;
        let inner = open_folder(CWD, &folder)
            .map_err(|errno| failed("the folder around the upper folder cannot be opened", errno.into()))?;
        let status =
            |fd: &OwnedFd| fstat(fd).map_err(SandboxError::io("looking at the folders of an overlay"));
        let (below, around) = (status(&workspace)?, status(&inner)?);
        let key = Key { workspace: (below.st_dev, below.st_ino), upper: around.st_dev };
        let refused = REFUSED.lock().get(&key).copied();
        if let Some(errno) = refused {
            return Err(failed(REASON, errno.into()));
        }
        let submounts = mounts::below(root)?;
        if let Some(mounted) = submounts.first().filter(|_| overlay_only) {
            let reason =
                format!("`{}` is mounted in it, and writes to it would be direct", mounted.display());
            return Err(failed(&reason, io::ErrorKind::Unsupported.into()));
        }
        if matches!(identity.mapping, UserMapping::Own | UserMapping::WorkspaceOwner) {
            suits_own_user(&below, identity, &submounts)
                .map_err(|reason| failed(&reason, io::ErrorKind::Unsupported.into()))?;
        }
        Ok(Self { folder, workspace, below, inner, around, submounts, key })
    }
}

const REASON: &str = "the kernel refuses an overlay of its file system";

impl Layers {
    /// Records that the kernel has mounted this overlay.
    pub(crate) fn note_mounted(&self) {
        self.key.note_mounted();
    }

    /// Returns the time from which changes count, for an overlay that was mounted earlier and has
    /// not been used. Returns `None` if the workspace's properties have changed since then.
    pub(crate) fn begin_again(&self) -> Result<Option<SystemTime>, Errno> {
        let workspace = open_folder(CWD, &self.workspace)?;
        let below = fstat(&workspace)?;
        if (below.st_dev, below.st_ino) != self.key.workspace
            || FolderProperties::of(&workspace, &below)? != self.looks
        {
            return Ok(None);
        }
        stamp(&below, &self.upper_folder).map(Some)
    }

    /// Makes the error for an overlay that could not be mounted. Records permanent refusals.
    pub(crate) fn refused(&self, errno: Errno) -> SandboxError {
        if matches!(errno, Errno::INVAL | Errno::NODEV | Errno::PERM | Errno::OPNOTSUPP) {
            REFUSED.lock().insert(self.key, errno);
        }
        failed(&self.workspace, REASON, errno.into())
    }

    /// Makes the error for folders that cannot be shown to the cell's user.
    pub(crate) fn unmappable(&self, error: SandboxError) -> SandboxError {
        match error {
            SandboxError::Unavailable { source, .. } => {
                failed(&self.workspace, "the upper folder cannot be mounted with its owner mapped", source)
            }
            other => other,
        }
    }
}

fn failed(workspace: &Path, reason: &str, source: io::Error) -> SandboxError {
    SandboxError::Overlay { workspace: workspace.to_owned(), reason: reason.to_owned(), source }
}

fn invalid(reason: &str) -> SandboxError {
    SandboxError::Invalid { field: "overlay", reason: reason.to_owned() }
}

/// Returns the folder that contains both, and their names in it.
fn split(overlay: &Overlay) -> Result<(PathBuf, (&OsStr, &OsStr)), SandboxError> {
    let parts = |path: &'_ Path| path.parent().map(Path::to_owned).filter(|_| path.is_absolute());
    let folder = parts(&overlay.upper)
        .filter(|folder| parts(&overlay.work).as_ref() == Some(folder))
        .ok_or_else(|| invalid("upper and work must be absolute paths in one folder"))?;
    let names = overlay.upper.file_name().zip(overlay.work.file_name()).filter(|(upper, work)| upper != work);
    Ok((folder, names.ok_or_else(|| invalid("upper and work must be two folders"))?))
}

fn open_folder(at: BorrowedFd<'_>, path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(at, path, flags, Mode::empty())
}

/// Escapes backslashes, because the kernel removes a backslash before any character of the option's
/// value.
fn option(name: &OsStr) -> Result<CString, SandboxError> {
    let mut path = format!("{LAYERS}/").into_bytes();
    for &byte in name.as_bytes() {
        path.extend((byte == b'\\').then_some(b'\\'));
        path.push(byte);
    }
    c_string("overlay", OsStr::from_bytes(&path))
}

/// Checks that an ordinary user's overlay of this workspace would behave like the workspace.
fn suits_own_user(workspace: &Stat, identity: Identity, submounts: &[PathBuf]) -> Result<(), String> {
    // The cell's map contains only its own user and group. The kernel copies no file of another
    // owner into the upper folder (EOVERFLOW), even if that user may write the file.
    if workspace.st_uid != identity.user {
        return Err("it belongs to another user".to_owned());
    }
    // The set-group-id bit: new files in the folder belong to the folder's group.
    if workspace.st_gid != identity.group && workspace.st_mode & 0o2000 != 0 {
        return Err("its files belong to another group than the user's first".to_owned());
    }
    // A user namespace may not uncover files below a mount, so the kernel refuses it an overlay of
    // these files.
    match submounts {
        [] => Ok(()),
        [first, ..] => Err(format!("something is mounted in it, at `{}`", first.display())),
    }
}

/// Changes the owner of a folder to the workspace's owner.
fn give(folder: &OwnedFd, workspace: &Stat) -> Result<(), Errno> {
    let own = fstat(folder)?;
    if (own.st_uid, own.st_gid) == (workspace.st_uid, workspace.st_gid) {
        return Ok(());
    }
    fchown(folder, Some(Uid::from_raw(workspace.st_uid)), Some(Gid::from_raw(workspace.st_gid)))
}

/// Tests once for each file system whether it supports the objects that an overlay writes into its
/// upper folder. Without this support the kernel would still mount the overlay, and changes would
/// fail or get lost in it.
fn takes_changes(upper: &OwnedFd, folder: BorrowedFd<'_>, device: u64) -> Result<(), Errno> {
    static KNOWN: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());
    if KNOWN.lock().contains(&device) {
        return Ok(());
    }
    // An attribute marks a folder as new.
    let name = c"user.handfast.trial";
    fsetxattr(upper, name, b"y", XattrFlags::empty())?;
    fremovexattr(upper, name)?;
    // A device marks a deleted file.
    let mark = c".trial";
    mknodat(folder, mark, FileType::CharacterDevice, Mode::empty(), makedev(0, 0))?;
    unlinkat(folder, mark, AtFlags::empty())?;
    KNOWN.lock().insert(device);
    Ok(())
}

/// Reading and copying of the properties: a command sees the upper folder as the workspace, so both
/// must look alike.
impl FolderProperties {
    fn of(workspace: &OwnedFd, status: &Stat) -> Result<Self, Errno> {
        let mut names = vec![0_u8; 64 * 1024];
        let length = match flistxattr(workspace, &mut names[..]) {
            Err(Errno::OPNOTSUPP) => 0,
            length => length?,
        };
        let mut attributes = Vec::new();
        for name in names.get(..length).unwrap_or_default().split_inclusive(|&byte| byte == 0) {
            // The other attributes are privileged, or internal to overlays.
            let wanted = name.starts_with(b"system.posix_acl_")
                || (name.starts_with(b"user.") && !name.starts_with(b"user.overlay."));
            if wanted {
                let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
                let mut value = vec![0_u8; 64 * 1024];
                let length = fgetxattr(workspace, name, &mut value[..])?;
                value.truncate(length);
                attributes.push((name.to_owned(), value));
            }
        }
        Ok(Self { mode: status.st_mode & 0o7777, owner: (status.st_uid, status.st_gid), attributes })
    }

    fn give_to(&self, upper: &OwnedFd) -> Result<(), Errno> {
        for (name, value) in &self.attributes {
            fsetxattr(upper, name.as_c_str(), value, XattrFlags::empty())?;
        }
        fchmod(upper, Mode::from_raw_mode(self.mode))
    }
}

/// Sets the times of the upper folder, and returns the time from which changes have a later change
/// time.
fn stamp(workspace: &Stat, upper: &OwnedFd) -> Result<SystemTime, Errno> {
    let coarse = now();
    let times = Timestamps {
        last_access: timespec(workspace.st_atime, workspace.st_atime_nsec),
        last_modification: timespec(workspace.st_mtime, workspace.st_mtime_nsec),
    };
    // A stat followed by a change results in a change time later than that of every earlier change.
    // No later change gets an earlier time (multigrain timestamps, Linux 6.13). The first round may
    // return a time that other files got before, if that is later than the folder's previous one.
    for _ in 0..2 {
        fstat(upper)?;
        futimens(upper, &times)?;
    }
    let after = fstat(upper)?;
    let stamped = system_time(timespec(after.st_ctime, after.st_ctime_nsec));
    if stamped > coarse {
        return Ok(stamped);
    }
    // Older kernels stamp with a clock that stands still between ticks of some milliseconds. A
    // change right before the command must not look like a conflict, which would be frequent: a
    // user writes a file and then runs a command on it. So the rest of this tick, in which the
    // command only starts, counts as before.
    Ok(system_time(clock_gettime(ClockId::Realtime)))
}

fn timespec(seconds: i64, nanoseconds: u64) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: i64::try_from(nanoseconds).unwrap_or_default() }
}

fn system_time(time: Timespec) -> SystemTime {
    let seconds = Duration::from_secs(u64::try_from(time.tv_sec).unwrap_or_default());
    SystemTime::UNIX_EPOCH + seconds + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or_default())
}
