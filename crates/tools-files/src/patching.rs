//! Application of a patch to the files of the workspace, in memory, and a draft of the result.

mod difference;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::ops::Bound;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use checkpoint::Draft;
use edit::patch::{Action, Drift, FileChange, Hunk, HunkRefused, Mode, apply};
use edit::{Document, Near};
use roots::{EntryKind, LastLink, Roots, RootsError, real_path};
use serde_json::{Value, json};
use tool::{Code, Context, ToolError};
use tool_support::files::failure;

use crate::edit_error::{absent, place, unreadable};
use crate::file_edit::whole;
use crate::file_patch::{ChangedFile, PlannedPart};

/// Maximum number of bytes of all files of a patch, which are in memory.
const MAX_BYTES: usize = 512 << 20;

const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";

/// New state of the workspace's files. Paths are relative to the workspace, without symbolic links.
pub(crate) struct PatchedTree<'a> {
    context: &'a Context,
    roots: &'a Roots,
    made: BTreeMap<PathBuf, NewContent>,
    removed: BTreeSet<PathBuf>,
    /// Paths that must not exist yet: absolute, relative, and the line of the patch that creates them.
    new: Vec<(PathBuf, PathBuf, usize)>,
    bytes: usize,
    told: Vec<ChangedFile>,
    drifts: Vec<String>,
}

/// The new content of a path.
enum NewContent {
    File { content: Vec<u8>, like: Option<PathBuf>, executable: Option<bool> },
    Link { target: OsString },
}

/// The old content of a path.
struct OldContent {
    relative: PathBuf,
    content: Vec<u8>,
    is_link: bool,
}

impl<'a> PatchedTree<'a> {
    pub(crate) fn new(context: &'a Context, roots: &'a Roots) -> Self {
        Self {
            context,
            roots,
            made: BTreeMap::new(),
            removed: BTreeSet::new(),
            new: Vec::new(),
            bytes: 0,
            told: Vec::new(),
            drifts: Vec::new(),
        }
    }

    /// Applies one part of the patch.
    pub(crate) fn take(&mut self, planned: PlannedPart) -> Result<(), ToolError> {
        let PlannedPart { change, path, source } = planned;
        let change_name = match change.action {
            Action::Add => "added",
            Action::Delete => "deleted",
            Action::Update => "updated",
            Action::Rename => "renamed",
            Action::Copy => "copied",
        };
        self.told.push(ChangedFile {
            path: self.context.place.show(&path),
            change: change_name,
            from: source.as_ref().map(|source| self.context.place.show(source)),
            added: change.hunks.iter().map(Hunk::added).sum(),
            removed: change.hunks.iter().map(Hunk::removed).sum(),
        });
        match (change.action, source) {
            (Action::Add, _) => self.add(&change, &path),
            (Action::Delete, _) => self.delete(&change, &path),
            (Action::Rename | Action::Copy, Some(source)) => self.take_over(&change, &path, &source),
            (Action::Update | Action::Rename | Action::Copy, _) => self.update(&change, &path),
        }
    }

    fn add(&mut self, change: &FileChange, path: &Path) -> Result<(), ToolError> {
        let content = self.patched(Vec::new(), change, path)?;
        let made = if change.mode == Some(Mode::Link) {
            NewContent::Link { target: OsString::from_vec(content) }
        } else {
            let executable = (change.mode == Some(Mode::Executable)).then_some(true);
            NewContent::File { content, like: None, executable }
        };
        self.make_new(change, path, made)
    }

    fn delete(&mut self, change: &FileChange, path: &Path) -> Result<(), ToolError> {
        if !change.shows_old_content {
            let relative = self.relative(change, path, LastLink::Keep)?;
            // A file that may not be read can still be deleted, but it must not be a folder.
            let kind =
                self.roots.metadata(path, LastLink::Keep).map_err(|error| self.failed(change, error))?.kind;
            if kind == EntryKind::Folder {
                return Err(self.wrong(change, path, "is a folder, but a patch deletes only files"));
            }
            return self.remove(change, path, relative);
        }
        let old = self.old(change, path)?;
        let left = self.patched(old.content, change, path)?;
        if !left.is_empty() {
            let message = "has more content than the patch deletes";
            return Err(self.conflict(change, path, message));
        }
        self.remove(change, path, old.relative)
    }

