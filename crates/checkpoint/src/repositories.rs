//! Git's repositories around a folder: what they track, and what they ignore.
//!
//! Read is what git itself reads, at the places where git reads it, links included: `.git` of each folder from the one that is
//! asked about up to the file system's root, the index there, `info/exclude`, and the `.gitignore` files. Nothing of git is run,
//! because a repository's configuration can make git run programs. `core.excludesFile` is not looked at, so what only that
//! names does not count as ignored. Any doubt says that something may be tracked.

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

/// The bytes of an ignore file that are looked at. The rest of a longer one is not.
pub(crate) const LONGEST_IGNORE_FILE: u64 = 1 << 20;

/// The longest `.git` file, in bytes: one path.
const LONGEST_LINK: u64 = 8192;

/// The repositories around the folders of a workspace, each read once, when it is first needed.
pub(crate) struct Repositories {
    workspace: PathBuf,
    /// By the folder that has the `.git`; none where it has none.
    known: HashMap<PathBuf, Option<Rc<Repository>>>,
    ignore_files: HashMap<PathBuf, Rc<Gitignore>>,
}

/// A repository with what it tracks.
struct Repository {
    /// Its git directory.
    directory: PathBuf,
    /// The names of its index, sorted; none where that cannot be read.
    tracked: Option<Vec<Vec<u8>>>,
}

impl Repositories {
    pub(crate) fn of(workspace: &Path) -> Self {
        let (known, ignore_files) = (HashMap::new(), HashMap::new());
        Self { workspace: workspace.to_owned(), known, ignore_files }
    }

    /// Tells whether a repository around the folder tracks it or anything in it, or may do so.
    pub(crate) fn may_track(&mut self, folder: &Path) -> bool {
        let folder = self.workspace.join(folder);
        self.around(&folder).iter().any(|(top, repository)| {
            let Some(tracked) = &repository.tracked else { return true };
            folder.strip_prefix(top).map_or(true, |name| names_any_of(tracked, name))
        })
    }

    /// Tells whether the innermost repository around the folder ignores it, or a folder around it.
    pub(crate) fn ignore(&mut self, folder: &Path) -> bool {
        let folder = self.workspace.join(folder);
        let Some((top, repository)) = self.around(&folder).into_iter().next() else { return false };
        let exclude = self.rules(&repository.directory.join("info/exclude"), &top);
        let mut outwards: Vec<&Path> = folder.ancestors().take_while(|path| *path != top).collect();
        outwards.reverse();
        // Git looks into no folder that is ignored, so the outermost one decides.
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

    /// Lists the repositories around a folder with their tops, the innermost first.
    fn around(&mut self, folder: &Path) -> Vec<(PathBuf, Rc<Repository>)> {
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
            // A missing file has no rules, and neither has one that is unreadable or no regular file.
            let Ok(Some(text)) = read(file, LONGEST_IGNORE_FILE) else { return Gitignore::empty() };
            let mut builder = GitignoreBuilder::new(root);
            for line in String::from_utf8_lossy(&text).lines() {
                // Git passes over a line that is no pattern, too.
                drop(builder.add_line(None, line));
            }
            builder.build().unwrap_or_else(|_| Gitignore::empty())
        };
        Rc::clone(self.ignore_files.entry(file.to_owned()).or_insert_with(|| Rc::new(read())))
    }
}

/// Reads the repository whose `.git` lies in this folder; none where there is no `.git`.
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
        // It is a folder, or cannot be read.
        Err(_) => Some(dot_git),
    }
}

/// Tells whether one of the sorted names is the folder, or lies in it.
fn names_any_of(tracked: &[Vec<u8>], folder: &Path) -> bool {
    let folder = folder.as_os_str().as_bytes();
    let first = tracked.partition_point(|name| name.as_slice() < folder);
    // Between the folder and what lies in it stand names that go on with a character before the slash.
    let mut inside = folder.to_vec();
    inside.push(b'/');
    let first_inside = tracked.partition_point(|name| name.as_slice() < inside.as_slice());
    tracked.get(first).is_some_and(|name| name == folder)
        || tracked.get(first_inside).is_some_and(|name| name.starts_with(&inside))
}

/// Reads a regular file of at most so many bytes; none where there is none.
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
