//! `self_modify_source`: a modification of a project that Handfast may develop.
//!
//! The call itself changes nothing. Its steps are calls of their own: the tests before and after the change, each
//! in a copy that is discarded, and then the commit, about which a human is asked with the difference and the
//! results. So there is one question, and it comes when everything is known.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{
    Class, Context, Effect, Example, InnerCalls, Lane, Level, Outcome, Place, Plan, Presentation, Spec,
    TextCap, Timeout, Tool, ToolError,
};

use crate::protected_paths::normal;
use crate::self_apply::id_of;
use crate::self_commit::{MODIFY, message};
use crate::self_projects::SelfDevelopment;
use crate::self_read_source::LARGEST_SOURCE;
use crate::self_trial::Step;
use crate::test_report::SuiteEnd;
use crate::trial::{Change, Trial};

/// The `self_modify_source` tool.
pub struct SelfModifySource(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_modify_source`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path relative to the project root; `NAME:PATH` for another project than the first.
    path: String,
    /// Change in a few words, for the subject of the commit.
    change_description: String,
    /// Whole new text of the file.
    new_content: String,
    /// Reason for the change, for the human who decides.
    reason: String,
}

/// Result of `self_modify_source`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Difference of the change.
    diff: String,
    /// True if tests ran with the change, and all of them passed.
    tests_passed: bool,
    /// Results before and after the change, and why it was not applied.
    test_results: String,
    /// True if the change is committed.
    applied: bool,
    /// Commit for `self_rollback`; empty if nothing was applied.
    rollback_commit: String,
}

/// Properties of a tool whose steps are calls of their own.
pub(crate) const OF_STEPS: Spec = Spec {
    level: Level::Critical,
    class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
    // Two runs of the tests, and the time of a human.
    timeout: Timeout::fixed(4 * 3_600),
    lane: Lane::Read,
    text: TextCap::Default,
    presentation: Presentation::Record,
    ..Spec::reading("", "")
};

/// Longest description and reason in characters.
pub(crate) const LONGEST_TEXT: usize = 4_000;

impl Tool for SelfModifySource {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "self_modify_source",
        title: "Modify own source",
        description: "Replace a source file of the project that the configuration names for self-development. The tests run before and after \
            the change; a human decides with the difference and the results; then it is committed.",
        example: Example {
            files: &[],
            arguments: r#"{"path": "src/limit.js", "change_description": "raise the limit", "new_content": "exports.limit = 20;\n", "reason": "ten is too few"}"#,
            result: r#"{"tests_passed": true, "applied": true}"#,
        },
        ..OF_STEPS
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let named = self.0.named(&args.path)?;
        let path = normal(named.rest).map_err(|problem| ToolError::validation("path", problem))?;
        if args.new_content.len() as u64 > LARGEST_SOURCE {
            let problem = format!("is longer than {LARGEST_SOURCE} bytes");
            return Err(ToolError::validation("new_content", problem));
        }
        if args.new_content.contains('\0') {
            let problem = "has a NUL character, so no difference could be shown";
            return Err(ToolError::validation("new_content", problem));
        }
        for (field, text) in [("change_description", &args.change_description), ("reason", &args.reason)] {
            if text.trim().is_empty() || text.chars().count() > LONGEST_TEXT {
                let problem = format!("must have 1 to {LONGEST_TEXT} characters");
                return Err(ToolError::validation(field, problem));
            }
        }
        let path = named.project.folder(place)?.join(path);
        // The steps are calls of their own, and the one that changes something is critical.
        Ok(Plan { level: Some(Level::Safe), ..Plan::of(vec![Effect::Read { path }]) })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let named = self.0.named(&args.path)?;
        let path = named.project.modifiable(context, named.rest)?;
        let _reserved = self.0.begin(&named.project.name)?;
        let about = format!("{}: {}\nReason: {}", path, args.change_description.trim(), args.reason.trim());
        let change = Change::File { path: path.clone(), content: args.new_content };
        let trial = Arc::new(Trial::new(named.project.clone(), change, about));
        let tried = self.0.add(trial.clone());
        step(context, &tried.id, Step::Before).await?;
        step(context, &tried.id, Step::After).await?;
        drop(tried);
        let mut output = Output::of(&trial);
        let objection = trial.comparison().and_then(|(change, after)| change.objection(&after));
        if let Some(objection) = objection {
            output.test_results = format!("not applied: {objection}\n{}", output.test_results);
            return Ok(output);
        }
        trial.fits_a_question().map_err(|error| with_data(error, &output))?;
        let results = trial.results();
        let lines: Vec<&str> = results.lines().take(2).collect();
        let trailers = [("Handfast-Path", path.as_str()), ("Handfast-Tests", &lines.join("; "))];
        let message = message(MODIFY, &args.change_description, &args.reason, &trailers);
        match apply(context, &self.0, &trial, message).await {
            Ok(commit) => Ok(Output { applied: true, rollback_commit: commit, ..output }),
            Err(error) => Err(with_data(error, &output)),
        }
    }
}

impl Output {
    fn of(trial: &Trial) -> Self {
        let found = trial.found.lock();
        let tests_passed = found.after.as_ref().is_some_and(|after| after.end == SuiteEnd::Passed);
        let diff = found.diff.clone();
        drop(found);
        let notes = trial.notes();
        let parts: Vec<String> = notes.into_iter().chain([trial.results()]).collect();
        Self { diff, tests_passed, test_results: parts.join("\n"), ..Self::default() }
    }
}

/// Adds what is known to an error of the last step.
pub(crate) fn with_data(mut error: ToolError, output: &impl Serialize) -> ToolError {
    error.data = serde_json::to_value(output).ok();
    error
}

/// Makes one step of a trial.
pub(crate) async fn step(context: &Context, trial: &str, step: Step) -> Result<(), ToolError> {
    let arguments = json!({"trial": trial, "step": step.word()});
    inner(context, "self_trial", arguments).await.map(drop)
}

/// Makes a call on behalf of the caller. Returns the data.
pub(crate) async fn inner(context: &Context, tool: &str, arguments: Value) -> Result<Value, ToolError> {
    let calls = context.service::<Arc<dyn InnerCalls>>()?;
    let result = calls.call(tool.to_owned(), arguments).await?;
    for warning in result.meta.warnings {
        context.warn(warning);
    }
    match result.outcome {
        Outcome::Ok(data) => data
            .into_value()
            .map_err(|error| ToolError::internal("the step's result cannot be read").because(error)),
        Outcome::Err(error) => Err(error),
    }
}

/// Commits a change that was tested. Returns the hash of the commit.
pub(crate) async fn apply(
    context: &Context,
    all: &Arc<SelfDevelopment>,
    trial: &Arc<Trial>,
    message: String,
) -> Result<String, ToolError> {
    let held = all.hold(id_of(trial), trial.clone())?;
    let done = inner(context, "self_apply", json!({"change": held.id, "message": message})).await?;
    let commit = done.get("commit").and_then(Value::as_str);
    commit.map(str::to_owned).ok_or_else(|| ToolError::internal("the commit has no hash"))
}

#[cfg(test)]
mod tests {
    use testkit::Workspace;
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::own_project::{Scope, tests::project};

    #[test]
    fn a_protected_file_and_an_empty_reason_are_refused_before_anything_runs() {
        let all = Arc::new(SelfDevelopment::new(vec![project(&[(Scope::All, "pytest")])]));
        let tool = ErasedTool::tool(SelfModifySource(all));
        let workspace = Workspace::new().with_files(&[("src/gate/a.py", "x")]);
        let run = |path: &str, reason: &str| {
            let arguments =
                json!({"path": path, "change_description": "x", "new_content": "y", "reason": reason});
            testkit::run_tool(tool.as_ref(), &workspace, arguments).unwrap_err()
        };
        for path in ["src/gate/a.py", ".github/workflows/ci.yml", ".git/config", "handfast.yaml"] {
            let error = run(path, "why");
            assert_eq!(error.code, Code::Permission, "{path}: {}", error.message);
        }
        assert_eq!(run("src/b.py", " ").code, Code::Validation);
        assert_eq!(run("../b.py", "why").code, Code::Validation);
    }
}
