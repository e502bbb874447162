use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use locks::{Kind, Locked};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fchmod, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::beneath::{LIST, look, names, open, set_modified, spread};
use crate::journal::{Journal, Stage};
use crate::known::Known;
use crate::remove::{remove_all_but, remove_tree};
use crate::{Entry, Error, Kept, Result, Time, Workspace};

/// The parts of the folder of a call: what the overlay wrote,
pub(crate) const UPPER: &str = "upper";
/// its work folder,
const WORK: &str = "work";
/// and what a commit removed from the workspace.
pub(crate) const TAKEN: &str = "taken";

/// Held by the process whose call it is, for as long as it lives.
const LOCK: &str = "lock";
/// Held by the process that begins or claims a call.
const AREA_LOCK: &str = "area.lock";
/// Ends the name of the file that says that somebody applied the changes.
const APPLIED: &str = ".applied";
/// The file that says what is watched while a command writes to a workspace at once.
const WATCHED: &str = "watched";
/// The file whose change times are the clock of the changes.
const CLOCK: &str = "clock";

/// A folder of this program's own, with one folder for each call that changes something through an overlay.
///
/// Several processes may share it. It must be private (mode 0700) to the user.
#[derive(Debug)]
pub struct Area {
    path: PathBuf,
    folder: OwnedFd,
}

/// The folder of one call: what its overlay writes to, and what a commit takes out of the workspace.
///
/// Dropped, it stays on the disk until [`Area::recover`] finds it.
#[derive(Debug)]
pub struct Call {
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) area: OwnedFd,
    pub(crate) folder: OwnedFd,
    /// What its drafts read and wrote.
    pub(crate) known: Arc<Known>,
    /// A lock that ends with the process, however it ends.
    _alive: Locked,
}

impl Area {
    /// Opens the folder at `path`, and makes it where it is missing. The folder around it must be there.
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

    /// Makes the folders for one call.
    ///
    /// # Errors
    /// [`Error::System`], such as for want of space.
    pub fn begin(&self) -> Result<Call> {
        let id = random_id()?;
        let failed = |errno: Errno| Error::system("make", &id, errno);
        // Whoever recovers must not see the folder before it is locked.
        let _alone = self.alone()?;
        let private = Mode::from_raw_mode(0o700);
        mkdirat(&self.folder, &id, private).map_err(failed)?;
        let call = self.claim(&id, true)?.ok_or_else(|| failed(Errno::BUSY))?;
        for part in [UPPER, WORK, TAKEN] {
            mkdirat(&call.folder, part, private).map_err(failed)?;
        }
        Ok(call)
    }

