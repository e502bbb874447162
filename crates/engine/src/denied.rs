//! The files that the deny lists name below what a cell shows. Found by one walk and then kept, see the `watch` crate.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use policy::{Above, Policy};
use tool::{Code, EffectState, ToolError};
use watch::{Keep, Marked, Marks, Rules, Watch, WatchError};

/// The denied files of one runtime.
pub(crate) struct DeniedFiles {
    policy: Arc<Policy>,
    keep: Keep,
    watch: Mutex<Option<Watch<DenyLists>>>,
}

impl DeniedFiles {
    pub(crate) fn new(policy: Arc<Policy>, keep: Keep) -> Self {
        Self { policy, keep, watch: Mutex::default() }
    }

    /// What is denied below the roots, as of now. Blocks for as long as a walk takes, where one is needed.
    pub(crate) fn below(&self, roots: &[PathBuf]) -> Result<Marked, ToolError> {
        let mut watch = self.watch.lock().unwrap_or_else(PoisonError::into_inner);
        // Roots come and go with the folders that the profile lists.
        let mut kept = match watch.take() {
            Some(kept) if kept.roots() == roots => kept,
            _ => Watch::new(roots.to_vec(), DenyLists::new(self.policy.clone(), roots), self.keep),
        };
        let marked = kept.sync().map_err(not_known);
        if self.keep == Keep::Fresh {
            *watch = Some(kept);
        }
        marked
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

    fn denied(workspace: &Path, profile: &serde_json::Value, keep: Keep) -> DeniedFiles {
        let profiles: Profiles = serde_json::from_value(serde_json::json!({ "normal": profile })).unwrap();
        let origin = Origin::User(Path::new("/home/ann/config.yaml").into());
        let policy = Policy::compile(&Setup {
            sources: &[Source { origin, trust: Trust::Trusted, profiles }],
            profile: "normal",
            mode: None,
            dialect: Dialect::default(),
            workspace,
            home: None,
            protected: &[],
        });
        DeniedFiles::new(Arc::new(policy.unwrap()), keep)
    }

    fn walks(denied: &DeniedFiles) -> Option<u64> {
        denied.watch.lock().unwrap().as_ref().map(Watch::walks)
    }

    #[test]
    fn what_comes_between_two_calls_is_known_without_a_walk() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        let denied = denied(&workspace, &serde_json::json!({"deny_write_paths": ["lock"]}), Keep::Fresh);
        let roots = [workspace.clone()];
        assert_eq!(denied.below(&roots).unwrap(), Marked::default());
        for round in 0..3 {
            let below = workspace.join(format!("a{round}/b"));
            fs::create_dir_all(&below).unwrap();
            fs::write(below.join(".env"), "").unwrap();
            fs::write(below.join("lock"), "").unwrap();
            let marked = denied.below(&roots).unwrap();
            assert_eq!((marked.hidden.len(), marked.frozen.len()), (round + 1, round + 1));
            assert_eq!(marked.hidden[round], below.join(".env"));
        }
        assert_eq!(walks(&denied), Some(1));
        // Other roots are another question.
        let beside = tempfile::tempdir().unwrap();
        fs::write(beside.path().join("x.pem"), "").unwrap();
        let marked = denied.below(&[workspace, beside.path().to_owned()]).unwrap();
        assert_eq!(marked.hidden.len(), 4);
    }

    #[test]
    fn one_call_alone_keeps_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(".env"), "").unwrap();
        let denied = denied(folder.path(), &serde_json::json!({}), Keep::Once);
        assert_eq!(denied.below(&[folder.path().to_owned()]).unwrap().hidden.len(), 1);
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
        let marked = denied.below(&[real.join("link")]).unwrap();
        assert_eq!(marked.hidden, [real.join("link/inner/one"), real.join("link/inner/two")]);
    }
}
