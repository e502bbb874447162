//! `plugin_trial`: the tests of a plugin that does not exist yet. Only `self_create_plugin` calls it, so no caller
//! sees it.
//!
//! The run is a call like any other: the policy decides about its command and its network, a stop ends it, and the
//! audit has it. Each test has a cell, a copy of the plugin and a workspace of its own, which are removed afterwards.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use plugins::{
    Answer, Manifest, PluginFolder, PluginTest, PluginTexts, PluginTrials, RunMode, TestOutcome, TrialPlace,
    WorkspaceUse,
};
use sandbox::{CellHost, CellSpec, FoundProgram, Stopper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{
    Class, Code, CommandLine, Context, Effect, Example, Lane, Level, NetworkLimit, Place, Plan, Presentation,
    Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::cell::{self, Collector};
use crate::outcome;
use crate::provider_schema::check_provider_schema;

/// Maximum number of tests of one run.
const MOST_TESTS: usize = 20;
/// Maximum time of one test.
const LONGEST_TEST: Duration = Duration::from_mins(1);
/// Maximum time of all tests.
const LONGEST: Duration = Duration::from_mins(10);

/// Folder that stands for the copy in a plan, because each test has another one.
const PLACE: &str = "/plugin";

/// The `plugin_trial` tool.
pub struct PluginTrial(pub(crate) Arc<PluginTrials>);

/// Arguments of `plugin_trial`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the plugin that waits for its tests.
    trial: String,
}

/// Result of `plugin_trial`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of tests that ran and passed.
    passed: u64,
    /// Number of tests that failed.
    failed: u64,
    /// One entry per test, in the order of the manifest.
    tests: Vec<OneTest>,
}

/// A test that has run.
#[derive(Debug, Serialize, JsonSchema)]
struct OneTest {
    /// Name of the test.
    name: String,
    /// Difference from the expected outcome; absent if the test passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

impl PluginTrial {
    fn files(&self, args: &Args) -> Result<Arc<PluginTexts>, ToolError> {
        self.0.files(&args.trial).ok_or_else(|| {
            ToolError::new(Code::NotFound, "no plugin waits for its tests under this id")
                .hint("only self_create_plugin makes such a call")
        })
    }

