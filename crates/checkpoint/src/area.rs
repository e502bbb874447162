use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FlockOperation, Mode, OFlags, RenameFlags, fchmod, flock, fstat, mkdirat, openat, renameat_with,
};
use rustix::io::Errno;

use crate::beneath::{LIST, names, open};
use crate::encoding::{Decoder, Encoder};
use crate::journal::{Journal, Stage};
use crate::remove::remove_tree;
use crate::sides::{OnStep, step};
use crate::undo::{Undone, undo};
use crate::{Entry, Error, Result, Terms, Time, Workspace};

/// The parts of the folder of a call: what the overlay wrote,
pub(crate) const UPPER: &str = "upper";
/// its work folder,
const WORK: &str = "work";
/// and what a commit removed from the workspace.
pub(crate) const TAKEN: &str = "taken";

/// Held by the process whose call it is, for as long as it lives.
const LOCK: &str = "lock";
/// Says that the changes are kept, and what is needed to apply them later.
const KEPT: &str = "kept";
/// The file whose change times are the clock of the changes.
const CLOCK: &str = "clock";
/// The copy of git's index that goes with kept changes.
const INDEX: &str = "index";

const MAGIC: &[u8] = b"handfast changes 1\n";

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
    id: String,
    pub(crate) path: PathBuf,
    pub(crate) area: OwnedFd,
    pub(crate) folder: OwnedFd,
    /// A lock that ends with the process, however it ends.
    _alive: OwnedFd,
}

/// Changes that were not committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Under which they are found.
    pub id: String,
    /// Where they belong.
    pub workspace: PathBuf,
    identity: (u64, u64),
    /// The baseline of their terms.
    pub baseline: Option<Time>,
    /// When they were kept.
    pub since: Time,
    /// Why, for people.
    pub reason: String,
    /// Where git's index lies in the workspace.
    index: Option<PathBuf>,
    has_index: bool,
}

/// What recovery did with one call whose process is gone.
#[derive(Debug)]
pub struct Recovered {
    /// Its id.
    pub id: String,
    /// What was done.
    pub action: Recovery,
}

/// What recovery does with a call whose process is gone.
#[derive(Debug)]
pub enum Recovery {
    /// It had not begun to commit: its changes were dropped.
    Dropped,
    /// It was committing: what it had done was taken back, and the changes are kept under its id.
    TakenBack {
        /// Entries that somebody else changed meanwhile; they stay so, and nothing is lost.
        others: Vec<PathBuf>,
        /// Entries that somebody else changed since they were swapped; they stay so, and what was there before the commit
        /// is among the kept changes.
        left: Vec<PathBuf>,
    },
    /// It had committed: what was left of it was removed.
    Cleaned,
    /// It could not be recovered now. The next recovery tries again.
    Failed(Error),
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

    /// Brings every call whose process is gone to an end: see [`Recovery`]. Kept changes stay.
    ///
    /// It may be killed at any point and begun again. `on_step` is asked before everything that it changes.
    ///
    /// # Errors
    /// Where not even the list of calls can be had, or `on_step` broke it off.
    pub fn recover(&self, on_step: OnStep<'_>) -> Result<Vec<Recovered>> {
        let mut all = Vec::new();
        for id in self.ids()? {
            let call = {
                let _alone = self.alone()?;
                self.claim(&id, false)
            };
            let action = match call {
                Ok(Some(call)) => recover_one(call, on_step),
                // Its process lives.
                Ok(None) => continue,
                Err(error) => Err(error),
            };
            let action = match action {
                Ok(None) => continue,
                Ok(Some(action)) => action,
                Err(Error::BrokenOff) => return Err(Error::BrokenOff),
                Err(error) => Recovery::Failed(error),
            };
            all.push(Recovered { id, action });
        }
        Ok(all)
    }

    fn ids(&self) -> Result<Vec<String>> {
        let failed = |errno: Errno| Error::system("list", &self.path, errno);
        let folder = open(self.folder.as_fd(), Path::new(""), LIST).map_err(failed)?;
        let names = names(&folder).map_err(failed)?.into_iter();
        Ok(names.filter(|name| is_id(name)).filter_map(|name| name.into_string().ok()).collect())
    }

