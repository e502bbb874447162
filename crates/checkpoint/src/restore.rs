//! Putting back what was saved.
//!
//! What is to be restored is laid into the folder of a call, in the form in which an overlay would have left it, and then
//! committed like the changes of a command: all or nothing, judged, journaled, and saved in its turn.
//!
//! Only paths that were saved are touched. One that is not as the change left it is a conflict, unless it is as it was
//! before already, or is forced. A folder that the change made stays where others have put something into it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, linkat, mkdirat, mknodat, openat, symlinkat,
    utimensat,
};
use rustix::io::Errno;

use crate::beneath::{LIST, PLACE, look, names, open, set_mode, times};
use crate::sides::name_of;
use crate::{
    Conflict, Contents, Draft, Entry, Error, Kind, Meanwhile, Result, SavedEntry, State, Time, attributes,
    is_regenerable_folder,
};

/// What is to be put back.
pub struct Restoration<'a> {
    /// What was saved, sorted by path.
    pub entries: &'a [SavedEntry],
    /// Restores these paths and what lies below them; everything where it is empty.
    pub only: &'a [PathBuf],
    /// Whether a path is restored although somebody changed it since.
    pub force: &'a dyn Fn(&Path) -> bool,
    /// Where the bytes are.
    pub contents: &'a dyn Contents,
}

/// What was laid out to be committed.
#[derive(Debug, Default)]
pub struct Restored {
    /// How many paths will change; the times of folders do not count.
    pub paths: u64,
    /// What others changed since. While there is one, nothing was laid out.
    pub conflicts: Vec<Conflict>,
    /// Folders that stay, because others have put something into them.
    pub left: Vec<PathBuf>,
    /// Files that get their bytes back, but not the bits that let them run as their owner or group.
    pub without_set_id: Vec<PathBuf>,
}

/// What several changes came to, from the first to the last. The second value names the paths that were changed by others
/// between two of them.
pub fn compose<'a>(changes: impl IntoIterator<Item = &'a [SavedEntry]>) -> (Vec<SavedEntry>, Vec<PathBuf>) {
    let mut all: BTreeMap<PathBuf, SavedEntry> = BTreeMap::new();
    let mut disturbed = Vec::new();
    for entry in changes.into_iter().flatten() {
        let Some(earlier) = all.get_mut(&entry.path) else {
            all.insert(entry.path.clone(), entry.clone());
            continue;
        };
        let fits = match (&earlier.after, &entry.before) {
            (Some(left), Some(found)) => left.is_same_as(found),
            (None, None) => true,
            _ => false,
        };
        if !fits {
            disturbed.push(entry.path.clone());
        }
        earlier.after.clone_from(&entry.after);
    }
    let entries = all.into_values().filter(|entry| entry.before.is_some() || entry.after.is_some());
    (entries.collect(), disturbed)
}