    fn update(&mut self, change: &FileChange, path: &Path) -> Result<(), ToolError> {
        let last = if change.mode == Some(Mode::Link) { LastLink::Keep } else { LastLink::Follow };
        let relative = self.relative(change, path, last)?;
        let executable = match change.mode {
            Some(Mode::Executable) => Some(true),
            Some(Mode::Regular) => Some(false),
            Some(Mode::Link) | None => None,
        };
        // A second part for the same file continues from the result of the first.
        let made = match self.made.remove(&relative) {
            Some(NewContent::File { content, like, executable: earlier }) => {
                let content = self.patched(content, change, path)?;
                NewContent::File { content, like, executable: executable.or(earlier) }
            }
            Some(NewContent::Link { target }) => NewContent::Link {
                target: OsString::from_vec(self.patched(target.into_vec(), change, path)?),
            },
            None if self.removed.contains(&relative) => {
                return Err(self.conflict(change, path, "is removed by an earlier part of the patch"));
            }
            None => {
                // `diff` without git's headers writes a new file as a change of an empty file.
                let begins = change.hunks.len() == 1 && change.hunks[0].start == Some(0);
                if begins && !self.exists(change, path)? {
                    if let Some(told) = self.told.last_mut() {
                        told.change = "added";
                    }
                    return self.add(change, path);
                }
                let old = self.old(change, path)?;
                let content = self.patched(old.content, change, path)?;
                self.may_write(change, &old.relative)?;
                if old.is_link {
                    NewContent::Link { target: OsString::from_vec(content) }
                } else {
                    NewContent::File { content, like: Some(old.relative), executable }
                }
            }
        };
        self.made.insert(relative, made);
        Ok(())
    }

    /// Renames or copies a file. Both operations use the state of the file before the patch.
    fn take_over(&mut self, change: &FileChange, path: &Path, source: &Path) -> Result<(), ToolError> {
        let old = self.old(change, source)?;
        let content = self.patched(old.content, change, path)?;
        let executable = match change.mode {
            Some(Mode::Executable) => Some(true),
            Some(Mode::Regular) => Some(false),
            Some(Mode::Link) | None => None,
        };
        if change.action == Action::Rename {
            if self.made.contains_key(&old.relative) && !self.removed.contains(&old.relative) {
                return Err(self.conflict(change, source, "is changed by another part of the patch"));
            }
            self.remove(change, source, old.relative.clone())?;
        }
        let made = if old.is_link {
            NewContent::Link { target: OsString::from_vec(content) }
        } else {
            NewContent::File { content, like: Some(old.relative), executable }
        };
        self.make_new(change, path, made)
    }

    fn make_new(&mut self, change: &FileChange, path: &Path, made: NewContent) -> Result<(), ToolError> {
        let relative = self.relative(change, path, LastLink::Keep)?;
        self.may_write(change, &relative)?;
        if self.made.contains_key(&relative) {
            return Err(self.conflict(change, path, "is created by an earlier part of the patch"));
        }
        self.new.push((path.to_owned(), relative.clone(), change.line));
        self.made.insert(relative, made);
        Ok(())
    }

    fn remove(&mut self, change: &FileChange, path: &Path, relative: PathBuf) -> Result<(), ToolError> {
        self.may_write(change, &relative)?;
        if self.removed.insert(relative) {
            return Ok(());
        }
        Err(self.conflict(change, path, "is removed by an earlier part of the patch"))
    }

