//! Placeholders of hidden files, and the changes that a command made to them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Pair, ReadPair, Reading};
use crate::attributes::{self, Marks};
use crate::compare::has_same_content;
use crate::folder::{PLACE, look, names, open};
use crate::hidden::{CopiedFile, SeenAs};
use crate::{Action, DEEPEST, Entry, Error, Kind, Note, RefusedChange, Result};

impl Reading<'_> {
    /// Denies a placeholder that was changed, moved or linked.
    pub(super) fn held_as_moved(&mut self, path: &Path, marks: Marks) {
        let hidden = marks.placeholder.and_then(|number| self.hidden.numbered(number));
        let reason = match hidden {
            Some(hidden) if hidden.path != path => moved(&hidden.path),
            _ => "it is hidden from commands: they can remove it, but only the user can change it".to_owned(),
        };
        let (path, action) = (path.to_owned(), Action::Replace);
        self.changes.held.push(RefusedChange { path, action, may_be_approved: false, reason });
    }

    /// Denies a git index that records a notice as the content of a file.
    pub(super) fn judge_index(&mut self, folder: &OwnedFd, path: &Path, new: &Entry) {
        if self.hidden.are_staged_in(folder, path.file_name().unwrap_or_default(), new) {
            let reason = "git has a notice instead of the content of a hidden file; keep the filter \
                 `handfast-hidden` and the attributes of the cell's home, and stage the file again"
                .to_owned();
            let (path, action) = (path.to_owned(), Action::Replace);
            self.changes.held.push(RefusedChange { path, action, may_be_approved: false, reason });
        }
    }

    /// Returns true if a file is left out: it copies a placeholder, or equals the hidden file.
    pub(super) fn is_left_out(&mut self, pair: &Pair<'_>, both: &ReadPair<'_>) -> bool {
        let &ReadPair { name, path, new, old, .. } = both;
        let copied = self.hidden.copied_in(pair.upper, name, &new);
        if !copied.is_empty() {
            self.leave_out(path.to_owned(), copied, false);
            return true;
        }
        old.is_some_and(|old| self.is_the_same((pair.upper, pair.lower), path, (&new, &old)))
    }

    /// Returns true if a hidden file was rewritten unchanged, as git does with a file that it takes
    /// for changed. Only applies if git has the content anyway: otherwise a command could discover
    /// the content by guessing.
    fn is_the_same(
        &self,
        (upper, lower): (&OwnedFd, &OwnedFd),
        path: &Path,
        (new, old): (&Entry, &Entry),
    ) -> bool {
        let executable = |entry: &Entry| entry.mode & 0o100 != 0;
        self.hidden.at(path).is_some_and(|hidden| hidden.seen_as != SeenAs::Closed)
            && !new.has_other_names
            && executable(new) == executable(old)
            && has_same_content(upper.as_fd(), lower.as_fd(), path.file_name().unwrap_or_default(), new, old)
    }

    /// Denies new entries in place of hidden files that came with their folders, as in folders that
    /// stay.
    pub(super) fn judge_made_again(&mut self, upper: BorrowedFd<'_>, lower: BorrowedFd<'_>) -> Result<()> {
        for path in std::mem::take(&mut self.made_again) {
            let failed = Error::while_doing("inspect", &path);
            let (holder, name) =
                (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
            let old_folder = match open(lower, holder, PLACE) {
                Ok(folder) => folder,
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => continue,
                Err(errno) => return Err(failed(errno)),
            };
            let new_folder = open(upper, holder, PLACE).map_err(&failed)?;
            let both = (look(&new_folder, name).map_err(&failed)?, look(&old_folder, name).map_err(&failed)?);
            let (Some(new), Some(old)) = both else { continue };
            if self.is_the_same((&new_folder, &old_folder), &path, (&new, &old)) {
                self.came_back.insert(path.clone());
            } else {
                self.held_as_moved(&path, Marks::default());
            }
        }
        Ok(())
    }

    pub(super) fn leave_out(&mut self, path: PathBuf, of: Vec<PathBuf>, comes_along: bool) {
        self.changes.copied.push(CopiedFile { path, of, comes_along });
    }

    /// Returns true if a folder contains nothing but untouched placeholders, and folders of the same
    /// kind.
    // BOUNDED: by `DEEPEST`.
    pub(super) fn has_only_placeholders(
        &mut self,
        folder: &OwnedFd,
        path: &Path,
        depth: usize,
    ) -> Result<bool> {
        if depth >= DEEPEST {
            return Ok(false);
        }
        let all = names(folder).map_err(Error::while_doing("list", path))?;
        for name in &all {
            let path = path.join(name);
            let Some(new) = look(folder, name).map_err(Error::while_doing("inspect", &path))? else {
                continue;
            };
            let marks = attributes::marks(folder.as_fd(), name, new.kind, &path)?;
            let is_one = match new.kind {
                Kind::Folder if marks.copied_up && !marks.opaque => {
                    let child = self.loosened.open_folder(folder, name, &path, &new)?;
                    self.has_only_placeholders(&child, &path, depth + 1)?
                }
                _ => self.hidden.is_untouched((folder, &path), &new, marks.placeholder),
            };
            if !is_one {
                return Ok(false);
            }
        }
        Ok(!all.is_empty())
    }

    /// Reports the hidden files at the end of the reading. A hidden file that is gone while a copy
    /// of its placeholder came was moved, and its content would be lost.
    pub(super) fn tell_of_hidden(&mut self) {
        let removed = self.hidden.within(&self.gone).filter(|path| !self.came_back.contains(*path));
        let removed: Vec<PathBuf> = removed.map(Path::to_owned).collect();
        for CopiedFile { path, of, .. } in &self.changes.copied {
            if let Some(hidden) = of.iter().find(|hidden| removed.contains(hidden)) {
                let (path, action, reason) = (path.clone(), Action::Create, moved(hidden));
                self.changes.held.push(RefusedChange { path, action, may_be_approved: false, reason });
            }
        }
        let copied = self.changes.copied.iter().filter(|copied| !copied.of.is_empty());
        let copied: Vec<PathBuf> = copied.map(|copied| copied.path.clone()).collect();
        if !copied.is_empty() {
            self.changes.notes.push(Note::HiddenCopied { paths: copied });
        }
        if !removed.is_empty() {
            self.changes.notes.push(Note::HiddenRemoved { paths: removed });
        }
    }
}

fn moved(hidden: &Path) -> String {
    let hidden = hidden.display();
    format!(
        "it is the placeholder of {hidden}, which is hidden from commands: they can remove it, but \
         only the user can move or link it"
    )
}
