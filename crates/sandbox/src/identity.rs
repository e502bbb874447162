//! The user whose rights a command has on the host, and the mapping that makes the roots belong to
//! it.
//!
//! An ordinary user's commands run with that user's rights. Root's commands run under an id that
//! owns no file: the roots are handed into the cell as id-mapped mounts, in which the owner of each
//! root appears as that id. Files that the command writes there belong to the owner on disk, and
//! all other files of the host are foreign to it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use parking_lot::Mutex;
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{getegid, geteuid, getgroups};

use crate::child::blueprint::INNER_ID;
use crate::child::holder;
use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::hint::unavailable;
use crate::process::{self, write_map};
use crate::streams::Receiver;
use crate::sys;

/// Id on the host for commands of a Handfast that runs as root.
///
/// One below the traditional 65534 of `nobody`, which services do use, and within the 65536 ids of
/// rootless containers.
pub(crate) const UNPRIVILEGED: u32 = 65533;

/// First id under which foreign owners appear in the roots of a root's cell: owner 0 as this id, 1
/// as the next, and so on.
///
/// The upper half of all ids is in practice unused. The cell's map contains these ids, so that the
/// kernel can record the owner when it copies a foreign file within an overlay. No user of the host
/// has these ids, so they give rights over the roots alone.
const FOREIGN: u32 = 1 << 31;
/// Number of these ids: the last one is the highest id of the kernel.
const FOREIGN_COUNT: u32 = u32::MAX - FOREIGN;

/// The user and group of a command on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) mapping: UserMapping,
    pub(crate) user: u32,
    pub(crate) group: u32,
    /// True if the ids from [`FOREIGN`] on are available.
    foreign: bool,
}

impl Identity {
    /// Returns the user on the host who gets the ends of the command's pipes.
    pub(crate) fn receiver(self) -> Receiver {
        (self.mapping == UserMapping::IdMapped).then_some((self.user, self.group))
    }

    /// Chooses the identity for the user of this process.
    pub(crate) fn of_this_process() -> Result<Self, SandboxError> {
        let (user, group) = (geteuid().as_raw(), getegid().as_raw());
        // Root of a user namespace without a spare id is an ordinary user outside of it.
        if user == 0 {
            let ids = ids_of_this_namespace()?;
            if ids.contains(UNPRIVILEGED) {
                let foreign = ids.contains(u32::MAX - 1);
                let (user, group) = (UNPRIVILEGED, UNPRIVILEGED);
                return Ok(Self { mapping: UserMapping::IdMapped, user, group, foreign });
            }
        }
        Ok(Self { mapping: UserMapping::Own, user, group, foreign: false })
    }

    /// Returns the lines of the map in which the cell's own id stands for `id`, its user or group
    /// on the host.
    pub(crate) fn map(self, id: u32) -> String {
        let mut lines = format!("{INNER_ID} {id} 1\n");
        if self.foreign {
            // Every other owner appears under the number on disk. The owner whose number is taken
            // gets that of the host's id for commands, who owns no file. Five lines in all, which
            // the kernel stores in its smallest table.
            let after = UNPRIVILEGED + 1;
            let segments = [
                (0, 0, INNER_ID),
                (INNER_ID + 1, INNER_ID + 1, UNPRIVILEGED - INNER_ID - 1),
                (UNPRIVILEGED, INNER_ID, 1),
                (after, after, FOREIGN_COUNT - after),
            ];
            for (seen, on_disk, count) in segments {
                lines.extend([format!("{seen} {} {count}\n", FOREIGN + on_disk)]);
            }
        }
        lines
    }
}

/// The ids that exist in this process's user namespace, as pairs of first id and count.
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

/// Maps the user of a new process's user namespace.
pub(crate) fn map_user(pid: i32, identity: Identity) -> Result<(), SandboxError> {
    let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
        Some(errno) => unavailable("a user of its own", errno),
        None => SandboxError::Io { doing: "mapping the cell's user", source },
    };
    if identity.mapping == UserMapping::Own {
        // Without this write, the kernel refuses an ordinary user's group map.
        write_map(pid, "setgroups", "deny").map_err(failed)?;
    }
    write_map(pid, "uid_map", &identity.map(identity.user)).map_err(failed)?;
    write_map(pid, "gid_map", &identity.map(identity.group)).map_err(failed)
}

/// Returns true if this process has groups besides `own`.
pub(crate) fn has_further_groups(own: u32) -> Result<bool, SandboxError> {
    let groups = getgroups().map_err(SandboxError::io("reading the own groups"))?;
    Ok(groups.iter().any(|group| group.as_raw() != own))
}

/// A root as seen by the cell's user. `without_submounts` is true if the mounts below it could not
/// be included.
pub(crate) struct MappedTree {
    pub(crate) tree: OwnedFd,
    pub(crate) without_submounts: bool,
}

/// Clones the tree at `path` with its owner mapped to `identity`.
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
        foreign: identity.foreign,
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
        // A mount below may be of a kind that cannot be id-mapped; then show the root without it.
        Err(Errno::INVAL) => Ok(MappedTree {
            tree: take(false).map_err(|errno| refused(path, errno))?,
            without_submounts: true,
        }),
        Err(errno) => Err(refused(path, errno)),
    }
}