    /// While it is held, no call begins and none is claimed.
    fn alone(&self) -> Result<OwnedFd> {
        let failed = |errno: Errno| Error::system("lock", &self.path, errno);
        let file = open_lock(&self.folder, "area.lock").map_err(failed)?;
        loop {
            match flock(&file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
    }

    /// The folder of a call, unless a live process has it.
    fn claim(&self, id: &str, new: bool) -> Result<Option<Call>> {
        let failed = |errno: Errno| Error::system("open", id, errno);
        let folder = match open(self.folder.as_fd(), Path::new(id), LIST) {
            Ok(folder) => folder,
            // Its process removed it since the names were read.
            Err(Errno::NOENT) if !new => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        };
        let alive = open_lock(&folder, LOCK).map_err(failed)?;
        match flock(&alive, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(errno) => return Err(failed(errno)),
        }
        let area = self.folder.try_clone().map_err(|source| Error::system("open", &self.path, source))?;
        Ok(Some(Call { id: id.to_owned(), path: self.path.join(id), area, folder, _alive: alive }))
    }
}

fn open_lock(folder: &OwnedFd, name: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    openat(folder, name, flags, Mode::from_raw_mode(0o600))
}

fn recover_one(call: Call, on_step: OnStep<'_>) -> Result<Option<Recovery>> {
    match Journal::read(call.folder.as_fd())? {
        Some((Stage::Committed, _)) => {
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Cleaned))
        }
        Some((Stage::UnderWay, journal)) => {
            let workspace = Workspace::again(&journal.workspace, journal.identity)?;
            let _serialised = call.lock_workspace(&workspace)?;
            let mut undone = Undone::default();
            if !journal.changes.is_empty() {
                let sides = call.sides(&workspace, journal.staging.as_deref())?;
                undone = undo(&sides, &journal.changes, on_step)?;
            }
            step(on_step)?;
            let Undone { others, left } = undone;
            if left.is_empty() {
                remove_staging(&workspace, journal.staging.as_deref())?;
            }
            if Kept::read(&call.area, &call.id)?.is_none() {
                step(on_step)?;
                // What was put back has a change time of just now. Where all is as it was when the commit checked it, what
                // counts from here on is what changes after that; otherwise everything since the command started.
                let baseline = if left.is_empty() && others.is_empty() {
                    Some(call.baseline()?)
                } else {
                    journal.baseline
                };
                let kept = Kept {
                    id: call.id.clone(),
                    workspace: journal.workspace,
                    identity: journal.identity,
                    baseline,
                    since: call.baseline()?,
                    reason: "the program ended while they were being committed".to_owned(),
                    index: journal.index,
                    has_index: false,
                };
                kept.write(&call.folder)?;
            }
            step(on_step)?;
            Journal::remove(call.folder.as_fd())?;
            Ok(Some(Recovery::TakenBack { others, left }))
        }
        None if Kept::read(&call.area, &call.id)?.is_some() => Ok(None),
        None => {
            step(on_step)?;
            call.discard()?;
            Ok(Some(Recovery::Dropped))
        }
    }
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

    /// Keeps the changes, which were not committed, to be applied or discarded later. Gives their id.
    ///
    /// # Errors
    /// [`Error::System`], such as for want of space.
    pub fn keep(self, workspace: &Workspace, terms: &Terms<'_>, reason: &str) -> Result<String> {
        let mut has_index = false;
        if let Some((_, Some(before))) = &terms.index {
            let failed = |source: std::io::Error| Error::system("keep", INDEX, source);
            let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
            let copy = openat(&self.folder, INDEX, flags, Mode::from_raw_mode(0o600));
            let mut copy = File::from(copy.map_err(|errno| failed(errno.into()))?);
            let mut before = before;
            std::io::Seek::seek(&mut before, std::io::SeekFrom::Start(0)).map_err(failed)?;
            std::io::copy(&mut before, &mut copy).map_err(failed)?;
            has_index = true;
        }
        let kept = Kept {
            id: self.id.clone(),
            workspace: workspace.path.clone(),
            identity: workspace.identity,
            baseline: terms.baseline,
            since: self.baseline()?,
            reason: reason.to_owned(),
            index: terms.index.as_ref().map(|(path, _)| path.clone()),
            has_index,
        };
        kept.write(&self.folder)?;
        Ok(self.id)
    }