    /// Checks that the paths of new files are free, or removed by the patch.
    pub(crate) fn check_targets(&self) -> Result<(), ToolError> {
        for (path, relative, line) in &self.new {
            if relative.ancestors().any(|above| self.removed.contains(above)) {
                continue;
            }
            let shown = self.context.place.show(path);
            let above = relative.ancestors().skip(1).find(|above| self.made.contains_key(*above));
            if let Some(above) = above {
                let message = format!(
                    "line {line} of the patch: {shown} cannot be created, because {} is a file",
                    above.display()
                );
                return Err(ToolError::new(Code::Conflict, message));
            }
            match self.roots.metadata(path, LastLink::Keep) {
                Err(RootsError::NotFound { .. }) => {}
                Err(error) => return Err(failure(self.context)(error)),
                // A folder is removed if the patch removes all its files.
                Ok(found) if found.kind == EntryKind::Folder && self.empties(relative) => {}
                Ok(_) => {
                    let message = format!("line {line} of the patch: {shown} already exists");
                    return Err(ToolError::new(Code::Conflict, message).hint(
                        "a patch overwrites only content that it shows; update the file, or delete it first",
                    ));
                }
            }
        }
        Ok(())
    }

    /// Returns true if the patch removes something in a folder. The draft checks whether it removes
    /// everything.
    fn empties(&self, folder: &Path) -> bool {
        self.removed.iter().any(|removed| removed.starts_with(folder))
    }

    /// Drafts all changes.
    pub(crate) fn draft(&self, draft: &Draft) -> Result<(), ToolError> {
        let mut going: BTreeSet<PathBuf> =
            self.removed.iter().filter(|path| !self.made.contains_key(*path)).cloned().collect();
        self.empty_folders(draft, &mut going)?;
        for path in &going {
            let made_below = self.made.contains_key(path) || self.makes_below(path);
            let goes_with_folder = path.ancestors().skip(1).any(|above| going.contains(above));
            if !made_below && !goes_with_folder {
                draft.remove(path).map_err(drafting)?;
            }
        }
        for (path, made) in &self.made {
            self.context.stop.check()?;
            let drafted = match made {
                NewContent::File { content, like, executable } => {
                    draft.write(path, content, like.as_deref(), *executable)
                }
                NewContent::Link { target } => draft.link(path, target),
            };
            drafted.map_err(drafting)?;
        }
        Ok(())
    }

    /// Adds the folders that become empty, as git does.
    fn empty_folders(&self, draft: &Draft, going: &mut BTreeSet<PathBuf>) -> Result<(), ToolError> {
        let mut folders: BTreeSet<PathBuf> =
            going.iter().filter_map(|path| path.parent()).map(Path::to_owned).collect();
        // The deepest folder comes first, because its removal may leave its parent empty.
        while let Some(folder) = folders.pop_last() {
            if folder.as_os_str().is_empty() || self.makes_below(&folder) {
                continue;
            }
            let names = draft.names_in(&folder).map_err(drafting)?;
            if names.iter().all(|name| going.contains(&folder.join(name))) {
                folders.extend(folder.parent().map(Path::to_owned));
                going.insert(folder);
            } else if self.made.contains_key(&folder) {
                let shown = folder.display();
                let message = format!("{shown} is a folder, and the patch does not remove all its content");
                return Err(ToolError::new(Code::Conflict, message));
            }
        }
        Ok(())
    }

    /// Returns true if something is created in a folder. In sorted order, the paths below a path follow it.
    fn makes_below(&self, folder: &Path) -> bool {
        let behind = (Bound::Excluded(folder), Bound::Unbounded);
        self.made.range::<Path, _>(behind).next().is_some_and(|(path, _)| path.starts_with(folder))
    }

    pub(crate) fn told(self) -> (Vec<ChangedFile>, Vec<String>) {
        (self.told, self.drifts)
    }

