//! The changes of a patch as a diff, for the human who is asked to approve them.

use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use roots::LastLink;
use tool::{EditedFile, EditedLines};

use super::{NewContent, PatchedTree};

/// Maximum number of bytes of a compared file, and of all diffs together: more is not readable.
const LARGEST_SHOWN: u64 = 1024 * 1024;

impl PatchedTree<'_> {
    /// Returns the diff of each file, sorted by path. A file that may not be read is named but not
    /// shown.
    pub(crate) fn difference(&self) -> String {
        let mut shown = String::new();
        let sources: Vec<&Path> = self.made.values().filter_map(NewContent::source).collect();
        for path in self.removed.iter().filter(|path| !self.made.contains_key(*path)) {
            // A renamed file is reported at its new path.
            if !sources.contains(&path.as_path()) {
                shown.push_str(&self.removal(path));
            }
        }
        for (path, made) in &self.made {
            if shown.len() as u64 > LARGEST_SHOWN {
                shown.push_str("and more\n");
                break;
            }
            shown.push_str(&self.one(path, made));
        }
        shown
    }

    /// Returns the changed lines of the files that the patch changes in place and that can be compared.
    pub(crate) fn edits(&self) -> Vec<EditedFile> {
        let edited = |(path, made): (&PathBuf, &NewContent)| {
            let NewContent::File { content, like: Some(source), .. } = made else { return None };
            let old = self.text(source).filter(|_| source == path)?;
            let lines = EditedLines::Ranges(edit::changed_lines(&old, content));
            Some(EditedFile { path: self.context.place.workspace.join(path), lines })
        };
        self.made.iter().filter_map(edited).collect()
    }

    fn removal(&self, path: &Path) -> String {
        let path_text = tool::path_text(path);
        let name = tool::visible(&path_text);
        match self.text(path) {
            Some(old) => {
                format!(
                    "{name} is removed\n{}",
                    edit::unified(&path_text, &old, b"", &edit::between(&old, b""))
                )
            }
            None => format!("{name} is removed\n"),
        }
    }

    fn one(&self, path: &Path, made: &NewContent) -> String {
        let path_text = tool::path_text(path);
        let name = tool::visible(&path_text);
        let (content, executable) = match made {
            NewContent::Link { target } => {
                let target = tool::visible(&String::from_utf8_lossy(target.as_bytes()));
                return format!("{name} becomes a link to {target}\n");
            }
            NewContent::File { content, executable, .. } => (content, executable),
        };
        let source = made.source().unwrap_or(path);
        let mut shown = String::new();
        if source != path {
            let gone = if self.removed.contains(source) { "is moved" } else { "is copied" };
            shown.push_str(&format!("{} {gone} to {name}\n", tool::visible(&tool::path_text(source))));
        }
        match executable {
            Some(true) => shown.push_str(&format!("{name} becomes executable\n")),
            Some(false) => shown.push_str(&format!("{name} is no longer executable\n")),
            None => {}
        }
        let old = if made.source().is_some() { self.text(source) } else { Some(Vec::new()) };
        match old {
            Some(old) if is_text(content) => {
                shown.push_str(&edit::unified(&path_text, &old, content, &edit::between(&old, content)));
            }
            _ => shown.push_str(&format!("{name} gets {} bytes that are not shown\n", content.len())),
        }
        shown
    }

    /// Returns the current content, or `None` if the file may not be read, is not text or is too
    /// large.
    fn text(&self, path: &Path) -> Option<Vec<u8>> {
        let path = self.context.place.workspace.join(path);
        let metadata = self.roots.metadata(&path, LastLink::Keep).ok()?;
        if metadata.kind != roots::EntryKind::File || metadata.size_bytes > LARGEST_SHOWN {
            return None;
        }
        let mut content = Vec::new();
        self.roots.open_file(&path).ok()?.file.take(LARGEST_SHOWN).read_to_end(&mut content).ok()?;
        is_text(&content).then_some(content)
    }
}

impl NewContent {
    /// Returns the file from which the new content derives.
    fn source(&self) -> Option<&Path> {
        match self {
            Self::File { like, .. } => like.as_deref(),
            Self::Link { .. } => None,
        }
    }
}

fn is_text(content: &[u8]) -> bool {
    content.len() as u64 <= LARGEST_SHOWN && !content.contains(&0) && std::str::from_utf8(content).is_ok()
}
