//! The private folder with the changes of each call, its locks and its notes.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use locks::{FileLock, Kind};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::folder::{LIST, look, names, open, set_modified, spread};
use crate::journal::{Journal, Stage};
use crate::remove::{remove_all_but, remove_tree};
use crate::state_cache::StateCache;
use crate::{Entry, Error, KeptChanges, Result, Time, Workspace};

/// Folder for the entries that the overlay writes, within the folder of a call.
pub(crate) const UPPER: &str = "upper";
/// Work folder of the overlay.
const WORK: &str = "work";
/// Folder for entries that a commit removes from the workspace.
pub(crate) const TAKEN: &str = "taken";

/// Lock file of the process that owns the call, locked for the life of the process.
const LOCK: &str = "lock";
/// Lock file of a process that begins or claims a call.
const AREA_LOCK: &str = "area.lock";
/// Suffix of the note that records which changes somebody applied.
const APPLIED: &str = ".applied";
/// File that describes a watch while a command writes to the workspace directly.
const WATCHED: &str = "watched";
/// File whose change times are the clock of the changes.
const CLOCK: &str = "clock";

/// A private folder of this program, with one folder for each call that makes changes through an
/// overlay.
///
/// Several processes may share the area. The folder must be private (mode 0700) to the user.
#[derive(Debug)]
pub struct Area {
    path: PathBuf,
    folder: OwnedFd,
}

/// The folder of one call: the target of its overlay's writes, and of the entries that a commit
/// takes out of the workspace.
///
/// A dropped call stays on the disk until [`Area::recover`] finds it.
#[derive(Debug)]
pub struct Call {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) area: OwnedFd,
    pub(crate) folder: OwnedFd,
    /// Files that the call's drafts read and wrote.
    pub(crate) known: Arc<StateCache>,
    /// Lock that ends with the process, however it ends.
    _alive: FileLock,
}

