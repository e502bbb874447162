//! Search for keys: a full walk at intervals, and the upper levels each time.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use watch::{Kind, Rules, Watch, WatchError, WatchMode};

use super::rules::KeyFiles;

/// Time for which a full walk is valid.
pub(super) const LASTING: SignedDuration = SignedDuration::from_mins(10);

/// Depth in folders of the search that runs each time.
const LEVELS: usize = 3;

/// First line of the file that stores a walk.
const FORMAT: &str = "toolchains 1";

/// Result of a full walk.
pub(super) struct WalkResult {
    /// Folders and rules of the walk, as text.
    about: String,
    at: Timestamp,
    pub(super) hidden: Vec<PathBuf>,
    /// Files whose content decides.
    pub(super) asked: Vec<PathBuf>,
}

impl WalkResult {
    pub(super) fn look(
        rules: KeyFiles,
        folders: &[PathBuf],
        about: String,
        at: Timestamp,
    ) -> Result<Self, WatchError> {
        let marked = Watch::new(folders.to_vec(), rules, WatchMode::Once).sync()?;
        Ok(Self { about, at, hidden: marked.hidden, asked: marked.guarded })
    }

    /// Returns true if the walk used these folders and rules, and is still valid.
    pub(super) fn counts(&self, about: &str, now: Timestamp) -> bool {
        let age = now.duration_since(self.at);
        self.about == about && age < LASTING && !age.is_negative()
    }

    /// Reads the walk that another process has stored. Returns `None` if the file cannot be read.
    pub(super) fn read(file: &Path) -> Option<Self> {
        let content = fs::read(file).ok()?;
        // A path may contain every byte but this one.
        let mut fields = content.strip_suffix(b"\0")?.split(|byte| *byte == 0);
        let mut text = || String::from_utf8(fields.next()?.to_vec()).ok();
        if text()? != FORMAT {
            return None;
        }
        let at = Timestamp::from_millisecond(text()?.parse().ok()?).ok()?;
        let about = text()?;
        let mut seen = Self { about, at, hidden: Vec::new(), asked: Vec::new() };
        for field in fields {
            let (kind, path) = field.split_first()?;
            let path = PathBuf::from(OsStr::from_bytes(path));
            match kind {
                b'h' => seen.hidden.push(path),
                b'a' => seen.asked.push(path),
                _ => return None,
            }
        }
        Some(seen)
    }

    /// Stores the walk, in full or not at all.
    pub(super) fn write(&self, file: &Path) -> io::Result<()> {
        let folder = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut content = format!("{FORMAT}\0{}\0{}\0", self.at.as_millisecond(), self.about).into_bytes();
        for (kind, paths) in [(b'h', &self.hidden), (b'a', &self.asked)] {
            for path in paths {
                content.push(kind);
                content.extend_from_slice(path.as_os_str().as_bytes());
                content.push(0);
            }
        }
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&content)?;
        new.persist(file)?;
        Ok(())
    }
}

/// Searches the upper levels of these folders. Returns the hidden paths, and the files whose
/// content decides.
pub(super) fn upper_levels(rules: &KeyFiles, folders: &[PathBuf]) -> (BTreeSet<PathBuf>, BTreeSet<PathBuf>) {
    let (mut hidden, mut asked) = (BTreeSet::new(), BTreeSet::new());
    let mut pending: Vec<_> = folders.iter().map(|folder| (folder.clone(), rules.top(folder), 0)).collect();
    while let Some((folder, above, level)) = pending.pop() {
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            // A folder that cannot be listed is hidden as a whole.
            Err(_) => {
                hidden.insert(folder);
                continue;
            }
        };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let name = entry.file_name();
            if !kind.is_dir() && !rules.may_match(&above, &name) {
                continue;
            }
            let path = entry.path();
            let of_rules = if kind.is_dir() {
                Kind::Folder
            } else if kind.is_symlink() {
                Kind::Link
            } else {
                Kind::File
            };
            let known = rules.below(&above, &path, of_rules);
            let marks = rules.marks(&known);
            let target = || if kind.is_symlink() { fs::canonicalize(&path).ok() } else { Some(path.clone()) };
            if marks.hidden {
                hidden.extend(target());
            } else if marks.guarded {
                asked.extend(target());
            } else if kind.is_dir() && level + 1 < LEVELS {
                pending.push((path, known, level + 1));
            }
        }
    }
    (hidden, asked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_is_kept_as_it_was_and_counts_for_a_while_and_for_the_same_rules() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seen");
        assert!(WalkResult::read(&file).is_none());
        let at = Timestamp::UNIX_EPOCH;
        let odd = PathBuf::from(OsStr::from_bytes(b"/a/\xff\n"));
        let seen =
            WalkResult { about: "rules".to_owned(), at, hidden: vec![odd.clone()], asked: vec!["/b".into()] };
        seen.write(&file).unwrap();
        let read = WalkResult::read(&file).unwrap();
        assert_eq!((read.hidden.clone(), read.asked.clone()), (vec![odd], vec![PathBuf::from("/b")]));
        assert!(read.counts("rules", at) && !read.counts("others", at));
        assert!(
            !read.counts("rules", at + LASTING) && !read.counts("rules", at - SignedDuration::from_secs(1))
        );
        let content = fs::read(&file).unwrap();
        for cut in 0..content.len() {
            fs::write(&file, &content[..cut]).unwrap();
            let cut_off = WalkResult::read(&file);
            assert!(cut_off.is_none_or(|seen| seen.hidden.len() + seen.asked.len() < 2), "{cut}");
        }
    }
}
