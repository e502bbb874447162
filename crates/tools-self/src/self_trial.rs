//! `self_trial`: one step of self-development in a cell whose changes are discarded. Only `self_modify_source`
//! and `self_rollback` call it, so no caller sees it.
//!
//! A step is a call like any other: the policy decides about its command, a stop ends it, and the audit has it.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, CommandLine, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Retry,
    RunResult, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::own_project::Scope;
use crate::self_commit::LOG_FORMAT;
use crate::self_projects::SelfDevelopment;
use crate::test_report::SuiteResult;
use crate::trial::{Change, Trial};
use crate::trial_cell::{self, HomeFiles, RanScript};
use crate::trial_script::{CONTENT_FILE, Printed, Script, ScriptChange, TRIAL_FOLDER};

/// The `self_trial` tool.
pub struct SelfTrial(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_trial`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the trial.
    trial: String,
    /// Step to take.
    step: Step,
}

/// A step of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Step {
    Log,
    Commit,
    Before,
    After,
    Stage,
}

impl Step {
    /// Returns the word for this step in a call.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Step::Log => "log",
            Step::Commit => "commit",
            Step::Before => "before",
            Step::After => "after",
            Step::Stage => "stage",
        }
    }
}

/// Result of `self_trial`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Result of the tests in one line; empty if the step runs none.
    tests: String,
}

/// Commits that `self_rollback` looks through.
const MOST_COMMITS: u32 = 1_000;
/// Time for a step that runs no tests.
const WITHOUT_TESTS: Duration = Duration::from_mins(1);
/// Time of a cell beside that of the tests in it.
const AROUND: Duration = Duration::from_secs(30);

impl Tool for SelfTrial {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "self_trial",
        title: "Trial of a change",
        description: "One step of a self-modification, in a copy that is discarded.",
        example: Example {
            files: &[],
            arguments: r#"{"trial": "t1", "step": "before"}"#,
            result: r#"{"tests": "passed: 12 passed, 0 failed"}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: false, idempotent: true, open_world: false },
        timeout: Timeout { default: Duration::from_mins(2), max: Duration::from_mins(65) },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };
    const IS_LISTED: bool = false;

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let trial = self.0.trial(&args.trial)?;
        let directory = trial.project.folder(place)?;
        let words = match args.step {
            Step::Log | Step::Commit => ["git", "log"].map(str::to_owned).to_vec(),
            Step::Stage => ["git", "worktree", "add", TRIAL_FOLDER].map(str::to_owned).to_vec(),
            Step::Before | Step::After => trial.project.command(Scope::All, None)?.1,
        };
        Ok(Plan::of(vec![Effect::Run { command: CommandLine::Argv(words), directory }]).on_snapshot())
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        Some(self.0.trial(&args.trial).ok()?.project.timeout + AROUND)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let trial = self.0.trial(&args.trial)?;
        let folder = trial.project.folder(&context.place)?;
        let mark = mark(context);
        let project = folder.to_string_lossy();
        let script = Script { mark: &mark, project: &project, shared: &trial.project.shared };
        let (text, files) = text(&trial, args.step, &script)?;
        let at_most = match args.step {
            Step::Log | Step::Commit | Step::Stage => WITHOUT_TESTS,
            Step::Before | Step::After => trial.project.timeout,
        };
        let ran = trial_cell::run(context, text, files, at_most)?;
        let read = read(&trial, args.step, &Printed::of(&mark, &ran.text), &ran);
        Ok(ran.result(read.map(|tests| Output { tests }), false))
    }
}

/// Returns the text that marks the lines of a script.
pub(crate) fn mark(context: &Context) -> String {
    format!("@@handfast:{}:{}", context.call.0, context.clock.now().as_nanosecond())
}

/// Returns the script of a step, and the files that it reads in the cell's home.
fn text(trial: &Trial, step: Step, script: &Script<'_>) -> Result<(String, HomeFiles), ToolError> {
    let suite = || trial.project.command(Scope::All, None);
    let text = match (step, &trial.change) {
        (Step::Log, _) => script.log(LOG_FORMAT, MOST_COMMITS),
        (Step::Commit, Change::Revert { commit, .. }) => script.commit_facts(commit),
        (Step::Commit, Change::File { .. } | Change::Plugin { .. }) => {
            return Err(ToolError::internal("a file is no commit"));
        }
        (Step::Stage, change) => script.stage(ScriptFacts::of(change).change()),
        (Step::Before, _) => {
            let (runner, words) = suite()?;
            script.before(runner, &words)
        }
        (Step::After, change) => {
            let (runner, words) = suite()?;
            let base = trial.found.lock().base.clone();
            script.after(&base, ScriptFacts::of(change).change(), runner, &words)
        }
    };
    Ok((text, home_files(&trial.change)))
}

/// Facts of a change in the form for scripts.
pub(crate) struct ScriptFacts<'a> {
    change: &'a Change,
    /// Folder of the plugin within the project.
    folder: &'a str,
    /// Paths in that folder.
    inside: Vec<String>,
}

impl<'a> ScriptFacts<'a> {
    pub(crate) fn of(change: &'a Change) -> Self {
        let (folder, inside) = match change {
            Change::Plugin { folder, files } => (folder.as_str(), files.keys().cloned().collect()),
            _ => ("", Vec::new()),
        };
        Self { change, folder, inside }
    }

    pub(crate) fn change(&self) -> ScriptChange<'_> {
        match self.change {
            Change::File { path, .. } => ScriptChange::File(path),
            Change::Revert { commit, .. } => ScriptChange::Revert(commit),
            Change::Plugin { .. } => ScriptChange::Folder(self.folder, &self.inside),
        }
    }
}

/// Returns the files of a change for the cell's home.
pub(crate) fn home_files(change: &Change) -> HomeFiles {
    match change {
        Change::File { content, .. } => vec![(CONTENT_FILE.into(), content.clone().into_bytes())],
        Change::Revert { .. } => Vec::new(),
        Change::Plugin { files, .. } => {
            let named = |(number, text): (usize, &String)| {
                (format!("{CONTENT_FILE}-{number}").into(), text.clone().into_bytes())
            };
            files.values().enumerate().map(named).collect()
        }
    }
}

/// Reads what a step has printed, into the trial. Returns the result of the tests in one line.
fn read(trial: &Trial, step: Step, printed: &Printed<'_>, ran: &RanScript) -> Result<String, ToolError> {
    if let Some((reason, details)) = printed.refusal() {
        return Err(refused(reason, details));
    }
    let missing = |what: &str| {
        let end = crate::test_report::tail(&ran.text, 500);
        ToolError::new(Code::Runtime, format!("the script of the step printed no {what}: {end}"))
    };
    let value = |kind: &str| printed.value(kind).map(str::to_owned).ok_or_else(|| missing(kind));
    let part = |kind: &str, until: &str| printed.part(kind, until).ok_or_else(|| missing(kind));
    match step {
        Step::Log => part("log", "end")?.clone_into(&mut trial.found.lock().log),
        Step::Commit => {
            let (hash, subject) = (value("commit")?, part("subject", "paths")?.trim().to_owned());
            let paths = part("paths", "end")?.lines().filter(|line| !line.is_empty()).map(str::to_owned);
            trial.found.lock().commit = Some((hash, subject, paths.collect()));
        }
        Step::Stage => {
            let mut found = trial.found.lock();
            (found.base, found.tree) = (value("base")?, value("tree")?);
            part("diff", "end")?.clone_into(&mut found.diff);
        }
        Step::Before | Step::After => {
            let suite = printed.runner(ran.timed_out);
            let (runner, _) = trial.project.command(Scope::All, None)?;
            let output = suite.ok_or_else(|| {
                if ran.timed_out {
                    ToolError::new(Code::Timeout, "the time of the tests ran out before they began")
                } else {
                    missing("output")
                }
            })?;
            let result = SuiteResult::read(runner, &output, ran.seconds);
            let line = result.line();
            let mut found = trial.found.lock();
            if step == Step::Before {
                found.base = value("base")?;
                found.before = Some(result);
            } else {
                found.tree = value("tree")?;
                part("diff", "output")?.clone_into(&mut found.diff);
                found.after = Some(result);
            }
            return Ok(line);
        }
    }
    Ok(String::new())
}

/// Converts the reason with which a script has ended early.
pub(crate) fn refused(reason: &str, details: &str) -> ToolError {
    let details = crate::test_report::cut(details.trim(), 2_000);
    let made = |code, message: String| ToolError::new(code, message);
    match reason {
        "no_git" => made(Code::Unavailable, "git is not installed where commands run".into()),
        "no_project" => made(Code::Unavailable, "the folder of the project does not exist".into()),
        "no_repository" => made(Code::Unavailable, "the project is no repository of git of its own".into())
            .hint("the user runs `git init` in the folder of the project and commits its files"),
        "elsewhere" => made(
            Code::Unavailable,
            format!("the configuration of git (`core.worktree`) names another folder as the project: {details}"),
        )
        .hint("the user runs `git config --unset core.worktree` in the folder of the project"),
        "filters" => made(
            Code::Unavailable,
            format!("the configuration of git in the project names filters or merge drivers, which would run in every step: {details}"),
        )
        .hint("the user moves them to the git configuration in the home folder, which these steps do not use"),
        "no_commit" => made(Code::Unavailable, "the repository of the project has no commit".into()),
        "busy" => made(Code::Conflict, format!("an operation of git is under way in the project: {details}"))
            .hint("finish it or abort it"),
        "dirty" => {
            made(Code::Conflict, format!("the project has changes that are not committed:\n{details}"))
                .hint("commit or stash them; nothing was changed")
        }
        "moved" => made(Code::Conflict, "the project got another commit while the change was tried".into())
            .retry(Retry::Now),
        "other_tree" => made(Code::Conflict, "the change would not give the files that were tested".into())
            .retry(Retry::Now),
        "leftover" => made(Code::Conflict, "the project has an entry `.handfast-trial`".into())
            .hint("remove it: self-development uses this name in its own copy"),
        "link" => made(Code::Permission, "denied: the path leads through a link".into())
            .hint("name the file itself; a modification follows no link"),
        "kind" => made(Code::Validation, "`path`: a part of it is no folder, or it is a folder".into()),
        "exists" => made(Code::Conflict, "`name`: the plugin exists already, and none is ever overwritten".into())
            .hint("choose another name"),
        "untracked" => made(Code::Conflict, "the file exists, and git does not know it".into())
            .hint("commit the file first, so that nothing is lost"),
        "ignored" => made(Code::Validation, format!("`path`: git does not take the file: {details}")),
        "no_change" => made(Code::Validation, "the change changes nothing".into()),
        "no_such_commit" => made(Code::NotFound, "`commit_hash`: there is no such commit".into()),
        "merge" => made(Code::Validation, "`commit_hash`: a merge cannot be taken back".into()),
        "no_ancestor" => {
            made(Code::Validation, "`commit_hash`: the commit is not part of the present branch".into())
        }
        "conflict" => made(
            Code::Conflict,
            format!("the commit cannot be taken back, and nothing was changed: {details}"),
        )
        .hint("take the later commits back first, or write the old text with self_modify_source"),
        other => made(Code::Runtime, format!("git failed ({other}): {details}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn refuses_a_trial_that_no_tool_has_begun_and_is_in_no_list() {
        let tool = ErasedTool::tool(SelfTrial(Arc::default()));
        let place = Place::at("/w".into());
        let error = tool.prepare(json!({"trial": "t0", "step": "before"}), &place).err().unwrap();
        assert_eq!(error.code, Code::NotFound);
        assert!(!tool.is_listed());
    }
}
