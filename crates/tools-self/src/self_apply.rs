//! `self_apply`: the commit of a change that was tested. Only `self_modify_source`, `self_create_plugin` and
//! `self_rollback` call it, so no caller sees it.
//!
//! A human is asked about this call, as about every change of Handfast itself. The question shows the difference
//! and the results of the tests. The commit is made on a copy of the workspace, so it goes in as a whole or not at
//! all, and only if nothing else has changed meanwhile.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, RunResult, Spec, TextCap,
    Timeout, Tool, ToolError,
};

use crate::self_projects::SelfDevelopment;
use crate::self_trial::{ScriptFacts, home_files, mark, refused};
use crate::trial::{Change, Trial};
use crate::trial_cell;
use crate::trial_script::{MESSAGE_FILE, Printed, Script};

/// The `self_apply` tool.
pub struct SelfApply(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_apply`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Id of the tested change.
    change: String,
    /// Message of the commit.
    message: String,
}

/// Result of `self_apply`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Hash of the commit.
    commit: String,
}

/// Returns the id of a tested change: the same for the same files on the same commit.
pub(crate) fn id_of(trial: &Trial) -> String {
    let found = trial.found.lock();
    format!("{}-{}-{}", trial.project.name, found.base, found.tree)
}

impl Tool for SelfApply {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "self_apply",
        title: "Commit of a tested change",
        description: "The commit of a self-modification whose tests have run.",
        example: Example {
            files: &[],
            arguments: r#"{"change": "handfast-1-2", "message": "[self-modify] mend a limit"}"#,
            result: r#"{"commit": "0123456789012345678901234567890123456789"}"#,
        },
        level: Level::Critical,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(120),
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };
    const IS_LISTED: bool = false;

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let trial = self.0.trial(&args.change)?;
        let directory = trial.project.folder(place)?;
        let subject = args.message.lines().next().unwrap_or_default();
        let results = trial.results();
        let results = results.lines().take(2).collect::<Vec<_>>().join("; ");
        let what = format!("source of {}: {subject} (tests {results})", trial.project.name);
        // A preview of a command would stand in place of that of the change, so the plan names no command.
        let writes =
            trial.change.paths().into_iter().map(|path| Effect::Write { path: directory.join(path) });
        let effects = [Effect::ChangeHandfast { what }].into_iter().chain(writes).collect();
        Ok(Plan::of(effects).on_snapshot())
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        Some(self.0.trial(&args.change).ok()?.preview())
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let trial = self.0.trial(&args.change)?;
        // The files may have changed while the human thought about the question.
        match &trial.change {
            Change::File { path, .. } => drop(trial.project.modifiable(context, path)?),
            Change::Revert { paths, .. } => trial.project.check_revert(context, paths)?,
            Change::Plugin { .. } => {
                for path in trial.change.paths() {
                    trial.project.modifiable(context, &path)?;
                }
            }
        }
        let folder = trial.project.folder(&context.place)?;
        let (base, tree) = {
            let found = trial.found.lock();
            (found.base.clone(), found.tree.clone())
        };
        let mark = mark(context);
        let project = folder.to_string_lossy();
        let script = Script { mark: &mark, project: &project, shared: &[] };
        let text = script.apply(&base, ScriptFacts::of(&trial.change).change(), &tree);
        let mut files = home_files(&trial.change);
        files.push((MESSAGE_FILE.into(), args.message.into_bytes()));
        let ran = trial_cell::run(context, text, files, context.timeout)?;
        let printed = Printed::of(&mark, &ran.text);
        let output = match (printed.refusal(), printed.value("commit")) {
            (Some((reason, details)), _) => Err(refused(reason, details)),
            (None, Some(commit)) => {
                // The files get into their place after this, so a kill from here on leaves what the next start finishes.
                if let Change::Plugin { folder: plugin, files } = &trial.change {
                    self.0.plugins()?.intend(&folder.join(plugin), files, context.clock.now())?;
                }
                Ok(Output { commit: commit.to_owned() })
            }
            (None, None) => {
                let end = crate::test_report::tail(&ran.text, 500);
                Err(ToolError::new(Code::Runtime, format!("the change was not committed: {end}")))
            }
        };
        Ok(ran.result(output, true))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::Workspace;
    use tool::ErasedTool;

    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn paths_that_became_protected_are_refused_at_the_commit_too() {
        let all: Arc<SelfDevelopment> = Arc::default();
        let tool = ErasedTool::tool(SelfApply(all.clone()));
        let workspace = Workspace::new().with_files(&[("src/gate/a.py", "x"), ("plugins/p/.envrc", "x")]);
        let texts = [(".envrc".to_owned(), "x".to_owned())].into();
        for (id, change) in [
            ("r", Change::Revert { commit: "0123456".into(), paths: vec!["src/gate/a.py".into()] }),
            ("f", Change::File { path: "src/gate/a.py".into(), content: "y".into() }),
            ("p", Change::Plugin { folder: "plugins/p".into(), files: texts }),
        ] {
            let trial = Arc::new(Trial::new(project(&[]), change, String::new()));
            let held = all.hold(id.to_owned(), trial).unwrap();
            let arguments = json!({"change": held.id, "message": "x"});
            let error = testkit::run_tool(tool.as_ref(), &workspace, arguments).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{id}: {}", error.message);
        }
    }

    #[test]
    fn refuses_an_untested_change_and_asks_about_every_other() {
        let all: Arc<SelfDevelopment> = Arc::default();
        let tool = ErasedTool::tool(SelfApply(all.clone()));
        let place = Place::at("/w".into());
        let arguments = |change: &str| json!({"change": change, "message": "[self-modify] mend\n"});
        let error = tool.prepare(arguments("x"), &place).err().unwrap();
        assert_eq!(error.code, Code::NotFound);
        let change = Change::File { path: "src/a.py".into(), content: "x".into() };
        let held = all.hold("x".into(), Arc::new(Trial::new(project(&[]), change, String::new()))).unwrap();
        let plan = tool.prepare(arguments(&held.id), &place).unwrap().plan;
        assert_eq!(plan.level, None);
        assert_eq!(tool.spec().level, Level::Critical);
        assert!(
            matches!(&plan.effects[0], Effect::ChangeHandfast { what } if what.contains("[self-modify] mend"))
        );
        assert_eq!(plan.effects[1], Effect::Write { path: "/w/src/a.py".into() });
    }
}
