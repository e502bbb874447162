//! The projects that Handfast may develop, and the modifications of them that are being tried.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use roots::{EntryKind, LastLink, Roots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{BoxFuture, Code, Context, Place, Retry, ToolError};

use crate::protected_paths::{MARKS_OF_HANDFAST, normal, protecting};
use crate::test_command::{Runner, with_target};
use crate::trial::Trial;

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// A part of a project's tests.
#[expect(missing_docs, reason = "the names are those of the configuration")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum Scope {
    All,
    Core,
    Plugin,
}

impl Scope {
    /// Returns the word for this scope in the configuration and in calls.
    pub fn word(self) -> &'static str {
        match self {
            Scope::All => "all",
            Scope::Core => "core",
            Scope::Plugin => "plugin",
        }
    }
}

/// A project that Handfast may develop.
#[derive(Debug, Clone, PartialEq)]
pub struct Project {
    /// Name of the project.
    pub name: String,
    /// Folder of the project, absolute or relative to the workspace.
    pub folder: PathBuf,
    /// Commands of the tests by scope, each a list of words.
    pub tests: BTreeMap<Scope, Vec<String>>,
    /// Runner behind the commands, if they do not name it.
    pub runner: Option<Runner>,
    /// Files and folders that no modification may touch, in addition to the fixed ones.
    pub protected: Vec<String>,
    /// Untracked folders of the project that a trial sees too, such as `node_modules`.
    pub shared: Vec<String>,
    /// Time for one run of the tests.
    pub timeout: Duration,
}

/// Calls that a tool makes on behalf of its own caller.
pub trait InnerCalls: Send + Sync {
    /// Makes a call by the principal of the call that is running in `context`. Returns the data.
    ///
    /// # Errors
    /// Returns the error of the call.
    fn call<'a>(
        &'a self,
        context: &'a Context,
        tool: &'static str,
        arguments: Value,
    ) -> BoxFuture<'a, Result<Value, ToolError>>;
}

/// The projects that Handfast may develop, and what is being tried.
#[derive(Default)]
pub struct SelfDevelopment {
    projects: Vec<Project>,
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

impl Project {
    /// Returns the folder of the project.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the project lies outside the workspace, because only there a change is kept apart.
    pub(crate) fn folder(&self, place: &Place) -> Result<PathBuf, ToolError> {
        let folder = place.resolve("folder", &self.folder.to_string_lossy())?;
        if folder.starts_with(&place.workspace) {
            return Ok(folder);
        }
        let message =
            format!("the project {} lies outside the workspace, in {}", self.name, folder.display());
        Err(ToolError::new(Code::Unavailable, message)
            .hint("start Handfast with the folder of the project as its workspace"))
    }

    /// Returns the command and the runner of a scope.
    ///
    /// # Errors
    /// `EUNAVAILABLE` if the configuration names no command for the scope, or no runner for the command.
    pub(crate) fn command(
        &self,
        scope: Scope,
        target: Option<&str>,
    ) -> Result<(Runner, Vec<String>), ToolError> {
        // The whole suite serves the core too: a target selects a part of it.
        let named =
            self.tests.get(&scope).or_else(|| self.tests.get(&Scope::All).filter(|_| scope == Scope::Core));
        let words = named.filter(|words| !words.is_empty()).ok_or_else(|| {
            let message =
                format!("the project {} has no command for the tests of scope `{}`", self.name, scope.word());
            let hint =
                format!("the user adds `tests: {{{}: [...]}}` below `self.{}`", scope.word(), self.name);
            ToolError::new(Code::Unavailable, message).hint(hint)
        })?;
        let runner = self.runner.or_else(|| Runner::of_command(words)).ok_or_else(|| {
            let message = format!("the command `{}` does not tell which runner it starts", words.join(" "));
            ToolError::new(Code::Unavailable, message)
                .hint(format!("the user adds `runner:` below `self.{}`", self.name))
        })?;
        Ok((runner, runner.reporting(&with_target(words, target))))
    }