    /// Removes the folder of the call with all that is in it: the changes, or after a commit the old entries.
    ///
    /// # Errors
    /// [`Error::System`]; recovery removes later what is left.
    pub fn discard(self) -> Result<()> {
        if let Some((Stage::Committed, journal)) = Journal::read(self.folder.as_fd())?
            && journal.staging.is_some()
        {
            match Workspace::again(&journal.workspace, journal.identity) {
                Ok(workspace) => remove_staging(&workspace, journal.staging.as_deref())?,
                // The workspace is gone, and the folder in it as well.
                Err(Error::OtherWorkspace { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        remove_tree(self.area.as_fd(), OsStr::new(&self.id))
            .map_err(|errno| Error::system("remove", &self.path, errno))
    }

    /// The name of the folder in a workspace on another file system through which this call's changes go.
    pub(crate) fn staging_name(&self) -> PathBuf {
        PathBuf::from(format!(".handfast-commit-{}", self.id))
    }

    pub(crate) fn open(&self, part: &str) -> Result<OwnedFd> {
        let part = Path::new(part);
        open(self.folder.as_fd(), part, LIST).map_err(|errno| Error::system("open", part, errno))
    }

    /// Git's index as it was when the command started, for changes that were kept.
    fn index(&self) -> Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let opened = openat(&self.folder, INDEX, flags, Mode::empty());
        opened.map(File::from).map_err(|errno| Error::system("open", INDEX, errno))
    }
}

/// Removes the folder in the workspace through which a commit went, if it went through one.
pub(crate) fn remove_staging(workspace: &Workspace, name: Option<&Path>) -> Result<()> {
    let Some(name) = name else { return Ok(()) };
    remove_tree(workspace.folder.as_fd(), name.as_os_str())
        .map_err(|errno| Error::system("remove", name, errno))
}

impl Kept {
    /// The terms under which they were to be committed.
    ///
    /// # Errors
    /// [`Error::System`] where the copy of git's index is gone.
    pub fn terms(&self, call: &Call) -> Result<Terms<'static>> {
        let mut terms = Terms::since(self.since);
        terms.baseline = self.baseline;
        if let Some(path) = &self.index {
            terms.index = Some((path.clone(), if self.has_index { Some(call.index()?) } else { None }));
        }
        Ok(terms)
    }

    /// Opens the workspace where they belong.
    ///
    /// # Errors
    /// [`Error::OtherWorkspace`] where it is not there any more, or another folder is.
    pub fn workspace(&self) -> Result<Workspace> {
        Workspace::again(&self.workspace, self.identity)
    }

    fn write(&self, call: &OwnedFd) -> Result<()> {
        let mut to = Encoder(MAGIC.to_vec());
        to.path(&self.workspace);
        to.number(self.identity.0);
        to.number(self.identity.1);
        to.byte(u8::from(self.baseline.is_some()));
        to.time(self.baseline.unwrap_or(self.since));
        to.time(self.since);
        to.bytes(self.reason.as_bytes());
        to.byte(u8::from(self.index.is_some()));
        to.path(self.index.as_deref().unwrap_or(Path::new("")));
        to.byte(u8::from(self.has_index));
        let failed = |source: std::io::Error| Error::system("write", KEPT, source);
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let incomplete = format!("{KEPT}.new");
        let file = openat(call, &incomplete, flags, Mode::from_raw_mode(0o600));
        File::from(file.map_err(|errno| failed(errno.into()))?).write_all(&to.0).map_err(failed)?;
        renameat_with(call, &incomplete, call, KEPT, RenameFlags::empty())
            .map_err(|errno| failed(errno.into()))
    }

    fn read(area: &OwnedFd, id: &str) -> Result<Option<Self>> {
        let path = Path::new(id).join(KEPT);
        let mut file = match open(area.as_fd(), &path, OFlags::RDONLY) {
            Ok(file) => File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(Error::system("open", path, errno)),
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|source| Error::system("read", &path, source))?;
        Self::decode(id, &bytes).map(Some).ok_or(Error::Damaged { path })
    }

    fn decode(id: &str, bytes: &[u8]) -> Option<Self> {
        let mut from = Decoder(bytes.strip_prefix(MAGIC)?);
        let workspace = from.path()?;
        let identity = (from.number()?, from.number()?);
        let has_baseline = from.flag()?;
        let baseline = from.time()?;
        let since = from.time()?;
        let reason = String::from_utf8(from.bytes()?.to_vec()).ok()?;
        let names_index = from.flag()?;
        let index = from.path()?;
        let has_index = from.flag()?;
        from.0.is_empty().then(|| Self {
            id: id.to_owned(),
            workspace,
            identity,
            baseline: has_baseline.then_some(baseline),
            since,
            reason,
            index: names_index.then_some(index),
            has_index,
        })
    }
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