    /// Where the folder of the call of this id lies, if there is one.
    pub fn folder_of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// The changes that are kept, in no order.
    ///
    /// # Errors
    /// [`Error::System`]; a damaged record is left out.
    pub fn kept(&self) -> Result<Vec<Kept>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            match Kept::read(&self.folder, &id) {
                Ok(Some(kept)) => all.push(kept),
                Ok(None) | Err(Error::Damaged { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(all)
    }

    /// Takes kept changes up again: to look at them, to commit them with [`Kept::terms`], or to discard them.
    ///
    /// # Errors
    /// [`Error::NoSuchChanges`] where there are none under this id or another live process has them.
    pub fn take_up(&self, id: &str) -> Result<(Call, Kept)> {
        let missing = || Error::NoSuchChanges { id: id.to_owned() };
        if !is_id(OsStr::new(id)) {
            return Err(missing());
        }
        let _alone = self.alone()?;
        let kept = Kept::read(&self.folder, id)?.ok_or_else(missing)?;
        let call = self.claim(id, false)?.ok_or_else(missing)?;
        Ok((call, kept))
    }

    /// Notes that somebody has decided to put these changes into their workspace, at these absolute paths, for processes that
    /// would take what comes there for somebody else's.
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

    /// Whether [`Area::set_applied`] named this path or a folder above it, in whatever process, less than a minute before or
    /// after `changed`, when what is there got its name.
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

    /// Removes what [`Area::set_applied`] noted before this time.
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

    /// Takes up what dead processes watched: the folder of the call, what it noted, and when it last said that it watches.
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

    /// Whether a live process has the call of this id.
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

    /// Names the process that keeps calls from beginning now, and the lock that it holds; none where nobody does.
    pub fn held_by(&self) -> Option<String> {
        let file = open_lock(&self.folder, AREA_LOCK).ok()?;
        let holder = locks::holder_of(&file)?;
        Some(format!("{holder} holds {}", self.path.join(AREA_LOCK).display()))
    }

    /// Locks the area: while the lock is held, no call begins and none is claimed.
    pub(crate) fn alone(&self) -> Result<Locked> {
        lock_area(&self.folder, &self.path)
    }

    /// The folder of a call, unless a live process has it.
    pub(crate) fn claim(&self, id: &str, new: bool) -> Result<Option<Call>> {
        let failed = |errno: Errno| Error::system("open", id, errno);
        let folder = match open(self.folder.as_fd(), Path::new(id), LIST) {
            Ok(folder) => folder,
            // Its process removed it since the names were read.
            Err(Errno::NOENT) if !new => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let alive = open_lock(&folder, LOCK).map_err(failed)?;
        let alive = Locked::try_alone(alive).map_err(|source| Error::system("lock", id, source))?;
        let Some(alive) = alive else { return Ok(None) };
        let area = self.folder.try_clone().map_err(|source| Error::system("open", &self.path, source))?;
        let (path, known) = (self.path.join(id), Arc::default());
        Ok(Some(Call { id: id.to_owned(), path, area, folder, known, _alive: alive }))
    }
}

/// Waits for the lock of an area, which lies at this path.
fn lock_area(folder: &OwnedFd, path: &Path) -> Result<Locked> {
    let file = open_lock(folder, AREA_LOCK).map_err(|errno| Error::system("lock", path, errno))?;
    let name = path.join(AREA_LOCK);
    Locked::wait(file, Kind::Exclusive, &name.display()).map_err(|error| Error::system("lock", &name, error))
}

fn is_note(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(APPLIED.as_bytes())
}

fn open_lock(folder: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(folder, name, flags, Mode::from_raw_mode(0o600))
}

impl Call {
    /// The name of the call in its area, 32 hexadecimal digits.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The empty folder that is to receive the changes of the overlay.
    pub fn upper(&self) -> PathBuf {
        self.path.join(UPPER)
    }

    /// The empty folder that the overlay needs for itself, on the same file system.
    pub fn work(&self) -> PathBuf {
        self.path.join(WORK)
    }

    /// The time by which changes made before this moment are told from those made after it: the baseline of
    /// [`Terms`], to be taken right before the overlay is mounted.
    ///
    /// The kernel stamps most changes with a clock that stands still between ticks, some milliseconds long and longer on a
    /// loaded machine. Since Linux 6.13 a file that somebody looked at gets the exact time of its next change, and from then
    /// on nothing anywhere gets an earlier one (multigrain timestamps). That is done here, so that the baseline is exact.
    ///
    /// With an older kernel, a change made in the same tick just before this moment looks like a later one.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn baseline(&self) -> Result<Time> {
        let failed = |errno: Errno| Error::system("look at", CLOCK, errno);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let private = Mode::from_raw_mode(0o600);
        let file = openat(&self.folder, CLOCK, flags, private).map_err(failed)?;
        // The first change may get the time that others got before; the second a later one, because the first was seen.
        for _ in 0..2 {
            fstat(&file).map_err(failed)?;
            fchmod(&file, private).map_err(failed)?;
        }
        Ok(Entry::of(&fstat(&file).map_err(failed)?).changed)
    }

    /// Notes what is watched, for the start after this process where that ends before it says so.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn watch(&self, content: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = openat(&self.folder, WATCHED, flags, Mode::from_raw_mode(0o600));
        let mut file = File::from(made.map_err(|errno| Error::system("make", WATCHED, errno))?);
        file.write_all(content).map_err(|source| Error::system("write", WATCHED, source))
    }

    /// Says that what was noted is watched still.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn still_watches(&self) -> Result<()> {
        let file = open(self.folder.as_fd(), Path::new(WATCHED), OFlags::RDONLY)
            .map_err(|errno| Error::system("open", WATCHED, errno))?;
        fchmod(&file, Mode::from_raw_mode(0o600)).map_err(|errno| Error::system("touch", WATCHED, errno))
    }

    /// Removes the folder of the call with all that is in it: the changes, or after a commit the old entries.
    ///
    /// # Errors
    /// [`Error::UnderWay`] where a commit has to be taken back first; [`Error::System`]: recovery removes what is left.
    pub fn discard(self) -> Result<()> {
        let journal = match Journal::read(self.folder.as_fd())? {
            // The old entries that are to be put back lie in this folder.
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
                // The workspace is gone, and the folder in it as well.
                Err(Error::OtherWorkspace { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        // INVARIANT: the lock goes last, while no call is claimed. Without it, another process would take the folder for that of a
        // killed one, and both would remove it.
        let failed = |errno: Errno| Error::system("remove", &self.path, errno);
        remove_all_but(&self.folder, LOCK).map_err(failed)?;
        let _alone = lock_area(&self.area, self.path.parent().unwrap_or(&self.path))?;
        remove_tree(self.area.as_fd(), OsStr::new(&self.id)).map_err(failed)
    }

    /// The name of the folder in a workspace on another file system through which this call's changes go.
    pub(crate) fn staging_name(&self) -> PathBuf {
        PathBuf::from(format!(".handfast-commit-{}", self.id))
    }

    pub(crate) fn open(&self, part: &str) -> Result<OwnedFd> {
        let part = Path::new(part);
        open(self.folder.as_fd(), part, LIST).map_err(|errno| Error::system("open", part, errno))
    }
}

/// Removes the folder in the workspace through which a commit went.
///
/// That changes the time of the workspace, which then gets the one given, or the one that it had.
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
        // What a second process has.
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
        // The control: what nobody holds is recovered.
        let left = area.begin().unwrap();
        drop(left);
        let recovered = other.recover(&|| ControlFlow::Continue(()), &|_| Ok(())).unwrap();
        assert_eq!(recovered.len(), 1);
    }
}
