//! What a cell's home keeps from one command to the next: the caches of build tools, and nothing else.
//!
//! A home is in memory and new with each cell, so that no start-up file, no configuration and no program that one command
//! leaves there is anything to the next. The caches in it are links to one folder of the host, which the cells of one
//! workspace share.
//!
//! This module does not bound what they take: whoever does so takes whole caches out while [`KeptHome::alone`] says that
//! no cell uses them.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{
    AtFlags, FlockOperation, Gid, Mode, OFlags, Uid, fchown, flock, mkdirat, open, openat, unlinkat,
};
use rustix::io::Errno;

use crate::enforcement::UserMapping;
use crate::error::SandboxError;
use crate::identity::{Identity, UNPRIVILEGED};

/// Where in the home what is kept is mounted.
pub(crate) const KEPT: &str = ".kept";

/// The caches that are kept: where a tool looks for its own in the home, and under which name it is kept.
///
/// INVARIANT: no program that only says something of itself (`--version`) runs anything that lies in one of these, and no
/// program that was not written for such a cache looks into it. Policies let such commands pass unasked, and the caches hold
/// what any earlier command left there. So neither `.cache` as a whole is here, in which launchers keep the programs that
/// they start (corepack, bazelisk, coursier), nor `.local`, from which every Python loads modules, nor `.cargo`, whose
/// configuration names programs.
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

/// A folder of the host that keeps the caches of the homes of one workspace's cells.
///
/// Several processes may use the same at once. A process that is killed leaves nothing locked.
#[derive(Debug)]
pub struct KeptHome {
    folder: PathBuf,
    /// Whose the caches are on disk, where that is not this process's own user.
    owner: Option<(Uid, Gid)>,
    /// The change time with which the folder of the caches was last found complete.
    complete: Mutex<Option<(i64, i64)>>,
}

/// While it is held, a cell may use the caches.
#[derive(Debug)]
pub(crate) struct InUse {
    kept: PathBuf,
    _lock: File,
}

/// While it is held, no cell uses the caches, and none begins to.
#[derive(Debug)]
pub struct Alone {
    _lock: File,
}

impl KeptHome {
    /// The caches in `folder`, which need not exist, for the cells of `workspace`. The folder is for this alone, and
    /// nobody else may enter it (mode 0700); another workspace must never be given the same.
    ///
    /// Where Handfast runs as root, they belong to the workspace's owner on disk; but never to root.
    ///
    /// # Errors
    /// Where it cannot be found out whose they are to be.
    pub fn new(folder: PathBuf, workspace: &Path) -> Result<Self, SandboxError> {
        let identity = Identity::of_this_process()?;
        let owner = if identity.mapping == UserMapping::IdMapped {
            let found = fs::metadata(workspace)
                .map_err(|source| SandboxError::Io { doing: "looking whose the workspace is", source })?;
            let not_root = |id: u32| if id == 0 { UNPRIVILEGED } else { id };
            Some((Uid::from_raw(not_root(found.uid())), Gid::from_raw(not_root(found.gid()))))
        } else {
            None
        };
        Ok(Self { folder, owner, complete: Mutex::default() })
    }

    /// The same without a cell: to have what is in `folder` alone.
    pub fn at(folder: PathBuf) -> Self {
        Self { folder, owner: None, complete: Mutex::default() }
    }

    /// The folder in which the caches are, each by its name. Commands write there what they like.
    pub fn caches(&self) -> PathBuf {
        self.folder.join(FOLDER)
    }

    /// Keeps cells from using the caches; `None` while one does.
    ///
    /// # Errors
    /// Where it cannot be known.
    pub fn alone(&self) -> io::Result<Option<Alone>> {
        let lock = open_lock(&self.folder)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Alone { _lock: lock })),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Begins to use the caches. Waits for whoever has them alone, which is never for long.
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
            // Whoever had them alone may have taken the whole folder away.
            let is_there = fs::metadata(self.folder.join(LOCK)).is_ok_and(|there| {
                lock.metadata().is_ok_and(|own| (own.dev(), own.ino()) == (there.dev(), there.ino()))
            });
            if is_there {
                self.complete()?;
                return Ok(InUse { kept: self.caches(), _lock: lock });
            }
        }
    }

    /// Sees to it that each cache has its folder, which links lead to: a command may have removed one.
    fn complete(&self) -> io::Result<()> {
        let kept = self.caches();
        let mut seen = self.complete.lock().unwrap_or_else(PoisonError::into_inner);
        // No program can set this time, and entering and leaving caches does not change it.
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
        // Its name lies out of reach of commands, so it is no link.
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o700))?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = open(&kept, flags, Mode::empty())?;
        self.give(&opened)?;
        for (_, name) in CACHES {
            let made = match mkdirat(&opened, name, Mode::from_raw_mode(0o700)) {
                Err(Errno::EXIST) => match openat(&opened, name, flags, Mode::empty()) {
                    // Something else than a folder. A folder that is closed to its own owner does no harm.
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
    /// The folder that the home's links lead to.
    pub(crate) fn kept(&self) -> &Path {
        &self.kept
    }
}

/// The text of the link at `path`, relative to the home, to what is kept as `name`.
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
        // Two, as of two processes.
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
