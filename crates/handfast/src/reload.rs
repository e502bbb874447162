//! Takes changed configuration files into a running server: the whole change, or nothing of it.
//!
//! A change is read when its files have been at rest between two looks, so that a file that is being
//! written is not taken for a complete one. A wrong configuration leaves the earlier one in force.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Weak};
use std::time::Duration;

use engine::Engine;
use parking_lot::Mutex;
use policy::{Policy, Source};
use store_api::{Hash, Store};
use tool::{AnyTool, Owner, Place, Stop};
use tools_data::PackageFolders;

use crate::at_start::{self, AtStart};
use crate::config::{MANAGED_FILE, USER_FILE, WORKSPACE_FILE};
use crate::configuration::{Configuration, compile};
use crate::failure::Failure;
use crate::host_environment::HostEnvironment;
use crate::out_of_reach::{keep_closed, keep_key_away};
use crate::packages::Packages;
use crate::report::{chain, note, warn};
use crate::run_options::RunOptions;

/// Time between two looks at the files. A change is in force after at most three of them.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Parameters for reading the configuration of a server again.
#[derive(Clone)]
pub(crate) struct Reload {
    pub(crate) options: RunOptions,
    pub(crate) host_environment: HostEnvironment,
    pub(crate) place: Place,
    pub(crate) state: PathBuf,
    /// Tools in addition to the built-in ones.
    pub(crate) own: Vec<Arc<dyn AnyTool>>,
    /// Key file of the vault that the server opened.
    pub(crate) key_file: Option<PathBuf>,
    /// Settings that the server took at its start.
    pub(crate) at_start: AtStart,
    /// Limits that the server took at its start.
    pub(crate) limits: Vec<(&'static str, u64)>,
    /// Patterns of the databases that the server opened.
    pub(crate) closed: Vec<String>,
    /// Folders of skills of packages, which the tools use.
    pub(crate) skills: PackageFolders,
    /// State of the files that the configuration in force was read from.
    pub(crate) taken: Stamps,
}

/// State of the configuration files, which differs after any change of a file or of its trust.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stamps {
    files: Vec<(PathBuf, Stamp)>,
    /// Hash of the workspace's file that the user trusts.
    trusted: Option<Hash>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Stamp {
    /// Device, inode, size, and the times of the last change of content and of metadata.
    There([i128; 5]),
    Missing(io::ErrorKind),
}

impl Stamp {
    fn of(path: &Path) -> Self {
        let nanoseconds = |seconds: i64, rest: i64| i128::from(seconds) * 1_000_000_000 + i128::from(rest);
        match std::fs::metadata(path) {
            Ok(file) => Self::There([
                file.dev().into(),
                file.ino().into(),
                file.size().into(),
                nanoseconds(file.mtime(), file.mtime_nsec()),
                nanoseconds(file.ctime(), file.ctime_nsec()),
            ]),
            Err(error) => Self::Missing(error.kind()),
        }
    }
}

impl Stamps {
    /// Returns the present state.
    pub(crate) fn of(
        options: &RunOptions,
        host_environment: &HostEnvironment,
        (place, state): (&Place, &Path),
        store: &dyn Store,
    ) -> Self {
        let mut paths = vec![PathBuf::from(MANAGED_FILE)];
        let workspace = place.workspace.join(WORKSPACE_FILE);
        if !options.ignores_files {
            paths.extend(host_environment.configuration.as_ref().map(|folder| folder.join(USER_FILE)));
            paths.push(workspace.clone());
            paths.push(Packages::folder_in(state));
        }
        let files = paths.into_iter().map(|path| (path.clone(), Stamp::of(&path))).collect();
        // If the trust cannot be read now, the next look finds it.
        let trusted =
            workspace.canonicalize().ok().and_then(|real| store.trust().trusted_hash(&real).ok()?);
        Self { files, trusted }
    }

    /// Names the files that differ.
    fn differing(&self, other: &Self) -> String {
        let pairs = self.files.iter().zip(&other.files);
        let changed = pairs.filter(|(one, two)| one != two).map(|(one, _)| one.0.display().to_string());
        let changed: Vec<String> = changed.collect();
        if changed.is_empty() { "what is trusted".to_owned() } else { changed.join(", ") }
    }
}

/// Takes changes of the configuration until the engine ends.
pub(crate) fn keep_current(running: &Arc<Engine>, store: &Arc<dyn Store>, mut reload: Reload) {
    let (engine, store) = (Arc::downgrade(running), store.clone());
    let started = running.threads().start("configuration", Owner::Runtime, move |stop| {
        reload.watch(&engine, store.as_ref(), stop);
    });
    if let Err(error) = started {
        warn(&format!("a changed configuration takes effect at the next start only: {}", error.message));
    }
}

impl Reload {
    // BOUNDED: by the life of the engine, which stops its threads.
    fn watch(&mut self, engine: &Weak<Engine>, store: &dyn Store, stop: &Stop) {
        let (ends, ended) = channel::<()>();
        stop.on_request(move |_| drop(ends));
        let (mut seen, mut told) = (self.taken.clone(), None);
        while ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
            let now = self.stamps(store);
            let is_at_rest = now == seen;
            seen = now;
            if seen == self.taken || !is_at_rest {
                continue;
            }
            let Some(engine) = engine.upgrade() else { return };
            match self.take(&engine, store, &seen) {
                Ok(()) => told = None,
                Err(failure) => {
                    // Another look may succeed, but the same problem is told once.
                    let problem = chain(failure.error.as_ref());
                    if told.as_ref() != Some(&problem) {
                        warn(&format!(
                            "the changed configuration is wrong, so the earlier one stays in force: {problem}"
                        ));
                    }
                    told = Some(problem);
                }
            }
        }
    }

