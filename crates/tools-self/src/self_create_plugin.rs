//! `self_create_plugin`: a new plugin of a project that Handfast may develop.
//!
//! The call itself changes nothing. Its steps are calls of their own: the requests to the model that writes the
//! files, the tests in cells, the look of a model that has seen nothing but the files, and then the commit, about
//! which a human is asked with all of it. Only afterwards the plugin is a tool, and a failure in its first runs takes
//! it back.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use plugins::{Manifest, PluginFolder, PluginTrials, is_plugin_name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{Catalogue, Code, Context, Example, InnerCalls, Level, Place, Plan, Spec, Tool, ToolError};

use crate::own_project::Project;
use crate::plugin_author::{LOOK, WRITE, cautions, files_in, look, mend, readme, request, to_look_at};
use crate::self_commit::{CREATE_PLUGIN, message};
use crate::self_modify_source::{LONGEST_TEXT, OF_STEPS, apply, inner, step, with_data};
use crate::self_projects::SelfDevelopment;
use crate::self_trial::Step;
use crate::test_report::cut;
use crate::trial::{Change, Trial};

/// Maximum number of requests to the model that writes the files.
const MOST_TURNS: usize = 3;
/// Maximum number of files, and of bytes of all of them. A question could not show more.
const MOST_FILES: usize = 20;
/// Maximum number of bytes of all files.
const MOST_BYTES: usize = 32 * 1024;
/// Maximum number of tokens of an answer of a model.
const MOST_TOKENS: u32 = 16_000;
/// File with the description for people.
const README: &str = "README.md";

