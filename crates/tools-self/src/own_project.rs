//! A project that Handfast may develop: its folder, its tests, and the files that stay as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use roots::{EntryKind, LastLink, Roots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Context, Place, ToolError};

use crate::protected_paths::{MARKS_OF_HANDFAST, normal, protecting};
use crate::test_command::{Runner, with_target};

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
    /// Folder of the project for new plugins.
    pub plugins: String,
    /// Time for one run of the tests.
    pub timeout: Duration,
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

    /// Checks that a commit with these paths may be taken back.
    ///
    /// # Errors
    /// `EPERMISSION` for a protected file.
    pub(crate) fn check_revert(&self, context: &Context, paths: &[String]) -> Result<(), ToolError> {
        let roots = context.service::<Roots>()?;
        let is_handfast = is_handfast(&roots, &self.folder(&context.place)?);
        let entry = |path: &String| Some((path.clone(), protecting_revert(self, is_handfast, path)?));
        match paths.iter().find_map(entry) {
            Some((path, entry)) => Err(protected(&path, &entry)),
            None => Ok(()),
        }
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
                // A missing folder has no link below it.
                Err(roots::RootsError::NotFound { .. } | roots::RootsError::NoFolder { .. }) => break,
                Err(error) => return Err(tool_support::files::failure(context)(error)),
            }
        }
        Ok(path)
    }
}

/// Returns the entry that protects a path from being taken back.
fn protecting_revert(project: &Project, is_handfast: bool, path: &str) -> Option<String> {
    let is_normal = normal(path).is_ok_and(|normal| normal == *path);
    let entry = protecting(path, is_handfast, &project.protected);
    entry.or_else(|| (!is_normal).then(|| "no plain path".to_owned()))
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
            plugins: "plugins".to_owned(),
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
        let none = super::tests::project(&[(Scope::Core, "pytest")]).command(Scope::All, None).unwrap_err();
        assert_eq!(none.code, Code::Unavailable);
    }
}
