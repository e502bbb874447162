//! Folders whose content a tool makes again from what lies beside them.
//!
//! In them the last writer wins without a look at what others did meanwhile, and old content is not saved. A name alone never
//! says so: people keep work of their own in folders called `dist` or `target`. A folder counts where its name is in
//! [`FOLDERS`], no repository of git around it tracks anything in it, and one of these holds:
//!
//! - git ignores it there;
//! - it has a tag that says that it is a cache (<https://bford.info/cachedir/>);
//! - what makes it lies beside it, or left its mark in it.
//!
//! All of that is asked of the workspace as it is before a change: what a change itself writes counts only for folders that were
//! not there before.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::beneath::{LIST, look, names, open};
use crate::repositories::Repositories;

/// How a folder of some name is known to be made again.
struct Maker {
    /// The folder's name.
    folder: &'static str,
    /// Files that the maker reads, one of which lies beside the folder.
    manifests: &'static [&'static str],
    /// The trace that the maker leaves in the folder.
    mark: Mark,
}

enum Mark {
    None,
    /// One of these files.
    Files(&'static [&'static str]),
    /// Nothing but files of this ending.
    Only(&'static str),
}

/// The folders that can be made again, sorted by name.
///
/// Names that people also give to folders with work of their own (`build`, `out`, `vendor`, `bin`) are left off. Of `dist` no
/// manifest says who fills it: git has to ignore it, or a tag to lie in it.
const FOLDERS: [Maker; 19] = {
    const NODE: &[&str] = &["package.json"];
    const ZIG: &[&str] = &["build.zig"];
    const VENV: Mark = Mark::Files(&["pyvenv.cfg"]);
    const fn by(folder: &'static str, manifests: &'static [&'static str], mark: Mark) -> Maker {
        Maker { folder, manifests, mark }
    }
    [
        by(
            ".gradle",
            &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
            Mark::None,
        ),
        by(".mypy_cache", &[], Mark::None),
        by(".next", NODE, Mark::None),
        by(".nox", &["noxfile.py"], Mark::None),
        by(".nuxt", NODE, Mark::None),
        by(".parcel-cache", NODE, Mark::None),
        by(".pytest_cache", &[], Mark::None),
        by(".ruff_cache", &[], Mark::None),
        by(".svelte-kit", NODE, Mark::None),
        by(".tox", &["tox.ini", "pyproject.toml", "setup.cfg"], Mark::None),
        by(".turbo", &["turbo.json", "package.json"], Mark::None),
        by(".venv", &[], VENV),
        by(".zig-cache", ZIG, Mark::None),
        by("__pycache__", &[], Mark::Only(".pyc")),
        by("dist", &[], Mark::None),
        by("node_modules", NODE, Mark::Files(&[".package-lock.json", ".yarn-integrity", ".modules.yaml"])),
        by("target", &["Cargo.toml", "pom.xml", "build.sbt"], Mark::None),
        by("venv", &[], VENV),
        by("zig-out", ZIG, Mark::None),
    ]
};

/// The file that says that a folder is a cache, and what it begins with.
const TAG: (&str, &[u8]) = ("CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");

/// Finds out which folders of a workspace can be made again, each once.
pub(crate) struct Regenerable {
    repositories: Repositories,
    answers: BTreeMap<PathBuf, bool>,
}

impl Regenerable {
    /// Takes the path of the workspace.
    pub(crate) fn of(workspace: &Path) -> Self {
        Self { repositories: Repositories::of(workspace), answers: BTreeMap::new() }
    }

    /// Tells whether the folder called `name` can be made again.
    ///
    /// `holders` are the open folders that hold it, or that hold what lies beside it: where it was there before the change, only
    /// that of the workspace. What cannot be read says no.
    pub(crate) fn is(&mut self, holders: &[&OwnedFd], name: &OsStr, path: &Path) -> bool {
        let Some(maker) = maker(name) else { return false };
        if let Some(known) = self.answers.get(path) {
            return *known;
        }
        let is_made = |holder: &&OwnedFd| maker.is_beside(holder) || maker.has_marked(holder, name);
        let tracked_or_unknown = self.repositories.may_track(path);
        let answer = !tracked_or_unknown && (holders.iter().any(is_made) || self.repositories.ignore(path));
        self.answers.insert(path.to_owned(), answer);
        answer
    }

    /// Gives the folders for which the answer was yes.
    pub(crate) fn found(self) -> impl Iterator<Item = PathBuf> {
        self.answers.into_iter().filter_map(|(path, answer)| answer.then_some(path))
    }
}

fn maker(name: &OsStr) -> Option<&'static Maker> {
    let name = name.to_str()?;
    FOLDERS.binary_search_by(|maker| maker.folder.cmp(name)).ok().map(|index| &FOLDERS[index])
}

impl Maker {
    fn is_beside(&self, holder: &OwnedFd) -> bool {
        let is_there = |name: &&str| matches!(look(holder, OsStr::new(name)), Ok(Some(_)));
        self.manifests.iter().any(is_there)
    }

    fn has_marked(&self, holder: &OwnedFd, name: &OsStr) -> bool {
        let Ok(folder) = open(holder.as_fd(), Path::new(name), LIST) else { return false };
        let is_there = |name: &&str| matches!(look(&folder, OsStr::new(name)), Ok(Some(_)));
        let is_marked = match self.mark {
            Mark::None => false,
            Mark::Files(names) => names.iter().any(is_there),
            Mark::Only(ending) => names(&folder)
                .is_ok_and(|names| names.iter().all(|name| name.as_bytes().ends_with(ending.as_bytes()))),
        };
        is_marked || is_tagged(&folder)
    }
}

fn is_tagged(folder: &OwnedFd) -> bool {
    let (name, signature) = TAG;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = open(folder.as_fd(), Path::new(name), flags) else { return false };
    let mut begin = vec![0; signature.len()];
    std::fs::File::from(file).read_exact(&mut begin).is_ok() && begin == signature
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_so_that_every_name_in_it_is_found() {
        assert!(FOLDERS.is_sorted_by_key(|maker| maker.folder));
        assert!(FOLDERS.iter().all(|known| maker(OsStr::new(known.folder)).is_some()));
        assert!(maker(OsStr::new("Target")).is_none());
    }
}