impl Area {
    /// Opens the folder at `path`, and creates it if missing. Its parent folder must exist.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |errno: Errno| Error::system("open", path, errno);
        match mkdirat(CWD, path, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let folder = openat(CWD, path, LIST | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        spread(&folder);
        Ok(Self { path: path.to_owned(), folder })
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the folders for one call.
    ///
    /// # Errors
    /// [`Error::System`], for example on a full disk.
    pub fn begin(&self) -> Result<Call> {
        let id = random_id()?;
        let failed = |errno: Errno| Error::system("make", &id, errno);
        // Recovery must not see the folder before it is locked.
        let _alone = self.alone()?;
        let private = Mode::from_raw_mode(0o700);
        mkdirat(&self.folder, &id, private).map_err(failed)?;
        let call = self.claim(&id, true)?.ok_or_else(|| failed(Errno::BUSY))?;
        for part in [UPPER, WORK, TAKEN] {
            mkdirat(&call.folder, part, private).map_err(failed)?;
        }
        Ok(call)
    }

    /// Returns the path of the folder for the call with this id, whether or not it exists.
    pub fn folder_of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// Lists the kept changes, in no particular order.
    ///
    /// # Errors
    /// [`Error::System`]. A damaged record is left out.
    pub fn kept(&self) -> Result<Vec<KeptChanges>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            match KeptChanges::read(&self.folder, &id) {
                Ok(Some(kept)) => all.push(kept),
                Ok(None) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Claims kept changes, to examine them, to commit them with [`KeptChanges::terms`], or to discard
    /// them.
    ///
    /// # Errors
    /// [`Error::NoSuchChanges`] if the id has no changes, or another live process owns them.
    pub fn take_up(&self, id: &str) -> Result<(Call, KeptChanges)> {
        let missing = || Error::NoSuchChanges { id: id.to_owned() };
        if !is_id(OsStr::new(id)) {
            return Err(missing());
        }
        let _alone = self.alone()?;
        let kept = KeptChanges::read(&self.folder, id)?.ok_or_else(missing)?;
        let call = self.claim(id, false)?.ok_or_else(missing)?;
        Ok((call, kept))
    }

    /// Records that somebody has decided to apply these changes at these absolute paths. Other
    /// processes would otherwise attribute the new entries to somebody else.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn set_applied(&self, id: &str, paths: &[PathBuf]) -> Result<()> {
        let name = format!("{id}{APPLIED}");
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(&self.folder, &name, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(made.map_err(|errno| Error::system("make", &name, errno))?);
        let paths: Vec<&[u8]> = paths.iter().map(|path| path.as_os_str().as_bytes()).collect();
        file.write_all(&paths.join(&0)).map_err(|source| Error::system("write", &name, source))
    }

    /// Returns true if [`Area::set_applied`] named this path or a folder above it, in any process.
    /// The record must be at most 60 seconds before or after `changed`, the time at which the entry
    /// got its name.
    pub fn was_applied(&self, path: &Path, changed: Time) -> bool {
        let Ok(folder) = open(self.folder.as_fd(), Path::new(""), LIST) else { return false };
        let notes = names(&folder).unwrap_or_default().into_iter().filter(|name| is_note(name));
        notes.into_iter().any(|name| {
            let noted = look(&folder, &name).ok().flatten().map(|note| note.changed.seconds);
            if noted.is_none_or(|noted| noted.abs_diff(changed.seconds) > 60) {
                return false;
            }
            let mut content = Vec::new();
            let read = open(folder.as_fd(), Path::new(&name), OFlags::RDONLY)
                .is_ok_and(|file| File::from(file).read_to_end(&mut content).is_ok());
            let mut paths = content.split(|byte| *byte == 0).filter(|path| !path.is_empty());
            read && paths.any(|noted| path.starts_with(OsStr::from_bytes(noted)))
        })
    }

    /// Removes the records of [`Area::set_applied`] that are older than `before`.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn forget_applied(&self, before: Time) -> Result<()> {
        let failed = |errno: Errno| Error::system("tidy", &self.path, errno);
        let folder = open(self.folder.as_fd(), Path::new(""), LIST).map_err(failed)?;
        for name in names(&folder).map_err(failed)? {
            if is_note(&name)
                && look(&folder, &name).map_err(failed)?.is_some_and(|note| note.changed < before)
            {
                match unlinkat(&folder, &name, AtFlags::empty()) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(errno) => return Err(failed(errno)),
                }
            }
        }
        Ok(())
    }

    /// Claims the watches of dead processes. Returns the folder of each call, its record, and the
    /// time of its last sign of life.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn take_up_watched(&self) -> Result<Vec<(Call, Vec<u8>, Time)>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let _alone = self.alone()?;
            let is_watched = open(self.folder.as_fd(), &Path::new(&id).join(WATCHED), OFlags::RDONLY).is_ok();
            let Some(call) = is_watched.then(|| self.claim(&id, false)).transpose()?.flatten() else {
                continue;
            };
            let failed = Error::while_doing("read", Path::new(WATCHED));
            let file = open(call.folder.as_fd(), Path::new(WATCHED), OFlags::RDONLY).map_err(&failed)?;
            let last = Entry::of(&fstat(&file).map_err(&failed)?).changed;
            let mut content = Vec::new();
            File::from(file)
                .read_to_end(&mut content)
                .map_err(|source| Error::system("read", Path::new(WATCHED), source))?;
            all.push((call, content, last));
        }
        Ok(all)
    }

    /// Returns true if a live process owns the call with this id.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn is_alive(&self, id: &str) -> Result<bool> {
        if !is_id(OsStr::new(id)) {
            return Ok(false);
        }
        let _alone = self.alone()?;
        let is_there = open(self.folder.as_fd(), Path::new(id), LIST).is_ok();
        Ok(is_there && self.claim(id, false)?.is_none())
    }

    pub(crate) fn ids(&self) -> Result<Vec<String>> {
        let failed = |errno: Errno| Error::system("list", &self.path, errno);
        let folder = open(self.folder.as_fd(), Path::new(""), LIST).map_err(failed)?;
        let names = names(&folder).map_err(failed)?.into_iter();
        Ok(names.filter(|name| is_id(name)).filter_map(|name| name.into_string().ok()).collect())
    }

    /// Returns a description of the process that prevents calls from beginning now, and of its lock,
    /// if any.
    pub fn held_by(&self) -> Option<String> {
        let file = open_lock(&self.folder, AREA_LOCK).ok()?;
        let holder = locks::holder_of(&file)?;
        Some(format!("{holder} holds {}", self.path.join(AREA_LOCK).display()))
    }

    /// Locks the area: until the lock is released, no call begins and none is claimed.
    pub(crate) fn alone(&self) -> Result<FileLock> {
        lock_area(&self.folder, &self.path)
    }

    /// Claims the folder of a call. Returns `None` if a live process owns it.
    pub(crate) fn claim(&self, id: &str, new: bool) -> Result<Option<Call>> {
        let failed = |errno: Errno| Error::system("open", id, errno);
        let folder = match open(self.folder.as_fd(), Path::new(id), LIST) {
            Ok(folder) => folder,
            // The owning process removed the folder after the names were read.
            Err(Errno::NOENT) if !new => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let alive = open_lock(&folder, LOCK).map_err(failed)?;
        let alive = FileLock::try_alone(alive).map_err(|source| Error::system("lock", id, source))?;
        let Some(alive) = alive else { return Ok(None) };
        let area = self.folder.try_clone().map_err(|source| Error::system("open", &self.path, source))?;
        let (path, known) = (self.path.join(id), Arc::default());
        Ok(Some(Call { id: id.to_owned(), path, area, folder, known, _alive: alive }))
    }
}