/// The `self_create_plugin` tool.
pub struct SelfCreatePlugin(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_create_plugin`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Name of the tool: small letters, digits and `_`; `NAME:` in front for another project than the first.
    name: String,
    /// Sentence by which a model decides when to use the tool.
    description: String,
    /// Purpose of the plugin: all that it should accomplish.
    goal: String,
    /// Files of the plugin, if you have written them: docs/PLUGINS.md. The configured model writes them otherwise.
    #[serde(default)]
    files: Option<Vec<FileText>>,
}

/// A file of the plugin.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
struct FileText {
    /// Path in the folder of the plugin.
    path: String,
    /// Text of the file.
    content: String,
}

/// Result of `self_create_plugin`.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Folder of the plugin in the project; empty if it was not made.
    plugin_path: String,
    /// True if the tests of the plugin ran, and all of them passed.
    tests_passed: bool,
    /// True if the plugin is a tool now.
    registered: bool,
    /// Path of its README; empty if it was not made.
    documentation: String,
    /// Results of the tests, and why the plugin was not made.
    test_results: String,
    /// Commit for `self_rollback`; empty if the plugin was not made.
    rollback_commit: String,
}

/// Results of the tests of a plugin.
#[derive(Debug, Deserialize)]
struct TrialResult {
    passed: u64,
    failed: u64,
    tests: Vec<OneTest>,
}

#[derive(Debug, Deserialize)]
struct OneTest {
    name: String,
    problem: Option<String>,
}

/// A plugin whose tests have passed.
struct Draft {
    files: BTreeMap<String, String>,
    manifest: Manifest,
    results: String,
}

/// End of the writing.
enum Written {
    Draft(Box<Draft>),
    /// No version has passed its tests.
    Failed(String),
}

impl Tool for SelfCreatePlugin {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "self_create_plugin",
        title: "Create a plugin",
        description: "Make a new tool: the configured model writes a plugin, or you give its files. Its tests run, another model call looks at it, \
            and a human decides; then it is committed and a tool.",
        example: Example {
            files: &[],
            arguments: r#"{"name": "two", "description": "Returns the number two.", "goal": "a first plugin", "files": [{"path": "plugin.yaml", "content": "name: two\ndescription: Returns the number two.\ncommand: [sh, main.sh]\ninput_schema: {type: object, properties: {}}\noutput_schema: {type: object, properties: {number: {type: integer}}}\nexample: {arguments: {}, result: {number: 2}}\n"}, {"path": "main.sh", "content": "echo '{\"ok\": true, \"data\": {\"number\": 2}}'\n"}]}"#,
            result: r#"{"plugin_path": "plugins/two", "tests_passed": true, "documentation": "plugins/two/README.md"}"#,
        },
        ..OF_STEPS
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let named = self.0.named(&args.name)?;
        named.project.folder(place)?;
        if !is_plugin_name(named.rest) {
            let problem =
                "must begin with a small letter, and have small letters, digits and `_` alone, at most 40";
            return Err(ToolError::validation("name", problem));
        }
        for (field, text) in [("description", &args.description), ("goal", &args.goal)] {
            if text.trim().is_empty() || text.chars().count() > LONGEST_TEXT {
                let problem = format!("must have 1 to {LONGEST_TEXT} characters");
                return Err(ToolError::validation(field, problem));
            }
        }
        if let Some(files) = &args.files {
            checked(given(files)?).map_err(|problem| ToolError::validation("files", problem))?;
        }
        // The steps are calls of their own, and the one that changes something is critical.
        Ok(Plan { level: Some(Level::Safe), ..Plan::of(Vec::new()) })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let named = self.0.named(&args.name)?;
        let (project, name) = (named.project, named.rest);
        let own = self.0.plugins()?;
        let path = format!("{}/{name}", project.plugins);
        let folder = project.folder(&context.place)?.join(&path);
        project.modifiable(context, &path)?;
        own.check_new(name, &folder)?;
        check_tools(context, &self.0, name)?;
        let _reserved = self.0.begin(&project.name)?;
        let draft = match self.written(context, name, &args).await? {
            Written::Draft(draft) => *draft,
            Written::Failed(problem) => {
                return Ok(Output { test_results: format!("not made: {problem}"), ..Output::default() });
            }
        };
        let (description, goal) = (args.description.trim(), args.goal.trim());
        let second = second_look(context, goal, &draft, args.files.is_some()).await?;
        let about = about(name, description, goal, &draft, &second);
        let trial = self.staged(context, project, &path, about, &draft).await?;
        let mut output =
            Output { tests_passed: true, test_results: draft.results.clone(), ..Output::default() };
        trial.fits_a_question().map_err(|error| with_data(error, &output))?;
        let results = draft.results.lines().next().unwrap_or_default();
        let trailers = [("Handfast-Path", path.as_str()), ("Handfast-Tests", results)];
        let message = message(CREATE_PLUGIN, &format!("{name}: {description}"), goal, &trailers);
        let commit = apply(context, &self.0, &trial, message).await;
        output.rollback_commit = match commit {
            Ok(commit) => commit,
            Err(error) => {
                // No file is in place. If the state cannot be written now, the next start forgets the plugin.
                let _later = own.forget(&folder);
                return Err(with_data(error, &output));
            }
        };
        output.documentation = format!("{path}/{README}");
        output.plugin_path = path;
        own.enable(&folder, (name, &draft.files), context.clock.now())
            .map_err(|error| with_data(error, &output))?;
        output.registered = own.uses_workspace;
        if !own.uses_workspace {
            output.test_results +=
                "\nnot registered: plugins of this workspace are not used until its handfast.yaml is trusted";
        }
        Ok(output)
    }
}

impl SelfCreatePlugin {
    /// Makes the files, until their tests pass.
    async fn written(&self, context: &Context, name: &str, args: &Args) -> Result<Written, ToolError> {
        let (description, goal) = (args.description.trim(), args.goal.trim());
        let begin = request(name, description, goal);
        let mut asked = begin.clone();
        let mut problem = String::new();
        let turns = if args.files.is_some() { 1 } else { MOST_TURNS };
        for _ in 0..turns {
            let (files, answer) = match &args.files {
                Some(files) => (Ok(given(files)?), String::new()),
                None => {
                    let answer = ask(context, "coding", WRITE, &asked).await?;
                    (files_in(&answer), answer)
                }
            };
            match tried((context, self.0.plugin_trials()), files, name, || readme(name, description, goal))
                .await?
            {
                Ok(draft) => return Ok(Written::Draft(Box::new(draft))),
                Err(found) => problem = found,
            }
            asked = mend(&begin, &answer, &problem);
        }
        Ok(Written::Failed(problem))
    }

    /// Stages the new folder on the last commit, for the difference and its tree.
    async fn staged(
        &self,
        context: &Context,
        project: &Project,
        folder: &str,
        about: String,
        draft: &Draft,
    ) -> Result<Arc<Trial>, ToolError> {
        let change = Change::Plugin { folder: folder.to_owned(), files: draft.files.clone() };
        for path in change.paths() {
            project.modifiable(context, &path)?;
        }
        let trial = Arc::new(Trial::new(project.clone(), change, about));
        trial.found.lock().checked = Some(draft.results.clone());
        let tried = self.0.add(trial.clone());
        step(context, &tried.id, Step::Stage).await?;
        Ok(trial)
    }
}

/// Checks that no tool of any dialect has the name of a new plugin.
fn check_tools(context: &Context, own: &SelfDevelopment, name: &str) -> Result<(), ToolError> {
    // These are in no list, because only Handfast itself calls them.
    const OWN: [&str; 4] = ["self_trial", "self_apply", "plugin_trial", "model_turn"];
    let calls = context.service::<Arc<dyn InnerCalls>>()?;
    let listed = context.service::<Catalogue>()?.entries();
    if OWN.contains(&name)
        || own.is_built_in(name)
        || calls.tools().iter().any(|tool| tool.name() == name)
        || listed.iter().any(|entry| entry.name == name)
    {
        let message = format!("`name`: the tool {name} exists already; no plugin takes its name");
        return Err(ToolError::new(Code::Conflict, message).hint("choose another name"));
    }
    Ok(())
}

/// Returns the files that the caller has given.
fn given(files: &[FileText]) -> Result<BTreeMap<String, String>, ToolError> {
    let texts: BTreeMap<_, _> = files.iter().map(|file| (file.path.clone(), file.content.clone())).collect();
    if texts.len() < files.len() {
        return Err(ToolError::validation("files", "has a path twice"));
    }
    Ok(texts)
}

/// Checks the bounds of files.
fn checked(files: BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let bytes: usize = files.values().map(String::len).sum();
    if files.len() > MOST_FILES || bytes > MOST_BYTES {
        return Err(format!(
            "{MOST_FILES} files and {MOST_BYTES} bytes are the most, because a human reads them"
        ));
    }
    if files.values().any(|text| text.contains('\0')) {
        return Err("a file has a NUL character, so no difference could be shown".to_owned());
    }
    if files.keys().any(|path| {
        path.split('/')
            .any(|part| part.eq_ignore_ascii_case(".git") || part.eq_ignore_ascii_case(".gitattributes"))
    }) {
        return Err("a path is one of git itself".to_owned());
    }
    Ok(files)
}

/// Runs the tests of files. Returns their problem if they are no plugin, or a test fails.
///
/// # Errors
/// If the tests could not run, which is no result.
async fn tried(
    (context, trials): (&Context, &Arc<PluginTrials>),
    files: Result<BTreeMap<String, String>, String>,
    name: &str,
    readme: impl FnOnce() -> String,
) -> Result<Result<Draft, String>, ToolError> {
    let mut files = match files.and_then(checked) {
        Ok(files) => files,
        Err(problem) => return Ok(Err(problem)),
    };
    files.entry(README.to_owned()).or_insert_with(readme);
    let manifest = PluginFolder::of_texts(Path::new(name), &files).and_then(|content| content.manifest());
    let manifest = match manifest {
        Ok(manifest) if manifest.name == name => manifest,
        Ok(other) => return Ok(Err(format!("`name` in plugin.yaml is {}, and must be {name}", other.name))),
        Err(error) => return Ok(Err(error.to_string())),
    };
    let waiting = trials.add(files.clone());
    let tests = match inner(context, "plugin_trial", json!({"trial": waiting.id})).await {
        Ok(data) => data,
        Err(error) if error.code == Code::Validation => return Ok(Err(error.message)),
        Err(error) => return Err(error),
    };
    let tests: TrialResult = serde_json::from_value(tests)
        .map_err(|error| ToolError::internal("the results of the tests cannot be read").because(error))?;
    let failures = tests.tests.iter().filter_map(|test| Some((&test.name, test.problem.as_ref()?)));
    let failures: Vec<String> =
        failures.map(|(name, problem)| tool::visible(&format!("{name}: {problem}"))).collect();
    let line = format!("tests of the plugin: {} passed, {} failed", tests.passed, tests.failed);
    let results = [vec![line], failures].concat().join("\n");
    // Tests that did not run are no tests that passed.
    let all = tests.failed == 0 && tests.passed == manifest.all_tests().count() as u64;
    Ok(if all { Ok(Draft { files, manifest, results }) } else { Err(results) })
}

/// Asks a model. Each request is a call of its own, which begins a new conversation.
async fn ask(context: &Context, task: &str, system: &str, prompt: &str) -> Result<String, ToolError> {
    let arguments = json!({
        "prompt": prompt, "task_type": task, "system_prompt": system, "max_tokens": MOST_TOKENS,
    });
    let mut data = inner(context, "llm_call", arguments).await?;
    match data.get_mut("response").map(Value::take) {
        Some(Value::String(answer)) => Ok(answer),
        _ => Err(ToolError::internal("the answer of the model has no text")),
    }
}

/// Asks a model that has not seen how the plugin was written to look at it.
///
/// # Errors
/// Errors of the model, unless the caller wrote the files and no model is there.
async fn second_look(
    context: &Context,
    goal: &str,
    draft: &Draft,
    is_given: bool,
) -> Result<String, ToolError> {
    match ask(context, "analysis", LOOK, &to_look_at(goal, &draft.files)).await {
        Ok(answer) => Ok(format!("Second look by a model:\n{}", look(&answer))),
        Err(error) if is_given && error.code == Code::Unavailable => {
            Ok(format!("No model has looked at it: {}", cut(&error.message, 300)))
        }
        Err(error) => Err(error),
    }
}

/// Returns the text about a plugin for the human who decides.
fn about(name: &str, description: &str, goal: &str, draft: &Draft, second: &str) -> String {
    let Draft { manifest, .. } = draft;
    let declares = manifest.effects.described().join(", ");
    let facts = format!(
        "New plugin {name}: {description}\nGoal: {goal}\nLevel {}, {}; runs {}",
        manifest.least_level(),
        tool::visible(&declares),
        tool::visible(&manifest.command.join(" ")),
    );
    let parts = [facts, cautions(manifest).join("\n"), second.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn a_bad_name_and_files_beyond_the_bounds_are_refused_before_anything_runs() {
        let all = Arc::new(SelfDevelopment::new(vec![project(&[])]));
        let tool = ErasedTool::tool(SelfCreatePlugin(all));
        let place = Place::at("/w".into());
        let file = |path: &str, content: String| json!({"path": path, "content": content});
        let refused = |name: &str, files: Value| {
            let arguments = json!({"name": name, "description": "d", "goal": "g", "files": files});
            tool.prepare(arguments, &place).err().map(|error| error.message).unwrap_or_default()
        };
        let one = || json!([file("a", "1".to_owned())]);
        assert_eq!(refused("good", one()), "");
        assert_eq!(refused("sample:good", one()), "");
        for name in ["Bad", "../a", "a b", "", "a-b", &"a".repeat(41)] {
            assert!(refused(name, one()).contains("`name`"), "{name}");
        }
        let twice = json!([file("a", "1".to_owned()), file("a", "2".to_owned())]);
        let large = json!([file("a", "x".repeat(MOST_BYTES + 1))]);
        for files in [
            twice,
            large,
            json!([file("a", "\0".to_owned())]),
            json!([file("x/.Git/config", "1".to_owned())]),
        ] {
            assert!(refused("good", files).contains("`files`"));
        }
    }
}
