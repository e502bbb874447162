//! The group of this process in each hierarchy of control groups, as a folder.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::getxattr;

/// The group of this process in one hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Mount point of the hierarchy.
    pub(super) mount: PathBuf,
    /// Folder of the group.
    pub(super) folder: PathBuf,
}

/// The groups of this process and the mounts of their hierarchies, as the kernel lists them.
pub(super) struct OwnGroups {
    /// `/proc/self/mountinfo`.
    mounts: String,
    /// `/proc/self/cgroup`.
    groups: String,
}

impl OwnGroups {
    /// Reads both lists.
    pub(super) fn read() -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        Some(Self { mounts, groups: fs::read_to_string("/proc/self/cgroup").ok()? })
    }

    /// Finds the group in the hierarchy of version two.
    pub(super) fn unified(&self) -> Option<Place> {
        self.find(
            |mount| mount.kind == "cgroup2",
            |group| group.controllers.is_empty() && group.number == "0",
        )
    }

    /// Finds the group in the hierarchy of version one that has this controller.
    pub(super) fn of_controller(&self, controller: &str) -> Option<Place> {
        let names = |list: &str| list.split(',').any(|name| name == controller);
        self.find(|mount| mount.kind == "cgroup" && names(mount.options), |group| names(group.controllers))
    }

    fn find(
        &self,
        is_mount: impl Fn(&Mount<'_>) -> bool,
        is_group: impl Fn(&Line<'_>) -> bool,
    ) -> Option<Place> {
        let group = self.groups.lines().filter_map(group_of).find(|group| is_group(group))?;
        let mount = self.mounts.lines().filter_map(mount_of).find(|mount| is_mount(mount))?;
        // A container may mount a part of the hierarchy alone; a group outside of that part is out of
        // reach.
        let below = Path::new(group.path).strip_prefix(&mount.root).ok()?;
        Some(Place { folder: mount.point.join(below), mount: mount.point })
    }
}

impl Place {
    /// Returns true if the group was delegated to its processes, which may divide it: by systemd,
    /// which marks it, or because it is all that a container sees.
    pub(super) fn is_delegated(&self) -> bool {
        let marked = |name: &str| {
            let mut value = [0_u8; 8];
            getxattr(&self.folder, name, &mut value[..]).is_ok_and(|length| value.get(..length) == Some(b"1"))
        };
        self.folder == self.mount || marked("user.delegate") || marked("trusted.delegate")
    }
}

/// A line of `/proc/self/mountinfo`.
struct Mount<'a> {
    root: PathBuf,
    point: PathBuf,
    kind: &'a str,
    options: &'a str,
}

/// A line of `/proc/self/cgroup`.
struct Line<'a> {
    number: &'a str,
    controllers: &'a str,
    path: &'a str,
}

fn group_of(line: &str) -> Option<Line<'_>> {
    let mut parts = line.splitn(3, ':');
    Some(Line { number: parts.next()?, controllers: parts.next()?, path: parts.next()? })
}

fn mount_of(line: &str) -> Option<Mount<'_>> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (unescaped(before.next()?), unescaped(before.next()?));
    let mut after = after.split(' ');
    let kind = after.next()?;
    Some(Mount { root, point, kind, options: after.nth(1)? })
}

/// Decodes a path in which the kernel writes spaces, tabs, newlines and backslashes as three octal
/// digits.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        let octal = after
            .get(..3)
            .filter(|_| first == b'\\')
            .and_then(|digits| u8::from_str_radix(OsStr::from_bytes(digits).to_str()?, 8).ok());
        match octal {
            Some(byte) => {
                bytes.push(byte);
                rest = after.get(3..).unwrap_or_default();
            }
            None => bytes.push(first),
        }
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                          41 31 0:38 /docker/abc /sys/fs/cgroup/uni\\040fied rw - cgroup2 cgroup2 rw,nsdelegate\n";

    fn within(mounts: &str, groups: &str) -> OwnGroups {
        OwnGroups { mounts: mounts.to_owned(), groups: groups.to_owned() }
    }

    #[test]
    fn the_own_group_is_found_below_what_is_mounted() {
        let groups = "4:memory:/a/b\n0::/docker/abc/d\n";
        let memory = within(MOUNTS, groups).of_controller("memory");
        assert_eq!(
            memory,
            Some(Place { mount: "/sys/fs/cgroup/memory".into(), folder: "/sys/fs/cgroup/memory/a/b".into() })
        );
        let unified = within(MOUNTS, groups).unified();
        assert_eq!(unified.unwrap().folder, Path::new("/sys/fs/cgroup/uni fied/d"));
    }

    #[test]
    fn a_group_outside_of_what_is_mounted_is_not_found() {
        let groups = "0::/docker/other\n";
        assert_eq!(within(MOUNTS, groups).unified(), None);
        assert_eq!(within("", groups).unified(), None);
        assert_eq!(within(MOUNTS, "").unified(), None);
    }
}