/// What happens to one path.
enum Act<'a> {
    /// It gets this, whatever is there.
    Put(&'a State),
    /// The folder that is there gets these rights, and this time.
    Settle(&'a State, Option<Time>),
    /// It goes.
    Remove,
}

type Acts<'a> = BTreeMap<&'a Path, Act<'a>>;

impl Draft {
    /// Lays out what is to be restored in this empty draft, to be committed. Changes nothing in the workspace.
    ///
    /// # Errors
    /// Where something cannot be read, or its saved bytes are gone.
    pub fn restore(&self, wanted: &Restoration<'_>) -> Result<Restored> {
        let mut restored = Restored::default();
        let mut acts = Acts::new();
        for entry in wanted.entries.iter().filter(|entry| is_wanted(entry, wanted.only, &self.workspace)) {
            if let Some(act) = decide(&self.workspace, entry, wanted, &mut restored)? {
                acts.insert(&entry.path, act);
            }
        }
        for (path, act) in &acts {
            if let Act::Put(_) = act
                && let Some(above) = in_the_way(&self.workspace, path, &acts)?
                && restored.conflicts.iter().all(|known| known.path != above)
            {
                restored.conflicts.push(Conflict { path: above, meanwhile: Meanwhile::Changed });
            }
        }
        if !restored.conflicts.is_empty() {
            return Ok(restored);
        }
        let mut layout = Layout {
            workspace: &self.workspace,
            upper: &self.upper,
            acts: &acts,
            contents: wanted.contents,
            folders: Vec::new(),
            linked: HashMap::new(),
            buffer: RefCell::new(vec![0; 1 << 16]),
            restored,
        };
        layout.all(wanted.force)?;
        Ok(layout.restored)
    }
}

/// Whether an entry was asked for, or is a folder that is needed to put one there.
fn is_wanted(entry: &SavedEntry, only: &[PathBuf], workspace: &OwnedFd) -> bool {
    let is_needed = |wanted: &PathBuf| {
        wanted.starts_with(&entry.path)
            && entry.before.as_ref().is_some_and(|before| before.entry.kind == Kind::Folder)
            && !matches!(find(workspace, &entry.path), Ok(Some((_, now))) if now.kind == Kind::Folder)
    };
    only.is_empty() || only.iter().any(|wanted| entry.path.starts_with(wanted) || is_needed(wanted))
}

/// What is no folder now, where there has to be one above a path that is put back, and nothing puts one there. It is not
/// ours to replace, forced or not.
fn in_the_way(workspace: &OwnedFd, path: &Path, acts: &Acts<'_>) -> Result<Option<PathBuf>> {
    for above in path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty()) {
        let comes = matches!(acts.get(above), Some(Act::Put(state)) if state.entry.kind == Kind::Folder);
        if comes {
            return Ok(None);
        }
        if let Some((_, now)) = find(workspace, above)? {
            return Ok((now.kind != Kind::Folder).then(|| above.to_owned()));
        }
    }
    Ok(None)
}

/// What is at a path of the workspace now, with the open folder that holds it.
fn find(workspace: &OwnedFd, path: &Path) -> Result<Option<(OwnedFd, Entry)>> {
    let failed = Error::while_doing("look at", path);
    if path.as_os_str().is_empty() {
        let folder = open(workspace.as_fd(), path, PLACE).map_err(&failed)?;
        let entry = Entry::of(&fstat(&folder).map_err(&failed)?);
        return Ok(Some((folder, entry)));
    }
    match open(workspace.as_fd(), path.parent().unwrap_or(Path::new("")), PLACE) {
        Ok(folder) => {
            let found = look(&folder, name_of(path)).map_err(failed)?;
            Ok(found.map(|entry| (folder, entry)))
        }
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}

fn decide<'a>(
    workspace: &OwnedFd,
    entry: &'a SavedEntry,
    wanted: &Restoration<'_>,
    restored: &mut Restored,
) -> Result<Option<Act<'a>>> {
    let now = find(workspace, &entry.path)?;
    let is = |state: &Option<State>| match (state, &now) {
        (None, None) => Ok(true),
        (Some(state), Some((folder, found))) => {
            state.is_still(folder.as_fd(), name_of(&entry.path), &entry.path, found)
        }
        _ => Ok(false),
    };
    let is_as_before = is(&entry.before)?;
    let both_folders = match (&entry.before, &now) {
        (Some(before), Some((_, now))) if before.entry.kind == Kind::Folder && now.kind == Kind::Folder => {
            Some((before, now))
        }
        _ => None,
    };
    if let Some((before, now)) = both_folders {
        // The time comes back where nobody has touched the folder since.
        let left = entry.after.as_ref().is_some_and(|after| after.entry.modified == now.modified);
        let time = left.then_some(before.entry.modified);
        if is_as_before {
            return Ok(time.filter(|time| *time != now.modified).map(|time| Act::Settle(before, Some(time))));
        }
        if is(&entry.after)? || (wanted.force)(&entry.path) {
            return Ok(Some(Act::Settle(before, time)));
        }
    } else {
        if is_as_before {
            // It is there, but for its time: that comes back, too, unless somebody gave it another one since.
            let time = |state: &Option<State>| state.as_ref().map(|state| state.entry.modified);
            let now = now.as_ref().map(|(_, now)| now.modified);
            let is_left = now == time(&entry.after) && now != time(&entry.before);
            return Ok(entry.before.as_ref().filter(|_| is_left).map(Act::Put));
        }
        if is(&entry.after)? || (wanted.force)(&entry.path) {
            return Ok(Some(entry.before.as_ref().map_or(Act::Remove, Act::Put)));
        }
    }
    let meanwhile = if now.is_some() { Meanwhile::Changed } else { Meanwhile::Removed };
    restored.conflicts.push(Conflict { path: entry.path.clone(), meanwhile });
    Ok(None)
}

