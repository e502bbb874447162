//! Saving what a change takes out of the workspace, and noting what it puts there.
//!
//! Everything is read before anything is changed. That nobody changes it in between is seen by the commit itself, which
//! looks at inode and change time once more when it swaps.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fstat};
use rustix::io::Errno;

use crate::beneath::{Holders, LIST, PLACE, look, names, open, open_known};
use crate::known::Known;
use crate::loosened::Loosened;
use crate::sides::name_of;
use crate::state::{hash, is_hashed};
use crate::swap::Stopped;
use crate::{Changes, Contents, Entry, Error, Kind, State, What, Workspace, is_regenerable_folder};

/// Saves what a commit replaces and removes. Without it, that is lost.
pub struct Save<'a> {
    /// Where the bytes go.
    pub contents: &'a dyn Contents,
    /// Is handed everything before anything is changed. Where it fails, nothing is committed.
    pub keep: &'a dyn Fn(&Saved) -> io::Result<()>,
    /// Whether somebody agreed that what cannot be read is lost.
    pub loss_is_agreed: bool,
}

/// What a change takes and puts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Saved {
    /// Every path with what was there and what is there afterwards, sorted by path.
    pub entries: Vec<SavedEntry>,
    /// Folders that tools make again, and sockets and devices: they cannot be brought back.
    pub unsaved: Vec<PathBuf>,
    /// Files that could not be read.
    pub unreadable: Vec<PathBuf>,
    /// Bytes of the files that were saved.
    pub bytes: u64,
}

/// One path of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedEntry {
    /// Where, relative to the workspace; empty for the workspace itself.
    pub path: PathBuf,
    /// What was there.
    pub before: Option<State>,
    /// What is there afterwards.
    pub after: Option<State>,
}

impl SavedEntry {
    /// Whether anything but the time of a folder changed.
    pub fn is_telling(&self) -> bool {
        match (&self.before, &self.after) {
            (Some(before), Some(after)) => !before.is_same_as(after) || before.entry.kind != Kind::Folder,
            _ => true,
        }
    }
}

type Sides = BTreeMap<PathBuf, (Option<State>, Option<State>)>;

/// A walk through what changes.
struct Walk<'a> {
    contents: &'a dyn Contents,
    /// The true modes of what lies in the folder of the call.
    loosened: Option<&'a Loosened>,
    /// What the drafts of the call read and wrote.
    known: Option<&'a Known>,
    found: Sides,
    saved: Saved,
}

/// Which of its sides a path is looked at on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Before,
    After,
}

/// Keeps no bytes, and only says what they are.
pub(crate) struct NotKept;

impl Contents for NotKept {
    fn keep(&self, content: &mut dyn io::Read) -> io::Result<crate::ContentHash> {
        crate::state::hash(content)
    }

