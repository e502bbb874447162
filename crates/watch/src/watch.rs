//! The set of marked entries, and its updates by notifications.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, stat};
use rustix::io::Errno;

use crate::error::{WatchError, is_exhaustion};
use crate::folders::{Folders, Id, MarkReason, Name, Place};
use crate::mounts::Mounts;
use crate::names::{Names, has_several};
use crate::notices::{Notice, Notices};
use crate::scan::{Entry, PendingFolder};
use crate::{Changes, MarkedPaths, Marks, Rules, WatchMode, look};

/// The entries below some folders that a set of rules marks.
#[derive(Debug)]
pub struct Watch<R: Rules> {
    pub(crate) rules: R,
    keep: WatchMode,
    given: Vec<PathBuf>,
    pub(crate) roots: Vec<Root>,
    pub(crate) folders: Folders,
    pub(crate) names: Names,
    /// Entries marked since the previous answer.
    pub(crate) appeared: Vec<(Id, Name)>,
    /// Source of notifications, absent if every answer comes from a walk.
    pub(crate) notices: Option<Notices>,
    mounts: Option<Mounts>,
    /// True if the set is that of the last answer, so that applying the pending notifications updates it.
    built: bool,
    /// True if watching is not possible here.
    gave_up: bool,
    warning: Option<String>,
    pub(crate) walks: u64,
}

/// An open root.
#[derive(Debug)]
pub(crate) struct Root {
    path: PathBuf,
    pub(crate) folder: OwnedFd,
    id: Option<Id>,
    /// True if the root is marked hidden, or cannot be listed.
    pub(crate) hidden: bool,
    frozen: bool,
}

impl Root {
    pub(crate) fn absolute(&self, relative: &[u8]) -> PathBuf {
        if relative.is_empty() { self.path.clone() } else { self.path.join(OsStr::from_bytes(relative)) }
    }
}

/// Number of walks that are tried while the kernel drops notifications.
const ATTEMPTS: u32 = 3;

impl<R: Rules> Watch<R> {
    /// Creates a watch, without looking at anything yet. The roots are absolute paths of folders or files;
    /// missing ones are skipped.
    pub fn new(roots: Vec<PathBuf>, rules: R, keep: WatchMode) -> Self {
        Self {
            rules,
            keep,
            given: roots,
            roots: Vec::new(),
            folders: Folders::default(),
            names: Names::default(),
            appeared: Vec::new(),
            notices: None,
            mounts: None,
            built: false,
            gave_up: false,
            warning: None,
            walks: 0,
        }
    }

    /// Returns the marked paths, including every entry that had its name when the call began.
    ///
    /// # Errors
    /// Returns an error if descriptors or memory run out. The set is then unknown, and the next call begins
    /// with a walk.
    pub fn sync(&mut self) -> Result<MarkedPaths, WatchError> {
        let marked = self.answer();
        if marked.is_err() {
            self.built = false;
        }
        marked
    }

    fn answer(&mut self) -> Result<MarkedPaths, WatchError> {
        let walks = self.walks;
        self.refresh()?;
        let has_walked = self.walks != walks;
        let mut news: BTreeSet<(Id, Name)> = self.appeared.drain(..).collect();
        let (marked, complete) = self.marked(&news, has_walked)?;
        if complete {
            return Ok(marked);
        }
        // A marked file is gone, and its further names may be plain files now.
        self.names.stale = true;
        self.find_further_names()?;
        news.extend(self.appeared.drain(..));
        Ok(self.marked(&news, has_walked)?.0)
    }

    /// Returns a handle that reports possible changes, or `None` if every answer comes from a walk.
    pub fn changes(&self) -> Option<Changes> {
        self.notices.as_ref().and_then(Notices::changes)
    }

    /// Returns the roots as the caller gave them.
    pub fn roots(&self) -> &[PathBuf] {
        &self.given
    }

    /// Iterates over the hidden files with several names, as device and inode number, as of the last
    /// [`Watch::sync`]. Links and sockets are left out.
    pub fn hidden_with_several_names(&self) -> impl Iterator<Item = (u64, u64)> {
        self.names.hidden()
    }

    /// Returns the number of walks over all folders so far.
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// Returns the number of known folders.
    pub fn folders(&self) -> usize {
        self.folders.count()
    }