/// Waits for the lock of the area at this path.
fn lock_area(folder: &OwnedFd, path: &Path) -> Result<FileLock> {
    let file = open_lock(folder, AREA_LOCK).map_err(|errno| Error::system("lock", path, errno))?;
    let name = path.join(AREA_LOCK);
    FileLock::wait(file, Kind::Exclusive, &name.display())
        .map_err(|error| Error::system("lock", &name, error))
}

fn is_note(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(APPLIED.as_bytes())
}

fn open_lock(folder: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(folder, name, flags, Mode::from_raw_mode(0o600))
}

impl Call {
    /// Returns the name of the call in its area, 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the empty folder for the changes of the overlay.
    pub fn upper(&self) -> PathBuf {
        self.path.join(UPPER)
    }

    /// Returns the path of the empty folder that the overlay needs for its own work, on the same
    /// file system.
    pub fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// Returns the time that separates earlier changes from later ones: the baseline of [`Terms`].
    /// Call it right before the overlay is mounted.
    ///
    /// The kernel stamps most changes with a clock that advances in ticks, some milliseconds long
    /// and longer on a loaded machine. Since Linux 6.13, a file whose times were read gets the exact
    /// time of its next change. From then on no file gets an earlier time (multigrain timestamps).
    /// This method uses that, so that the baseline is exact.
    ///
    /// With an older kernel, a change in the same tick just before the call looks like a later one.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn baseline(&self) -> Result<Time> {
        let failed = |errno: Errno| Error::system("inspect", CLOCK, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let private = Mode::from_raw_mode(0o600);
        let file = openat(&self.folder, CLOCK, flags, private).map_err(failed)?;
        // The first change may get the same time as earlier changes. The second gets a later one,
        // because the first was read.
        for _ in 0..2 {
            fstat(&file).map_err(failed)?;
            fchmod(&file, private).map_err(failed)?;
        }
        Ok(Entry::of(&fstat(&file).map_err(failed)?).changed)
    }