    /// Reads the current content of a path. A symbolic link is followed, unless the patch is about the
    /// link.
    fn old(&mut self, change: &FileChange, path: &Path) -> Result<OldContent, ToolError> {
        let shown = self.context.place.show(path);
        let failed = |error| self.failed(change, error);
        let kind = self.roots.metadata(path, LastLink::Keep).map_err(failed)?.kind;
        let moves = matches!(change.action, Action::Rename | Action::Copy | Action::Delete);
        let as_link =
            kind == EntryKind::Link && (change.mode == Some(Mode::Link) || moves && change.hunks.is_empty());
        if as_link {
            let target = self.roots.link_target(path).map_err(failed)?;
            let relative = self.relative(change, path, LastLink::Keep)?;
            return Ok(OldContent { relative, content: target.into_os_string().into_vec(), is_link: true });
        }
        if change.mode == Some(Mode::Link) {
            return Err(self.wrong(change, path, "is not the symbolic link that the patch expects"));
        }
        if kind == EntryKind::Link && moves {
            return Err(self.wrong(change, path, "is a symbolic link, but the patch expects a regular file"));
        }
        let mut opened = self.roots.open_file(path).map_err(failed)?;
        if opened.identity.names > 1 && change.action == Action::Update {
            self.context.warn(format!("{shown} has other hard links, which keep the old content"));
        }
        let content = whole(&mut opened, &shown)?;
        let relative = self.below(change, path, &opened.real)?;
        self.bytes += content.len();
        if self.bytes > MAX_BYTES {
            let message = format!("the files of this patch exceed the limit of {MAX_BYTES} bytes");
            return Err(ToolError::new(Code::Quota, message).hint("send the patch in parts"));
        }
        Ok(OldContent { relative, content, is_link: false })
    }

    fn exists(&self, change: &FileChange, path: &Path) -> Result<bool, ToolError> {
        match self.roots.metadata(path, LastLink::Keep) {
            Ok(_) => Ok(true),
            Err(RootsError::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.failed(change, error)),
        }
    }

    fn patched(&mut self, content: Vec<u8>, change: &FileChange, path: &Path) -> Result<Vec<u8>, ToolError> {
        if change.hunks.is_empty() {
            return Ok(content);
        }
        let shown = self.context.place.show(path);
        let wide = content.starts_with(b"\xff\xfe") || content.starts_with(b"\xfe\xff");
        if wide || memchr::memchr(0, &content).is_some() {
            let document = Document::read(content, None).map_err(|problem| unreadable(&shown, &problem))?;
            let text = self.applied(document.text(), change, path)?;
            return document.write(&text).map_err(|problem| {
                ToolError::new(Code::Validation, format!("{shown} cannot hold the new text: {problem}"))
            });
        }
        // A model does not see a byte order mark and git shows it, so a patch may have it or not.
        if let Some(text) = content.strip_prefix(UTF_8_MARK)
            && apply(&content, &change.hunks).is_err()
        {
            return Ok([UTF_8_MARK, &self.applied(text, change, path)?].concat());
        }
        self.applied(&content, change, path)
    }

    fn applied(&mut self, text: &[u8], change: &FileChange, path: &Path) -> Result<Vec<u8>, ToolError> {
        let shown = self.context.place.show(path);
        let applied = apply(text, &change.hunks).map_err(|refused| hunk_refused(&shown, refused))?;
        self.drifts.extend(applied.drifts.iter().map(|drift| drift_line(&shown, drift)));
        Ok(applied.text)
    }

    /// Returns the real path, relative to the workspace.
    fn relative(&self, change: &FileChange, path: &Path, last: LastLink) -> Result<PathBuf, ToolError> {
        let real = real_path(path, last).map_err(|error| self.failed(change, error))?;
        self.below(change, path, &real)
    }

    fn below(&self, change: &FileChange, path: &Path, real: &Path) -> Result<PathBuf, ToolError> {
        match real.strip_prefix(&self.context.place.workspace) {
            Ok(relative) if !relative.as_os_str().is_empty() => Ok(relative.to_owned()),
            _ => {
                let shown = self.context.place.show(path);
                let message =
                    format!("line {} of the patch: {shown} leads outside the workspace", change.line);
                Err(ToolError::new(Code::Permission, message).hint("a patch changes only the workspace"))
            }
        }
    }

