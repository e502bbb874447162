//! Layout of the entries to be restored, in the folder of a call.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Uid, chownat, fstat, linkat, mkdirat, mknodat, symlinkat, utimensat,
};
use rustix::io::Errno;

use crate::exchange_dirs::name_of;
use crate::folder::{LIST, PLACE, look, names, open, set_mode, times};
use crate::parallel;
use crate::regenerable::Regenerable;
use crate::renamed::WorkspaceFile;
use crate::restore::{Act, Acts, find};
use crate::state::hash;
use crate::writer::Writer;
use crate::{
    Conflict, DEEPEST, Draft, Entry, Error, Kind, LaterChange, Restoration, RestoreOutcome, Result, State,
    Time, attributes,
};

pub(crate) struct Layout<'a> {
    draft: &'a Draft,
    acts: &'a Acts<'a>,
    /// Paths of contents that were not saved, but still exist elsewhere.
    there: &'a HashMap<&'a Path, WorkspaceFile<'a>>,
    wanted: &'a Restoration<'a>,
    /// Folders of the layout, outer ones first, with their final permission bits and times.
    folders: Vec<(PathBuf, u32, Time)>,
    /// Folder of the last laid-out entry. Neighbouring entries share theirs.
    last: Option<(PathBuf, Rc<OwnedFd>)>,
    /// Path of the first name of each inode with several names.
    linked: HashMap<(u64, u64), PathBuf>,
    /// Files with one name, whose folders are already laid out.
    files: Vec<(&'a Path, &'a State, Option<WorkspaceFile<'a>>)>,
    restored: RestoreOutcome,
    regenerable: Regenerable,
}

