//! What is looked for: what the deny lists name, what commands do not see, and what a later program would run.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use policy::{Above, Entry, Policy, Sees, auto_run, may_auto_run};
use watch::{Kind, Marks, Rules};

use crate::protected::ProtectedSet;

/// The paths to which settings lead, by the roots, so that their coming is noted.
#[derive(Default)]
pub(super) struct LedTo {
    sets: BTreeMap<PathBuf, Arc<ProtectedSet>>,
    names: HashSet<OsString>,
}

impl LedTo {
    /// Takes the set of one root in place of an earlier one.
    pub(super) fn put(&mut self, root: &Path, set: Arc<ProtectedSet>) {
        self.sets.insert(root.to_owned(), set);
        let names = self.sets.values().flat_map(|set| set.names().map(OsStr::to_owned).collect::<Vec<_>>());
        self.names = names.collect();
    }

    fn has(&self, path: &Path) -> bool {
        self.sets.iter().any(|(root, set)| path.strip_prefix(root).is_ok_and(|path| set.leads_to(path)))
    }
}

/// The deny lists of the policy, asked about every name that a path has.
pub(super) struct DenyLists {
    policy: Arc<Policy>,
    roots: Vec<PathBuf>,
    /// The roots that are links or lie behind one, with where they really lie. Lists may use either name.
    other_names: Vec<(PathBuf, PathBuf)>,
    led_to: Arc<RwLock<LedTo>>,
}

/// What is known about a place.
#[derive(Clone)]
pub(super) struct Known {
    /// Under each of its names: of reading, and of writing.
    denied: Vec<(Above, Above)>,
    /// How much of it commands see, where the profile lists that.
    sees: Sees,
    /// Whether a later program would run it, or what may lie in it.
    runs: bool,
    /// Whether git could read it, or settings lead to it, so that its coming is to be judged.
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
        ask(&self.led_to.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether a later program would run it; of a folder, a file in it.
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

    /// The other name of a path, if it has one.
    fn other_name(&self, path: &Path) -> Option<PathBuf> {
        self.other_names.iter().find_map(|(root, real)| {
            let below = path.strip_prefix(root).ok()?;
            Some(if below.as_os_str().is_empty() { real.clone() } else { real.join(below) })
        })
    }
}

/// The innermost root that holds a path, and the rest of it.
pub(super) fn split<'a>(roots: &'a [PathBuf], path: &'a Path) -> Option<(&'a Path, &'a Path)> {
    let holding = roots.iter().filter_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)));
    holding.min_by_key(|(_, below)| below.as_os_str().len())
}

/// Tells whether git may take the folder for a repository, whatever it is called.
fn is_repository(folder: &Path) -> bool {
    let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
    has("HEAD") && (has("objects") || has("commondir"))
}

/// Names of what makes a folder a repository, and of what git reads in a worktree.
const READ_BY_GIT: [&str; 6] = ["HEAD", "objects", "refs", "commondir", ".gitattributes", "attributes"];

impl Rules for DenyLists {
    type Above = Known;

    fn top(&self, folder: &Path) -> Known {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        let known = |path: &Path| (reads.above(path), writes.above(path));
        let denied = std::iter::once(known(folder)).chain(self.other_name(folder).as_deref().map(known));
        // A root is shown because it is listed; of the workspace the names are.
        let sees = match self.policy.sees(folder, true) {
            Sees::Nothing => Sees::All,
            sees => sees,
        };
        Known { denied: denied.collect(), sees, runs: self.runs(folder, Kind::Folder), is_judged: false }
    }

    fn may_match(&self, above: &Known, name: &OsStr) -> bool {
        above.runs
            || above.sees == Sees::Part
            || self.policy.denied_reads().may_match(name)
            || self.policy.denied_writes().may_match(name)
            || may_auto_run(name)
            || self.policy.listed_auto_run().may_match(name)
            || READ_BY_GIT.iter().any(|part| name == *part)
            || self.led_to(|led| led.names.contains(name))
    }

    fn below(&self, above: &Known, path: &Path, kind: Kind) -> Known {
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
            // What it leads to is asked about where that lies.
            (Sees::Part, Kind::Link) => Sees::All,
            (Sees::Part, _) => self.policy.sees(path, is_folder),
            (sees, _) => sees,
        };
        Known { denied: denied.collect(), sees, runs: self.runs(path, kind), is_judged }
    }

    fn marks(&self, known: &Known) -> Marks {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        Marks {
            hidden: known.sees == Sees::Nothing
                || known.denied.iter().any(|(read, _)| reads.is_denied_by(read)),
            frozen: known.denied.iter().any(|(_, write)| writes.is_denied_by(write)),
            guarded: known.runs,
            noted: known.runs || known.is_judged,
        }
    }

    /// Who listens at a socket is a process outside, and no list of files says what it does for whoever connects.
    fn hide_sockets(&self) -> bool {
        true
    }
}
