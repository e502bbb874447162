//! `self_run_tests`: the tests of a project that Handfast may develop.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, CommandLine, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, RunResult,
    Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::own_project::{Project, Scope};
use crate::self_projects::SelfDevelopment;
use crate::self_trial::mark;
use crate::test_command::{Runner, problem_of_target};
use crate::test_report::{SuiteEnd, SuiteResult, TestEnd};
use crate::trial_cell;
use crate::trial_script::{Printed, Script};

/// The `self_run_tests` tool.
pub struct SelfRunTests(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_run_tests`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Part of the tests.
    scope: Scope,
    /// Plugin name or module path; with `NAME:` in front for another project than the first.
    target: Option<String>,
}

/// Result of `self_run_tests`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// `passed`, `failed`, or why no test ran: `no_tests`, `build_failed`, `runner_missing`, `timed_out`, `no_report`.
    status: String,
    /// Number of tests that passed, by the report of the runner.
    passed: u64,
    /// Number of tests that failed.
    failed: u64,
    /// Number of tests that were skipped.
    skipped: u64,
    /// Failed tests with their messages, or what the runner printed when no test ran.
    errors: Vec<String>,
    /// Duration of the run.
    duration_seconds: f64,
}

impl Tool for SelfRunTests {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "self_run_tests",
        title: "Run own tests",
        description: "Run the tests of the project that the configuration names for self-development, in a sandbox whose changes are discarded.",
        example: Example {
            files: &[],
            arguments: r#"{"scope": "all"}"#,
            result: r#"{"status": "passed", "passed": 2, "failed": 0, "errors": []}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: true, open_world: false },
        timeout: Timeout { default: Duration::from_mins(10), max: Duration::from_mins(65) },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let run = self.run_of(args, place)?;
        let (command, directory) = (CommandLine::Argv(run.words), run.folder);
        Ok(Plan::of(vec![Effect::Run { command, directory }]).on_snapshot())
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        let named = self.0.named(args.target.as_deref().unwrap_or_default()).ok()?;
        Some(named.project.timeout + Duration::from_secs(30))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let run = self.run_of(&args, &context.place)?;
        let (mark, folder) = (mark(context), run.folder.to_string_lossy());
        let script = Script { mark: &mark, project: &folder, shared: &[] };
        let text = script.tests(run.runner, &run.words);
        let ran = trial_cell::run(context, text, Vec::new(), run.project.timeout)?;
        let output = match Printed::of(&mark, &ran.text).runner(ran.timed_out) {
            Some(output) => Ok(SuiteResult::read(run.runner, &output, ran.seconds)),
            None => Err(ToolError::new(Code::Unavailable, "the folder of the project cannot be entered")),
        };
        Ok(ran.result(output.map(Output::from), false))
    }
}

impl From<SuiteResult> for Output {
    fn from(result: SuiteResult) -> Self {
        Self {
            status: result.end.word().to_owned(),
            passed: result.count(TestEnd::Passed),
            failed: result.count(TestEnd::Failed),
            skipped: result.count(TestEnd::Skipped),
            errors: match result.end {
                SuiteEnd::Passed => Vec::new(),
                // Dialects without a status have this one field to tell that nothing has passed.
                end if !end.has_run() => {
                    [vec![format!("the tests did not run: {}", end.word())], result.errors].concat()
                }
                _ => result.errors,
            },
            duration_seconds: (result.seconds * 1_000.0).round() / 1_000.0,
        }
    }
}

/// One run of tests.
struct TestRun<'a> {
    project: &'a Project,
    runner: Runner,
    words: Vec<String>,
    folder: PathBuf,
}

impl SelfRunTests {
    fn run_of<'a>(&'a self, args: &'a Args, place: &Place) -> Result<TestRun<'a>, ToolError> {
        let named = self.0.named(args.target.as_deref().unwrap_or_default())?;
        let target = args.target.is_some().then_some(named.rest).filter(|rest| !rest.is_empty());
        if let Some(problem) = target.and_then(problem_of_target) {
            return Err(ToolError::validation("target", problem));
        }
        if args.scope == Scope::Plugin && target.is_none() {
            return Err(ToolError::validation("target", "name the plugin whose tests to run"));
        }
        let (runner, words) = named.project.command(args.scope, target)?;
        Ok(TestRun { project: named.project, runner, words, folder: named.project.folder(place)? })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn the_plan_is_the_configured_command_and_an_option_as_target_is_refused() {
        let project = project(&[(Scope::All, "cargo test"), (Scope::Plugin, "cargo test -p {target}")]);
        let tool = ErasedTool::tool(SelfRunTests(Arc::new(SelfDevelopment::new(vec![project]))));
        let place = Place::at("/w".into());
        let words = |arguments| {
            let effects = tool.prepare(arguments, &place).unwrap().plan.effects;
            let Effect::Run { command: CommandLine::Argv(words), .. } = &effects[0] else {
                panic!("{effects:?}")
            };
            words.join(" ")
        };
        assert_eq!(words(json!({"scope": "all"})), "cargo test --no-fail-fast");
        assert_eq!(words(json!({"scope": "core", "target": "a::b"})), "cargo test a::b --no-fail-fast");
        assert_eq!(
            words(json!({"scope": "plugin", "target": "sample:mail"})),
            "cargo test -p mail --no-fail-fast"
        );
        for arguments in [
            json!({"scope": "all", "target": "--config=x"}),
            json!({"scope": "all", "target": "a; rm"}),
            json!({"scope": "plugin"}),
            json!({"scope": "everything"}),
        ] {
            let error = tool.prepare(arguments.clone(), &place).err().unwrap();
            assert_eq!(error.code, Code::Validation, "{arguments}");
        }
    }
}