    /// Records what is watched, so that the next process can take over if this one ends early.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn watch(&self, content: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(&self.folder, WATCHED, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(made.map_err(|errno| Error::system("make", WATCHED, errno))?);
        file.write_all(content).map_err(|source| Error::system("write", WATCHED, source))
    }

    /// Records that the watch continues.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn still_watches(&self) -> Result<()> {
        let file = open(self.folder.as_fd(), Path::new(WATCHED), OFlags::RDONLY)
            .map_err(|errno| Error::system("open", WATCHED, errno))?;
        fchmod(&file, Mode::from_raw_mode(0o600)).map_err(|errno| Error::system("touch", WATCHED, errno))
    }

    /// Removes the folder of the call with its contents: the changes, or after a commit the old
    /// entries.
    ///
    /// # Errors
    /// [`Error::UnderWay`] if a commit must be undone first. [`Error::System`]: recovery removes the
    /// rest.
    pub fn discard(self) -> Result<()> {
        let journal = match Journal::read(self.folder.as_fd())? {
            // The old entries to be restored lie in this folder.
            Some((Stage::UnderWay, journal)) if !journal.changes.is_empty() => {
                return Err(Error::UnderWay { id: self.id });
            }
            journal => journal.map(|(_, journal)| journal),
        };
        if let Some(journal) = journal
            && let Some(staging) = &journal.staging
        {
            match Workspace::again(&journal.workspace, journal.identity) {
                Ok(workspace) => remove_staging(&workspace, staging, None)?,
                // The workspace is gone, and the staging folder with it.
                Err(Error::OtherWorkspace { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // INVARIANT: the lock file is removed last, while no call can be claimed. Without it,
        // another process would take the folder for that of a killed one, and both would remove it.
        let failed = |errno: Errno| Error::system("remove", &self.path, errno);
        remove_all_but(&self.folder, LOCK).map_err(failed)?;
        let _alone = lock_area(&self.area, self.path.parent().unwrap_or(&self.path))?;
        remove_tree(self.area.as_fd(), OsStr::new(&self.id)).map_err(failed)
    }

    /// Returns the name of the staging folder in a workspace on another file system, through which
    /// this call's changes go.
    pub(crate) fn staging_name(&self) -> PathBuf {
        PathBuf::from(format!(".handfast-commit-{}", self.id))
    }

    pub(crate) fn open(&self, part: &str) -> Result<OwnedFd> {
        let part = Path::new(part);
        open(self.folder.as_fd(), part, LIST).map_err(|errno| Error::system("open", part, errno))
    }
}

/// Removes the staging folder of a commit from the workspace.
///
/// The removal changes the workspace's modification time. The workspace then gets the time
/// `modified`, or the one it had.
pub(crate) fn remove_staging(workspace: &Workspace, name: &Path, modified: Option<Time>) -> Result<()> {
    let failed = |errno: Errno| Error::system("remove", name, errno);
    let before = Entry::of(&fstat(&workspace.folder).map_err(failed)?).modified;
    remove_tree(workspace.folder.as_fd(), name.as_os_str()).map_err(failed)?;
    set_modified(workspace.folder.as_fd(), modified.unwrap_or(before)).map_err(failed)
}

const ID_BYTES: usize = 16;

fn random_id() -> Result<String> {
    let mut bytes = [0_u8; ID_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::system("make", "an id", std::io::Error::other(error)))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn is_id(name: &OsStr) -> bool {
    let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    name.len() == 2 * ID_BYTES && name.as_encoded_bytes().iter().all(is_digit)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::ops::ControlFlow;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::Recovery;

    #[test]
    fn a_call_that_is_being_discarded_is_never_taken_for_that_of_a_killed_process() {
        let folder = tempfile::tempdir().unwrap();
        let area = Area::open(folder.path()).unwrap();
        // Another area on the same folder, as a second process has.
        let other = Area::open(folder.path()).unwrap();
        let (ended, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let recovering = scope.spawn(|| {
                let mut failed = Vec::new();
                while !ended.load(Ordering::SeqCst) {
                    let go_on = || ControlFlow::Continue(());
                    for recovered in other.recover(&go_on, &|_| Ok(())).unwrap() {
                        match recovered.action {
                            Recovery::Failed(error) => failed.push(error.to_string()),
                            action => failed.push(format!("{action:?}")),
                        }
                    }
                    rounds.fetch_add(1, Ordering::SeqCst);
                }
                failed
            });
            let mut discarded = Vec::new();
            for _ in 0..60 {
                let call = area.begin().unwrap();
                for number in 0..200 {
                    fs::write(call.upper().join(number.to_string()), "").unwrap();
                }
                discarded.extend(call.discard().err().map(|error| error.to_string()));
            }
            ended.store(true, Ordering::SeqCst);
            assert_eq!(discarded, Vec::<String>::new());
            assert_eq!(recovering.join().unwrap(), Vec::<String>::new());
        });
        assert!(rounds.load(Ordering::SeqCst) > 0);
        assert_eq!(area.ids().unwrap(), Vec::<String>::new());
        // Control: a call without an owner is recovered.
        let left = area.begin().unwrap();
        drop(left);
        let recovered = other.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap();
        assert_eq!(recovered.len(), 1);
    }
}
