//! The protected set of one folder: its starting points, the files to which they lead, and the
//! check that both are current.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use policy::{AutoRun, Entry, Policy, auto_run};

use super::follow::{FollowedPaths, Follower};
use super::repository::{self, HOOKS};
use super::view::{Kind, LayeredView, View};

/// Names of files, and of folders of files, that run automatically and call others by plain words.
const SCRIPTS: [&str; 9] = [
    ".envrc",
    ".autoenv",
    ".autoenv.zsh",
    ".husky",
    ".githooks",
    ".git-hooks",
    ".lefthook",
    ".bashrc",
    ".profile",
];

/// Files of one folder that run automatically although no list names them.
#[derive(Debug)]
pub(crate) struct ProtectedSet {
    policy: Arc<Policy>,
    root: PathBuf,
    /// Paths to which the user's settings lead.
    pub(super) led: FollowedPaths,
    /// Repositories outside of the folder that git already uses for the folder.
    pub(super) outer: BTreeSet<PathBuf>,
    /// Files of the user's own git configuration.
    pub(super) users: Vec<PathBuf>,
    /// Files of attributes that can name programs.
    attributes: BTreeSet<PathBuf>,
    beginnings: BTreeSet<PathBuf>,
    /// Examined entries, with their state at that time.
    seen: Vec<(PathBuf, Option<Stamp>)>,
}

/// Identity of an entry in one state: device, inode number, and the seconds and nanoseconds of its
/// last change.
type Stamp = (u64, u64, i64, i64);

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.ctime(), found.ctime_nsec()))
}

impl ProtectedSet {
    /// Follows the starting points: paths relative to `root` that lists name, or that make a folder
    /// a repository.
    pub(crate) fn find(policy: &Arc<Policy>, root: &Path, beginnings: BTreeSet<PathBuf>) -> Self {
        let users = policy.users_git_configuration();
        let view = View { root, over: LayeredView::Nothing, home: policy.home() };
        let mut follower = Follower::new(view);
        let (mut repositories, mut outer) = (BTreeSet::new(), BTreeSet::new());
        let mut attributes = BTreeSet::new();
        for beginning in &beginnings {
            let folder = beginning.parent().unwrap_or(Path::new(""));
            match repository::last_name(beginning) {
                ".git" => repositories.extend(repository::behind(&view, beginning)),
                "HEAD" => drop(repositories.insert(folder.to_owned())),
                ".gitattributes" | "attributes" => drop(attributes.insert(beginning.clone())),
                _ => {}
            }
            let entry = match view.kind(beginning) {
                Some(Kind::Link) => Entry::Link,
                Some(Kind::File) => Entry::File,
                Some(Kind::Folder) | None => continue,
            };
            if let Some(AutoRun::Any(why)) = auto_run(beginning, entry, &|_| false) {
                let is_script = beginning.iter().any(|name| SCRIPTS.iter().any(|script| name == *script));
                // The targets of a repository's own links are found with the repository.
                let is_git = beginning.iter().any(|name| name == ".git");
                if !is_git && (entry == Entry::Link || is_script) {
                    follower.add_script(beginning, why);
                }
            }
        }
        // Git also searches for a repository in the parent folders, beyond this folder.
        for above in root.ancestors() {
            let folder = view.named(above);
            let pointer = folder.join(".git");
            if view.exists(&pointer) {
                repositories.extend(repository::behind(&view, &pointer));
            } else {
                repositories.insert(folder);
            }
        }
        repositories.retain(|folder| repository::is_repository(&view, folder));
        let mut names_programs = false;
        for folder in &repositories {
            let shared = repository::shared_folder(&view, folder);
            follower.add_repository(folder, &users);
            let settings = users.iter().cloned().chain([folder.join("config"), shared.join("config")]);
            let settings: Vec<_> =
                settings.flat_map(|file| repository::settings(&view, &file, &mut Vec::new())).collect();
            names_programs |= !repository::drivers(&settings).is_empty();
            if shared.is_absolute() {
                outer.insert(shared);
            }
        }
        if !names_programs {
            attributes.clear();
        }
        let (led, seen) = follower.end();
        let seen = seen.into_iter().map(|path| {
            let stamp = stamp(&root.join(&path));
            (path, stamp)
        });
        let seen = seen.collect();
        let (policy, root) = (policy.clone(), root.to_owned());
        Self { policy, root, led, outer, users, attributes, beginnings, seen }
    }

    /// Returns the reason why a path runs automatically because of its name alone, by the built-in
    /// list or by the profile's.
    pub(super) fn named(&self, path: &Path, entry: Entry) -> Option<String> {
        if let Some(AutoRun::Any(why)) = auto_run(path, entry, &|_| false) {
            return Some(why.to_owned());
        }
        let (listed, path) = (self.policy.listed_auto_run(), self.root.join(path));
        let spot = self.policy.spot(&path);
        let rule = listed.rule_at(&spot, false).filter(|_| entry != Entry::Folder)?;
        Some(format!("{rule} marks it as a run-later file"))
    }

    /// Returns the home folder of the user.
    pub(super) fn home(&self) -> Option<&Path> {
        self.policy.home()
    }

    /// Returns true if no entry on the way to the files of the set has changed.
    pub(crate) fn is_current(&self, root: &Path, beginnings: &BTreeSet<PathBuf>) -> bool {
        self.beginnings == *beginnings
            && self.seen.iter().all(|(path, known)| stamp(&root.join(path)) == *known)
    }

    /// Returns true if the creation of this path must be judged.
    pub(crate) fn leads_to(&self, path: &Path) -> bool {
        self.led.find(path).is_some() || self.led.has_below(path)
    }

    /// Lists the names under which an entry may be created that must be judged.
    pub(crate) fn names(&self) -> impl Iterator<Item = &std::ffi::OsStr> {
        let hooks = if self.led.is_empty() { &[][..] } else { &HOOKS[..] };
        self.led.paths().flat_map(Path::iter).chain(hooks.iter().map(std::ffi::OsStr::new))
    }

    /// Lists the files to which a command must not write directly: those that exist and are not links.
    pub(crate) fn fixed(&self, root: &Path) -> Vec<PathBuf> {
        let all = self.led.files().chain(self.attributes.iter().map(PathBuf::as_path));
        let paths = all.map(|path| root.join(path));
        paths.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_file())).collect()
    }
}