    fn refresh(&mut self) -> Result<(), WatchError> {
        let told = if self.built && !self.must_walk()? { self.told()? } else { None };
        match told {
            Some(told) => {
                if !self.apply(told)? {
                    self.walk()?;
                }
            }
            None => self.walk()?,
        }
        self.unseal()?;
        self.find_further_names()
    }

    /// Returns true if the mounts or the roots have changed, so that the set no longer applies.
    fn must_walk(&mut self) -> Result<bool, WatchError> {
        let Some(mounts) = &mut self.mounts else { return Ok(true) };
        let changed = mounts
            .have_changed(&self.given)
            .map_err(|source| WatchError::Kernel { doing: "reading the mounts", source })?;
        let is_there = |root: &Root| match (stat(&root.path), fstat(&root.folder)) {
            (Ok(there), Ok(known)) => look::identity(&there) == look::identity(&known),
            _ => false,
        };
        Ok(changed || !self.roots.iter().all(is_there) || self.roots.len() != existing(&self.given))
    }

    fn told(&self) -> Result<Option<Vec<Notice>>, WatchError> {
        self.notices.as_ref().map(Notices::read).transpose()
    }

    /// Walks over all roots from the beginning.
    fn walk(&mut self) -> Result<(), WatchError> {
        for _ in 0..ATTEMPTS {
            self.begin()?;
            for root in 0..self.roots.len() {
                self.walk_root(root)?;
            }
            self.names.stale = true;
            // Every entry appears in a walk, so nothing counts as new.
            self.appeared.clear();
            let Some(told) = self.told()? else { return Ok(()) };
            if self.apply(told)? {
                self.built = true;
                return Ok(());
            }
        }
        // The folders change too quickly for notifications. The walk has seen what existed when it began.
        self.notices = None;
        Ok(())
    }

