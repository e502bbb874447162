//! Changes that this program makes itself, laid out in the folder of a call like the changes of a
//! command in an overlay.
//!
//! Several files therefore change together: one commit applies all of them or none, detects
//! concurrent changes, and is undone if it is interrupted.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::Errno;

use crate::exchange_dirs::name_of;
use crate::folder::{LIST, PLACE, look, names, open, set_mode};
use crate::staging::UPPER;
use crate::state_cache::StateCache;
use crate::{Call, Entry, Error, Kind, Result, State, Time, Workspace, attributes};

/// File that marks the changes in the folder of a call as drafted.
const DRAFT: &str = "draft";

/// Changes to a workspace, to be applied by [`Call::commit`].
///
/// Paths are relative to the workspace and contain no `.`, no `..` and no links. Each path is
/// drafted once.
#[derive(Debug)]
pub struct Draft {
    pub(crate) upper: OwnedFd,
    pub(crate) workspace: OwnedFd,
    /// Path at which the workspace was opened.
    pub(crate) path: PathBuf,
    begun: Time,
    /// State shared with the call that commits the draft.
    pub(crate) known: Arc<StateCache>,
    pub(crate) is_tried: bool,
    /// Folder of the last drafted path.
    last: Mutex<Option<Arc<Holder>>>,
}

/// A folder on both sides.
#[derive(Debug)]
struct Holder {
    path: PathBuf,
    upper: OwnedFd,
    /// Folder in the workspace, if it exists.
    lower: Option<OwnedFd>,
    /// Owner and group of new entries in the folder, if other than this process's.
    owner: Option<(u32, u32)>,
}

impl Call {
    /// Begins a draft in this call's empty folder. Later changes by others are conflicts.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn draft(&self, workspace: &Workspace) -> Result<Draft> {
        let begun = self.baseline()?;
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        openat(&self.folder, DRAFT, flags, Mode::from_raw_mode(0o600))
            .map_err(|errno| Error::system("make", DRAFT, errno))?;
        let folder =
            workspace.folder.try_clone().map_err(|source| Error::system("open", &workspace.path, source))?;
        let (upper, known) = (self.open(UPPER)?, self.known.clone());
        let path = workspace.path.clone();
        Ok(Draft { upper, workspace: folder, path, begun, known, is_tried: false, last: Mutex::default() })
    }

    /// Returns true if the changes of this call were drafted. The mark is stored with them.
    pub(crate) fn is_draft(&self) -> Result<bool> {
        let found = look(&self.folder, OsStr::new(DRAFT));
        found.map(|found| found.is_some()).map_err(|errno| Error::system("inspect", DRAFT, errno))
    }
}

impl Draft {
    /// Marks the draft as never to be committed, so that nothing is kept for a commit.
    #[must_use]
    pub fn as_dry_run(self) -> Self {
        Self { is_tried: true, ..self }
    }

    /// Returns the time of its beginning: the baseline of the commit.
    pub(crate) fn since(&self) -> Time {
        self.begun
    }

    /// Returns the time of its beginning by the file system's clock: the baseline of the commit.
    pub fn begun(&self) -> SystemTime {
        let rest = Duration::from_nanos(self.begun.nanoseconds.into());
        match u64::try_from(self.begun.seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + rest,
            Err(_) => UNIX_EPOCH - Duration::from_secs(self.begun.seconds.unsigned_abs()) + rest,
        }
    }

    /// Drafts a file with this content at `path`.
    ///
    /// The file gets the owner, mode, access control list and attributes of the regular file at
    /// `like`, or the defaults of a new file. `executable` sets the execution bits for everybody who
    /// may read the file, or clears them.
    ///
    /// # Errors
    /// [`Error::System`], for example on a full disk, or if the owner cannot be kept.
    pub fn write(
        &self,
        path: &Path,
        content: &[u8],
        like: Option<&Path>,
        executable: Option<bool>,
    ) -> Result<()> {
        let holder = self.holder_of(path)?;
        let (folder, name) = (&holder.upper, name_of(path));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let failed = Error::while_doing("write", path);
        let mut file = File::from(openat(folder, name, flags, Mode::from_raw_mode(0o666)).map_err(&failed)?);
        let entry = Entry::of(&fstat(&file).map_err(&failed)?);
        let mut mode = entry.mode;
        if let Some(like) = like {
            let elsewhere = match &holder.lower {
                Some(_) if like.parent() == path.parent() => None,
                _ => Some(self.open_lower(like.parent().unwrap_or(Path::new("")))?),
            };
            let from = elsewhere.as_ref().or(holder.lower.as_ref()).ok_or_else(|| failed(Errno::STALE))?;
            let old = look(from, name_of(like)).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
            let keep = Error::while_doing("keep the owner of", path);
            own(folder, name, &entry, (old.owner, old.group)).map_err(keep)?;
            attributes::kept(from.as_fd(), name_of(like))
                .and_then(|kept| attributes::set(folder.as_fd(), name, &kept))
                .map_err(Error::while_doing("keep the attributes of", path))?;
            // The set-user-ID and set-group-ID bits are dropped: nobody granted these rights to the
            // new content.
            mode = old.mode & 0o1777;
        } else {
            give(folder, name, &entry, holder.owner).map_err(&failed)?;
        }
        mode = match executable {
            Some(true) => mode | (mode & 0o444) >> 2,
            Some(false) => mode & !0o111,
            None => mode,
        };
        set_mode(file.as_fd(), mode).map_err(&failed)?;
        file.write_all(content).map_err(|source| Error::system("write", path, source))?;
        let attributes = attributes::kept_of(file.as_fd()).map_err(&failed)?;
        let is_marked = holder.has(name);
        if is_marked {
            attributes::mark_drafted_of(file.as_fd()).map_err(&failed)?;
        }
        let entry = Entry::of(&fstat(&file).map_err(failed)?);
        let content = Some(*blake3::hash(content).as_bytes());
        self.known
            .note_written(State { entry, attributes, target: None, content, is_sparse: false }, is_marked);
        Ok(())
    }

