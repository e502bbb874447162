//! The files that the deny lists name below what a cell shows. Found by one walk and then kept, see the `watch` crate.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use policy::{Above, Policy};
use sandbox::LateMasks;
use tool::{Code, EffectState, ToolError};
use watch::{Keep, Marked, Marks, Rules, Watch, WatchError};

/// The denied files of one runtime.
pub(crate) struct DeniedFiles {
    policy: Arc<Policy>,
    keep: Keep,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    watch: Option<Watch<DenyLists>>,
    /// What covers denied files in the cells that run, or are about to.
    running: Vec<Weak<LateMasks>>,
    /// A thread follows the changes for them.
    followed: bool,
}

/// What a cell needs to hide what is denied.
#[derive(Default)]
pub(crate) struct Hiding {
    /// What is denied as of now.
    pub(crate) marked: Marked,
    /// Covers what comes later. None where changes are not told.
    pub(crate) later: Option<Arc<LateMasks>>,
}

/// How often the thread that follows the changes looks whether a cell still runs, and with how much patience it walks where
/// changes are not told any more.
const FOLLOWING: Duration = Duration::from_millis(250);

impl DeniedFiles {
    pub(crate) fn new(policy: Arc<Policy>, keep: Keep) -> Self {
        Self { policy, keep, state: Mutex::default() }
    }

