//! The caches of build tools, which a cell's home keeps from one command to the next; all other
//! files are lost.
//!
//! A home is in memory and new for each cell. So a start-up file, a configuration or a program that
//! one command leaves there has no effect on the next. The caches in it are links to one folder of
//! the host, which the cells of one workspace share.
//!
//! This module does not bound the size of the caches: the caller that does removes whole caches
//! while [`KeptHome::alone`] reports that no cell uses them.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, mkdirat, open, openat, unlinkat,
};
use rustix::io::Errno;

use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::{Identity, UNPRIVILEGED};

/// Mount point of the caches, relative to the home.
pub(crate) const KEPT: &str = ".kept";

/// The shared caches: the path at which a tool looks for its cache in the home, and the name of the
/// cache.
///
/// INVARIANT: no program that only reports about itself (`--version`) runs a file from one of these
/// folders. No program that was not written for these caches reads them. Policies allow `--version`
/// commands without asking, and the caches contain files of any earlier command. So three folders
/// are absent: `.cache` as a whole, in which launchers store the programs that they start
/// (corepack, bazelisk, coursier); `.local`, from which every Python loads modules; and `.cargo`,
/// whose configuration names programs.
pub(crate) const CACHES: [(&str, &str); 22] = [
    (".bun/install/cache", "bun"),
    (".bundle/cache", "bundle"),
    (".cache/ccache", "ccache"),
    (".cache/composer", "composer"),
    (".cache/deno", "deno"),
    (".cache/go-build", "go-build"),
    (".cache/golangci-lint", "golangci-lint"),
    (".cache/ms-playwright", "ms-playwright"),
    (".cache/node-gyp", "node-gyp"),
    (".cache/pip", "pip"),
    (".cache/pre-commit", "pre-commit"),
    (".cache/pypoetry", "pypoetry"),
    (".cache/uv", "uv"),
    (".cache/yarn", "yarn"),
    (".cargo/git", "cargo-git"),
    (".cargo/registry", "cargo-registry"),
    (".gradle/caches", "gradle"),
    (".m2/repository", "maven"),
    (".npm", "npm"),
    (".nuget/packages", "nuget"),
    (".yarn/berry/cache", "yarn-berry"),
    ("go/pkg", "go"),
];

const LOCK: &str = "lock";
const FOLDER: &str = "kept";

/// A folder of the host with the caches of the homes of one workspace's cells.
///
/// Several processes may use the folder at once. A killed process leaves no lock behind.
#[derive(Debug)]
pub struct KeptHome {
    folder: PathBuf,
    /// Owner of the caches on disk, if that is not this process's user.
    owner: Option<(Uid, Gid)>,
    /// Change time of the caches' folder when it was last found complete.
    complete: Mutex<Option<(i64, i64)>>,
}

/// A shared lock; while it exists, a cell may use the caches.
#[derive(Debug)]
pub(crate) struct InUse {
    kept: PathBuf,
    _lock: File,
}

/// An exclusive lock; while it exists, no cell uses the caches, and none starts to.
#[derive(Debug)]
pub struct ExclusiveHome {
    _lock: File,
}

impl KeptHome {
    /// Opens the caches in `folder`, which need not exist, for the cells of `workspace`. The folder
    /// must serve this purpose alone, with no access for other users (mode 0700), and must never be
    /// used for another workspace.
    ///
    /// If Handfast runs as root, the workspace's owner owns the caches on disk; root never does.
    ///
    /// # Errors
    /// Returns an error if the owner of the workspace cannot be determined.
    pub fn new(folder: PathBuf, workspace: &Path) -> Result<Self, SandboxError> {
        let identity = Identity::of_this_process()?;
        let owner = if identity.mapping == UserMapping::IdMapped {
            let found = fs::metadata(workspace)
                .map_err(|source| SandboxError::Io { doing: "finding the owner of the workspace", source })?;
            let not_root = |id: u32| if id == 0 { UNPRIVILEGED } else { id };
            Some((Uid::from_raw(not_root(found.uid())), Gid::from_raw(not_root(found.gid()))))
        } else {
            None
        };
        Ok(Self { folder, owner, complete: Mutex::default() })
    }

