//! Differences as text, between the saved state of paths and their current state.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use checkpoint::{ContentHash, Contents, Kind, SavedEntry, State, Workspace};
use policy::{PathVerdict, Policy};
use similar::TextDiff;
use tool::Access;

use crate::renames::{RenamedFolder, moved};
use crate::saved_contents::SavedContents;

/// Largest file, in bytes, whose lines are compared.
const LARGEST: u64 = 1024 * 1024;

/// Time for which the lines of one file are compared. After that, the difference may be longer than
/// necessary.
const LONGEST: Duration = Duration::from_millis(200);

/// Maximum total size of all differences, in bytes. The answer is cut to less anyway.
const MOST: usize = 1024 * 1024;

/// Direction of a difference.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Change from the saved to the current state.
    Done,
    /// Change from the current to the saved state.
    Undoing,
    /// Change from the current state to the one that pending changes would make.
    Planned,
}

/// Builder of differences.
pub(crate) struct Differences<'a> {
    /// Saved contents, shared by all differences because contents in one pack are read together.
    pub(crate) contents: SavedContents<'a>,
    pub(crate) policy: &'a Policy,
    pub(crate) workspace: Workspace,
    /// Folder of the pending changes.
    pub(crate) changed: Option<Workspace>,
}

/// Formats a path as one line, whatever its name contains.
fn shown(path: &Path) -> String {
    tool::visible(&tool::path_text(path))
}

/// One side of a difference.
enum Side {
    Absent,
    Text(String),
    /// Anything else, described in words.
    Other(String),
}

impl Differences<'_> {
    /// Returns the differences of these paths, one after the other, preceded by the folders that
    /// were only renamed.
    pub(crate) fn of<'a>(
        &self,
        entries: impl Iterator<Item = &'a SavedEntry>,
        direction: Direction,
    ) -> String {
        let entries: Vec<&SavedEntry> = entries.collect();
        let mut folders = moved(&entries);
        folders.retain(|folder| self.is_still_moved(folder, direction));
        let mut all = String::new();
        let mut changed = Vec::new();
        for folder in &folders {
            all.push_str(&self.folder(folder, direction, &mut changed));
        }
        let others =
            entries.into_iter().filter(|entry| !folders.iter().any(|folder| folder.has(&entry.path)));
        for entry in changed.iter().chain(others) {
            if all.len() > MOST {
                all.push_str("and more\n");
                break;
            }
            all.push_str(&self.one(entry, direction));
        }
        all
    }

    /// Returns true if a renamed folder has its new name now, or will have it, and if everything in
    /// it may be shown.
    fn is_still_moved(&self, folder: &RenamedFolder<'_>, direction: Direction) -> bool {
        let has_moved = || {
            self.workspace.kind_of(folder.from).is_none()
                && self.workspace.kind_of(&folder.to) == Some(Kind::Folder)
        };
        let may_be_told = |path: PathBuf| {
            let verdict = self.policy.path_verdict(Access::Read, &self.workspace.path().join(path));
            !matches!(verdict, PathVerdict::Denied(_))
        };
        (direction == Direction::Planned || has_moved())
            && folder
                .within
                .keys()
                .all(|name| may_be_told(folder.from.join(name)) && may_be_told(folder.to.join(name)))
    }

    /// Returns the line about a renamed folder. Adds the entries in it that have changed to
    /// `changed`.
    fn folder(
        &self,
        folder: &RenamedFolder<'_>,
        direction: Direction,
        changed: &mut Vec<SavedEntry>,
    ) -> String {
        let told = changed.len();
        for (name, inside) in &folder.within {
            let is_as_left = || {
                direction == Direction::Planned
                    || self.workspace.looks_like(&folder.to.join(name), inside.after())
            };
            if !inside.is_same || !is_as_left() {
                changed.push(folder.entry(name, inside));
            }
        }
        let (from, to) = (shown(folder.from), shown(&folder.to));
        let (from, to) = if direction == Direction::Undoing { (to, from) } else { (from, to) };
        let same = folder.within.len() - (changed.len() - told);
        format!("renamed from {from} to {to} with its contents: {same} unchanged\n")
    }

    fn one(&self, entry: &SavedEntry, direction: Direction) -> String {
        let path = shown(&entry.path);
        let absolute = self.workspace.path().join(&entry.path);
        if let PathVerdict::Denied(rule) = self.policy.path_verdict(Access::Read, &absolute) {
            return format!("{path}: not shown, denied by {rule}\n");
        }
        let before = || entry.before.as_ref().map_or(Side::Absent, |before| self.saved(before));
        let now = file(&self.workspace, &entry.path);
        let (old, new) = match (direction, &self.changed) {
            (Direction::Undoing, _) => (now, before()),
            (Direction::Planned, Some(changed)) => match &entry.after {
                None => (now, Side::Absent),
                Some(after) if after.entry.kind == Kind::Link => (now, self.saved(after)),
                Some(_) => (now, file(changed, &entry.path)),
            },
            _ => (before(), now),
        };
        let modes = entry.before.as_ref().zip(entry.after.as_ref());
        let has_same_mode = modes.is_some_and(|(before, after)| before.entry.mode == after.entry.mode);
        let mut text = match (&old, &new) {
            // For planned changes, a file that is only written again is no difference.
            (Side::Text(old), Side::Text(new))
                if old == new && has_same_mode && direction == Direction::Planned =>
            {
                return String::new();
            }
            (Side::Absent, Side::Absent) => format!("{path}: does not exist\n"),
            (Side::Absent | Side::Text(_), Side::Absent | Side::Text(_)) => {
                let lines = |side: &Side| match side {
                    Side::Text(text) => text.clone(),
                    _ => String::new(),
                };
                unified(&path, (&old, &lines(&old)), (&new, &lines(&new)))
            }
            _ => format!("{path}: {} -> {}\n", old.words(), new.words()),
        };
        if let (Some(before), Some(after)) = (&entry.before, &entry.after)
            && before.entry.mode != after.entry.mode
            && before.entry.kind != Kind::Link
        {
            let (old, new) = match direction {
                Direction::Undoing => (after, before),
                Direction::Done | Direction::Planned => (before, after),
            };
            text.push_str(&format!("{path}: mode {:04o} -> {:04o}\n", old.entry.mode, new.entry.mode));
        }
        text
    }

    fn saved(&self, state: &State) -> Side {
        match (state.entry.kind, &state.content, &state.target) {
            (Kind::File, Some(content), _) if state.entry.size_bytes <= LARGEST => self.text(content),
            (Kind::Link, _, Some(target)) => Side::Other(format!("a link to {}", shown(target))),
            (Kind::Link, Some(target), None) => Side::Other(self.long_link(target)),
            (Kind::File, ..) => Side::Other(format!("a file of {} bytes", state.entry.size_bytes)),
            (kind, ..) => Side::Other(kind.to_string()),
        }
    }

    /// Describes a link by the beginning of a target that is too long for its state. The target of
    /// a new link is not stored.
    fn long_link(&self, target: &ContentHash) -> String {
        let mut start = Vec::new();
        let read = self.contents.open(target);
        match read.and_then(|target| target.take(checkpoint::LONGEST_TARGET as u64).read_to_end(&mut start)) {
            Ok(_) => format!("a link to {}…", shown(Path::new(OsStr::from_bytes(&start)))),
            Err(_) => format!("a link to more than {} bytes", checkpoint::LONGEST_TARGET),
        }
    }

    fn text(&self, content: &ContentHash) -> Side {
        let mut bytes = Vec::new();
        let read = self.contents.open(content);
        match read.and_then(|content| content.take(LARGEST).read_to_end(&mut bytes)) {
            Ok(_) => text_of(bytes),
            Err(error) => Side::Other(format!("missing content ({error})")),
        }
    }
}

