//! Rules of the watch: paths that the deny lists name, paths that commands do not see, and files
//! that a later program would run.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use policy::{Entry, FolderMatches, Policy, Sees, auto_run, may_auto_run};
use watch::{Kind, Marks, Rules};

use crate::protected::ProtectedSet;

/// Paths to which settings lead, by root. Their appearance is noted.
#[derive(Default)]
pub(super) struct LedTo {
    sets: BTreeMap<PathBuf, Arc<ProtectedSet>>,
    names: HashSet<OsString>,
}

impl LedTo {
    /// Replaces the set of one root.
    pub(super) fn put(&mut self, root: &Path, set: Arc<ProtectedSet>) {
        self.sets.insert(root.to_owned(), set);
        let names = self.sets.values().flat_map(|set| set.names().map(OsStr::to_owned).collect::<Vec<_>>());
        self.names = names.collect();
    }

    fn has(&self, path: &Path) -> bool {
        self.sets.iter().any(|(root, set)| path.strip_prefix(root).is_ok_and(|path| set.leads_to(path)))
    }
}

/// The deny lists of the policy, applied to every name of a path.
pub(super) struct DenyLists {
    policy: Arc<Policy>,
    roots: Vec<PathBuf>,
    /// Roots that are links or lie behind one, with their real paths. Lists may use either name.
    other_names: Vec<(PathBuf, PathBuf)>,
    led_to: Arc<RwLock<LedTo>>,
}

/// State of the rules for a path.
#[derive(Clone)]
pub(super) struct PathState {
    /// State of the lists for each name of the path: for reading, and for writing.
    denied: Vec<(FolderMatches, FolderMatches)>,
    /// Part of the path that commands see, if the profile lists that.
    sees: Sees,
    /// True if a later program would run the path, or something that may lie in it.
    runs: bool,
    /// True if git could read the path or if settings lead to it, so that its appearance is to be
    /// judged.
    is_judged: bool,
}

impl DenyLists {
    pub(super) fn new(policy: Arc<Policy>, roots: &[PathBuf], led_to: Arc<RwLock<LedTo>>) -> Self {
        let other = |root: &PathBuf| {
            let real = roots::real_path(root, roots::LastLink::Follow).ok()?;
            (real != *root).then(|| (root.clone(), real))
        };
        Self { policy, roots: roots.to_vec(), other_names: roots.iter().filter_map(other).collect(), led_to }
    }

    fn led_to<T>(&self, ask: impl FnOnce(&LedTo) -> T) -> T {
        ask(&self.led_to.read())
    }

    /// Returns true if a later program would run the path, or for a folder, a file in it.
    fn runs(&self, path: &Path, kind: Kind) -> bool {
        let Some((root, relative)) = split(&self.roots, path) else { return false };
        let is_repository = |folder: &Path| is_repository(&root.join(folder));
        if self.policy.listed_auto_run().rule_at(&self.policy.spot(path), kind == Kind::Folder).is_some() {
            return true;
        }
        match kind {
            Kind::Folder => auto_run(&relative.join("any"), Entry::File, &is_repository).is_some(),
            Kind::Link => auto_run(relative, Entry::Link, &is_repository).is_some(),
            Kind::File => auto_run(relative, Entry::File, &is_repository).is_some(),
        }
    }

    /// Returns the other name of a path, if it has one.
    fn other_name(&self, path: &Path) -> Option<PathBuf> {
        self.other_names.iter().find_map(|(root, real)| {
            let below = path.strip_prefix(root).ok()?;
            Some(if below.as_os_str().is_empty() { real.clone() } else { real.join(below) })
        })
    }
}

/// Returns the innermost root that contains a path, and the rest of the path.
pub(super) fn split<'a>(roots: &'a [PathBuf], path: &'a Path) -> Option<(&'a Path, &'a Path)> {
    let holding = roots.iter().filter_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)));
    holding.min_by_key(|(_, below)| below.as_os_str().len())
}

/// Returns true if git may take the folder for a repository, whatever its name.
fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has("objects") || has("commondir"))
}

/// Names of entries that make a folder a repository, and of files that git reads in a worktree.
const READ_BY_GIT: [&str; 6] = ["HEAD", "objects", "refs", "commondir", ".gitattributes", "attributes"];

impl Rules for DenyLists {
    type FolderMatches = PathState;

    fn top(&self, folder: &Path) -> PathState {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        let known = |path: &Path| (reads.above(path), writes.above(path));
        let denied = std::iter::once(known(folder)).chain(self.other_name(folder).as_deref().map(known));
        // A root is shown because it is listed. Of the workspace, at least the names are shown.
        let sees = match self.policy.sees(folder, true) {
            Sees::Nothing => Sees::All,
            sees => sees,
        };
        PathState { denied: denied.collect(), sees, runs: self.runs(folder, Kind::Folder), is_judged: false }
    }

    fn may_match(&self, above: &PathState, name: &OsStr) -> bool {
        above.runs
            || above.sees == Sees::Part
            || self.policy.denied_reads().may_match(name)
            || self.policy.denied_writes().may_match(name)
            || may_auto_run(name)
            || self.policy.listed_auto_run().may_match(name)
            || READ_BY_GIT.iter().any(|part| name == *part)
            || self.led_to(|led| led.names.contains(name))
    }

    fn below(&self, above: &PathState, path: &Path, kind: Kind) -> PathState {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        let other = self.other_name(path);
        let names = std::iter::once(path).chain(other.as_deref());
        let is_folder = kind == Kind::Folder;
        let denied = above.denied.iter().zip(names).map(|((read, write), path)| {
            (reads.below(read, path, is_folder), writes.below(write, path, is_folder))
        });
        let is_read = path.file_name().is_some_and(|name| READ_BY_GIT.iter().any(|part| name == *part));
        let is_judged = is_read || self.led_to(|led| led.has(path));
        let sees = match (above.sees, kind) {
            // The target of the link is judged at its own path.
            (Sees::Part, Kind::Link) => Sees::All,
            (Sees::Part, _) => self.policy.sees(path, is_folder),
            (sees, _) => sees,
        };
        PathState { denied: denied.collect(), sees, runs: self.runs(path, kind), is_judged }
    }

    fn marks(&self, known: &PathState) -> Marks {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        Marks {
            hidden: known.sees == Sees::Nothing
                || known.denied.iter().any(|(read, _)| reads.is_denied_by(read)),
            frozen: known.denied.iter().any(|(_, write)| writes.is_denied_by(write)),
            guarded: known.runs,
            noted: known.runs || known.is_judged,
        }
    }

    /// The listener of a socket is a process outside the cell, and no list of files states what it
    /// does for its clients.
    fn hide_sockets(&self) -> bool {
        true
    }
}