    fn begin(&mut self) -> Result<(), WatchError> {
        self.walks += 1;
        self.built = false;
        self.folders = Folders::default();
        self.names = Names::default();
        self.appeared.clear();
        self.notices = None;
        self.roots.clear();
        for path in &self.given {
            match openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
                Ok(folder) => {
                    let root = Root { path: path.clone(), folder, id: None, hidden: false, frozen: false };
                    self.roots.push(root);
                }
                Err(errno) if is_exhaustion(errno) => {
                    return Err(WatchError::Folder { path: path.clone(), source: errno.into() });
                }
                Err(_) => {}
            }
        }
        if self.keep == WatchMode::Once || self.gave_up {
            return Ok(());
        }
        let mounts = Mounts::open(&self.given)
            .map_err(|source| WatchError::Kernel { doing: "reading the mounts", source })?;
        if let Some((path, kind)) = mounts.untold() {
            let warning = format!(
                "the file system of {} ({kind}) does not report changes, so every command scans its \
                 folders for denied files",
                path.display()
            );
            self.walk_always(warning);
            return Ok(());
        }
        self.mounts = Some(mounts);
        match Notices::open() {
            Ok(notices) => self.notices = Some(notices),
            Err(error) => self.walk_always(format!(
                "changes cannot be watched ({error}), so every command scans the folders for denied \
                 files; fs.inotify.max_user_instances may be too low"
            )),
        }
        Ok(())
    }

    /// Switches to a walk for every answer.
    pub(crate) fn walk_always(&mut self, warning: String) {
        self.notices = None;
        self.gave_up = true;
        self.warning = Some(warning);
    }

    fn walk_root(&mut self, index: usize) -> Result<(), WatchError> {
        let Some(root) = self.roots.get_mut(index) else { return Ok(()) };
        let above = self.rules.top(&root.path);
        let marks = self.rules.marks(&above);
        root.hidden = marks.hidden;
        root.frozen = marks.frozen;
        let is_folder = fstat(&root.folder).is_ok_and(|stat| look::type_of(&stat) == FileType::Directory);
        if root.hidden || !is_folder {
            return Ok(());
        }
        let id = self.folders.add_root(index);
        root.id = Some(id);
        self.scan(PendingFolder { id, above })
    }

    /// Applies notifications. Returns false if the kernel dropped some.
    fn apply(&mut self, told: Vec<Notice>) -> Result<bool, WatchError> {
        let mut open: Option<(Id, OwnedFd)> = None;
        for notice in told {
            let watch = match &notice {
                Notice::Lost => return Ok(false),
                Notice::Came { watch, .. } | Notice::Left { watch, .. } | Notice::Gone { watch } => *watch,
            };
            let folders = self.notices.as_ref().map(|notices| notices.folders(watch).to_vec());
            for id in folders.unwrap_or_default() {
                match &notice {
                    Notice::Came { name, .. } => {
                        open = self.came(id, name, open.take())?;
                    }
                    Notice::Left { name, .. } => self.left(id, name),
                    Notice::Gone { .. } | Notice::Lost => self.remove_folder(id),
                }
            }
        }
        Ok(true)
    }

    fn left(&mut self, id: Id, name: &[u8]) {
        self.names.changed(id);
        if let Some(child) = self.folders.child(id, name) {
            self.remove_folder(child);
        }
        if self.folders.unmark(id, name).is_some() {
            // The other names of a marked file may be plain files now.
            self.names.stale = true;
        }
    }

    /// Looks at the entry that now has this name in the folder. `open` is the folder of the previous
    /// notification.
    fn came(
        &mut self,
        id: Id,
        name: &[u8],
        open: Option<(Id, OwnedFd)>,
    ) -> Result<Option<(Id, OwnedFd)>, WatchError> {
        self.left(id, name);
        let Some(Place { root, relative }) = self.folders.place(id) else { return Ok(None) };
        let Some(root) = self.roots.get(root) else { return Ok(None) };
        let mut path = root.absolute(&relative);
        let opened = match open {
            Some((other, folder)) if other == id => Ok(folder),
            _ => look::open_folder(root.folder.as_fd(), &relative),
        };
        let looked = opened.and_then(|folder| look::stat_in(folder.as_fd(), name).map(|stat| (folder, stat)));
        let (folder, stat) = match looked {
            Ok(found) => found,
            Err(errno) if is_exhaustion(errno) => {
                return Err(WatchError::Folder { path, source: errno.into() });
            }
            Err(errno) => {
                if matches!(errno, Errno::ACCESS | Errno::PERM) {
                    self.seal(id);
                }
                return Ok(None);
            }
        };
        let above = self.rules.top(&path);
        if has_several(&stat) {
            self.names.may_have_gained_one();
        }
        let entry = Entry { name, kind: look::type_of(&stat), number: stat.st_ino };
        if let Some(pending) = self.entry(folder.as_fd(), id, &above, &mut path, &entry) {
            // The new folder may contain further names of marked files.
            self.names.may_have_gained_one();
            self.scan(pending)?;
            return Ok(None);
        }
        Ok(Some((id, folder)))
    }

    /// Looks again into folders that could not be listed.
    fn unseal(&mut self) -> Result<(), WatchError> {
        let sealed: Vec<(Id, Name)> = self
            .folders
            .marked()
            .filter(|(_, _, found)| found.why == MarkReason::Sealed)
            .map(|(id, name, _)| (id, name.clone()))
            .collect();
        for (id, name) in sealed {
            let Some(mut place) = self.folders.place(id) else { continue };
            place.push(&name);
            let Some(root) = self.roots.get(place.root) else { continue };
            // Entries cannot be examined in a folder that may be listed but not entered.
            let enters = |folder: OwnedFd| look::stat_in(folder.as_fd(), b".").is_ok();
            if look::open_folder(root.folder.as_fd(), &place.relative).is_ok_and(enters) {
                let appeared = self.appeared.len();
                self.came(id, &name, None)?;
                if self.folders.found(id, &name).is_some_and(|found| found.why == MarkReason::Sealed) {
                    // The folder is still closed, for another reason, so nothing has appeared.
                    self.appeared.truncate(appeared);
                }
            }
        }
        Ok(())
    }

    /// Builds the answer, and returns true with it if no known hidden or frozen entry is gone.
    fn marked(
        &mut self,
        news: &BTreeSet<(Id, Name)>,
        has_walked: bool,
    ) -> Result<(MarkedPaths, bool), WatchError> {
        let (mut hidden, mut frozen, mut guarded) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        let (mut appeared, mut noted) = (BTreeSet::new(), BTreeSet::new());
        for root in &self.roots {
            if root.hidden {
                hidden.insert(root.path.clone());
            } else if root.frozen {
                frozen.insert(root.path.clone());
            }
        }
        let mut gone = Vec::new();
        for (id, name, found) in self.folders.marked() {
            let is_new = news.contains(&(id, name.clone()));
            if !found.marks.is_about_content() && !is_new && !has_walked {
                continue;
            }
            let Some(mut place) = self.folders.place(id) else { continue };
            place.push(name);
            let Some(root) = self.roots.get(place.root) else { continue };
            let mut path = root.absolute(&place.relative);
            let mut hides = found.marks.hidden;
            if found.marks.noted && (is_new || has_walked) {
                noted.insert(path.clone());
            }
            let is_plainly_guarded =
                !found.marks.hidden && !found.marks.frozen && found.why != MarkReason::Link;
            if is_plainly_guarded && !is_new {
                // A guarded entry is not checked for existence: there may be many, and nothing depends on it.
                if found.marks.guarded {
                    guarded.insert(path);
                }
                continue;
            }
            match look::stat(root.folder.as_fd(), &place.relative) {
                Ok(_) if found.why == MarkReason::Link => match self.led_to(&path) {
                    Some(target) => path = target,
                    None => continue,
                },
                Err(errno) if is_exhaustion(errno) => {
                    return Err(WatchError::Folder { path, source: errno.into() });
                }
                Err(errno) if look::is_absence(errno) => {
                    gone.push((id, name.clone()));
                    continue;
                }
                Err(Errno::ACCESS | Errno::PERM) => {
                    // A folder above was closed since. Its owner could open it again.
                    path = closed_folder(root, &place.relative);
                    hides = true;
                }
                Ok(_) | Err(_) => {}
            }
            let set = match found.marks {
                _ if hides => &mut hidden,
                Marks { frozen: true, .. } => &mut frozen,
                Marks { guarded: true, .. } => &mut guarded,
                _ => continue,
            };
            if is_new {
                appeared.insert(path.clone());
            }
            set.insert(path);
        }
        let complete = gone.is_empty();
        for (id, name) in gone {
            self.folders.unmark(id, &name);
        }
        let hidden = outermost(hidden, &BTreeSet::new());
        let frozen = outermost(frozen, &hidden);
        let guarded = outermost(outermost(guarded, &hidden), &frozen);
        let marked = MarkedPaths {
            hidden: hidden.into_iter().collect(),
            frozen: frozen.into_iter().collect(),
            guarded: guarded.into_iter().collect(),
            appeared: appeared.into_iter().collect(),
            noted: noted.into_iter().collect(),
            warning: self.warning.take(),
        };
        Ok((marked, complete))
    }

    /// Returns the target of a marked link, if it lies in a root and is not a folder that contains the link.
    fn led_to(&self, link: &Path) -> Option<PathBuf> {
        let target = fs::canonicalize(link).ok()?;
        let folder = fs::canonicalize(link.parent()?).ok()?;
        if folder.starts_with(&target) {
            return None;
        }
        self.roots.iter().find_map(|root| {
            let below = target.strip_prefix(fs::canonicalize(&root.path).ok()?).ok()?;
            (!below.as_os_str().is_empty()).then(|| root.path.join(below))
        })
    }
}

