//! Whose rights a command has on the host, and how the roots become its own.
//!
//! An ordinary user's commands run with that user's rights. Root's commands run under an id that owns nothing: the
//! roots are handed into the cell as id-mapped mounts, in which the owner of each root is seen as that id. What
//! the command writes there belongs to the owner on disk, and everything else on the host is foreign to it.

use std::collections::BTreeMap;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{getegid, geteuid};

use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::process::{self, write_map};
use crate::{child, sys};

/// The host's id for commands of a Handfast that runs as root.
///
/// Next to the traditional 65534 of `nobody`, which services do use, and within the 65536 ids that rootless
/// containers have.
const UNPRIVILEGED: u32 = 65533;

/// Who a command is on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) mapping: UserMapping,
    pub(crate) user: u32,
    pub(crate) group: u32,
}

impl Identity {
    /// Decides by who this process is.
    pub(crate) fn of_this_process() -> Result<Self, SandboxError> {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        // Root of a user namespace that has no id to spare is an ordinary user outside of it.
        if user == 0 && ids_of_this_namespace()?.contains(UNPRIVILEGED) {
            return Ok(Self { mapping: UserMapping::IdMapped, user: UNPRIVILEGED, group: UNPRIVILEGED });
        }
        Ok(Self { mapping: UserMapping::Own, user, group })
    }
}

/// The ids that exist in this process's user namespace, as first and count.
struct Ids(Vec<(u32, u32)>);

impl Ids {
    fn contains(&self, id: u32) -> bool {
        self.0.iter().any(|&(first, count)| id.checked_sub(first).is_some_and(|offset| offset < count))
    }
}

fn ids_of_this_namespace() -> Result<Ids, SandboxError> {
    let map = fs::read_to_string("/proc/self/uid_map")
        .map_err(|source| SandboxError::Io { doing: "reading /proc/self/uid_map", source })?;
    let ids = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse);
        Some((numbers.next()?.ok()?, numbers.nth(1)?.ok()?))
    });
    Ok(Ids(ids.collect()))
}

/// A root as the cell's user is to see it, and whether what is mounted below it could not be taken along.
pub(crate) struct MappedTree {
    pub(crate) tree: OwnedFd,
    pub(crate) without_submounts: bool,
}

/// Takes the tree at `path` with its owner seen as `identity`.
pub(crate) fn mapped_tree(
    path: &Path,
    identity: Identity,
    attributes: MountAttrFlags,
) -> Result<MappedTree, SandboxError> {
    let metadata = fs::metadata(path)
        .map_err(|error| SandboxError::Root { path: path.to_owned(), reason: error.to_string() })?;
    let owners = owners_namespace(Owners {
        user: (metadata.uid(), identity.user),
        group: (metadata.gid(), identity.group),
    })?;
    let take = |recursive: bool| -> Result<OwnedFd, Errno> {
        let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        if recursive {
            flags |= OpenTreeFlags::AT_RECURSIVE;
        }
        let tree = open_tree(CWD, path, flags)?;
        sys::mount_setattr(tree.as_fd(), recursive, attributes, Some(owners.as_fd()), true)?;
        Ok(tree)
    };
    match take(true) {
        Ok(tree) => Ok(MappedTree { tree, without_submounts: false }),
        // Something mounted below may be of a kind that cannot be mapped; then the root is shown without it.
        Err(Errno::INVAL) => Ok(MappedTree {
            tree: take(false).map_err(|errno| refused(path, errno))?,
            without_submounts: true,
        }),
        Err(errno) => Err(refused(path, errno)),
    }
}

fn refused(path: &Path, errno: Errno) -> SandboxError {
    SandboxError::Unavailable {
        what: format!("`{}` cannot be mounted with its owner mapped", path.display()),
        hint: "start Handfast as the user who owns the workspace instead of as root (or give its container \
               CAP_SYS_ADMIN, and keep the workspace on a file system that takes id-mapped mounts, such as ext4, \
               xfs, btrfs or tmpfs)"
            .to_owned(),
        source: errno.into(),
    }
}

/// Which owner on disk is seen as which id, as pairs of them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Owners {
    user: (u32, u32),
    group: (u32, u32),
}

/// A user namespace with the mapping, which is all that an id-mapped mount wants of it.
///
/// Made once for each pair of owners: it takes a process to make one, and a namespace never changes.
fn owners_namespace(owners: Owners) -> Result<OwnedFd, SandboxError> {
    static MADE: Mutex<BTreeMap<Owners, OwnedFd>> = Mutex::new(BTreeMap::new());
    let copy = |namespace: &OwnedFd| {
        namespace
            .try_clone()
            .map_err(|source| SandboxError::Io { doing: "copying a namespace descriptor", source })
    };
    // The map is whole at any moment, so a panic of another thread did not hurt it.
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(namespace) = made.get(&owners) {
        return copy(namespace);
    }
    let namespace = make_owners_namespace(owners)?;
    let result = copy(&namespace);
    made.insert(owners, namespace);
    result
}

fn make_owners_namespace(owners: Owners) -> Result<OwnedFd, SandboxError> {
    let (here, there) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(SandboxError::io("making a socket pair"))?;
    let process = process::start(libc::CLONE_NEWUSER, || child::outlive_nobody(&there))
        .map_err(|errno| unavailable("user namespaces", errno))?;
    drop(there);
    let everything = ids_of_this_namespace()?.contains(u32::MAX - 1);
    write_map(process.pid(), "uid_map", &extents(owners.user, everything))
        .and_then(|()| write_map(process.pid(), "gid_map", &extents(owners.group, everything)))
        .map_err(|source| SandboxError::Io { doing: "mapping owners", source })?;
    let namespace = fs::File::open(format!("/proc/{}/ns/user", process.pid()))
        .map_err(|source| SandboxError::Io { doing: "opening a user namespace", source })?;
    drop(here);
    process.end().map_err(SandboxError::io("ending a process that made a user namespace"))?;
    Ok(namespace.into())
}

/// The lines of a map in which `owner` on disk is seen as `seen`. Where this namespace has `everything`, all other
/// ids are seen as they are, so that what belongs to somebody else but is open to all stays usable.
fn extents((owner, seen): (u32, u32), everything: bool) -> String {
    let mut lines = format!("{owner} {seen} 1\n");
    if everything {
        // On disk `seen` itself has no place to be seen at, unless it is the owner.
        let (low, high) = (owner.min(seen), owner.max(seen));
        let between = low.saturating_add(1);
        let segments = [(0, low), (between, high.saturating_sub(between)), (high + 1, u32::MAX - high - 1)];
        for (first, count) in segments.into_iter().filter(|&(_, count)| count > 0) {
            lines.extend([format!("{first} {first} {count}\n")]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_map_the_owner_and_leave_the_others() {
        assert_eq!(extents((0, 65533), true), "0 65533 1\n1 1 65532\n65534 65534 4294901761\n",);
        assert_eq!(
            extents((1000, 65533), true),
            "1000 65533 1\n0 0 1000\n1001 1001 64532\n65534 65534 4294901761\n",
        );
        assert_eq!(extents((0, 65533), false), "0 65533 1\n");
    }

    #[test]
    fn extents_of_the_id_itself_change_nothing() {
        assert_eq!(extents((65533, 65533), true), "65533 65533 1\n0 0 65533\n65534 65534 4294901761\n");
    }

    #[test]
    fn ids_know_their_bounds() {
        let ids = Ids(vec![(0, 1), (100, 50)]);
        assert!(ids.contains(0) && ids.contains(149));
        assert!(!ids.contains(1) && !ids.contains(150) && !ids.contains(99));
    }
}
