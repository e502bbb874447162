//! Git repositories around a folder: their tracked and ignored files.
//!
//! This module reads the files that git itself reads, at the same paths, including links. It reads
//! `.git` of each folder from the given one up to the file system's root, the index there,
//! `info/exclude`, and the `.gitignore` files. No git program runs, because a repository's
//! configuration can make git run programs. `core.excludesFile` is not read, so a file ignored only
//! there does not count as ignored. In any doubt, a folder counts as possibly tracked.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

use crate::Kind;
use crate::git_index;

/// Maximum number of bytes read of an ignore file. The rest of a longer file is not read.
pub(crate) const LONGEST_IGNORE_FILE: u64 = 1 << 20;

/// Maximum size in bytes of a `.git` file: one path.
const LONGEST_LINK: u64 = 8192;

/// The repositories around the folders of a workspace, each read once, at its first use.
pub(crate) struct Repositories {
    workspace: PathBuf,
    /// Repositories by the folder that contains `.git`; `None` for a folder without `.git`.
    known: HashMap<PathBuf, Option<Rc<Repository>>>,
    ignore_files: HashMap<PathBuf, Rc<Gitignore>>,
}

/// A repository with its tracked files.
struct Repository {
    /// Git directory of the repository.
    directory: PathBuf,
    /// Names in the index, sorted; `None` if the index cannot be read.
    tracked: Option<Vec<Vec<u8>>>,
}

impl Repositories {
    pub(crate) fn of(workspace: &Path) -> Self {
        let (known, ignore_files) = (HashMap::new(), HashMap::new());
        Self { workspace: workspace.to_owned(), known, ignore_files }
    }

    /// Returns true if a repository around the folder tracks, or may track, the folder or anything
    /// in it.
    pub(crate) fn may_track(&mut self, folder: &Path) -> bool {
        let folder = self.workspace.join(folder);
        self.enclosing(&folder).iter().any(|(top, repository)| {
            let Some(tracked) = &repository.tracked else { return true };
            folder.strip_prefix(top).map_or(true, |name| names_any_of(tracked, name))
        })
    }

    /// Returns true if the innermost repository around the folder ignores it, or a folder around it.
    pub(crate) fn ignore(&mut self, folder: &Path) -> bool {
        let folder = self.workspace.join(folder);
        let Some((top, repository)) = self.enclosing(&folder).into_iter().next() else { return false };
        let exclude = self.rules(&repository.directory.join("info/exclude"), &top);
        let mut outwards: Vec<&Path> = folder.ancestors().take_while(|path| *path != top).collect();
        outwards.reverse();
        // Git never enters an ignored folder, so the outermost one decides.
        outwards.into_iter().any(|path| {
            let holders = path.ancestors().skip(1).take_while(|holder| holder.starts_with(&top));
            for holder in holders {
                let found = self.rules(&holder.join(".gitignore"), holder);
                let found = found.matched(path, true);
                if !found.is_none() {
                    return found.is_ignore();
                }
            }
            exclude.matched(path, true).is_ignore()
        })
    }

    /// Lists the repositories around a folder with their top folders, innermost first.
    fn enclosing(&mut self, folder: &Path) -> Vec<(PathBuf, Rc<Repository>)> {
        let mut found = Vec::new();
        for top in folder.ancestors().skip(1) {
            let known = self.known.entry(top.to_owned()).or_insert_with(|| repository(top).map(Rc::new));
            if let Some(repository) = known {
                found.push((top.to_owned(), Rc::clone(repository)));
            }
        }
        found
    }

    fn rules(&mut self, file: &Path, root: &Path) -> Rc<Gitignore> {
        let read = || {
            // A missing or unreadable file has no rules, and neither has an entry that is not a
            // regular file.
            let Ok(Some(text)) = read(file, LONGEST_IGNORE_FILE) else { return Gitignore::empty() };
            let mut builder = GitignoreBuilder::new(root);
            for line in String::from_utf8_lossy(&text).lines() {
                // Git ignores an invalid pattern too.
                drop(builder.add_line(None, line));
            }
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        };
        Rc::clone(self.ignore_files.entry(file.to_owned()).or_insert_with(|| Rc::new(read())))
    }
}

/// Reads the repository whose `.git` lies in this folder, or returns `None` if there is no `.git`.
fn repository(top: &Path) -> Option<Repository> {
    let directory = git_directory(top)?;
    let tracked = match read(&directory.join("index"), git_index::LARGEST) {
        // A repository without an index tracks nothing yet.
        Ok(None) => Some(Vec::new()),
        Ok(Some(index)) => git_index::names(&index),
        Err(_) => None,
    };
    Some(Repository { directory, tracked })
}

/// Finds the git directory of the repository whose `.git` lies in this folder.
pub(crate) fn git_directory(top: &Path) -> Option<PathBuf> {
    let dot_git = top.join(".git");
    match read(&dot_git, LONGEST_LINK) {
        Ok(None) => None,
        Ok(Some(link)) => {
            let target = link.strip_prefix(b"gitdir: ")?;
            let target = target.strip_suffix(b"\n").unwrap_or(target);
            Some(top.join(Path::new(std::ffi::OsStr::from_bytes(target))))
        }
        // The entry is a folder, or cannot be read.
        Err(_) => Some(dot_git),
    }
}

/// Returns true if one of the sorted names is the folder, or lies in it.
fn names_any_of(tracked: &[Vec<u8>], folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    let first = tracked.partition_point(|name| name.as_slice() < folder);
    // Names with a character below the slash sort between the folder and its entries.
    let mut inside = folder.to_vec();
    inside.push(b'/');
    let first_inside = tracked.partition_point(|name| name.as_slice() < inside.as_slice());
    tracked.get(first).is_some_and(|name| name == folder)
        || tracked.get(first_inside).is_some_and(|name| name.starts_with(&inside))
}

/// Reads a regular file of at most `most` bytes, or returns `None` if it does not exist.
pub(crate) fn read(path: &Path, most: u64) -> rustix::io::Result<Option<Vec<u8>>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(CWD, path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        opened => opened?,
    };
    let stat = fstat(&file)?;
    if Kind::of(&stat) != Kind::File || u64::try_from(stat.st_size).map_or(true, |size| size > most) {
        return Err(Errno::INVAL);
    }
    let mut bytes = Vec::new();
    File::from(file).take(most).read_to_end(&mut bytes).map_err(|_| Errno::IO)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_tracked_by_its_own_name_and_by_what_lies_in_it() {
        let tracked: Vec<Vec<u8>> = ["dist-old/a", "dist.js", "dist/a", "lib/dist", "vendor"]
            .map(|name| name.as_bytes().to_vec())
            .into();
        let is_tracked = |folder: &str| names_any_of(&tracked, Path::new(folder));
        assert!(is_tracked("dist") && is_tracked("lib") && is_tracked("vendor") && is_tracked("lib/dist"));
        assert!(!is_tracked("di") && !is_tracked("dist/b") && !is_tracked("li") && !is_tracked("z"));
    }
}