    /// Returns the normal form of a path that may be modified.
    ///
    /// # Errors
    /// `EVALIDATION` for a path out of the project, `EPERMISSION` for a protected file and for a path that
    /// leads through a link.
    pub(crate) fn modifiable(&self, context: &Context, path: &str) -> Result<String, ToolError> {
        let path = normal(path).map_err(|problem| ToolError::validation("path", problem))?;
        let folder = self.folder(&context.place)?;
        let roots = context.service::<Roots>()?;
        if let Some(entry) = protecting(&path, is_handfast(&roots, &folder), &self.protected) {
            return Err(protected(&path, &entry));
        }
        let mut at = folder;
        for part in path.split('/') {
            at.push(part);
            match roots.metadata(&at, LastLink::Keep) {
                Ok(found) if found.kind == EntryKind::Link => {
                    let message = format!("denied: {} is a link", context.place.show(&at));
                    return Err(ToolError::new(Code::Permission, message)
                        .hint("name the file itself; a modification follows no link"));
                }
                Ok(_) => {}
                // What does not exist has no links below it either.
                Err(roots::RootsError::NotFound { .. } | roots::RootsError::NoFolder { .. }) => break,
                Err(error) => return Err(tool_support::files::failure(context)(error)),
            }
        }
        Ok(path)
    }
}

/// Returns the error for a file that no modification may touch.
pub(crate) fn protected(path: &str, entry: &str) -> ToolError {
    let message = format!("denied: no self-modification may touch {path}, which `{entry}` protects");
    ToolError::new(Code::Permission, message).hint("only a human changes this file")
}

/// Returns true if a folder is Handfast's own checkout.
pub(crate) fn is_handfast(roots: &Roots, folder: &Path) -> bool {
    MARKS_OF_HANDFAST.iter().all(|mark| roots.metadata(&folder.join(mark), LastLink::Keep).is_ok())
}

#[cfg(test)]
pub(crate) mod tests {
    use testkit::Workspace;

    use super::*;

    pub(crate) fn project(tests: &[(Scope, &str)]) -> Project {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect();
        Project {
            name: "sample".to_owned(),
            folder: ".".into(),
            tests: tests.iter().map(|(scope, line)| (*scope, words(line))).collect(),
            runner: None,
            protected: vec!["src/gate".to_owned()],
            shared: Vec::new(),
            timeout: Duration::from_mins(1),
        }
    }

    #[test]
    fn a_link_to_a_protected_file_and_a_link_above_a_file_are_denied() {
        let workspace = Workspace::new().with_files(&[("src/gate/a.py", "x"), ("src/b.py", "y")]);
        workspace.link("alias.py", "src/gate/a.py");
        workspace.link("folder", "src/gate");
        let (project, context) = (project(&[]), workspace.context());
        for path in ["src/gate/a.py", "alias.py", "folder/a.py", "src/../.git/config", "../x", ".git/config"]
        {
            let error = project.modifiable(&context, path).unwrap_err();
            assert!([Code::Permission, Code::Validation].contains(&error.code), "{path} {}", error.message);
        }
        assert_eq!(project.modifiable(&context, "./src/b.py").unwrap(), "src/b.py");
        assert_eq!(project.modifiable(&context, "src/new/c.py").unwrap(), "src/new/c.py");
    }

    #[test]
    fn a_scope_has_its_own_command_and_refuses_to_guess_one() {
        let project = project(&[(Scope::All, "pytest"), (Scope::Plugin, "npm test")]);
        let (runner, words) = project.command(Scope::Core, Some("tests/a.py")).unwrap();
        assert_eq!((runner, words.get(1).map(String::as_str)), (Runner::Pytest, Some("tests/a.py")));
        let unknown = project.command(Scope::Plugin, None).unwrap_err();
        assert!(unknown.hint.unwrap().contains("runner"));
        let none = tests::project(&[(Scope::Core, "pytest")]).command(Scope::All, None).unwrap_err();
        assert_eq!(none.code, Code::Unavailable);
    }

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