/// Clones the tree at `path` with its owners unchanged, which gives a command of root no owner's
/// rights.
pub(crate) fn foreign_tree(path: &Path, attributes: MountAttrFlags) -> Result<OwnedFd, SandboxError> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let take = || -> Result<OwnedFd, Errno> {
        let tree = open_tree(CWD, path, flags)?;
        sys::mount_setattr(tree.as_fd(), true, attributes, None, true)?;
        Ok(tree)
    };
    take().map_err(|errno| refused(path, errno))
}

/// Returns true if every user of the host may read the file, or enter and list the folder.
pub(crate) fn is_open_to_all(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| {
        let needed = if found.is_dir() { 0o005 } else { 0o004 };
        found.mode() & needed == needed
    })
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

/// Map from owners on disk to ids in the cell, as pairs of the two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Owners {
    user: (u32, u32),
    group: (u32, u32),
    foreign: bool,
}

/// Returns a user namespace with the mapping, which an id-mapped mount requires.
///
/// Made once for each pair of owners, because making one takes a process. A namespace never
/// changes.
fn owners_namespace(owners: Owners) -> Result<OwnedFd, SandboxError> {
    static MADE: Mutex<BTreeMap<Owners, OwnedFd>> = Mutex::new(BTreeMap::new());
    let copy = |namespace: &OwnedFd| {
        namespace
            .try_clone()
            .map_err(|source| SandboxError::Io { doing: "copying a namespace descriptor", source })
    };
    // The map is consistent at any moment, so a panic of another thread did not damage it.
    let mut made = MADE.lock();
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
    let process = process::start(libc::CLONE_NEWUSER, || holder::outlive_nobody(&there))
        .map_err(|errno| unavailable("user namespaces", errno))?;
    drop(there);
    write_map(process.pid(), "uid_map", &extents(owners.user, owners.foreign))
        .and_then(|()| write_map(process.pid(), "gid_map", &extents(owners.group, owners.foreign)))
        .map_err(|source| SandboxError::Io { doing: "mapping owners", source })?;
    let namespace = fs::File::open(format!("/proc/{}/ns/user", process.pid()))
        .map_err(|source| SandboxError::Io { doing: "opening a user namespace", source })?;
    drop(here);
    process.end().map_err(SandboxError::io("ending a process that made a user namespace"))?;
    Ok(namespace.into())
}

/// Returns the lines of a map in which `owner` on disk appears as `seen`. With `foreign`, all other
/// owners appear as ids from [`FOREIGN`] on, so that foreign files that are open to all stay
/// usable.
fn extents((owner, seen): (u32, u32), foreign: bool) -> String {
    let mut lines = format!("{owner} {seen} 1\n");
    if foreign {
        let after = owner.saturating_add(1);
        let segments = [(0, owner.min(FOREIGN_COUNT)), (after, FOREIGN_COUNT.saturating_sub(after))];
        for (first, count) in segments.into_iter().filter(|&(_, count)| count > 0) {
            lines.extend([format!("{first} {} {count}\n", FOREIGN + first)]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_map_the_owner_and_shift_the_others() {
        assert_eq!(extents((0, 65533), true), "0 65533 1\n1 2147483649 2147483646\n");
        assert_eq!(
            extents((1000, 65533), true),
            "1000 65533 1\n0 2147483648 1000\n1001 2147484649 2147482646\n",
        );
        assert_eq!(extents((0, 65533), false), "0 65533 1\n");
        assert_eq!(extents((1 << 31, 65533), true), "2147483648 65533 1\n0 2147483648 2147483647\n");
    }

    #[test]
    fn the_map_of_a_cell_names_each_id_once_on_either_side() {
        let (mapping, user) = (UserMapping::IdMapped, UNPRIVILEGED);
        let identity = Identity { mapping, user, group: user, foreign: true };
        let map = identity.map(user);
        let mut lines: Vec<[u64; 3]> = map
            .lines()
            .map(|line| {
                let numbers: Vec<u64> = line.split(' ').map(|number| number.parse().unwrap()).collect();
                numbers.try_into().unwrap()
            })
            .collect();
        for side in 0..2 {
            lines.sort_by_key(|line| line[side]);
            assert!(lines.windows(2).all(|pair| pair[0][side] + pair[0][2] <= pair[1][side]), "{map}");
            let last = lines.last().unwrap();
            assert!(u32::try_from(last[side] + last[2]).is_ok(), "{map}");
        }
        assert_eq!(lines.len(), 5);
        let alone = Identity { mapping: UserMapping::Own, user: 7, group: 8, foreign: false };
        assert_eq!(alone.map(7), "1000 7 1\n");
    }

    #[test]
    fn ids_know_their_bounds() {
        let ids = Ids(vec![(0, 1), (100, 50)]);
        assert!(ids.contains(0) && ids.contains(149));
        assert!(!ids.contains(1) && !ids.contains(150) && !ids.contains(99));
    }
}
