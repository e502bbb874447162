//! The projects for self-development, as configured.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tools_self::{OwnPlugins, Project, Runner, Scope, SelfDevelopment};

use crate::failure::Failure;

/// A project that Handfast may develop.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OwnProject {
    /// Folder of the project, which has a repository of git of its own: relative to the workspace, or absolute.
    #[schemars(extend("examples" = ["."]))]
    folder: PathBuf,
    /// Commands of the tests by scope (`all`, `core`, `plugin`), each a list of words. `{target}` stands for the
    /// target of a call.
    #[serde(default)]
    #[schemars(extend("x-default" = "none", "examples" = [{"all": ["cargo", "test"], "plugin": ["cargo", "test", "-p", "{target}"]}]))]
    tests: TestCommands,
    /// Runner of the tests, if the commands do not name it.
    #[serde(default)]
    #[schemars(extend("x-default" = "that of the commands", "examples" = ["jest"]))]
    runner: Option<Runner>,
    /// Files and folders that no modification may touch, in addition to the fixed ones. `*` stands for a part of a
    /// name, and `**` for any folders.
    #[serde(default)]
    #[schemars(extend("x-default" = "none", "examples" = [["src/policy", "**/*_gate.py"]]))]
    protected: Vec<String>,
    /// Folder of the project for the plugins that `self_create_plugin` makes.
    #[serde(default = "usual_plugins")]
    #[schemars(extend("x-default" = "`plugins`", "examples" = ["plugins"]))]
    plugins: String,
    /// Folders of the project that git does not know and the tests need.
    #[serde(default = "usual_shared")]
    #[schemars(extend("x-default" = "`node_modules`, `.venv`, `venv`, `vendor`", "examples" = [["node_modules"]]))]
    shared: Vec<String>,
    /// Time for one run of the tests, at most 3600.
    #[serde(default = "usual_seconds")]
    #[schemars(range(min = 1, max = 3_600), extend("x-default" = 600, "examples" = [1_800]))]
    timeout_seconds: u64,
}

/// Commands of a project's tests, each a list of words.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TestCommands {
    /// Whole suite, which also decides about modifications.
    #[schemars(extend("examples" = [["cargo", "test"]]))]
    all: Option<Vec<String>>,
    /// Part without plugins.
    #[schemars(extend("examples" = [["cargo", "test", "--lib"]]))]
    core: Option<Vec<String>>,
    /// Tests of one plugin.
    #[schemars(extend("examples" = [["cargo", "test", "-p", "{target}"]]))]
    plugin: Option<Vec<String>>,
}

fn usual_shared() -> Vec<String> {
    ["node_modules", ".venv", "venv", "vendor"].map(str::to_owned).to_vec()
}

fn usual_plugins() -> String {
    "plugins".to_owned()
}

fn usual_seconds() -> u64 {
    600
}

/// Returns the register of the projects.
///
/// # Errors
/// If a name or a value cannot be used.
pub(crate) fn registered(
    configured: Option<BTreeMap<String, OwnProject>>,
    workspace: &Path,
    plugins: OwnPlugins,
) -> Result<Arc<SelfDevelopment>, Failure> {
    let mut projects = projects(configured)?;
    for project in &mut projects {
        project.folder = without_link_out(&project.folder, workspace);
    }
    Ok(Arc::new(SelfDevelopment::new(projects).with_plugins(plugins)))
}

/// Returns the folder of a project. A link out of the workspace is replaced by its target, so that the refusal names
/// the real place.
fn without_link_out(folder: &Path, workspace: &Path) -> PathBuf {
    let real = workspace.join(folder).canonicalize();
    match (real, workspace.canonicalize()) {
        (Ok(real), Ok(workspace)) if !real.starts_with(&workspace) => real,
        _ => folder.to_owned(),
    }
}

/// Returns the projects in the order of their names.
///
/// # Errors
/// If a name or a value cannot be used.
fn projects(configured: Option<BTreeMap<String, OwnProject>>) -> Result<Vec<Project>, Failure> {
    configured.unwrap_or_default().into_iter().map(|(name, own)| project(name, own)).collect()
}

fn project(name: String, own: OwnProject) -> Result<Project, Failure> {
    let wrong = |problem: &str| Failure::usage(format!("`self.{name}`: {problem}"));
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c)) {
        return Err(wrong("the name of a project has letters, digits, `_` and `-`"));
    }
    if !(1..=3_600).contains(&own.timeout_seconds) {
        return Err(wrong("`timeout_seconds` must be between 1 and 3600"));
    }
    let TestCommands { all, core, plugin } = own.tests;
    let named = [(Scope::All, all), (Scope::Core, core), (Scope::Plugin, plugin)];
    let tests: BTreeMap<Scope, Vec<String>> =
        named.into_iter().filter_map(|(scope, words)| Some((scope, words?))).collect();
    if tests.values().any(|words| words.iter().any(|word| word.contains('\0') || word.contains('\n'))) {
        return Err(wrong("a word of a command has a line end"));
    }
    let is_name = |part: &str| !part.is_empty() && !part.starts_with(['.', '-']);
    if !own.plugins.split('/').all(is_name) || own.plugins.chars().any(char::is_control) {
        return Err(wrong(
            "`plugins` must be a folder in the project, whose names do not begin with `.` or `-`",
        ));
    }
    Ok(Project {
        plugins: own.plugins,
        folder: own.folder,
        tests,
        runner: own.runner,
        protected: own.protected,
        shared: own.shared,
        timeout: Duration::from_secs(own.timeout_seconds),
        name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(yaml: &str) -> Result<Vec<Project>, Failure> {
        projects(Some(serde_saphyr::from_str(yaml).unwrap()))
    }

    #[test]
    fn a_link_out_of_the_workspace_is_named_and_one_within_it_stays() {
        let (around, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(around.path().join("in")).unwrap();
        for (link, target) in [("out", outside.path()), ("own", &around.path().join("in"))] {
            std::os::unix::fs::symlink(target, around.path().join(link)).unwrap();
        }
        let found = |folder: &str| without_link_out(Path::new(folder), around.path());
        assert_eq!(found("out"), outside.path().canonicalize().unwrap());
        for folder in ["own", "in", ".", "missing"] {
            assert_eq!(found(folder), Path::new(folder));
        }
    }

    #[test]
    fn a_project_needs_a_folder_and_a_plain_name_and_others_are_refused() {
        let found = read("app: {folder: ., tests: {all: [node, --test]}}").unwrap();
        assert_eq!((found[0].name.as_str(), found[0].timeout), ("app", Duration::from_mins(10)));
        assert_eq!(found[0].tests[&Scope::All], ["node", "--test"]);
        for wrong in [
            "'a b': {folder: .}",
            "a: {folder: ., timeout_seconds: 0}",
            "a: {folder: ., plugins: ../x}",
            "a: {folder: ., plugins: .handfast/plugins}",
            "a: {folder: ., plugins: ''}",
            "a: {folder: ., tests: {all: [\"x\\n\"]}}",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
