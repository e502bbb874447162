//! The projects that Handfast may develop, and the modifications of them that are being tried.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use plugins::PluginTrials;
use tool::{Code, Retry, ToolError};

use crate::own_plugins::OwnPlugins;
use crate::own_project::Project;
use crate::trial::Trial;

/// The projects that Handfast may develop, and what is being tried.
#[derive(Default)]
pub struct SelfDevelopment {
    projects: Vec<Project>,
    plugins: Option<OwnPlugins>,
    /// Names of the built-in tools of every dialect, which no plugin takes.
    built_in: OnceLock<BTreeSet<&'static str>>,
    plugin_trials: Arc<PluginTrials>,
    trials: Mutex<BTreeMap<String, Arc<Trial>>>,
    /// Projects that are being changed.
    busy: Mutex<BTreeSet<String>>,
    next: AtomicU64,
}

/// A project and a path in it, which a call names.
pub(crate) struct Named<'a> {
    pub(crate) project: &'a Project,
    /// Rest of the argument after the name of the project.
    pub(crate) rest: &'a str,
}

impl SelfDevelopment {
    /// Creates the register of these projects. The first one is meant where a call names none.
    pub fn new(projects: Vec<Project>) -> Self {
        Self { projects, ..Self::default() }
    }

    /// Gives access to the plugins of the workspace.
    #[must_use]
    pub fn with_plugins(self, plugins: OwnPlugins) -> Self {
        Self { plugins: Some(plugins), ..self }
    }

    /// Reserves the names of the built-in tools of every dialect, so that no new plugin takes one. Only the first call
    /// counts, because these tools are the same for the whole life of a runtime.
    pub fn reserve_names(&self, names: BTreeSet<&'static str>) {
        let _first = self.built_in.set(names);
    }

    /// Returns true if a built-in tool of any dialect has this name.
    pub(crate) fn is_built_in(&self, name: &str) -> bool {
        self.built_in.get().is_some_and(|names| names.contains(name))
    }

    /// Returns the new plugins that are being tested.
    pub fn plugin_trials(&self) -> &Arc<PluginTrials> {
        &self.plugin_trials
    }

    /// Returns the access to the plugins of the workspace.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if this runtime has none.
    pub(crate) fn plugins(&self) -> Result<&OwnPlugins, ToolError> {
        let missing = || {
            ToolError::new(Code::Unavailable, "this runtime has no plugins")
                .hint("start Handfast with its configuration files")
        };
        self.plugins.as_ref().ok_or_else(missing)
    }

    /// Returns the project that an argument names: `NAME:REST`, or `REST` for the first project.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the configuration names no project.
    pub(crate) fn named<'a>(&'a self, argument: &'a str) -> Result<Named<'a>, ToolError> {
        let first = self.projects.first().ok_or_else(|| {
            ToolError::new(Code::Unavailable, "the configuration names no project for self-development")
                .hint("the user adds `self: {NAME: {folder: .}}` to the configuration; see docs/SELF.md")
        })?;
        let by_name = argument.split_once(':').and_then(|(name, rest)| {
            // A second colon belongs to a path of a module, such as `a::b`.
            let project = self.projects.iter().find(|project| project.name == name)?;
            (!rest.starts_with(':')).then_some(Named { project, rest })
        });
        Ok(by_name.unwrap_or(Named { project: first, rest: argument }))
    }

    /// Adds a trial under a new id.
    pub(crate) fn add(self: &Arc<Self>, trial: Arc<Trial>) -> HeldTrial {
        let id = format!("t{}", self.next.fetch_add(1, Ordering::Relaxed));
        self.trials.lock().insert(id.clone(), trial);
        HeldTrial { all: self.clone(), id }
    }

    /// Adds a trial under the id of its result, by which an approval knows it again.
    ///
    /// # Errors
    /// `ECONFLICT` if another call is applying the same change.
    pub(crate) fn hold(self: &Arc<Self>, id: String, trial: Arc<Trial>) -> Result<HeldTrial, ToolError> {
        let mut trials = self.trials.lock();
        if trials.contains_key(&id) {
            return Err(ToolError::new(Code::Conflict, "another call is applying the same change")
                .retry(Retry::AfterMs(5_000)));
        }
        trials.insert(id.clone(), trial);
        drop(trials);
        Ok(HeldTrial { all: self.clone(), id })
    }

    /// Returns a trial.
    ///
    /// # Errors
    /// `ENOTFOUND` if nothing is tried under this id.
    pub(crate) fn trial(&self, id: &str) -> Result<Arc<Trial>, ToolError> {
        self.trials.lock().get(id).cloned().ok_or_else(|| {
            ToolError::new(Code::NotFound, "no change is being tried under this id")
                .hint("only self_modify_source and self_rollback make such a call")
        })
    }

    /// Reserves a project for one change.
    ///
    /// # Errors
    /// `ECONFLICT` if another change of it is under way.
    pub(crate) fn begin(self: &Arc<Self>, project: &str) -> Result<Reserved, ToolError> {
        if !self.busy.lock().insert(project.to_owned()) {
            let message = format!("another change of the project {project} is being tried");
            return Err(ToolError::new(Code::Conflict, message)
                .retry(Retry::AfterMs(10_000))
                .hint("repeat the call after the other one has ended"));
        }
        Ok(Reserved { all: self.clone(), project: project.to_owned() })
    }
}

/// Trial that is removed when its call ends, however it ends.
pub(crate) struct HeldTrial {
    all: Arc<SelfDevelopment>,
    pub(crate) id: String,
}

impl Drop for HeldTrial {
    fn drop(&mut self) {
        self.all.trials.lock().remove(&self.id);
    }
}

/// Reservation of a project, which ends with its call.
pub(crate) struct Reserved {
    all: Arc<SelfDevelopment>,
    project: String,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.all.busy.lock().remove(&self.project);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn one_change_of_a_project_at_a_time() {
        let all = Arc::new(SelfDevelopment::new(vec![project(&[])]));
        let first = all.begin("sample").unwrap();
        assert_eq!(all.begin("sample").err().unwrap().code, Code::Conflict);
        drop(first);
        assert!(all.begin("sample").is_ok());
        assert_eq!(all.named("sample:src/a.rs").unwrap().rest, "src/a.rs");
        assert_eq!(all.named("other:src/a.rs").unwrap().rest, "other:src/a.rs");
        assert_eq!(all.named("sample::tests").unwrap().rest, "sample::tests");
        let none = SelfDevelopment::default();
        assert_eq!(none.named("a").err().unwrap().code, Code::Unavailable);
    }
}