struct Layout<'a> {
    workspace: &'a OwnedFd,
    upper: &'a OwnedFd,
    acts: &'a Acts<'a>,
    contents: &'a dyn Contents,
    /// The folders of the layout, outer ones first, with the rights and the time that they get at last.
    folders: Vec<(PathBuf, u32, Time)>,
    /// Where the first name of a file with several was laid.
    linked: HashMap<(u64, u64), PathBuf>,
    buffer: RefCell<Vec<u8>>,
    restored: Restored,
}

impl Layout<'_> {
    fn all(&mut self, force: &dyn Fn(&Path) -> bool) -> Result<()> {
        let mut gone: Option<&Path> = None;
        for (path, act) in self.acts {
            if gone.is_some_and(|gone| path.starts_with(gone)) {
                self.restored.paths += 1;
                continue;
            }
            let now = find(self.workspace, path)?;
            let is_folder = now.as_ref().is_some_and(|(_, now)| now.kind == Kind::Folder);
            match act {
                Act::Settle(state, time) => {
                    let modified = match (time, &now) {
                        (Some(time), _) => *time,
                        (None, Some((_, now))) => now.modified,
                        (None, None) => state.entry.modified,
                    };
                    self.folder(path, state, modified)?;
                    if time.is_none() {
                        self.restored.paths += 1;
                    }
                }
                Act::Remove if is_folder && !self.goes(path)? => self.restored.left.push((*path).to_owned()),
                Act::Remove => {
                    gone = is_folder.then_some(path);
                    let (parent, name) = (self.parent(path)?, name_of(path));
                    mknodat(&parent, name, FileType::CharacterDevice, Mode::empty(), 0)
                        .map_err(Error::while_doing("mark as removed", path))?;
                    self.restored.paths += 1;
                }
                Act::Put(state) => {
                    if is_folder && !force(path) && !self.goes(path)? {
                        let meanwhile = Meanwhile::Changed;
                        self.restored.conflicts.push(Conflict { path: (*path).to_owned(), meanwhile });
                        return Ok(());
                    }
                    if state.entry.kind == Kind::Folder {
                        self.folder(path, state, state.entry.modified)?;
                    } else {
                        self.put(path, state)?;
                        // What lay in the folder in its place goes with it.
                        gone = is_folder.then_some(path);
                    }
                    self.restored.paths += 1;
                }
            }
        }
        self.finish()
    }

    /// Whether everything in a folder goes, so that it can go as well.
    fn goes(&self, path: &Path) -> Result<bool> {
        let failed = Error::while_doing("list", path);
        let folder = open(self.workspace.as_fd(), path, LIST).map_err(&failed)?;
        for name in names(&folder).map_err(&failed)? {
            let inner = path.join(&name);
            let Some(entry) = look(&folder, &name).map_err(&failed)? else { continue };
            let is_folder = entry.kind == Kind::Folder;
            if is_folder && is_regenerable_folder(&name) {
                continue;
            }
            let is_removed = matches!(self.acts.get(inner.as_path()), Some(Act::Remove));
            if !is_removed || is_folder && !self.goes(&inner)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The folder of the layout that holds a path. Folders on the way that are not to be restored look as they are.
    fn parent(&mut self, path: &Path) -> Result<OwnedFd> {
        let parent = path.parent().unwrap_or(Path::new(""));
        let failed = Error::while_doing("lay out", path);
        match open(self.upper.as_fd(), parent, LIST) {
            Err(Errno::NOENT) => {}
            opened => return opened.map_err(failed),
        }
        let mut so_far = PathBuf::new();
        for name in parent {
            so_far.push(name);
            if open(self.upper.as_fd(), &so_far, PLACE).is_ok() {
                continue;
            }
            match find(self.workspace, &so_far)? {
                Some((holder, now)) if now.kind == Kind::Folder => {
                    let state = State::of(holder.as_fd(), name, &so_far, now, None)?;
                    self.make_folder(&so_far, &state, now.modified)?;
                }
                Some(_) => return Err(Error::system("find the folder", &so_far, Errno::NOTDIR)),
                None => self.make_gone_folder(&so_far)?,
            }
        }
        open(self.upper.as_fd(), parent, LIST).map_err(failed)
    }

    fn folder(&mut self, path: &Path, state: &State, modified: Time) -> Result<()> {
        if path.as_os_str().is_empty() {
            // The workspace itself is there. Its rights stay as they are.
            self.folders.push((PathBuf::new(), 0o700, modified));
            return Ok(());
        }
        drop(self.parent(path)?);
        if open(self.upper.as_fd(), path, PLACE).is_ok() {
            return Ok(());
        }
        self.make_folder(path, state, modified)
    }

    fn make_folder(&mut self, path: &Path, state: &State, modified: Time) -> Result<()> {
        let failed = Error::while_doing("lay out", path);
        let parent =
            open(self.upper.as_fd(), path.parent().unwrap_or(Path::new("")), LIST).map_err(&failed)?;
        mkdirat(&parent, name_of(path), Mode::from_raw_mode(0o700)).map_err(&failed)?;
        own(&parent, name_of(path), state).map_err(&failed)?;
        self.folders.push((path.to_owned(), state.entry.mode, modified));
        Ok(())
    }

    /// A folder that is gone, and that nothing is known of: one like the folder in which it lies.
    fn make_gone_folder(&mut self, path: &Path) -> Result<()> {
        let failed = Error::while_doing("lay out", path);
        let parent =
            open(self.upper.as_fd(), path.parent().unwrap_or(Path::new("")), LIST).map_err(&failed)?;
        mkdirat(&parent, name_of(path), Mode::from_raw_mode(0o700)).map_err(&failed)?;
        let made = look(&parent, name_of(path)).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
        let mut like = made;
        for above in path.ancestors().skip(1) {
            if let Some((_, entry)) = find(self.workspace, above)? {
                like = entry;
                break;
            }
        }
        if (made.owner, made.group) != (like.owner, like.group) {
            let (owner, group) = (Uid::from_raw(like.owner), Gid::from_raw(like.group));
            chownat(&parent, name_of(path), Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)
                .map_err(failed)?;
        }
        self.folders.push((path.to_owned(), like.mode & 0o777, made.modified));
        Ok(())
    }

    /// Anything but a folder.
    fn put(&mut self, path: &Path, state: &State) -> Result<()> {
        let (parent, name) = (self.parent(path)?, name_of(path));
        let failed = Error::while_doing("lay out", path);
        let inode = (state.entry.device, state.entry.inode);
        if state.entry.has_other_names {
            if let Some(first) = self.linked.get(&inode) {
                let holder = first.parent().unwrap_or(Path::new(""));
                let holder = open(self.upper.as_fd(), holder, LIST).map_err(&failed)?;
                return linkat(&holder, name_of(first), &parent, name, AtFlags::empty()).map_err(failed);
            }
            self.linked.insert(inode, path.to_owned());
        }
        match (state.entry.kind, &state.content, &state.target) {
            (Kind::File, Some(content), _) => self.write(&parent, name, path, content)?,
            (Kind::Link, _, Some(target)) => symlinkat(target, &parent, name).map_err(&failed)?,
            (Kind::Fifo, ..) => {
                mknodat(&parent, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0).map_err(&failed)?;
            }
            _ => {
                let lost = io::Error::new(io::ErrorKind::NotFound, "it was not saved");
                return Err(Error::system("restore", path, lost));
            }
        }
        own(&parent, name, state).map_err(&failed)?;
        if state.entry.kind != Kind::Link {
            if state.entry.kind == Kind::File && state.entry.mode & 0o6000 != 0 {
                self.restored.without_set_id.push(path.to_owned());
            }
            let place = open(parent.as_fd(), Path::new(name), OFlags::PATH).map_err(&failed)?;
            set_mode(place.as_fd(), state.entry.mode & 0o1777).map_err(&failed)?;
        }
        utimensat(&parent, name, &times(state.entry.modified), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
    }

    fn write(&self, parent: &OwnedFd, name: &OsStr, path: &Path, content: &crate::ContentHash) -> Result<()> {
        let failed = |source: io::Error| Error::system("restore", path, source);
        let mut from = self.contents.open(content).map_err(failed)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let to = openat(parent, name, flags, Mode::from_raw_mode(0o600));
        let mut to = File::from(to.map_err(|errno| failed(errno.into()))?);
        let mut hasher = blake3::Hasher::new();
        let buffer = &mut *self.buffer.borrow_mut();
        loop {
            let length = match from.read(buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            hasher.update(&buffer[..length]);
            to.write_all(&buffer[..length]).map_err(failed)?;
        }
        if hasher.finalize().as_bytes() != content {
            return Err(Error::Damaged { path: path.to_owned() });
        }
        Ok(())
    }

    /// Folders get their rights and times when all is in them, inner ones first.
    fn finish(&mut self) -> Result<()> {
        let mut root = None;
        for (path, mode, modified) in self.folders.iter().rev() {
            if path.as_os_str().is_empty() {
                root = Some(*modified);
                continue;
            }
            let failed = Error::while_doing("lay out", path);
            let (holder, name) = (path.parent().unwrap_or(Path::new("")), name_of(path));
            let holder = open(self.upper.as_fd(), holder, LIST).map_err(&failed)?;
            let folder = open(holder.as_fd(), Path::new(name), OFlags::PATH).map_err(&failed)?;
            utimensat(&holder, name, &times(*modified), AtFlags::SYMLINK_NOFOLLOW).map_err(&failed)?;
            set_mode(folder.as_fd(), *mode).map_err(failed)?;
        }
        // The time of the workspace itself stays as it is, unless it is to be restored.
        let failed = Error::while_doing("lay out", Path::new(""));
        let modified = match root {
            Some(modified) => modified,
            None => Entry::of(&fstat(self.workspace).map_err(&failed)?).modified,
        };
        crate::beneath::set_modified(self.upper.as_fd(), modified).map_err(failed)
    }
}

/// Gives an entry its owner and its attributes.
fn own(parent: &OwnedFd, name: &OsStr, state: &State) -> rustix::io::Result<()> {
    let made = look(parent, name)?.ok_or(Errno::STALE)?;
    if (made.owner, made.group) != (state.entry.owner, state.entry.group) {
        let (owner, group) = (Uid::from_raw(state.entry.owner), Gid::from_raw(state.entry.group));
        chownat(parent, name, Some(owner), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    if matches!(state.entry.kind, Kind::File | Kind::Folder) {
        attributes::set(parent.as_fd(), name, &state.attributes)?;
    }
    Ok(())
}
