//! The files that the benchmark changes.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;

use crate::command::{Result, write};

/// Folders of text files, each file with different content.
#[derive(Clone, Copy)]
pub(super) struct Tree {
    pub(super) folders: usize,
    pub(super) files: usize,
    pub(super) lines: usize,
}

impl Tree {
    /// Writes all files. Each `turn` has different content.
    pub(super) fn lay_out(&self, folder: &Path, turn: usize) -> Result<()> {
        self.paths().try_for_each(|path| write(&folder.join(&path), &self.content(&path, turn)))
    }

    /// Returns a diff in git's form that changes the middle line of every file of this turn.
    pub(super) fn patch(&self, folder: &str, turn: usize) -> String {
        let middle = self.lines / 2;
        let mut text = String::new();
        for path in self.paths() {
            let content = self.content(&path, turn);
            let lines: Vec<&str> = content.lines().collect();
            text.push_str(&format!(
                "diff --git a/{folder}/{path} b/{folder}/{path}\n--- a/{folder}/{path}\n+++ b/{folder}/{path}\n\
                 @@ -{0},7 +{0},7 @@\n",
                middle - 2
            ));
            lines[middle - 3..middle].iter().for_each(|line| text.push_str(&format!(" {line}\n")));
            text.push_str(&format!("-{0}\n+{0} and is changed\n", lines[middle]));
            lines[middle + 1..middle + 4].iter().for_each(|line| text.push_str(&format!(" {line}\n")));
        }
        text
    }

    fn paths(&self) -> impl Iterator<Item = String> + use<> {
        let files = self.files;
        (0..self.folders)
            .flat_map(move |folder| (0..files).map(move |file| format!("d{folder:02}/f{file:02}")))
    }

    fn content(&self, path: &str, turn: usize) -> String {
        let mut content = String::new();
        for line in 0..self.lines {
            // A number that is unique to the line, so that the content does not compress to nothing.
            let mut own = DefaultHasher::new();
            (path, turn, line).hash(&mut own);
            let own = own.finish();
            content.push_str(&format!("{path} {turn} {line}: {own:016x} some words that many lines have\n"));
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_patch_changes_one_line_of_every_file() {
        let tree = Tree { folders: 2, files: 2, lines: 10 };
        let folder = tempfile::tempdir().unwrap();
        tree.lay_out(&folder.path().join("files"), 3).unwrap();
        write(&folder.path().join("patch"), &tree.patch("files", 3)).unwrap();
        let mut git = Command::new("git");
        git.args(["apply", "patch"]).current_dir(folder.path()).env("GIT_CEILING_DIRECTORIES", folder.path());
        assert!(git.status().unwrap().success());
        for path in tree.paths() {
            let found = std::fs::read_to_string(folder.path().join("files").join(&path)).unwrap();
            let before = tree.content(&path, 3);
            let changed = found.lines().zip(before.lines()).filter(|(now, before)| now != before).count();
            assert_eq!((found.lines().count(), changed), (10, 1));
        }
        assert_ne!(tree.content("d00/f00", 3), tree.content("d00/f00", 4));
    }
}
