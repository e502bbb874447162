//! Files that git tracks, and whose content a git filter may replace.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use rustix::fs::stat;

use crate::repositories::{LONGEST_IGNORE_FILE, git_directory, read};
use crate::{Entry, git_index};

/// A file in a git repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InRepository {
    /// Path from the top of the repository.
    pub name: PathBuf,
    /// Git's data about the file; `None` if the file is untracked or has its own filter.
    pub tracked: Option<TrackedFile>,
}

/// Git's data about a tracked file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackedFile {
    /// Size in the index, unless that is zero.
    pub size_bytes: Option<u64>,
    /// True if the file is executable.
    pub executable: bool,
}

/// Finder of tracked files in a workspace, with a cache of the last answer for each repository.
#[derive(Debug, Default)]
pub struct Trackers(Mutex<BTreeMap<PathBuf, KnownRepositories>>);

#[derive(Debug)]
struct KnownRepositories {
    index: Entry,
    names: Vec<PathBuf>,
    found: Vec<Option<TrackedFile>>,
}

impl Trackers {
    /// Finds each of these files, absolute and without links, in the innermost repository around it,
    /// and checks whether the repository tracks it. A file that an attribute could give to another
    /// filter or encoding counts as untracked: git supports one filter per file.
    ///
    /// Repositories whose top lies outside of the workspace do not count: cells do not show it.
    pub fn of(&self, workspace: &Path, files: &[PathBuf]) -> Vec<Option<InRepository>> {
        let mut by_top: BTreeMap<&Path, Vec<usize>> = BTreeMap::new();
        for (number, file) in files.iter().enumerate() {
            let mut above = file.ancestors().skip(1).take_while(|above| above.starts_with(workspace));
            if let Some(top) = above.find(|above| above.join(".git").symlink_metadata().is_ok()) {
                by_top.entry(top).or_default().push(number);
            }
        }
        let mut all = vec![None; files.len()];
        for (top, numbers) in by_top {
            let name = |number: &usize| files.get(*number)?.strip_prefix(top).ok().map(Path::to_owned);
            let names: Vec<PathBuf> = numbers.iter().filter_map(name).collect();
            let found = self.in_repository(top, names.clone()).unwrap_or_else(|| vec![None; names.len()]);
            for ((number, name), tracked) in numbers.into_iter().zip(names).zip(found) {
                if let Some(place) = all.get_mut(number) {
                    *place = Some(InRepository { name, tracked });
                }
            }
        }
        all
    }

    /// Looks up the names, or returns `None` if the repository cannot be read.
    fn in_repository(&self, top: &Path, names: Vec<PathBuf>) -> Option<Vec<Option<TrackedFile>>> {
        let directory = git_directory(top)?;
        let index = directory.join("index");
        let stamp = Entry::of(&stat(&index).ok()?);
        let known = |known: &&KnownRepositories| known.index == stamp && known.names == names;
        let mut all = self.0.lock();
        let found = match all.get(top).filter(known) {
            Some(known) => known.found.clone(),
            None => {
                let found = look(&read(&index, git_index::LARGEST).ok()??, &names)?;
                let (names, found_then) = (names.clone(), found.clone());
                all.insert(top.to_owned(), KnownRepositories { index: stamp, names, found: found_then });
                found
            }
        };
        drop(all);
        // These files are small, and may change without the index.
        let mut clear: BTreeMap<PathBuf, bool> = BTreeMap::new();
        let shared = shared_directory(&directory);
        let of_repository = [&directory, &shared]
            .into_iter()
            .flat_map(|folder| [folder.join("info/attributes"), folder.join("config")]);
        if !of_repository.into_iter().all(|file| is_clear(&file, &mut clear)) {
            return None;
        }
        let keep = |(name, found): (PathBuf, Option<TrackedFile>)| {
            let folders = name.ancestors().skip(1);
            let mut files = folders.map(|folder| top.join(folder).join(".gitattributes"));
            found.filter(|_| files.all(|file| is_clear(&file, &mut clear)))
        };
        Some(names.into_iter().zip(found).map(keep).collect())
    }
}

/// Finds the directory that a worktree shares with others.
fn shared_directory(directory: &Path) -> PathBuf {
    match read(&directory.join("commondir"), LONGEST_IGNORE_FILE) {
        Ok(Some(text)) => directory.join(Path::new(std::ffi::OsStr::from_bytes(text.trim_ascii_end()))),
        _ => directory.to_owned(),
    }
}

/// Words in attribute files by which another filter, or none, could apply to a file.
const IN_ATTRIBUTES: &[&str] = &["filter", "working-tree-encoding"];
/// Words in settings by which attributes could lie elsewhere.
const IN_SETTINGS: &[&str] = &["attributesfile", "[include"];

/// Returns true if a file of attributes or settings contains none of these words. An unreadable file
/// may contain them.
fn is_clear(file: &Path, known: &mut BTreeMap<PathBuf, bool>) -> bool {
    if let Some(known) = known.get(file) {
        return *known;
    }
    let words = if file.ends_with("config") { IN_SETTINGS } else { IN_ATTRIBUTES };
    let is_clear = match read(file, LONGEST_IGNORE_FILE) {
        Ok(None) => true,
        Ok(Some(text)) => {
            let text = String::from_utf8_lossy(&text).to_lowercase();
            !words.iter().any(|word| text.contains(word))
        }
        Err(_) => false,
    };
    known.insert(file.to_owned(), is_clear);
    is_clear
}

/// Looks up the names in an index. Returns `None` if the index cannot be parsed.
fn look(index: &[u8], names: &[PathBuf]) -> Option<Vec<Option<TrackedFile>>> {
    let wanted: BTreeMap<&[u8], usize> =
        names.iter().enumerate().map(|(number, name)| (name.as_os_str().as_bytes(), number)).collect();
    let mut found = vec![None; names.len()];
    git_index::each_file(index, |name, size, executable| {
        if let Some(place) = wanted.get(name).and_then(|number| found.get_mut(*number)) {
            let size_bytes = Some(size).filter(|size| *size > 0);
            *place = Some(TrackedFile { size_bytes, executable });
        }
    })?;
    Some(found)
}