    fn may_write(&self, change: &FileChange, relative: &Path) -> Result<(), ToolError> {
        let real = self.context.place.workspace.join(relative);
        self.roots.may_write(&real).map_err(|error| self.failed(change, error))
    }

    fn failed(&self, change: &FileChange, error: RootsError) -> ToolError {
        let mut error = failure(self.context)(error);
        error.message = format!("line {} of the patch: {}", change.line, error.message);
        error
    }

    fn wrong(&self, change: &FileChange, path: &Path, what: &str) -> ToolError {
        let shown = self.context.place.show(path);
        ToolError::new(Code::Validation, format!("line {} of the patch: {shown} {what}", change.line))
    }

    fn conflict(&self, change: &FileChange, path: &Path, what: &str) -> ToolError {
        let mut error = self.wrong(change, path, what);
        error.code = Code::Conflict;
        error
    }
}

fn drafting(error: checkpoint::Error) -> ToolError {
    let message = format!("the new content could not be prepared, so nothing was changed: {error}");
    ToolError::caused_by(&message, error)
}

fn drift_line(shown: &str, drift: &Drift) -> String {
    let Drift { hunk, found, lines, white_space } = drift;
    let how = match lines {
        0 => String::new(),
        lines if *lines > 0 => format!(", {lines} lines below the stated line"),
        lines => format!(", {} lines above the stated line", lines.unsigned_abs()),
    };
    let white_space = if *white_space { ", with different whitespace" } else { "" };
    format!("{shown}: the hunk on patch line {hunk} matched at line {found}{how}{white_space}")
}

fn hunk_refused(shown: &str, refused: HunkRefused) -> ToolError {
    let of = |hunk: usize| format!("the hunk on line {hunk} of the patch does not fit {shown}");
    match refused {
        HunkRefused::Nowhere { hunk, nearest } => {
            let data = json!({ "path": shown, "patch_line": hunk, "nearest": nearest.iter().map(place).collect::<Vec<Value>>() });
            let nearest: &[Near] = &nearest;
            absent(&format!("{}: its lines are not in the file", of(hunk)), nearest).data(data)
        }
        HunkRefused::Several { hunk, places } => {
            let lines: Vec<String> = places.iter().map(|place| place.line.to_string()).collect();
            let message = format!(
                "{}: its lines occur several times, but not at the stated line: lines {}",
                of(hunk),
                lines.join(", ")
            );
            let places: Vec<Value> =
                places.iter().map(|place| json!({ "line": place.line, "text": place.text })).collect();
            ToolError::new(Code::Conflict, message)
                .hint("give the hunk more lines of context, or the correct line number")
                .data(json!({ "path": shown, "patch_line": hunk, "places": places }))
        }
        HunkRefused::Anchor { hunk, anchor } => ToolError::new(
            Code::Conflict,
            format!("{}: the line `{anchor}` is not found before it", of(hunk)),
        )
        .hint("the text after `@@` must be a whole line of the file before the change"),
        HunkRefused::NoContext { hunk } => {
            ToolError::new(Code::Conflict, format!("{}: it has no line of the file", of(hunk)))
                .hint("make the diff with lines of context")
        }
        HunkRefused::TooMuchWork { hunk } => {
            ToolError::new(Code::Quota, format!("{}: the file has too many similar lines", of(hunk)))
                .hint("give the hunk its correct line number")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_told_in_words() {
        let drift = |lines, white_space| drift_line("f", &Drift { hunk: 4, found: 12, lines, white_space });
        assert_eq!(
            drift(3, false),
            "f: the hunk on patch line 4 matched at line 12, 3 lines below the stated line"
        );
        assert_eq!(
            drift(-1, true),
            "f: the hunk on patch line 4 matched at line 12, 1 lines above the stated line, with different whitespace"
        );
    }
}
