//! Changes that this program makes itself, laid out in the folder of a call as an overlay would lay out those of a command.
//!
//! So several files change together: one commit puts all of it into the workspace or nothing, sees what others did
//! meanwhile, and is taken back where it was cut off.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, mkdirat, mknodat, openat, symlinkat,
};
use rustix::io::Errno;

use crate::area::UPPER;
use crate::beneath::{LIST, PLACE, look, names, open, set_mode};
use crate::sides::name_of;
use crate::{Call, Entry, Error, Kind, Result, Time, Workspace, attributes};

/// What is to change in a workspace. [`Call::commit`] puts it in.
///
/// Paths are relative to the workspace and have no `.`, no `..` and no links in them. Each is drafted once.
#[derive(Debug)]
pub struct Draft {
    pub(crate) upper: OwnedFd,
    pub(crate) workspace: OwnedFd,
    begun: Time,
}

impl Call {
    /// Begins a draft in this call's empty folder. What others change from now on is a conflict.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn draft(&self, workspace: &Workspace) -> Result<Draft> {
        let begun = self.baseline()?;
        let folder =
            workspace.folder.try_clone().map_err(|source| Error::system("open", &workspace.path, source))?;
        Ok(Draft { upper: self.open(UPPER)?, workspace: folder, begun })
    }
}

impl Draft {
    /// When it was begun, as the file system stamps changes: the baseline of the commit.
    pub fn begun(&self) -> SystemTime {
        let rest = Duration::from_nanos(self.begun.nanoseconds.into());
        match u64::try_from(self.begun.seconds) {
            Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + rest,
            Err(_) => UNIX_EPOCH - Duration::from_secs(self.begun.seconds.unsigned_abs()) + rest,
        }
    }

    /// The file at `path` is to have this content.
    ///
    /// Its owner, mode, access control list and attributes are those of the regular file at `like`, or what any new file gets
    /// there. `executable` sets or clears the execution bits, as far as the file may be read.
    ///
    /// # Errors
    /// [`Error::System`], such as for want of space, or where the owner cannot be kept.
    pub fn write(
        &self,
        path: &Path,
        content: &[u8],
        like: Option<&Path>,
        executable: Option<bool>,
    ) -> Result<()> {
        let (folder, owner) = self.folder_of(path)?;
        let name = name_of(path);
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let failed = Error::while_doing("write", path);
        let mut file = File::from(openat(&folder, name, flags, Mode::from_raw_mode(0o666)).map_err(&failed)?);
        let entry = Entry::of(&fstat(&file).map_err(&failed)?);
        let mut mode = entry.mode;
        if let Some(like) = like {
            let from = self.parent(like)?;
            let old = look(&from, name_of(like)).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
            let keep = Error::while_doing("keep the owner of", path);
            own(&folder, name, &entry, (old.owner, old.group)).map_err(keep)?;
            attributes::kept(from.as_fd(), name_of(like))
                .and_then(|kept| attributes::set(folder.as_fd(), name, &kept))
                .map_err(Error::while_doing("keep the attributes of", path))?;
            // Not the bits that let a program run as its owner: the new content was not what somebody gave them to.
            mode = old.mode & 0o1777;
        } else {
            give(&folder, name, &entry, owner).map_err(&failed)?;
        }
        mode = match executable {
            Some(true) => mode | (mode & 0o444) >> 2,
            Some(false) => mode & !0o111,
            None => mode,
        };
        set_mode(file.as_fd(), mode).map_err(&failed)?;
        file.write_all(content).map_err(|source| Error::system("write", path, source))?;
        if self.has(path) {
            attributes::mark_drafted(folder.as_fd(), name).map_err(&failed)?;
        }
        Ok(())
    }

    /// A symbolic link that says `target` is to be at `path`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn link(&self, path: &Path, target: &OsStr) -> Result<()> {
        let (folder, owner) = self.folder_of(path)?;
        let failed = Error::while_doing("make the link", path);
        symlinkat(target, &folder, name_of(path)).map_err(&failed)?;
        let made = look(&folder, name_of(path)).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
        give(&folder, name_of(path), &made, owner).map_err(&failed)
    }

    /// What is at `path` is to go; of a folder, all that is in it.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn remove(&self, path: &Path) -> Result<()> {
        let (folder, _) = self.folder_of(path)?;
        mknodat(&folder, name_of(path), FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(Error::while_doing("mark as removed", path))
    }

    /// The names in a folder of the workspace, all of them, in no order.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn names_in(&self, folder: &Path) -> Result<Vec<OsString>> {
        let failed = Error::while_doing("list", folder);
        names(&open(self.workspace.as_fd(), folder, LIST).map_err(&failed)?).map_err(&failed)
    }

    /// The folder for `path` in the draft, and who owns what is made in it, if anybody but this process.
    fn folder_of(&self, path: &Path) -> Result<(OwnedFd, Option<(u32, u32)>)> {
        let mut made = Path::new("").to_owned();
        let mut upper = open(self.upper.as_fd(), &made, LIST).map_err(Error::while_doing("open", &made))?;
        let mut lower = Some(self.open_lower(&made)?);
        let mut owner = lower.as_ref().and_then(owner_of);
        for name in path.parent().into_iter().flatten() {
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
        Ok((upper, owner))
    }

    /// Whether the workspace has something there already.
    fn has(&self, path: &Path) -> bool {
        open(self.workspace.as_fd(), path, OFlags::PATH).is_ok()
    }

    fn open_lower(&self, path: &Path) -> Result<OwnedFd> {
        open(self.workspace.as_fd(), path, PLACE).map_err(Error::while_doing("open", path))
    }

    fn parent(&self, path: &Path) -> Result<OwnedFd> {
        self.open_lower(path.parent().unwrap_or(Path::new("")))
    }
}

/// Where this process is root, what it makes belongs to the owner of the folder: a workspace stays its owner's.
fn owner_of(folder: &OwnedFd) -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let folder = Entry::of(&fstat(folder).ok()?);
    Some((folder.owner, folder.group))
}

fn give(folder: &OwnedFd, name: &OsStr, made: &Entry, to: Option<(u32, u32)>) -> rustix::io::Result<()> {
    match to.map_or(Ok(()), |to| own(folder, name, made, to)) {
        // The root of a user namespace cannot give files to an owner from outside of it: they stay its own.
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
