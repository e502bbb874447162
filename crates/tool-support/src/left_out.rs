//! Entries that walks over a workspace leave out: hidden names, and what ignore files name.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use roots::Folder;

/// Returns true for the name of an entry that listings and searches leave out unless they are asked for it.
pub fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// The ignore files of a folder and of its parents.
///
/// A rule of a deeper file overrides one of a higher file, and `.ignore` overrides `.gitignore`,
/// with or without a git repository. Rules outside the workspace are not read.
#[derive(Default)]
pub struct IgnoreRules {
    /// Rules by folder, the outermost first, each with its `.ignore` and its `.gitignore`.
    levels: Vec<[Gitignore; 2]>,
}

const IGNORE_FILES: [&str; 2] = [".ignore", ".gitignore"];
/// Maximum number of bytes of an ignore file; the rest is ignored.
const LONGEST_IGNORE_FILE: u64 = 1 << 20;

/// Returns true for the name of a file whose rules leave other files out.
pub fn is_ignore_file(name: &OsStr) -> bool {
    IGNORE_FILES.iter().any(|known| name == *known)
}

impl IgnoreRules {
    /// Adds the rules of a folder within the previous one.
    pub fn enter(&mut self, folder: &Folder) {
        self.levels.push(IGNORE_FILES.map(|name| rules_of(folder, name)));
    }

    /// Removes the rules of the folder that was entered last.
    pub fn leave(&mut self) {
        self.levels.pop();
    }

    /// Returns true if the rules ignore an entry at its real path.
    pub fn ignores(&self, real: &Path, is_folder: bool) -> bool {
        for kind in 0..IGNORE_FILES.len() {
            for level in self.levels.iter().rev() {
                let found = level[kind].matched(real, is_folder);
                if !found.is_none() {
                    return found.is_ignore();
                }
            }
        }
        false
    }
}

fn rules_of(folder: &Folder, name: &str) -> Gitignore {
    // A missing file has no rules, and neither has one that is denied, unreadable or no regular
    // file.
    let Ok(opened) = folder.open_file(OsStr::new(name)) else { return Gitignore::empty() };
    let mut text = Vec::new();
    if opened.file.take(LONGEST_IGNORE_FILE).read_to_end(&mut text).is_err() {
        return Gitignore::empty();
    }
    let mut builder = GitignoreBuilder::new(folder.real());
    for line in String::from_utf8_lossy(&text).lines() {
        // An invalid line is skipped, as git does.
        drop(builder.add_line(None, line));
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}
