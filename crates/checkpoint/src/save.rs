//! Saving of the entries that a change takes out of the workspace, and records of the new ones.
//!
//! Everything is read before any change. The commit itself detects changes by others in between, because it
//! checks inode and change time again at the swap.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::fstat;
use rustix::io::Errno;

use crate::exchange_dirs::name_of;
use crate::folder::{Holders, LIST, PLACE, look, names, open, open_known};
use crate::git_index;
use crate::parallel;
use crate::read_once::{ReadOnce, Take, read_once};
use crate::regenerable::Regenerable;
use crate::state::{hash, is_hashed};
use crate::state_cache::StateCache;
use crate::swap::SwapError;
use crate::true_modes::TrueModes;
use crate::{Changes, ContentHash, Contents, DEEPEST, Entry, Error, Kind, State, StepKind, Workspace};

/// Options for saving the entries that a commit replaces and removes. Without them, those entries are lost.
pub struct Save<'a> {
    /// Storage for the bytes.
    pub contents: &'a dyn Contents,
    /// Callback with all saved entries, before any change. If it fails, nothing is committed.
    pub keep: &'a dyn Fn(&ChangeEntries) -> io::Result<()>,
    /// True if somebody agreed to lose the entries that cannot be read.
    pub loss_is_agreed: bool,
}

/// Entries that a change takes and puts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeEntries {
    /// All paths with their states before and after, sorted by path.
    pub entries: Vec<SavedEntry>,
    /// Regenerable folders, sockets and devices, which cannot be restored.
    pub unsaved: Vec<PathBuf>,
    /// Files that could not be read.
    pub unreadable: Vec<PathBuf>,
    /// Number of bytes of the saved files.
    pub bytes: u64,
    /// Stored contents that are not old states: the new git indexes, which others refresh.
    pub needed: Vec<ContentHash>,
}

/// One path of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedEntry {
    /// Path relative to the workspace; empty for the workspace itself.
    pub path: PathBuf,
    /// State before the change.
    pub before: Option<State>,
    /// State after the change.
    pub after: Option<State>,
}

impl SavedEntry {
    /// Returns true if more than the time of a folder changed.
    pub fn is_telling(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => !before.is_same_as(after) || before.entry.kind != Kind::Folder,
            _ => true,
        }
    }

    /// Returns true if undo has anything to do here, even if only the time of a folder changed.
    pub fn can_be_undone(&self) -> bool {
        let modified = |state: &Option<State>| state.as_ref().map(|state| state.entry.modified);
        self.is_telling() || modified(&self.before) != modified(&self.after)
    }
}

/// States before and after a change.
type Sides = (Option<State>, Option<State>);

/// Callback that checks whether a folder is regenerable, from its open parent folder, its name and its path.
type IsRegenerable<'a> = Box<dyn FnMut(&OwnedFd, &OsStr, &Path) -> bool + 'a>;

/// A walk through the changing entries.
struct Walk<'a> {
    contents: &'a dyn Contents,
    /// True modes of the entries in the folder of the call.
    loosened: Option<&'a TrueModes>,
    /// Files that the drafts of the call read and wrote.
    known: Option<&'a StateCache>,
    /// Root folders of the paths on each side.
    roots: (BorrowedFd<'a>, BorrowedFd<'a>),
    /// Paths that are only renamed: files below them are identified by inode and times, and not read.
    renamed: &'a [PathBuf],
    is_regenerable: IsRegenerable<'a>,
    /// Files whose bytes must still be read.
    unread: Vec<(PathBuf, Entry, Side)>,
    found: Vec<(PathBuf, Side, State)>,
    saved: ChangeEntries,
}

/// Side of the change on which a path is examined.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// A storage that keeps no bytes, and only hashes them.
pub(crate) struct NotKept;

impl Contents for NotKept {
    fn keep(&self, content: &mut dyn io::Read) -> io::Result<crate::ContentHash> {
        crate::state::hash(content)
    }

