//! Resolution of paths that touches no file system of another machine.
//!
//! A network file system whose server is gone, or a FUSE file system whose program hangs, delays
//! every access for as long as it likes. The mount table tells where they are, so that a path can be
//! followed link by link up to such a place and no further.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

use crate::MountPoint;

/// Maximum number of links of one path, as the kernel counts them.
const MAX_LINKS: usize = 40;

/// Further file systems of this machine; the kernel does not report all their changes.
const ALSO_LOCAL: [&str; 7] =
    ["aufs", "ecryptfs", "fuse.fuse-overlayfs", "fuse.snapfuse", "fuse.squashfuse", "fuseblk", "virtiofs"];

/// The mounts of this process, as far as they decide which paths may be touched.
#[derive(Debug, Clone, Default)]
pub struct LocalPaths {
    /// Type of each file system that another machine or program serves, by its place.
    remote: BTreeMap<PathBuf, String>,
}

/// A path without links, and the links that lead to it, each at its real place and with its text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The path without links.
    pub real: PathBuf,
    /// Text of each link, by its place.
    pub links: BTreeMap<PathBuf, PathBuf>,
}

/// Reason why a path cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Obstacle {
    /// No entry of this name exists.
    Missing,
    /// The path leads to a file system of this type, which another machine or program serves.
    Remote(String),
    /// The path cannot be followed, for this reason.
    Unreadable(String),
}

impl LocalPaths {
    /// Reads the mounts. The file systems of the root folder and of `home` count as local, because
    /// nothing works without them.
    pub fn of_this_process(home: Option<&Path>) -> Self {
        // Without a mount table there is no reason to expect other machines.
        Self::new(crate::mount_points().unwrap_or_default(), home)
    }

    fn new(mounts: Vec<MountPoint>, home: Option<&Path>) -> Self {
        let mut remote = BTreeMap::new();
        for mount in mounts {
            // A later mount covers an earlier one at the same place.
            if mount.is_local() || ALSO_LOCAL.contains(&&*mount.kind) {
                remote.remove(&mount.path);
            } else {
                remote.insert(mount.path, mount.kind);
            }
        }
        for folder in home.into_iter().flat_map(Path::ancestors).chain([Path::new("/")]) {
            remote.remove(folder);
        }
        Self { remote }
    }

    /// Counts the file systems around and below a folder as local, because the user names it.
    pub fn accept(&mut self, folder: &Path) {
        self.remote.retain(|place, _| !folder.starts_with(place) && !place.starts_with(folder));
    }

    /// Returns the real path of a program, or `None` if the path leads to none.
    pub fn program(&self, path: &Path) -> Option<PathBuf> {
        let real = self.resolve(path).ok()?.real;
        let found = fs::metadata(&real).ok()?;
        (found.is_file() && found.permissions().mode() & 0o111 != 0).then_some(real)
    }

    /// Returns true if a real path leads to a program by its content too: some file systems call
    /// every file executable.
    pub fn is_certainly_program(&self, real: &Path) -> bool {
        let begins = || {
            let mut start = [0; 4];
            let read = fs::File::open(real).and_then(|mut file| file.read(&mut start)).unwrap_or_default();
            start.get(..read).is_some_and(|start| start.starts_with(b"#!") || start == b"\x7fELF")
        };
        self.program(real).is_some() && begins()
    }

    /// Follows all links of an absolute path.
    ///
    /// # Errors
    /// The path leads nowhere, in circles, or to a file system that may not be touched.
    pub fn resolve(&self, path: &Path) -> Result<ResolvedPath, Obstacle> {
        let mut pending: VecDeque<OsString> = names(path).collect();
        let mut resolved = ResolvedPath { real: PathBuf::from("/"), ..ResolvedPath::default() };
        let mut followed = 0;
        while let Some(name) = pending.pop_front() {
            if name == ".." {
                resolved.real.pop();
                continue;
            }
            let next = resolved.real.join(&name);
            if let Some(kind) = self.remote.get(&next) {
                return Err(Obstacle::Remote(kind.clone()));
            }
            if !fs::symlink_metadata(&next).map_err(|error| obstacle(&error))?.is_symlink() {
                resolved.real = next;
                continue;
            }
            followed += 1;
            if followed > MAX_LINKS {
                return Err(Obstacle::Unreadable("too many links".to_owned()));
            }
            let target = fs::read_link(&next).map_err(|error| obstacle(&error))?;
            if target.is_absolute() {
                resolved.real = PathBuf::from("/");
            }
            let rest = std::mem::take(&mut pending);
            pending = names(&target).chain(rest).collect();
            resolved.links.insert(next, target);
        }
        Ok(resolved)
    }