fn file(workspace: &Workspace, path: &Path) -> Side {
    match workspace.open_file(path) {
        Ok(Some(file)) => {
            let mut bytes = Vec::new();
            match file.take(LARGEST + 1).read_to_end(&mut bytes) {
                Ok(length) if length as u64 <= LARGEST => text_of(bytes),
                Ok(_) => Side::Other(format!("a file of more than {LARGEST} bytes")),
                Err(error) => Side::Other(format!("a file that cannot be read ({error})")),
            }
        }
        Ok(None) => match workspace.kind_of(path) {
            None => Side::Absent,
            Some(kind) => Side::Other(kind.to_string()),
        },
        Err(error) => Side::Other(format!("something that cannot be read ({error})")),
    }
}

impl Side {
    fn words(&self) -> String {
        match self {
            Self::Absent => "nothing".to_owned(),
            Self::Text(_) => "a text file".to_owned(),
            Self::Other(words) => words.clone(),
        }
    }
}

fn text_of(bytes: Vec<u8>) -> Side {
    let length = bytes.len();
    match String::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Side::Text(text),
        _ => Side::Other(format!("a binary file of {length} bytes")),
    }
}

fn unified(path: &str, (old_side, old): (&Side, &str), (new_side, new): (&Side, &str)) -> String {
    let name = |side: &Side, letter: &str| match side {
        Side::Absent => "/dev/null".to_owned(),
        _ => format!("{letter}/{path}"),
    };
    let diff = TextDiff::configure().timeout(LONGEST).diff_lines(old, new);
    let text = diff.unified_diff().header(&name(old_side, "a"), &name(new_side, "b")).to_string();
    if text.is_empty() {
        return format!("{path}: the same content\n");
    }
    text
}