    fn open(&self, _content: &crate::ContentHash) -> io::Result<Box<dyn io::Read>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Saves the entries that the changes of a call replace and remove.
pub(crate) fn save_changes(
    contents: &dyn Contents,
    workspace: &OwnedFd,
    upper: &OwnedFd,
    changes: &Changes,
    (loosened, known): (&TrueModes, &StateCache),
) -> Result<ChangeEntries, SwapError> {
    let is_regenerable = |_: &OwnedFd, _: &OsStr, path: &Path| changes.regenerable.contains(path);
    let mut walk = Walk::new(contents, (workspace.as_fd(), upper.as_fd()), Box::new(is_regenerable));
    (walk.loosened, walk.known) = (Some(loosened), Some(known));
    let mut old_holders = Holders::new(workspace.as_fd(), PLACE);
    let mut new_holders = Holders::new(upper.as_fd(), LIST);
    for change in &changes.list {
        let path = &change.path;
        let above = path.ancestors().skip(1).filter(|above| changes.regenerable.contains(*above));
        if let Some(folder) = above.last() {
            walk.leave_out(folder.to_owned());
            continue;
        }
        let failed = Error::while_doing("reach", path);
        let name = name_of(path);
        let stays = matches!(change.what, StepKind::Attributes | StepKind::Times);
        let mut had = None;
        if let Some(old) = change.old {
            let parent = old_holders.of(path).map_err(|errno| stopped("reach", path, errno))?;
            if stays {
                let mut state = walk.state((parent, name, path), old, Side::Before)?;
                if let (Some((old, _)), true) = (&change.attributes, change.what == StepKind::Attributes) {
                    state.attributes.clone_from(old);
                }
                had = Some(state.clone());
                walk.note(path, Side::Before, state);
            } else {
                walk.tree(parent, name, path, old, Side::Before)?;
            }
        }
        let Some(new) = change.new else { continue };
        if stays {
            let Some(mut state) = had else { continue };
            let modified = if change.sets_time { new.modified } else { state.entry.modified };
            if change.what == StepKind::Attributes {
                state.entry = Entry { device: state.entry.device, inode: state.entry.inode, ..new };
                if let Some((_, wanted)) = &change.attributes {
                    state.attributes.clone_from(wanted);
                }
            }
            state.entry.modified = modified;
            walk.note(path, Side::After, state);
        } else {
            let parent = new_holders.of(path).map_err(failed)?;
            walk.tree(parent, name, path, new, Side::After)?;
        }
    }
    walk.ended()
}

impl Workspace {
    /// Saves the entries at these paths, with everything below them, before they are changed directly.
    /// Additionally returns the paths below which anything may change: if a parent folder is missing, its first
    /// missing ancestor.
    ///
    /// The parent folder of each path is recorded for its time.
    ///
    /// `renamed` lists entries that will only be renamed, by their old and new paths. Their bytes stay in place
    /// for [`Draft::restore`], and those of a folder or a large file are not read.
    ///
    /// # Errors
    /// Returns an error if an entry cannot be read or stored, or changes during the read.
    ///
    /// [`Draft::restore`]: crate::Draft::restore
    pub fn save(
        &self,
        paths: &[PathBuf],
        renamed: &[PathBuf],
        contents: &dyn Contents,
    ) -> crate::Result<(ChangeEntries, Vec<PathBuf>)> {
        let mut roots: Vec<PathBuf> = paths.iter().map(|path| self.first_missing(path)).collect();
        roots.sort();
        roots.dedup_by(|later, earlier| later.starts_with(earlier));
        let saved = self.look_at((&roots, renamed), contents, Side::Before)?;
        Ok((saved, roots))
    }

    /// Records the entries at the same paths after a direct change, and leaves out unchanged ones. `renamed`
    /// has the same meaning as in [`Workspace::save`].
    ///
    /// # Errors
    /// Returns an error if an entry cannot be examined.
    pub fn note_after(
        &self,
        before: ChangeEntries,
        (roots, renamed): (&[PathBuf], &[PathBuf]),
        contents: &dyn Contents,
    ) -> crate::Result<ChangeEntries> {
        let after = self.look_at((roots, renamed), contents, Side::After)?;
        let mut both: BTreeMap<PathBuf, Sides> =
            before.entries.into_iter().map(|entry| (entry.path, (entry.before, None))).collect();
        for entry in after.entries {
            both.entry(entry.path).or_default().1 = entry.after;
        }
        let entries = both.into_iter().map(|(path, (before, after))| SavedEntry { path, before, after });
        let entries = entries.filter(|entry| match (&entry.before, &entry.after) {
            (Some(before), Some(after)) => {
                !before.is_same_as(after) || before.entry.modified != after.entry.modified
            }
            (before, after) => before.is_some() || after.is_some(),
        });
        let mut unsaved = before.unsaved;
        unsaved.extend(after.unsaved);
        unsaved.sort();
        unsaved.dedup();
        let (unreadable, bytes) = (before.unreadable, before.bytes);
        let needed = [before.needed, after.needed].concat();
        Ok(ChangeEntries { entries: entries.collect(), unsaved, unreadable, bytes, needed })
    }