    /// Returns the policy of another profile, as the files have it now.
    pub(crate) fn policy_of(&self, store: &dyn Store, profile: &str) -> Result<Policy, Failure> {
        self.policy_with(store, profile, None)
    }

    /// Returns the name and the policy of the profile that a label is bound to; `None` if it is bound to none.
    pub(crate) fn policy_of_label(
        &self,
        store: &dyn Store,
        label: &str,
    ) -> Result<Option<(String, Policy)>, Failure> {
        let Some(profile) = self.read(store, &self.options)?.labels.remove(label) else { return Ok(None) };
        let options = RunOptions { profile: None, label: Some(label.to_owned()), ..self.options.clone() };
        Ok(Some((profile, self.compiled(store, &options, None)?)))
    }

    /// Returns the policy of a profile, narrowed by further rules of the same profile.
    pub(crate) fn policy_with(
        &self,
        store: &dyn Store,
        profile: &str,
        more: Option<Source>,
    ) -> Result<Policy, Failure> {
        let options = RunOptions { profile: Some(profile.to_owned()), label: None, ..self.options.clone() };
        self.compiled(store, &options, more)
    }

    fn compiled(
        &self,
        store: &dyn Store,
        options: &RunOptions,
        more: Option<Source>,
    ) -> Result<Policy, Failure> {
        let mut configuration = self.read(store, options)?;
        configuration.close(&self.closed);
        configuration.sources.extend(more);
        compile(&configuration, &|_: &str| {})
    }

    fn read(&self, store: &dyn Store, options: &RunOptions) -> Result<Configuration, Failure> {
        let (environment, own) = (&self.host_environment, self.own.clone());
        Configuration::read(options, environment, &self.place, &self.state, store, own, &|_: &str| {})
    }

    fn stamps(&self, store: &dyn Store) -> Stamps {
        Stamps::of(&self.options, &self.host_environment, (&self.place, &self.state), store)
    }

    /// Takes the configuration in this state of its files. If they change meanwhile, nothing is
    /// taken, and the next look tries again.
    fn take(&mut self, engine: &Engine, store: &dyn Store, seen: &Stamps) -> Result<(), Failure> {
        let warnings = Mutex::new(Vec::new());
        let collect = |text: &str| warnings.lock().push(text.to_owned());
        let (options, environment) = (&self.options, &self.host_environment);
        let own = self.own.clone();
        let mut configuration =
            Configuration::read(options, environment, &self.place, &self.state, store, own, &collect)?;
        // The databases that the server opened stay closed to every tool but their own.
        configuration.close(&self.closed);
        let policy = compile(&configuration, &collect)?;
        keep_closed(environment.configuration.as_deref(), &policy)?;
        keep_key_away(self.key_file.as_deref(), &policy)?;
        if self.stamps(store) != *seen {
            return Ok(());
        }
        let limits = at_start::limits(&policy);
        engine.replace_policy(policy)?;
        self.skills.follow(&configuration.needed.skills.packages);
        for warning in warnings.into_inner() {
            warn(&warning);
        }
        let mut text = format!("took the changed configuration ({})", seen.differing(&self.taken));
        if configuration.is_narrowed {
            text.push_str(
                "; handfast.yaml is not trusted, so it can only tighten rules until `handfast trust`",
            );
        }
        let mut later: Vec<String> = self
            .at_start
            .differing(&configuration.at_start)
            .into_iter()
            .map(|key| format!("`{key}`"))
            .collect();
        let all = self.limits.iter().chain(&limits);
        for (name, _) in all.filter(|limit| !(self.limits.contains(limit) && limits.contains(limit))) {
            later.push(format!("`limits.{name}`"));
        }
        later.sort();
        later.dedup();
        if !later.is_empty() {
            text.push_str(&format!("; {} is taken when this server starts again", later.join(", ")));
        }
        note(&text);
        self.taken = seen.clone();
        Ok(())
    }
}