impl<'a> Layout<'a> {
    pub(crate) fn of(
        draft: &'a Draft,
        (acts, there): (&'a Acts<'a>, &'a HashMap<&'a Path, WorkspaceFile<'a>>),
        wanted: &'a Restoration<'a>,
        restored: RestoreOutcome,
    ) -> Self {
        let (folders, linked, files) = (Vec::new(), HashMap::new(), Vec::new());
        let regenerable = Regenerable::of(&draft.path);
        Self { draft, acts, there, wanted, folders, last: None, linked, files, restored, regenerable }
    }

    /// Lays out everything.
    pub(crate) fn all(mut self) -> Result<RestoreOutcome> {
        let mut gone: Option<&Path> = None;
        for (path, (act, now)) in self.acts {
            if gone.is_some_and(|gone| path.starts_with(gone)) {
                self.restored.paths += 1;
                continue;
            }
            let is_folder = now.is_some_and(|now| now.kind == Kind::Folder);
            match act {
                Act::Settle(state, time) => {
                    let modified = time.or(now.map(|now| now.modified)).unwrap_or(state.entry.modified);
                    self.folder(path, state, modified)?;
                    if time.is_none() {
                        self.restored.paths += 1;
                    }
                }
                Act::Remove if is_folder && !self.goes(path)? => self.restored.left.push((*path).to_owned()),
                Act::Remove => {
                    gone = is_folder.then_some(path);
                    let (parent, name) = (self.parent(path)?, name_of(path));
                    mknodat(&*parent, name, FileType::CharacterDevice, Mode::empty(), 0)
                        .map_err(Error::while_doing("mark as removed", path))?;
                    self.restored.paths += 1;
                }
                Act::Put(state) => {
                    if is_folder && !(self.wanted.force)(path) && !self.goes(path)? {
                        let meanwhile = LaterChange::Changed;
                        self.restored.conflicts.push(Conflict { path: (*path).to_owned(), meanwhile });
                        return Ok(self.restored);
                    }
                    if state.entry.kind == Kind::Folder {
                        self.folder(path, state, state.entry.modified)?;
                    } else {
                        self.put(path, state)?;
                        // The contents of a replaced folder go with it.
                        gone = is_folder.then_some(path);
                    }
                    self.restored.paths += 1;
                }
            }
        }
        let (draft, contents) = (self.draft, self.wanted.contents);
        let begin = || Writer::new(draft, contents);
        parallel::each(
            &self.files,
            |(path, ..)| path,
            begin,
            |writer, (path, state, there)| writer.write(path, state, *there),
        )?;
        self.finish()?;
        Ok(self.restored)
    }

    /// Returns true if everything in a folder goes, so that the folder can go as well. Regenerable
    /// folders go with it.
    fn goes(&mut self, path: &Path) -> Result<bool> {
        let mut left = vec![path.to_owned()];
        while let Some(path) = left.pop() {
            if path.components().count() >= DEEPEST {
                return Err(Error::TooDeep { path, limit: DEEPEST });
            }
            let failed = Error::while_doing("list", &path);
            let folder = open(self.draft.workspace.as_fd(), &path, LIST).map_err(&failed)?;
            for name in names(&folder).map_err(&failed)? {
                let inner = path.join(&name);
                let Some(entry) = look(&folder, &name).map_err(&failed)? else { continue };
                let is_folder = entry.kind == Kind::Folder;
                if is_folder && self.regenerable.is(&[&folder], &name, &inner) {
                    continue;
                }
                if !matches!(self.acts.get(inner.as_path()), Some((Act::Remove, _))) {
                    return Ok(false);
                }
                if is_folder {
                    left.push(inner);
                }
            }
        }
        Ok(true)
    }

    /// Opens the layout's parent folder of a path. Parent folders that are not restored look as they
    /// do in the workspace.
    fn parent(&mut self, path: &Path) -> Result<Rc<OwnedFd>> {
        let parent = path.parent().unwrap_or(Path::new(""));
        if let Some((_, last)) = self.last.as_ref().filter(|(last, _)| last == parent) {
            return Ok(last.clone());
        }
        let opened = Rc::new(self.open_or_make(path, parent)?);
        self.last = Some((parent.to_owned(), opened.clone()));
        Ok(opened)
    }

    fn open_or_make(&mut self, path: &Path, parent: &Path) -> Result<OwnedFd> {
        let failed = Error::while_doing("create", path);
        match open(self.draft.upper.as_fd(), parent, LIST) {
            Err(Errno::NOENT) => {}
            opened => return opened.map_err(failed),
        }
        let mut so_far = PathBuf::new();
        for name in parent {
            so_far.push(name);
            if open(self.draft.upper.as_fd(), &so_far, PLACE).is_ok() {
                continue;
            }
            match find(&self.draft.workspace, &so_far)? {
                Some((holder, now)) if now.kind == Kind::Folder => {
                    let state = State::of(holder.as_fd(), name, &so_far, now, None)?;
                    self.make_folder(&so_far, &state, now.modified)?;
                }
                Some(_) => return Err(Error::system("find the folder", &so_far, Errno::NOTDIR)),
                None => self.make_gone_folder(&so_far)?,
            }
        }
        open(self.draft.upper.as_fd(), parent, LIST).map_err(failed)
    }

    fn folder(&mut self, path: &Path, state: &State, modified: Time) -> Result<()> {
        if path.as_os_str().is_empty() {
            // The workspace itself exists. Its rights stay as they are.
            self.folders.push((PathBuf::new(), 0o700, modified));
            return Ok(());
        }
        self.parent(path)?;
        if open(self.draft.upper.as_fd(), path, PLACE).is_ok() {
            return Ok(());
        }
        self.make_folder(path, state, modified)
    }

    fn make_folder(&mut self, path: &Path, state: &State, modified: Time) -> Result<()> {
        let failed = Error::while_doing("create", path);
        let parent =
            open(self.draft.upper.as_fd(), path.parent().unwrap_or(Path::new("")), LIST).map_err(&failed)?;
        mkdirat(&parent, name_of(path), Mode::from_raw_mode(0o700)).map_err(&failed)?;
        own(&parent, name_of(path), state).map_err(&failed)?;
        self.folders.push((path.to_owned(), state.entry.mode, modified));
        Ok(())
    }

    /// Creates a missing folder of unknown state, like the nearest existing folder above it.
    fn make_gone_folder(&mut self, path: &Path) -> Result<()> {
        let failed = Error::while_doing("create", path);
        let parent =
            open(self.draft.upper.as_fd(), path.parent().unwrap_or(Path::new("")), LIST).map_err(&failed)?;
        mkdirat(&parent, name_of(path), Mode::from_raw_mode(0o700)).map_err(&failed)?;
        let made = look(&parent, name_of(path)).map_err(&failed)?.ok_or_else(|| failed(Errno::STALE))?;
        let mut like = made;
        for above in path.ancestors().skip(1) {
            if let Some((_, entry)) = find(&self.draft.workspace, above)? {
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

    /// Lays out any entry but a folder.
    fn put(&mut self, path: &'a Path, state: &'a State) -> Result<()> {
        let (parent, name) = (self.parent(path)?, name_of(path));
        let there = self.there.get(path).copied();
        let is_file = state.entry.kind == Kind::File && (state.content.is_some() || there.is_some());
        if is_file {
            if state.entry.mode & 0o6000 != 0 {
                self.restored.without_set_id.push(path.to_owned());
            }
            if !state.entry.has_other_names {
                self.files.push((path, state, there));
                return Ok(());
            }
        }
        let failed = Error::while_doing("create", path);
        let inode = (state.entry.device, state.entry.inode);
        if state.entry.has_other_names {
            if let Some(first) = self.linked.get(&inode) {
                let holder = first.parent().unwrap_or(Path::new(""));
                let holder = open(self.draft.upper.as_fd(), holder, LIST).map_err(&failed)?;
                return linkat(&holder, name_of(first), &*parent, name, AtFlags::empty()).map_err(failed);
            }
            self.linked.insert(inode, path.to_owned());
        }
        match (state.entry.kind, &state.target) {
            (Kind::File, _) if is_file => {
                return Writer::new(self.draft, self.wanted.contents).write(path, state, there);
            }
            (Kind::Link, Some(target)) => symlinkat(target, &*parent, name).map_err(&failed)?,
            (Kind::Link, None) => {
                let target = self.long_target(path, state)?;
                symlinkat(OsStr::from_bytes(&target), &*parent, name).map_err(&failed)?;
            }
            (Kind::Fifo, _) => {
                mknodat(&*parent, name, FileType::Fifo, Mode::from_raw_mode(0o600), 0).map_err(&failed)?;
            }
            _ => {
                let lost = io::Error::new(io::ErrorKind::NotFound, "it was not saved");
                return Err(Error::system("restore", path, lost));
            }
        }
        own(&parent, name, state).map_err(&failed)?;
        if state.entry.kind != Kind::Link {
            let place = open(parent.as_fd(), Path::new(name), OFlags::PATH).map_err(&failed)?;
            set_mode(place.as_fd(), state.entry.mode & 0o1777).map_err(&failed)?;
        }
        utimensat(&*parent, name, &times(state.entry.modified), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
    }

    /// Reads the target of a link that was too long for its state.
    fn long_target(&self, path: &Path, state: &State) -> Result<Vec<u8>> {
        let unread = |source: io::Error| Error::system("restore", path, source);
        let lost = || unread(io::Error::new(io::ErrorKind::NotFound, "it was not saved"));
        let wanted = state.content.ok_or_else(lost)?;
        let mut target = Vec::new();
        self.wanted.contents.open(&wanted).map_err(unread)?.read_to_end(&mut target).map_err(unread)?;
        if hash(&target[..]).map_err(unread)? == wanted {
            Ok(target)
        } else {
            Err(Error::Damaged { path: path.to_owned() })
        }
    }

    /// Sets the rights and times of folders when their contents are complete, inner ones first.
    fn finish(&mut self) -> Result<()> {
        let mut root = None;
        for (path, mode, modified) in self.folders.iter().rev() {
            if path.as_os_str().is_empty() {
                root = Some(*modified);
                continue;
            }
            let failed = Error::while_doing("create", path);
            let (holder, name) = (path.parent().unwrap_or(Path::new("")), name_of(path));
            let holder = open(self.draft.upper.as_fd(), holder, LIST).map_err(&failed)?;
            let folder = open(holder.as_fd(), Path::new(name), OFlags::PATH).map_err(&failed)?;
            utimensat(&holder, name, &times(*modified), AtFlags::SYMLINK_NOFOLLOW).map_err(&failed)?;
            set_mode(folder.as_fd(), *mode).map_err(failed)?;
        }
        // The time of the workspace itself stays, unless it is to be restored.
        let failed = Error::while_doing("create", Path::new(""));
        let modified = match root {
            Some(modified) => modified,
            None => Entry::of(&fstat(&self.draft.workspace).map_err(&failed)?).modified,
        };
        crate::folder::set_modified(self.draft.upper.as_fd(), modified).map_err(failed)
    }
}

/// Sets the owner and the attributes of an entry.
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
