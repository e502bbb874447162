//! The difference between allowed and present content, for the human who decides about it.

use std::collections::BTreeMap;

use crate::folder::{PluginFile, PluginFolder};

/// Names of the files that differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderDifference {
    /// Files that only the new content has.
    pub added: Vec<String>,
    /// Files that only the old content has.
    pub removed: Vec<String>,
    /// Files with another content or another right to be executed.
    pub changed: Vec<String>,
}

impl FolderDifference {
    /// Describes each file on a line, marked with `+`, `-` or `~`.
    pub fn lines(&self) -> Vec<String> {
        let marked = |mark: char, paths: &[String]| {
            paths.iter().map(|path| format!("{mark} {}", tool::visible(path))).collect::<Vec<_>>()
        };
        [marked('+', &self.added), marked('-', &self.removed), marked('~', &self.changed)].concat()
    }
}

/// Compares two contents.
pub fn difference(old: &PluginFolder, new: &PluginFolder) -> FolderDifference {
    let only = |one: &BTreeMap<String, PluginFile>, other: &BTreeMap<String, PluginFile>| {
        one.keys().filter(|path| !other.contains_key(*path)).cloned().collect()
    };
    let changed =
        new.files.iter().filter(|(path, file)| old.files.get(*path).is_some_and(|before| before != *file));
    FolderDifference {
        added: only(&new.files, &old.files),
        removed: only(&old.files, &new.files),
        changed: changed.map(|(path, _)| path.clone()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_that_differs_is_named() {
        let folder = |files: &[(&str, &str)]| {
            let file = |text: &str| PluginFile { content: text.into(), is_executable: false };
            let files = files.iter().map(|(path, text)| ((*path).to_owned(), file(text))).collect();
            PluginFolder { path: "/p".into(), files, hash: String::new() }
        };
        let old = folder(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let new = folder(&[("a", "1"), ("b", "2"), ("d", "1")]);
        assert_eq!(difference(&old, &new).lines(), ["+ d", "- c", "~ b"]);
        assert_eq!(difference(&old, &old), FolderDifference::default());
    }
}