/// Removes the paths that lie below another path of the set, or at or below one of `others`.
fn outermost(paths: BTreeSet<PathBuf>, others: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let mut kept: BTreeSet<PathBuf> = BTreeSet::new();
    for path in paths {
        // An outer path sorts before the paths below it.
        if !path.ancestors().any(|folder| kept.contains(folder) || others.contains(folder)) {
            kept.insert(path);
        }
    }
    kept
}

/// Counts the paths that exist.
fn existing(paths: &[PathBuf]) -> usize {
    paths.iter().filter(|path| stat(path.as_path()).is_ok()).count()
}

/// Returns the outermost folder on the path that cannot be entered.
fn closed_folder(root: &Root, relative: &[u8]) -> PathBuf {
    let slashes = (0..relative.len()).filter(|at| relative.get(*at) == Some(&b'/'));
    for end in slashes {
        let (folder, behind) = relative.split_at(end);
        let inner = &behind[1..];
        let next = inner.split(|byte| *byte == b'/').next().unwrap_or_default();
        let mut below = folder.to_vec();
        below.push(b'/');
        below.extend_from_slice(next);
        if matches!(look::stat(root.folder.as_fd(), &below), Err(Errno::ACCESS | Errno::PERM)) {
            return root.absolute(folder);
        }
    }
    root.path.clone()
}