    /// Returns the type of a file system of another machine or program below a real folder.
    pub fn remote_below(&self, folder: &Path) -> Option<&str> {
        let mut below = self.remote.iter().filter(|(place, _)| place.starts_with(folder));
        below.next().map(|(_, kind)| kind.as_str())
    }
}

/// Returns the parts of a path that lead anywhere, `..` included.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    let parts = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    parts.map(|part| part.as_os_str().to_owned())
}

fn obstacle(error: &io::Error) -> Obstacle {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Obstacle::Missing,
        _ => Obstacle::Unreadable(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        (folder, real)
    }

    fn mount(path: PathBuf, kind: &str) -> MountPoint {
        MountPoint { path, kind: kind.to_owned() }
    }

    #[test]
    fn a_path_is_followed_like_the_kernel_does_and_its_links_are_told() {
        let (_folder, at) = place();
        fs::create_dir_all(at.join("a/b")).unwrap();
        symlink("b", at.join("a/relative")).unwrap();
        symlink(at.join("a/relative"), at.join("absolute")).unwrap();
        symlink("../a/../absolute", at.join("a/back")).unwrap();
        let paths = LocalPaths::default();
        for (path, links) in [
            ("a/b", &[][..]),
            ("./a//b/", &[]),
            ("absolute", &["a/relative", "absolute"]),
            ("a/back", &["a/back", "a/relative", "absolute"]),
            ("absolute/../b", &["a/relative", "absolute"]),
        ] {
            let found = paths.resolve(&at.join(path)).unwrap();
            assert_eq!(found.real, at.join(path).canonicalize().unwrap(), "{path}");
            let told: Vec<_> = found.links.into_keys().collect();
            assert_eq!(told, links.iter().map(|link| at.join(link)).collect::<Vec<_>>(), "{path}");
        }
    }

    #[test]
    fn a_path_that_leads_nowhere_or_in_circles_is_an_obstacle() {
        let (_folder, at) = place();
        fs::write(at.join("file"), "").unwrap();
        symlink("two", at.join("one")).unwrap();
        symlink("one", at.join("two")).unwrap();
        symlink("absent", at.join("dangling")).unwrap();
        let paths = LocalPaths::default();
        for path in ["absent", "file/below", "dangling"] {
            assert_eq!(paths.resolve(&at.join(path)), Err(Obstacle::Missing), "{path}");
        }
        let long = "x".repeat(300);
        for path in ["one", "two/bin", &long] {
            let found = paths.resolve(&at.join(path));
            assert!(matches!(found, Err(Obstacle::Unreadable(_))), "{path}: {found:?}");
        }
    }

    #[test]
    fn a_file_system_of_another_machine_is_not_touched_unless_it_holds_the_home() {
        let (_folder, at) = place();
        for folder in ["net/tools/bin", "home/me/bin", "local/bin", "covered/bin"] {
            fs::create_dir_all(at.join(folder)).unwrap();
        }
        symlink(at.join("net/tools"), at.join("local/link")).unwrap();
        let mounts = || {
            vec![
                mount(at.join("net"), "nfs4"),
                mount(at.join("home"), "fuse.sshfs"),
                mount(at.join("covered"), "autofs"),
                mount(at.join("covered"), "ext4"),
                mount(at.join("local"), "fuseblk"),
            ]
        };
        let paths = LocalPaths::new(mounts(), Some(&at.join("home/me")));
        for path in ["net", "net/tools/bin", "net/absent", "local/link/bin"] {
            assert_eq!(paths.resolve(&at.join(path)), Err(Obstacle::Remote("nfs4".to_owned())), "{path}");
        }
        for path in ["home/me/bin", "local/bin", "covered/bin"] {
            assert_eq!(paths.resolve(&at.join(path)).unwrap().real, at.join(path), "{path}");
        }
        let mut accepting = paths.clone();
        accepting.accept(&at.join("net/tools"));
        assert_eq!(accepting.resolve(&at.join("local/link/bin")).unwrap().real, at.join("net/tools/bin"));
        assert_eq!(paths.remote_below(&at), Some("nfs4"));
        assert_eq!(paths.remote_below(&at.join("home")), None);
        let elsewhere = LocalPaths::new(mounts(), Some(Path::new("/home/me")));
        assert_eq!(
            elsewhere.resolve(&at.join("home/me/bin")),
            Err(Obstacle::Remote("fuse.sshfs".to_owned()))
        );
    }
}