    /// Drafts a symbolic link to `target` at `path`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn link(&self, path: &Path, target: &OsStr) -> Result<()> {
        let holder = self.holder_of(path)?;
        let (folder, name) = (&holder.upper, name_of(path));
        let failed = Error::while_doing("make the link", path);
        symlinkat(target, folder, name).map_err(&failed)?;
        let made = look(folder, name).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
        give(folder, name, &made, holder.owner).map_err(&failed)
    }

    /// Drafts the removal of the entry at `path`; a folder goes with all its contents.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn remove(&self, path: &Path) -> Result<()> {
        let holder = self.holder_of(path)?;
        mknodat(&holder.upper, name_of(path), FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(Error::while_doing("mark as removed", path))
    }

    /// Lists all names in a folder of the workspace, in no particular order.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn names_in(&self, folder: &Path) -> Result<Vec<OsString>> {
        let failed = Error::while_doing("list", folder);
        names(&open(self.workspace.as_fd(), folder, LIST).map_err(&failed)?).map_err(&failed)
    }

    /// Returns the parent folder for `path`. Neighbouring paths share theirs.
    fn holder_of(&self, path: &Path) -> Result<Arc<Holder>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let mut last = self.last.lock();
        if let Some(last) = last.as_ref().filter(|last| last.path == parent) {
            return Ok(last.clone());
        }
        Ok(last.insert(Arc::new(self.make_holder(parent)?)).clone())
    }

    fn make_holder(&self, path: &Path) -> Result<Holder> {
        let mut made = Path::new("").to_owned();
        let mut upper = open(self.upper.as_fd(), &made, LIST).map_err(Error::while_doing("open", &made))?;
        let mut lower = Some(self.open_lower(&made)?);
        let mut owner = lower.as_ref().and_then(owner_of);
        for name in path {
            made.push(name);
            let failed = Error::while_doing("make", &made);
            let below = match &lower {
                Some(lower) => look(lower, name).map_err(&failed)?,
                None => None,
            };
            lower = match below {
                Some(entry) if entry.kind == Kind::Folder => Some(self.open_lower(&made)?),
                _ => None,
            };
            match mkdirat(&upper, name, Mode::from_raw_mode(0o777)) {
                Ok(()) if lower.is_some() => {
                    attributes::mark_drafted(upper.as_fd(), name).map_err(&failed)?;
                }
                Ok(()) => {
                    let entry = look(&upper, name).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
                    give(&upper, name, &entry, owner).map_err(&failed)?;
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
            owner = lower.as_ref().map_or(owner, owner_of);
            upper = open(upper.as_fd(), Path::new(name), LIST).map_err(&failed)?;
        }
        Ok(Holder { path: path.to_owned(), upper, lower, owner })
    }

    fn open_lower(&self, path: &Path) -> Result<OwnedFd> {
        open(self.workspace.as_fd(), path, PLACE).map_err(Error::while_doing("open", path))
    }
}

impl Holder {
    /// Returns true if the workspace already has an entry with this name.
    fn has(&self, name: &OsStr) -> bool {
        self.lower.as_ref().is_some_and(|lower| matches!(look(lower, name), Ok(Some(_))))
    }
}

/// Returns the owner for new entries if this process is root: the owner of the folder, so that a
/// workspace stays its owner's.
fn owner_of(folder: &OwnedFd) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = Entry::of(&fstat(folder).ok()?);
    Some((folder.owner, folder.group))
}

fn give(folder: &OwnedFd, name: &OsStr, made: &Entry, to: Option<(u32, u32)>) -> rustix::io::Result<()> {
    match to.map_or(Ok(()), |to| own(folder, name, made, to)) {
        // Root of a user namespace cannot give files to an owner outside of it: the files stay
        // root's own.
        Err(Errno::PERM | Errno::INVAL) => Ok(()),
        done => done,
    }
}

fn own(folder: &OwnedFd, name: &OsStr, made: &Entry, (owner, group): (u32, u32)) -> rustix::io::Result<()> {
    if (made.owner, made.group) == (owner, group) {
        return Ok(());
    }
    let (owner, group) = (Uid::from_raw(owner), Gid::from_raw(group));
    chownat(folder, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
}