    /// What is denied below the roots, for a cell that is about to run. Blocks for as long as a walk takes, where one is needed.
    pub(crate) fn below(self: &Arc<Self>, roots: &[PathBuf]) -> Result<Hiding, ToolError> {
        let mut state = self.state();
        // Roots come and go with the folders that the profile lists.
        if state.watch.as_ref().is_none_or(|kept| kept.roots() != roots) {
            let rules = DenyLists::new(self.policy.clone(), roots);
            state.watch = Some(Watch::new(roots.to_vec(), rules, self.keep));
        }
        let marked = state.refresh().map_err(not_known)?;
        if state.watch.as_ref().and_then(Watch::changes).is_none() {
            if self.keep == Keep::Once {
                state.watch = None;
            }
            return Ok(Hiding { marked, later: None });
        }
        // INVARIANT: from before the lock is let go, so that nothing comes between what is known now and what is told later.
        let later = Arc::new(LateMasks::default());
        state.running.push(Arc::downgrade(&later));
        if !std::mem::replace(&mut state.followed, true) {
            let denied = Arc::downgrade(self);
            std::thread::spawn(move || follow(&denied));
        }
        Ok(Hiding { marked, later: Some(later) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(|poisoned| {
            // What a thread left half-way that panicked is looked for anew.
            self.state.clear_poison();
            let mut state = poisoned.into_inner();
            state.watch = None;
            state
        });
        state.running.retain(|masks| masks.strong_count() > 0);
        state
    }
}

impl State {
    /// What is denied as of now; cells that run are told what has come.
    fn refresh(&mut self) -> Result<Marked, WatchError> {
        let Some(watch) = &mut self.watch else { return Ok(Marked::default()) };
        let walks = watch.walks();
        let marked = watch.sync();
        let come = match &marked {
            // After a walk it is not known what of it has come.
            Ok(marked) if watch.walks() != walks => marked.hidden.clone(),
            Ok(marked) => {
                let hidden = |path: &&PathBuf| marked.hidden.binary_search(path).is_ok();
                marked.appeared.iter().filter(hidden).cloned().collect()
            }
            Err(_) => Vec::new(),
        };
        for masks in self.running.iter().filter_map(Weak::upgrade) {
            if marked.is_err() {
                masks.give_up();
            } else if !come.is_empty() {
                // Where it fails, the cell is killed, and its caller is told so.
                let _killed = masks.cover(&come);
            }
        }
        marked
    }
}

/// Follows the changes for as long as a cell runs.
fn follow(denied: &Weak<DeniedFiles>) {
    loop {
        let Some(denied) = denied.upgrade() else { return };
        let changes = {
            let mut state = denied.state();
            if state.running.is_empty() {
                state.followed = false;
                return;
            }
            state.watch.as_ref().and_then(Watch::changes)
        };
        let changed = match changes {
            Some(changes) => changes.wait(FOLLOWING),
            None => {
                std::thread::sleep(FOLLOWING);
                true
            }
        };
        if changed {
            // An error is told to the cells that run, which are all that this is for.
            let _told = denied.state().refresh();
        }
    }
}

fn not_known(error: WatchError) -> ToolError {
    let message = format!("the files that must be hidden cannot be found, so nothing was run: {error}");
    ToolError::new(Code::Runtime, message).effect(EffectState::None).because(error)
}

/// The deny lists of the policy, asked about every name that a path has.
struct DenyLists {
    policy: Arc<Policy>,
    /// The roots that are links or lie behind one, with where they really lie. Lists may use either name.
    other_names: Vec<(PathBuf, PathBuf)>,
}

/// What is known under each name: of reading, and of writing.
type Known = Vec<(Above, Above)>;

impl DenyLists {
    fn new(policy: Arc<Policy>, roots: &[PathBuf]) -> Self {
        let other = |root: &PathBuf| {
            let real = roots::real_path(root, roots::LastLink::Follow).ok()?;
            (real != *root).then(|| (root.clone(), real))
        };
        Self { policy, other_names: roots.iter().filter_map(other).collect() }
    }

    /// The other name of a path, if it has one.
    fn other_name(&self, path: &Path) -> Option<PathBuf> {
        self.other_names.iter().find_map(|(root, real)| {
            let below = path.strip_prefix(root).ok()?;
            Some(if below.as_os_str().is_empty() { real.clone() } else { real.join(below) })
        })
    }
}

impl Rules for DenyLists {
    type Above = Known;

    fn top(&self, folder: &Path) -> Known {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        let known = |path: &Path| (reads.above(path), writes.above(path));
        std::iter::once(known(folder)).chain(self.other_name(folder).as_deref().map(known)).collect()
    }

    fn may_match(&self, name: &OsStr) -> bool {
        self.policy.denied_reads().may_match(name) || self.policy.denied_writes().may_match(name)
    }

    fn below(&self, above: &Known, path: &Path, is_folder: bool) -> Known {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        let other = self.other_name(path);
        let names = std::iter::once(path).chain(other.as_deref());
        above
            .iter()
            .zip(names)
            .map(|((read, write), path)| {
                (reads.below(read, path, is_folder), writes.below(write, path, is_folder))
            })
            .collect()
    }

    fn marks(&self, known: &Known) -> Marks {
        let (reads, writes) = (self.policy.denied_reads(), self.policy.denied_writes());
        Marks {
            hidden: known.iter().any(|(read, _)| reads.is_denied_by(read)),
            frozen: known.iter().any(|(_, write)| writes.is_denied_by(write)),
        }
    }

    /// Who listens at a socket is a process outside, and no list of files says what it does for whoever connects.
    fn hide_sockets(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use policy::{Dialect, Origin, Profiles, Setup, Source, Trust};

    use super::*;

    fn denied(workspace: &Path, profile: &serde_json::Value, keep: Keep) -> Arc<DeniedFiles> {
        let profiles: Profiles = serde_json::from_value(serde_json::json!({ "normal": profile })).unwrap();
        let origin = Origin::User(Path::new("/home/ann/config.yaml").into());
        let policy = Policy::compile(&Setup {
            sources: &[Source::new(origin, Trust::Trusted, profiles)],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace,
            home: None,
            protected: &[],
            programs: policy::Programs::Presumed,
            tools: &[],
        });
        Arc::new(DeniedFiles::new(Arc::new(policy.unwrap()), keep))
    }

    fn walks(denied: &DeniedFiles) -> Option<u64> {
        denied.state().watch.as_ref().map(Watch::walks)
    }

    #[test]
    fn what_comes_between_two_calls_is_known_without_a_walk() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let denied = denied(&workspace, &serde_json::json!({"deny_write_paths": ["lock"]}), Keep::Fresh);
        let roots = [workspace.clone()];
        assert_eq!(denied.below(&roots).unwrap().marked, Marked::default());
        for round in 0..3 {
            let below = workspace.join(format!("a{round}/b"));
            fs::create_dir_all(&below).unwrap();
            fs::write(below.join(".env"), "").unwrap();
            fs::write(below.join("lock"), "").unwrap();
            let marked = denied.below(&roots).unwrap().marked;
            assert_eq!((marked.hidden.len(), marked.frozen.len()), (round + 1, round + 1));
            assert_eq!(marked.hidden[round], below.join(".env"));
        }
        assert_eq!(walks(&denied), Some(1));
        // Other roots are another question.
        let beside = tempfile::tempdir().unwrap();
        fs::write(beside.path().join("x.pem"), "").unwrap();
        let marked = denied.below(&[workspace, beside.path().to_owned()]).unwrap().marked;
        assert_eq!(marked.hidden.len(), 4);
    }

    #[test]
    fn one_call_alone_keeps_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".env"), "").unwrap();
        let denied = denied(folder.path(), &serde_json::json!({}), Keep::Once);
        assert_eq!(denied.below(&[folder.path().to_owned()]).unwrap().marked.hidden.len(), 1);
        assert_eq!(walks(&denied), None);
    }

    #[test]
    fn a_root_behind_a_link_is_judged_by_both_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir_all(real.join("data/inner")).unwrap();
        fs::write(real.join("data/inner/one"), "").unwrap();
        fs::write(real.join("data/inner/two"), "").unwrap();
        std::os::unix::fs::symlink("data", real.join("link")).unwrap();
        let pattern = |name: &str| real.join(name).to_str().unwrap().to_owned();
        let lists =
            serde_json::json!({"deny_read_paths": [pattern("link/inner/one"), pattern("data/*/two")]});
        let denied = denied(Path::new("/nowhere"), &lists, Keep::Once);
        let marked = denied.below(&[real.join("link")]).unwrap().marked;
        assert_eq!(marked.hidden, [real.join("link/inner/one"), real.join("link/inner/two")]);
    }
}