    fn look_at(
        &self,
        (roots, renamed): (&[PathBuf], &[PathBuf]),
        contents: &dyn Contents,
        side: Side,
    ) -> crate::Result<ChangeEntries> {
        let failed = |stopped| match stopped {
            SwapError::Failed(error) => error,
            SwapError::Conflict(path) => Error::system("read", path, Errno::STALE),
        };
        let mut regenerable = Regenerable::of(&self.path);
        let is_regenerable =
            |holder: &OwnedFd, name: &OsStr, path: &Path| regenerable.is(&[holder], name, path);
        let roots_of_both = (self.folder.as_fd(), self.folder.as_fd());
        let mut walk = Walk::new(contents, roots_of_both, Box::new(is_regenerable));
        walk.renamed = renamed;
        for path in roots {
            let parent = path.parent().unwrap_or(Path::new(""));
            let unseen = Error::while_doing("inspect", path);
            let folder = match open(self.folder.as_fd(), parent, PLACE) {
                Ok(folder) => folder,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(unseen(errno)),
            };
            let around = Entry::of(&fstat(&folder).map_err(&unseen)?);
            let state = State::of(folder.as_fd(), OsStr::new("."), parent, around, None)?;
            walk.note(parent, side, state);
            if let Some(entry) = look(&folder, name_of(path)).map_err(&unseen)? {
                walk.tree(&folder, name_of(path), path, entry, side).map_err(failed)?;
            }
        }
        walk.ended().map_err(failed)
    }

    /// Returns the path, or its first missing parent folder.
    fn first_missing(&self, path: &Path) -> PathBuf {
        let mut so_far = PathBuf::new();
        for name in path.parent().unwrap_or(Path::new("")) {
            so_far.push(name);
            if open(self.folder.as_fd(), &so_far, PLACE).is_err() {
                return so_far;
            }
        }
        path.to_owned()
    }
}

impl<'a> Walk<'a> {
    fn new(
        contents: &'a dyn Contents,
        roots: (BorrowedFd<'a>, BorrowedFd<'a>),
        is_regenerable: IsRegenerable<'a>,
    ) -> Self {
        let (unread, found, saved) = (Vec::new(), Vec::new(), ChangeEntries::default());
        let (loosened, known, renamed) = (None, None, [].as_slice());
        Self { contents, loosened, known, roots, renamed, is_regenerable, unread, found, saved }
    }

    fn note(&mut self, path: &Path, side: Side, state: State) {
        self.found.push((path.to_owned(), side, state));
    }

    fn leave_out(&mut self, path: PathBuf) {
        self.saved.unsaved.push(path);
    }

    /// Records the entry at a path, and everything below it.
    fn tree(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        side: Side,
    ) -> Result<(), SwapError> {
        let mut open = Vec::from_iter(self.entry((parent, name, path), entry, side)?);
        while let Some((folder, path, names)) = open.last_mut() {
            let Some(name) = names.pop() else {
                open.pop();
                continue;
            };
            let path = path.join(&name);
            let Some(mut entry) = look(&*folder, &name).map_err(Error::while_doing("inspect", &path))? else {
                return Err(SwapError::Conflict(path));
            };
            if let (Some(loosened), Side::After) = (self.loosened, side) {
                entry = loosened.truly(&path, entry);
            }
            let next = self.entry((folder, &name, &path), entry, side)?;
            // Each level takes a descriptor, and deeper entries could not be restored.
            if next.is_some() && path.components().count() >= DEEPEST {
                return Err(SwapError::Failed(Error::TooDeep { path, limit: DEEPEST }));
            }
            open.extend(next);
        }
        Ok(())
    }

    /// Reads the state of an entry other than a file, and stores the parts that are too long for a state.
    fn state(
        &self,
        (parent, name, path): (&OwnedFd, &OsStr, &Path),
        entry: Entry,
        side: Side,
    ) -> crate::Result<State> {
        if entry.kind != Kind::Link || side == Side::After {
            return State::of(parent.as_fd(), name, path, entry, None);
        }
        let keep = |mut target: &[u8]| self.contents.keep(&mut target);
        State::of_link(parent.as_fd(), name, path, entry, &keep)
    }

    /// Records one entry. For a folder whose contents must be recorded too, returns it open with its names.
    fn entry(
        &mut self,
        (parent, name, path): (&OwnedFd, &OsStr, &Path),
        entry: Entry,
        side: Side,
    ) -> Result<Option<(OwnedFd, PathBuf, Vec<OsString>)>, SwapError> {
        match entry.kind {
            Kind::Socket | Kind::Device | Kind::Whiteout => self.leave_out(path.to_owned()),
            Kind::Folder if (self.is_regenerable)(parent, name, path) => self.leave_out(path.to_owned()),
            Kind::File => self.file(parent, name, path, entry, side)?,
            Kind::Folder => {
                let folder =
                    open_known(parent, name, &entry, LIST).map_err(|errno| stopped("list", path, errno))?;
                self.note(path, side, State::of_open(folder.as_fd(), path, entry, None)?);
                let mut names = names(&folder).map_err(Error::while_doing("list", path))?;
                // The names are taken from the end.
                names.reverse();
                return Ok(Some((folder, path.to_owned(), names)));
            }
            Kind::Link | Kind::Fifo => {
                let state = self.state((parent, name, path), entry, side)?;
                self.note(path, side, state);
            }
        }
        Ok(None)
    }

