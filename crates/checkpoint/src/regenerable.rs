//! Regenerable folders: a tool can make their contents again from the files next to them.
//!
//! In these folders the last writer wins without a check for concurrent changes, and old content is
//! not saved. A name alone never suffices: people keep their own work in folders called `dist` or
//! `target`. A folder counts if its name is in [`FOLDERS`], no git repository around it tracks
//! anything in it, it is no repository and has none in `src`, and one of these conditions holds:
//!
//! - git ignores the folder;
//! - the folder has the tag of a cache (<https://bford.info/cachedir/>);
//! - a manifest of its tool lies next to the folder, or the tool left its mark in it.
//!
//! All conditions are checked in the workspace before a change: files written by the change itself
//! count only for new folders.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::folder::{LIST, look, names, open};
use crate::repositories::Repositories;

/// Evidence that a folder of some name is regenerable.
struct Maker {
    /// Name of the folder.
    folder: &'static str,
    /// Files that the tool reads; one of them must lie next to the folder.
    manifests: &'static [&'static str],
    /// Trace that the tool leaves in the folder.
    mark: Mark,
}

enum Mark {
    None,
    /// Any of these files.
    Files(&'static [&'static str]),
    /// A folder with files of this suffix and no others.
    Only(&'static str),
}

/// Names of regenerable folders, sorted.
///
/// Names that people also use for their own work (`build`, `out`, `vendor`, `bin`) are left out. No
/// manifest proves who fills `dist`: git must ignore it, or it must contain a tag.
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

/// File that marks a folder as a cache, and its first bytes.
const TAG: (&str, &[u8]) = ("CACHEDIR.TAG", b"Signature: 8a477f597d28d172789f06886806bc55");

/// Checks which folders of a workspace are regenerable, each once.
pub(crate) struct Regenerable {
    repositories: Repositories,
    answers: BTreeMap<PathBuf, bool>,
}

impl Regenerable {
    /// Creates a checker for the workspace at this path.
    pub(crate) fn of(workspace: &Path) -> Self {
        Self { repositories: Repositories::of(workspace), answers: BTreeMap::new() }
    }

    /// Returns true if the folder called `name` is regenerable.
    ///
    /// `holders` are the open folders that contain it, or that contain the files next to it. If the
    /// folder existed before the change, pass only that of the workspace. An unreadable file counts
    /// as a no.
    pub(crate) fn is(&mut self, holders: &[&OwnedFd], name: &OsStr, path: &Path) -> bool {
        let Some(maker) = maker(name) else { return false };
        if let Some(known) = self.answers.get(path) {
            return *known;
        }
        let is_repository = |holder: &&OwnedFd| has_repository(holder, name);
        let is_made = |holder: &&OwnedFd| maker.is_beside(holder) || maker.has_marked(holder, name);
        let tracked_or_unknown = self.repositories.may_track(path);
        let tracked_or_unknown = tracked_or_unknown || holders.iter().any(is_repository);
        let answer = !tracked_or_unknown && (holders.iter().any(is_made) || self.repositories.ignore(path));
        self.answers.insert(path.to_owned(), answer);
        answer
    }

    /// Iterates over the folders found to be regenerable.
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

/// Returns true if the folder is the top of a git repository, or contains one where pip checks out
/// what it installs as editable (`src/NAME`): people work there. Deeper ones are not looked for.
fn has_repository(holder: &OwnedFd, name: &OsStr) -> bool {
    let Ok(folder) = open(holder.as_fd(), Path::new(name), LIST) else { return false };
    let is_top = |folder: &OwnedFd| !matches!(look(folder, OsStr::new(".git")), Ok(None));
    if is_top(&folder) {
        return true;
    }
    let Ok(checkouts) = open(folder.as_fd(), Path::new("src"), LIST) else { return false };
    let Ok(all) = names(&checkouts) else { return true };
    all.iter()
        .any(|name| open(checkouts.as_fd(), Path::new(name), LIST).is_ok_and(|checkout| is_top(&checkout)))
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