    fn content(&self, args: &Args) -> Result<(PluginFolder, Manifest), ToolError> {
        let wrong = |problem: String| ToolError::validation("files", problem);
        let content = PluginFolder::of_texts(Path::new("plugin"), &*self.files(args)?);
        let content = content.map_err(|error| wrong(error.to_string()))?;
        let manifest = content.manifest().map_err(|error| wrong(error.to_string()))?;
        check_provider_schema(&manifest).map_err(|error| wrong(error.to_string()))?;
        if manifest.mode != RunMode::Once {
            return Err(wrong("`mode` must be `once`".to_owned()));
        }
        if manifest.all_tests().count() > MOST_TESTS {
            return Err(wrong(format!("{MOST_TESTS} tests are the most")));
        }
        Ok((content, manifest))
    }
}

impl Tool for PluginTrial {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "plugin_trial",
        title: "Tests of a new plugin",
        description: "The tests of a plugin, each in a cell and a workspace of its own.",
        example: Example {
            files: &[],
            arguments: r#"{"trial": "p1"}"#,
            result: r#"{"passed": 1, "failed": 0}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout { default: LONGEST, max: LONGEST },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };
    const IS_LISTED: bool = false;

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let (content, manifest) = self.content(args)?;
        let Manifest { effects, command, .. } = &manifest;
        // A rule about a script of the workspace must not speak of a file of the plugin.
        let command: Vec<String> =
            command.iter().map(|word| placed(&content, word, Path::new(PLACE))).collect();
        let network = NetworkLimit { hosts: effects.hosts.clone(), secrets: effects.secrets.clone() };
        let (command, directory) = (CommandLine::Argv(command), place.workspace.clone());
        let plan = Plan::of(vec![Effect::Run { command, directory }]).on_snapshot();
        Ok(Plan { level: Some(manifest.least_level()), network: Some(network), ..plan })
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let files = self.files(args).ok()?;
        let files = files.iter().map(|(path, text)| format!("{path}:\n{text}"));
        Some(files.collect::<Vec<_>>().join("\n\n"))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let (content, manifest) = self.content(&args)?;
        let output = jsonschema::validator_for(&manifest.output_schema)
            .map_err(|error| ToolError::validation("files", format!("`output_schema`: {error}")))?;
        let end = Instant::now() + context.timeout;
        let mut tests = Vec::new();
        for test in manifest.all_tests() {
            context.stop.check()?;
            let left = end.saturating_duration_since(Instant::now());
            let at_most = manifest.timeout.min(LONGEST_TEST).min(left);
            let problem = tested(context, (&content, &manifest), test, &output, at_most)?;
            tests.push(OneTest { name: test.name.clone(), problem });
        }
        let failed = tests.iter().filter(|test| test.problem.is_some()).count() as u64;
        Ok(Output { passed: tests.len() as u64 - failed, failed, tests })
    }
}

/// Returns a word of the command, with the path of the file that it names.
fn placed(content: &PluginFolder, word: &str, folder: &Path) -> String {
    let inside = word.strip_prefix("./").unwrap_or(word);
    if content.files.contains_key(inside) { tool::path_text(&folder.join(inside)) } else { word.to_owned() }
}

/// Runs one test. Returns the difference from the expected outcome.
///
/// # Errors
/// If the test could not run, which says nothing about the plugin.
fn tested(
    context: &Context,
    (content, manifest): (&PluginFolder, &Manifest),
    test: &PluginTest,
    validator: &jsonschema::Validator,
    at_most: Duration,
) -> Result<Option<String>, ToolError> {
    let fits = jsonschema::validator_for(&manifest.input_schema)
        .map_err(|error| ToolError::validation("files", format!("`input_schema`: {error}")))?;
    if !fits.is_valid(&test.arguments) {
        // A call with such arguments never reaches the plugin.
        return Ok(match &test.expected {
            TestOutcome::Error(code) if code == Code::Validation.as_str() => None,
            _ => Some("its arguments do not fit `input_schema`".to_owned()),
        });
    }
    let (given, host) = (context.service::<CellSpec>()?, context.service::<CellHost>()?);
    let place = TrialPlace::make(content, test)
        .map_err(|error| ToolError::caused_by("the folder of the test cannot be made", error))?;
    let (copy, workspace) = (place.copy(), place.workspace());
    let uses = manifest.effects.workspace;
    let seen = (uses > WorkspaceUse::None).then(|| tool::path_text(&workspace));
    let request = plugins::request_line(&test.arguments, &context.call.0, seen.as_deref());
    let request = cell::RequestForm::of(request);
    let cell = cell::met_for_test(&given, uses, &copy, &workspace, &request);
    let host = CellHost { late_masks: None, ..cell::host(&host, uses) };
    let words: Vec<String> = manifest.command.iter().map(|word| placed(content, word, &copy)).collect();
    let command = cell::command(&words, if seen.is_some() { &workspace } else { &copy }, request);
    let stopper = Stopper::new().map_err(outcome::cannot_start)?;
    let at_request = stopper.clone();
    context.stop.on_request(move |_| at_request.stop());
    let mut collector = Collector::new(stopper.clone());
    let mut report = |stream, bytes: &[u8]| collector.take(stream, bytes);
    let ended = sandbox::run(&cell, &host, &command, Some(at_most), &stopper, &mut report)
        .map_err(outcome::cannot_start)?;
    let found = || words.first().map_or(FoundProgram::Shown, |word| FoundProgram::of(word, &cell));
    let answer = outcome::read(context, &ended, &collector, validator, found);
    context.stop.check()?;
    Ok(match answer {
        Ok(answer) => difference(test, &answer),
        // A program that is missing here is no fault of a plugin in use, but its test has not passed.
        Err(failed) => {
            let said = if failed.stderr.is_empty() {
                String::new()
            } else {
                format!("; standard error: {}", failed.stderr)
            };
            Some(format!("{}: {}{said}", failed.code, failed.reason))
        }
    })
}

/// Returns how an answer differs from the expected one.
fn difference(test: &PluginTest, answer: &Answer) -> Option<String> {
    match (&test.expected, answer) {
        (TestOutcome::Error(code), Answer::Refusal(error)) if error.code.as_str() == code => None,
        (TestOutcome::Error(code), Answer::Refusal(error)) => {
            Some(format!("{code} was expected, and it answered {}: {}", error.code, error.message))
        }
        (TestOutcome::Error(code), Answer::Data(_)) => {
            Some(format!("{code} was expected, and it answered with data"))
        }
        (TestOutcome::Result(_), Answer::Refusal(error)) => {
            Some(format!("it answered {}: {}", error.code, error.message))
        }
        (TestOutcome::Result(expected), Answer::Data(data)) => {
            let differs = |(field, value): &(&String, &Value)| data.get(field) != Some(value);
            let (field, value) = expected.iter().find(differs)?;
            let got = data.get(field).map_or_else(|| "nothing".to_owned(), Value::to_string);
            Some(format!("`{field}` is {got}, and {value} was expected"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;

    fn files(more: &str) -> PluginTexts {
        let manifest = format!(
            "name: p\ndescription: A test.\ncommand: [sh, main.sh]\ninput_schema: {{type: object, properties: {{}}}}\n\
             output_schema: {{type: object, properties: {{}}}}\nexample: {{arguments: {{}}, result: {{}}}}\n{more}"
        );
        [("plugin.yaml".to_owned(), manifest), ("main.sh".to_owned(), "echo".to_owned())].into()
    }

    #[test]
    fn the_plan_has_the_declared_network_and_what_does_not_wait_or_is_wrong_is_refused() {
        let all = Arc::new(PluginTrials::default());
        let tool = ErasedTool::tool(PluginTrial(all.clone()));
        let place = Place::at("/w".into());
        let prepare = |id: &str| tool.prepare(json!({"trial": id}), &place);
        let waiting = all.add(files("effects: {hosts: [a.example.com]}"));
        let plan = prepare(&waiting.id).unwrap().plan;
        assert_eq!(plan.network.unwrap().hosts, ["a.example.com"]);
        assert_eq!(plan.level, Some(Level::Moderate));
        let command = CommandLine::Argv(["sh", "/plugin/main.sh"].map(str::to_owned).to_vec());
        assert!(matches!(&plan.effects[..], [Effect::Run { command: run, .. }] if *run == command));
        let id = waiting.id.clone();
        drop(waiting);
        assert_eq!(prepare(&id).err().unwrap().code, Code::NotFound);
        for (more, named) in [("mode: serve", "once"), ("colour: red", "colour")] {
            let wrong = all.add(files(more));
            let error = prepare(&wrong.id).err().unwrap();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(named), "{}", error.message);
        }
        let outside = all.add([("../plugin.yaml".to_owned(), String::new())].into());
        assert_eq!(prepare(&outside.id).err().unwrap().code, Code::Validation);
        assert!(!tool.is_listed());
    }
}