    fn open(&self, _content: &crate::ContentHash) -> io::Result<Box<dyn io::Read>> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Saves what the changes of a call replace and remove.
pub(crate) fn save_changes(
    contents: &dyn Contents,
    workspace: &OwnedFd,
    upper: &OwnedFd,
    changes: &Changes,
    (loosened, known): (&Loosened, &Known),
) -> Result<Saved, Stopped> {
    let (loosened, known) = (Some(loosened), Some(known));
    let mut walk = Walk { contents, loosened, known, found: Sides::new(), saved: Saved::default() };
    let mut old_holders = Holders::new(workspace.as_fd(), PLACE);
    let mut new_holders = Holders::new(upper.as_fd(), LIST);
    for change in &changes.list {
        let path = &change.path;
        if let Some(folder) = regenerable_above(path) {
            walk.leave_out(folder);
            continue;
        }
        let failed = Error::while_doing("reach", path);
        let name = name_of(path);
        let stays = matches!(change.what, What::Attributes | What::Times);
        if let Some(old) = change.old {
            let parent = old_holders.of(path).map_err(|errno| stopped("reach", path, errno))?;
            if stays {
                let mut state = State::of(parent.as_fd(), name, path, old, None)?;
                if let (Some((old, _)), true) = (&change.attributes, change.what == What::Attributes) {
                    state.attributes.clone_from(old);
                }
                walk.note(path, Side::Before, state);
            } else {
                walk.tree(parent, name, path, old, Side::Before)?;
            }
        }
        let Some(new) = change.new else { continue };
        if stays {
            let Some(mut state) = walk.found.get(path).and_then(|(before, _)| before.clone()) else {
                continue;
            };
            let modified = if change.sets_time { new.modified } else { state.entry.modified };
            if change.what == What::Attributes {
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
    Ok(walk.ended())
}

impl Workspace {
    /// Saves what lies at these paths, with all below it, before it is changed directly. Gives the paths from which on
    /// anything may change, too: where not even the folder is there, the first one that will be made.
    ///
    /// The folder around each path is noted, for its time.
    ///
    /// # Errors
    /// Where something cannot be read or kept, or changes while it is read.
    pub fn save(&self, paths: &[PathBuf], contents: &dyn Contents) -> crate::Result<(Saved, Vec<PathBuf>)> {
        let mut roots: Vec<PathBuf> = paths.iter().map(|path| self.first_missing(path)).collect();
        roots.sort();
        roots.dedup_by(|later, earlier| later.starts_with(earlier));
        let saved = self.look_at(&roots, contents, Side::Before)?;
        Ok((saved, roots))
    }

    /// Notes what lies at the same paths after a direct change, and leaves out what is as it was.
    ///
    /// # Errors
    /// Where something cannot be looked at.
    pub fn note_after(
        &self,
        before: Saved,
        roots: &[PathBuf],
        contents: &dyn Contents,
    ) -> crate::Result<Saved> {
        let after = self.look_at(roots, contents, Side::After)?;
        let mut both: Sides =
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
        Ok(Saved { entries: entries.collect(), unsaved, unreadable, bytes })
    }

    fn look_at(&self, roots: &[PathBuf], contents: &dyn Contents, side: Side) -> crate::Result<Saved> {
        let (loosened, known) = (None, None);
        let mut walk = Walk { contents, loosened, known, found: Sides::new(), saved: Saved::default() };
        for path in roots {
            let parent = path.parent().unwrap_or(Path::new(""));
            let failed = Error::while_doing("look at", path);
            let folder = match open(self.folder.as_fd(), parent, PLACE) {
                Ok(folder) => folder,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let around = Entry::of(&fstat(&folder).map_err(&failed)?);
            let state = State::of(folder.as_fd(), OsStr::new("."), parent, around, None)?;
            walk.note(parent, side, state);
            if let Some(entry) = look(&folder, name_of(path)).map_err(&failed)? {
                walk.tree(&folder, name_of(path), path, entry, side).map_err(|stopped| match stopped {
                    Stopped::Failed(error) => error,
                    Stopped::Conflict(path) => Error::system("read", path, Errno::STALE),
                })?;
            }
        }
        Ok(walk.ended())
    }

    /// The path, or the first folder above it that is not there.
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

/// The outermost folder that tools make again and that holds this path.
fn regenerable_above(path: &Path) -> Option<PathBuf> {
    let folders = path.parent()?;
    let names: Vec<_> = folders.iter().collect();
    let first = names.iter().position(|name| is_regenerable_folder(name))?;
    Some(names[..=first].iter().collect())
}

impl Walk<'_> {
    fn note(&mut self, path: &Path, side: Side, state: State) {
        let sides = self.found.entry(path.to_owned()).or_default();
        *(if side == Side::Before { &mut sides.0 } else { &mut sides.1 }) = Some(state);
    }

    fn leave_out(&mut self, path: PathBuf) {
        self.saved.unsaved.push(path);
    }

    fn tree(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        side: Side,
    ) -> Result<(), Stopped> {
        if entry.kind == Kind::Folder && is_regenerable_folder(name) {
            self.leave_out(path.to_owned());
            return Ok(());
        }
        if matches!(entry.kind, Kind::Socket | Kind::Device | Kind::Whiteout) {
            self.leave_out(path.to_owned());
            return Ok(());
        }
        if entry.kind != Kind::Folder {
            let state = match entry.kind {
                Kind::File => self.file(parent, name, path, entry, side)?,
                _ => State::of(parent.as_fd(), name, path, entry, None)?,
            };
            self.note(path, side, state);
            return Ok(());
        }
        let folder =
            open_known(parent, name, &entry, LIST).map_err(|errno| stopped("look into", path, errno))?;
        self.note(path, side, State::of_open(folder.as_fd(), path, entry, None)?);
        for name in names(&folder).map_err(Error::while_doing("list", path))? {
            let path = path.join(&name);
            let Some(mut entry) = look(&folder, &name).map_err(Error::while_doing("look at", &path))? else {
                return Err(Stopped::Conflict(path));
            };
            if let (Some(loosened), Side::After) = (self.loosened, side) {
                entry = loosened.truly(&path, entry);
            }
            self.tree(&folder, &name, &path, entry, side)?;
        }
        Ok(())
    }

    /// Looks at a file, and keeps its bytes if it goes.
    fn file(
        &mut self,
        parent: &OwnedFd,
        name: &OsStr,
        path: &Path,
        entry: Entry,
        side: Side,
    ) -> Result<State, Stopped> {
        let unread = || State::of(parent.as_fd(), name, path, entry, None).map_err(Stopped::Failed);
        if side == Side::After && !is_hashed(&entry) {
            return unread();
        }
        let known = self.known.and_then(|known| match side {
            Side::Before => known.kept(&entry),
            Side::After => known.written(&entry),
        });
        if let Some(state) = known {
            self.saved.bytes += if side == Side::Before { entry.size_bytes } else { 0 };
            return Ok(state);
        }
        let mut file = match (open_known(parent, name, &entry, OFlags::RDONLY), side) {
            (Ok(file), _) => File::from(file),
            (Err(Errno::ACCESS | Errno::PERM), Side::Before) => {
                self.saved.unreadable.push(path.to_owned());
                return unread();
            }
            (Err(errno), Side::Before) => return Err(stopped("open", path, errno)),
            // What is new and cannot be read is known by its inode and times.
            (Err(_), Side::After) => return unread(),
        };
        let content = match side {
            Side::Before => Some(self.keep(&mut file, path, &entry)?),
            Side::After => hash(&mut file).ok(),
        };
        Ok(State::of_open(file.as_fd(), path, entry, content)?)
    }

    /// Keeps the bytes of a file.
    fn keep(&mut self, file: &mut File, path: &Path, entry: &Entry) -> Result<crate::ContentHash, Stopped> {
        let content = self.contents.keep(file).map_err(|source| Error::system("save", path, source))?;
        let now = Entry::of(&fstat(&*file).map_err(Error::while_doing("look at", path))?);
        if !now.is_unchanged(entry) || now.changed != entry.changed {
            return Err(Stopped::Conflict(path.to_owned()));
        }
        self.saved.bytes += entry.size_bytes;
        Ok(content)
    }

    fn ended(mut self) -> Saved {
        self.saved.unsaved.sort();
        self.saved.unsaved.dedup();
        let entries = self.found.into_iter();
        self.saved.entries =
            entries.map(|(path, (before, after))| SavedEntry { path, before, after }).collect();
        self.saved
    }
}

/// What is not what was looked at any more, others changed.
fn stopped(doing: &'static str, path: &Path, errno: Errno) -> Stopped {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => Stopped::Conflict(path.to_owned()),
        errno => Stopped::Failed(Error::while_doing(doing, path)(errno)),
    }
}
