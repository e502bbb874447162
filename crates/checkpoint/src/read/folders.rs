//! Folders that come or go as a whole, with all their contents.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, unlinkat};

use super::Reading;
use crate::attributes;
use crate::folder::{LIST, look, names, open_known};
use crate::{Action, DEEPEST, Entry, Error, Kind, LaterChange, Note, Result};

/// State of a folder that comes as a whole.
#[derive(Clone, Copy)]
pub(super) struct PendingFolder {
    pub(super) depth: usize,
    /// True if nothing is in its place.
    pub(super) is_new: bool,
    pub(super) regenerable: bool,
}

impl Reading<'_> {
    /// Reads everything below a folder that the command created: judges each entry, and drops those
    /// that a workspace never gets.
    // BOUNDED: by `DEEPEST`.
    pub(super) fn comes(&mut self, folder: &OwnedFd, path: &Path, coming: PendingFolder) -> Result<()> {
        if coming.depth >= DEEPEST {
            return Err(Error::TooDeep { path: path.to_owned(), limit: DEEPEST });
        }
        for name in names(folder).map_err(Error::while_doing("list", path))? {
            let path = path.join(&name);
            let failed = Error::while_doing("inspect", &path);
            let Some(mut new) = look(folder, &name).map_err(&failed)? else { continue };
            new = self.loosened.truly(&path, new);
            let child = match new.kind {
                Kind::Folder => Some(self.loosened.open_folder(folder, &name, &path, &new)?),
                _ => None,
            };
            let marks = attributes::marks(folder.as_fd(), &name, new.kind, &path)?;
            if marks.placeholder.is_some() {
                if coming.is_new && self.hidden.is_untouched((folder, &path), &new, marks.placeholder) {
                    // Somebody else removed the folder, and it comes again with the command's new
                    // entries.
                    self.leave_out(path.clone(), Vec::new(), true);
                } else {
                    self.held_as_moved(&path, marks);
                }
                continue;
            }
            let copied = self.hidden.copied_in(folder, &name, &new);
            if !copied.is_empty() {
                self.leave_out(path.clone(), copied, true);
                continue;
            }
            if !coming.is_new && !coming.regenerable && self.hidden.at(&path).is_some() {
                self.made_again.push(path.clone());
            }
            if marks.whiteout || matches!(new.kind, Kind::Whiteout | Kind::Socket | Kind::Device) {
                unlinkat(folder, &name, AtFlags::empty()).map_err(Error::while_doing("drop", &path))?;
                if matches!(new.kind, Kind::Socket | Kind::Device) {
                    self.changes.notes.push(Note::Dropped { path: path.clone(), kind: new.kind });
                }
                continue;
            }
            if new.kind == Kind::File {
                self.judge_index(folder, &path, &new);
                new = self.without_set_id(folder, &name, &path, new)?;
            }
            if marks.any {
                self.changes.marked.push((path.clone(), new.kind, marks));
            }
            self.touch(&path, Action::Create, (None, Some(new)));
            if let Some(child) = child {
                if !self.is_draft {
                    // The answer is recorded for the saving of new entries; there was nothing to
                    // lose.
                    self.regenerable.is(&[folder], &name, &path);
                }
                self.comes(&child, &path, PendingFolder { depth: coming.depth + 1, ..coming })?;
            }
        }
        Ok(())
    }

    /// Checks an entry that goes, and everything below it: each must be unchanged, and the judge is
    /// asked about each.
    // BOUNDED: by `DEEPEST`.
    pub(super) fn leaves(
        &mut self,
        lower: &OwnedFd,
        name: &OsStr,
        path: &Path,
        old: Entry,
        regenerable: bool,
    ) -> Result<()> {
        if !regenerable && self.since(old.changed) {
            self.conflict(path, LaterChange::Changed);
        }
        if old.kind != Kind::Folder {
            return Ok(());
        }
        let folder = open_known(lower, name, &old, LIST).map_err(Error::while_doing("list", path))?;
        if path.components().count() >= DEEPEST {
            return Err(Error::TooDeep { path: path.to_owned(), limit: DEEPEST });
        }
        for name in names(&folder).map_err(Error::while_doing("list", path))? {
            let path = path.join(&name);
            let Some(old) = look(&folder, &name).map_err(Error::while_doing("inspect", &path))? else {
                self.conflict(&path, LaterChange::Removed);
                continue;
            };
            self.touch(&path, Action::Remove, (Some(old), None));
            let regenerable =
                regenerable || old.kind == Kind::Folder && self.regenerable.is(&[&folder], &name, &path);
            self.leaves(&folder, &name, &path, old, regenerable)?;
        }
        Ok(())
    }
}
