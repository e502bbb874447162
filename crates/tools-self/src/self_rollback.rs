//! `self_rollback`: takes back a commit of self-development.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Code, Context, Example, Level, Place, Plan, Spec, Tool, ToolError};

use crate::own_plugins::plugin_of;
use crate::own_project::Project;
use crate::self_commit::{ROLLBACK, commits, is_hash, is_tagged, message, of_rollback, revertible};
use crate::self_modify_source::{OF_STEPS, apply, step};
use crate::self_projects::SelfDevelopment;
use crate::self_trial::Step;
use crate::test_report::SuiteEnd;
use crate::trial::{Change, Trial};

/// The `self_rollback` tool.
pub struct SelfRollback(pub(crate) Arc<SelfDevelopment>);

/// Arguments of `self_rollback`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// List, or revert a commit.
    action: Action,
    /// Hash of the commit, for `revert`; `NAME:HASH` for another project than the first, and `NAME:` for its list.
    commit_hash: Option<String>,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// An action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Action {
    List,
    Revert,
}

/// Result of `self_rollback`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Commits that can be taken back, the newest first.
    #[serde(skip_serializing_if = "Option::is_none")]
    commits: Option<Vec<ListedCommit>>,
    /// Number of these commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// Commit that was taken back.
    #[serde(skip_serializing_if = "Option::is_none")]
    reverted_commit: Option<String>,
    /// Subject of that commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    reverted_message: Option<String>,
    /// True if tests ran without the commit, and all of them passed.
    #[serde(skip_serializing_if = "Option::is_none")]
    tests_passed: Option<bool>,
    /// Results with and without the commit.
    #[serde(skip_serializing_if = "Option::is_none")]
    test_results: Option<String>,
}

/// A commit that can be taken back.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedCommit {
    /// Hash of the commit.
    commit_hash: String,
    /// Subject of the commit.
    message: String,
    /// Time of the commit, RFC 3339.
    committed_at: String,
}

impl Tool for SelfRollback {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "self_rollback",
        title: "Take back own change",
        description: "List the commits of self_modify_source and self_create_plugin, or take one back by its opposite. The tests run without the commit, and a human decides.",
        example: Example {
            files: &[],
            arguments: r#"{"action": "list"}"#,
            result: r#"{"commits": [], "count": 0}"#,
        },
        ..OF_STEPS
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let named = self.0.named(args.commit_hash.as_deref().unwrap_or_default())?;
        if args.action == Action::Revert && !is_hash(named.rest) {
            return Err(ToolError::validation("commit_hash", "must be a hash as `list` shows it"));
        }
        named.project.folder(place)?;
        // The steps are calls of their own, and the one that changes something is critical.
        Ok(Plan { level: Some(Level::Safe), ..Plan::of(Vec::new()) })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let named = self.0.named(args.commit_hash.as_deref().unwrap_or_default())?;
        match args.action {
            Action::List => self.list(context, named.project).await,
            Action::Revert => self.revert(context, named.project, named.rest).await,
        }
    }
}

impl SelfRollback {
    async fn list(&self, context: &Context, project: &Project) -> Result<Output, ToolError> {
        let change = Change::Revert { commit: String::new(), paths: Vec::new() };
        let trial = Arc::new(Trial::new(project.clone(), change, String::new()));
        let tried = self.0.add(trial.clone());
        step(context, &tried.id, Step::Log).await?;
        let found = revertible(&commits(&trial.found.lock().log));
        let count = Some(found.len() as u64);
        let commits = found.into_iter().map(|commit| ListedCommit {
            commit_hash: commit.hash,
            message: commit.subject,
            committed_at: commit.time,
        });
        Ok(Output { commits: Some(commits.collect()), count, ..Output::default() })
    }

    async fn revert(&self, context: &Context, project: &Project, commit: &str) -> Result<Output, ToolError> {
        let _reserved = self.0.begin(&project.name)?;
        let (hash, subject, paths) = self.tagged(context, project, commit).await?;
        let about = format!("Take back {hash}\n{subject}");
        let around = project.folder(&context.place)?.join(&project.plugins);
        let plugin = plugin_of(&project.plugins, &paths).map(|name| around.join(name));
        let change = Change::Revert { commit: hash.clone(), paths };
        let trial = Arc::new(Trial::new(project.clone(), change, about));
        let tried = self.0.add(trial.clone());
        step(context, &tried.id, Step::Before).await?;
        step(context, &tried.id, Step::After).await?;
        drop(tried);
        trial.fits_a_question()?;
        let results = trial.results();
        let passed = trial.found.lock().after.as_ref().is_some_and(|after| after.end == SuiteEnd::Passed);
        let lines: Vec<&str> = results.lines().take(2).collect();
        let trailers = [of_rollback(&hash), ("Handfast-Tests", &lines.join("; "))];
        let message = message(ROLLBACK, &subject, "", &trailers);
        apply(context, &self.0, &trial, message).await?;
        if let (Some(folder), Ok(own)) = (plugin, self.0.plugins()) {
            // Otherwise equal files in the same place would be a tool again, without a question.
            own.forget(&folder)?;
        }
        Ok(Output {
            reverted_commit: Some(hash),
            reverted_message: Some(subject),
            tests_passed: Some(passed),
            test_results: Some(results),
            ..Output::default()
        })
    }

    /// Returns the full hash, the subject and the paths of a commit that may be taken back.
    async fn tagged(
        &self,
        context: &Context,
        project: &Project,
        commit: &str,
    ) -> Result<(String, String, Vec<String>), ToolError> {
        let change = Change::Revert { commit: commit.to_owned(), paths: Vec::new() };
        let trial = Arc::new(Trial::new(project.clone(), change, String::new()));
        let tried = self.0.add(trial.clone());
        step(context, &tried.id, Step::Commit).await?;
        let missing = || ToolError::internal("the commit has no facts");
        let (hash, subject, paths) = trial.found.lock().commit.clone().ok_or_else(missing)?;
        if !is_tagged(&subject) {
            let message = format!("denied: the commit {hash} was not made by self-development: {subject}");
            return Err(ToolError::new(Code::Permission, message)
                .hint("`list` shows the commits that can be taken back"));
        }
        // A commit that somebody else has tagged can hold anything.
        project.check_revert(context, &paths)?;
        Ok((hash, subject, paths))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tool::ErasedTool;

    use super::*;
    use crate::own_project::tests::project;

    #[test]
    fn a_hash_that_is_an_option_or_a_name_is_refused() {
        let all = Arc::new(SelfDevelopment::new(vec![project(&[])]));
        let tool = ErasedTool::tool(SelfRollback(all));
        let place = Place::at("/w".into());
        for hash in ["HEAD", "--all", "main", "abc", ""] {
            let arguments = json!({"action": "revert", "commit_hash": hash});
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, Code::Validation, "{hash}");
        }
        assert!(tool.prepare(json!({"action": "revert"}), &place).is_err());
        assert!(tool.prepare(json!({"action": "list"}), &place).is_ok());
        assert!(tool.prepare(json!({"action": "revert", "commit_hash": "sample:0123abc"}), &place).is_ok());
    }
}