    /// Opens the caches in `folder` without a cell, in order to lock them exclusively.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, owner: None, complete: Mutex::default() }
    }

    /// Returns the folder with the caches, each by its name. Commands write there without
    /// restriction.
    pub fn caches(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    /// Locks the caches against use by cells; returns `None` while a cell uses them.
    ///
    /// # Errors
    /// Returns an error if the lock file cannot be opened or locked.
    pub fn alone(&self) -> io::Result<Option<ExclusiveHome>> {
        let lock = open_lock(&self.folder)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(ExclusiveHome { _lock: lock })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Starts to use the caches. Waits while they are locked exclusively, which is never for long.
    pub(crate) fn enter(&self) -> io::Result<InUse> {
        loop {
            let lock = match open_lock(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    private_folder().recursive(true).create(&self.folder)?;
                    open_lock(&self.folder)?
                }
                lock => lock?,
            };
            locks::acquire(&lock, locks::Kind::Shared, &self.folder.join(LOCK).display())?;
            // The previous owner of the exclusive lock may have removed the whole folder.
            let is_there = fs::metadata(self.folder.join(LOCK)).is_ok_and(|there| {
                lock.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
            });
            if is_there {
                self.complete()?;
                return Ok(InUse { kept: self.caches(), _lock: lock });
            }
        }
    }

    /// Ensures that the folder of each cache, to which a link leads, exists: a command may have
    /// removed one.
    fn complete(&self) -> io::Result<()> {
        let kept = self.caches();
        let mut seen = self.complete.lock();
        // No program can set the change time, and changes inside of the caches do not affect it.
        let now = |found: &fs::Metadata| (found.ctime(), found.ctime_nsec());
        if let Ok(found) = fs::metadata(&kept)
            && *seen == Some(now(&found))
        {
            return Ok(());
        }
        match private_folder().create(&kept) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        // The folder's name is out of reach of commands, so it is no link.
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(&kept, flags, Mode::empty())?;
        self.give(&opened)?;
        for (_, name) in CACHES {
            let made = match mkdirat(&opened, name, Mode::from_raw_mode(0o700)) {
                Err(Errno::EXIST) => match openat(&opened, name, flags, Mode::empty()) {
                    // Not a folder, so replace it. A folder that is closed to its owner does no
                    // harm.
                    Err(Errno::NOTDIR | Errno::LOOP) => {
                        unlinkat(&opened, name, AtFlags::empty())?;
                        mkdirat(&opened, name, Mode::from_raw_mode(0o700))
                    }
                    _ => continue,
                },
                made => made,
            };
            made?;
            self.give(&openat(&opened, name, flags, Mode::empty())?)?;
        }
        *seen = fs::metadata(&kept).ok().as_ref().map(now);
        Ok(())
    }

    fn give(&self, folder: &OwnedFd) -> io::Result<()> {
        let Some((user, group)) = self.owner else { return Ok(()) };
        Ok(fchown(folder, Some(user), Some(group))?)
    }
}

impl InUse {
    /// Returns the folder to which the home's links lead.
    pub(crate) fn kept(&self) -> &Path {
        &self.kept
    }
}

/// Returns the target of the link at `path`, relative to the home, to the cache `name`.
pub(crate) fn link_text(path: &str, name: &str) -> String {
    let up = "../".repeat(path.matches('/').count());
    format!("{up}{KEPT}/{name}")
}

fn private_folder() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.mode(0o700);
    builder
}

fn open_lock(folder: &Path) -> io::Result<File> {
    fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(folder.join(LOCK))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(folder: &Path) -> KeptHome {
        KeptHome::new(folder.join("home"), folder).unwrap()
    }

    #[test]
    fn nobody_is_alone_while_a_cell_uses_the_caches_and_everybody_afterwards() {
        let folder = tempfile::tempdir().unwrap();
        // Two objects, like those of two processes.
        let (one, other) = (home(folder.path()), home(folder.path()));
        let cells = [one.enter().unwrap(), other.enter().unwrap()];
        assert!(other.alone().unwrap().is_none());
        drop(cells);
        let alone = other.alone().unwrap();
        assert!(alone.is_some() && one.alone().unwrap().is_none());
    }

    #[test]
    fn what_a_command_made_of_the_caches_is_put_right() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        drop(home.enter().unwrap());
        let kept = home.caches();
        fs::write(kept.join("npm/stays"), "").unwrap();
        fs::remove_dir(kept.join("pip")).unwrap();
        fs::remove_dir(kept.join("go")).unwrap();
        std::os::unix::fs::symlink("/etc", kept.join("go")).unwrap();
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o000)).unwrap();
        drop(home.enter().unwrap());
        assert!(CACHES.iter().all(|(_, name)| kept.join(name).symlink_metadata().unwrap().is_dir()));
        assert!(kept.join("npm/stays").exists() && Path::new("/etc/passwd").exists());
        assert_eq!(fs::metadata(&kept).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_folder_that_was_taken_away_is_made_again() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(folder.path());
        drop(home.enter().unwrap());
        fs::remove_dir_all(folder.path().join("home")).unwrap();
        drop(home.enter().unwrap());
        assert!(home.caches().join("npm").is_dir());
    }

    #[test]
    fn links_lead_from_where_they_are() {
        assert_eq!(link_text(".npm", "npm"), ".kept/npm");
        assert_eq!(link_text(".bun/install/cache", "bun"), "../../.kept/bun");
        let mut names: Vec<_> = CACHES.iter().map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), CACHES.len(), "two caches in one folder");
    }
}