    /// Records a file, or queues it for reading its bytes.
    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        side: Side,
    ) -> Result<(), SwapError> {
        let is_renamed = |root: &PathBuf| path.starts_with(root) && (path != root || !is_hashed(&entry));
        if side == Side::After && !is_hashed(&entry) || self.renamed.iter().any(is_renamed) {
            let state = State::of(parent.as_fd(), name, path, entry, None)?;
            self.note(path, side, state);
            return Ok(());
        }
        let known = self.known.and_then(|known| match side {
            Side::Before => known.kept(&entry),
            Side::After => known.written(&entry),
        });
        match known {
            Some(state) => self.note_file(path, side, state),
            None => self.unread.push((path.to_owned(), entry, side)),
        }
        Ok(())
    }

    fn note_file(&mut self, path: &Path, side: Side, state: State) {
        self.saved.bytes += if side == Side::Before { state.entry.size_bytes } else { 0 };
        self.note(path, side, state);
    }

    /// Reads the files with unknown bytes, and stores the old ones.
    fn read_all(&mut self) -> Result<(), SwapError> {
        let unread = std::mem::take(&mut self.unread);
        let (contents, (before, after)) = (self.contents, self.roots);
        let begin = || (Holders::new(before, PLACE), Holders::new(after, PLACE), Vec::new());
        let states = parallel::each(
            &unread,
            |(path, ..)| path,
            begin,
            |(before, after, buffer), (path, entry, side)| {
                let holders = if *side == Side::Before { before } else { after };
                let parent = holders.of(path).map_err(|errno| stopped("reach", path, errno))?;
                read(contents, parent, path, entry, (*side, buffer))
            },
        )?;
        for ((path, entry, side), state) in unread.into_iter().zip(states) {
            if let Some(state) = state {
                if side == Side::After && git_index::may_be(name_of(&path)) {
                    self.saved.needed.extend(state.content);
                }
                self.note_file(&path, side, state);
                continue;
            }
            let (before, after) = self.roots;
            let root = if side == Side::Before { before } else { after };
            let parent = open(root, path.parent().unwrap_or(Path::new("")), PLACE)
                .map_err(|errno| stopped("reach", &path, errno))?;
            let state = State::of(parent.as_fd(), name_of(&path), &path, entry, None)?;
            self.note(&path, side, state);
            if side == Side::Before {
                self.saved.unreadable.push(path);
            }
        }
        Ok(())
    }

    fn ended(mut self) -> Result<ChangeEntries, SwapError> {
        self.read_all()?;
        self.saved.unsaved.sort();
        self.saved.unsaved.dedup();
        // Nearly everything was found in this order.
        self.found.sort_by(|(one, ..), (other, ..)| one.cmp(other));
        for (path, side, state) in self.found {
            let known = self.saved.entries.pop_if(|last| last.path == path);
            let mut entry = known.unwrap_or(SavedEntry { path, before: None, after: None });
            *(if side == Side::Before { &mut entry.before } else { &mut entry.after }) = Some(state);
            self.saved.entries.push(entry);
        }
        Ok(self.saved)
    }
}

/// Reads a file with its bytes, which are stored if the file goes. Returns `None` for an unreadable file, which
/// is then identified by inode and times.
fn read(
    contents: &dyn Contents,
    parent: &OwnedFd,
    path: &Path,
    entry: &Entry,
    (side, buffer): (Side, &mut Vec<u8>),
) -> Result<Option<State>, SwapError> {
    let keep = |content: &mut dyn Read| contents.keep(content);
    let only_hash = |content: &mut dyn Read| hash(content);
    // The bytes of a new index later show whether others only refreshed it.
    let is_kept = side == Side::Before || git_index::may_be(name_of(path));
    let take: Take<'_> = if is_kept { &keep } else { &only_hash };
    let read = read_once(parent.as_fd(), (name_of(path), path), entry, buffer, ("save", take));
    match (read, side) {
        (Ok(ReadOnce::As(state)), _) => Ok(Some(state)),
        (Ok(ReadOnce::Closed), Side::Before) | (_, Side::After) => Ok(None),
        (Ok(ReadOnce::Changed), Side::Before) => Err(SwapError::Conflict(path.to_owned())),
        (Err(error), Side::Before) => Err(error.into()),
    }
}

/// Converts an error: a changed entry is a conflict.
fn stopped(doing: &'static str, path: &Path, errno: Errno) -> SwapError {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => SwapError::Conflict(path.to_owned()),
        errno => SwapError::Failed(Error::while_doing(doing, path)(errno)),
    }
}
