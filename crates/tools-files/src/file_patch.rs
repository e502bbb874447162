//! `file_patch`: a patch to any number of files.

use std::path::PathBuf;

use checkpoint::Draft;
use edit::patch::{Action, FileChange, Patch};
use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, EditedFile, Effect, Example, Lane, Level, Place, Plan, Presentation, RunResult,
    SnapshotUse, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::file_edit::Strategy;
use crate::patching::PatchedTree;

/// The `file_patch` tool.
pub(crate) struct FilePatch;

const DESCRIPTION: &str = "Apply a patch to files, all or nothing: a unified diff, also with git headers, or \
                           `*** Begin Patch` to `*** End Patch`.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The patch, with paths relative to the workspace.
    patch: String,
    /// Path of the file, if `patch` names none.
    path: Option<String>,
    /// `check` is a dry run.
    #[serde(default)]
    strategy: Strategy,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

impl Args {
    fn is_dry_run(&self) -> bool {
        self.dry_run || self.strategy == Strategy::Check
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Changed files, in the order of the patch.
    files: Vec<ChangedFile>,
    /// Hunks that matched at another line or with other whitespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    drifts: Vec<String>,
    /// False in a dry run.
    applied: bool,
    /// Change as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

/// A changed file.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ChangedFile {
    /// New path.
    pub(crate) path: String,
    /// added, deleted, updated, renamed or copied.
    pub(crate) change: &'static str,
    /// Old path of a renamed or copied file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<String>,
    /// Number of added lines.
    pub(crate) added: usize,
    /// Number of removed lines.
    pub(crate) removed: usize,
}

/// A part of the patch, with its paths in the form that the policy checks.
pub(crate) struct PlannedPart {
    pub(crate) change: FileChange,
    pub(crate) path: PathBuf,
    pub(crate) source: Option<PathBuf>,
}

impl Tool for FilePatch {
    type Args = Args;
    type Output = RunResult<Output>;
    const SPEC: Spec = Spec {
        name: "file_patch",
        title: "Apply a patch",
        description: DESCRIPTION,
        example: Example {
            files: &[("a.txt", "one\ntwo\n")],
            arguments: r#"{"patch": "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"}"#,
            result: r#"{"files": [{"path": "a.txt", "change": "updated", "added": 1, "removed": 1}], "applied": true}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(120),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let (mut effects, mut deletes) = (Vec::new(), false);
        for PlannedPart { change, path, source } in planned(args, place)? {
            let action = change.action;
            deletes |= action == Action::Delete;
            let read = source.as_ref().unwrap_or(&path);
            if action != Action::Add && (action != Action::Delete || change.shows_old_content) {
                effects.push(Effect::Read { path: read.clone() });
            }
            if let (Action::Rename, Some(source)) = (action, source) {
                effects.push(Effect::Delete { path: source });
            }
            effects.push(match action {
                Action::Delete => Effect::Delete { path },
                _ => Effect::Write { path },
            });
        }
        let plan = Plan { level: deletes.then_some(Level::Destructive), ..Plan::of(effects).on_snapshot() };
        Ok(plan.only_tried(args.is_dry_run()))
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let roots = context.service::<Roots>().ok()?;
        Some(match patched(context, &roots, args) {
            Ok(patching) => patching.difference(),
            // A file that may not be read before the approval is not shown, but the patch is known.
            Err(error) if error.code == Code::Permission => args.patch.clone(),
            Err(error) => format!("this would fail now: {}", error.message),
        })
    }

    fn edits(&self, context: &Context, args: &Args) -> Vec<EditedFile> {
        let Ok(roots) = context.service::<Roots>() else { return Vec::new() };
        patched(context, &roots, args).map(|patching| patching.edits()).unwrap_or_default()
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let roots = context.service::<Roots>()?;
        // The draft begins before any read, so that every later change by others is a conflict.
        let draft = context.service::<Draft>()?;
        let patching = patched(context, &roots, &args)?;
        patching.draft(&draft)?;
        let (files, drifts) = patching.told();
        let output = Output { files, drifts, applied: !args.is_dry_run(), diff: None };
        // In a dry run the engine shows the draft and discards it.
        Ok(RunResult::from(output).on_snapshot(SnapshotUse::draft(draft.begun())))
    }
}

/// Applies the patch in memory.
fn patched<'a>(context: &'a Context, roots: &'a Roots, args: &Args) -> Result<PatchedTree<'a>, ToolError> {
    let mut patching = PatchedTree::new(context, roots);
    for planned in planned(args, &context.place)? {
        context.stop.check()?;
        patching.take(planned)?;
    }
    patching.check_targets()?;
    Ok(patching)
}

fn planned(args: &Args, place: &Place) -> Result<Vec<PlannedPart>, ToolError> {
    let patch = Patch::read(&args.patch, args.path.as_deref()).map_err(|malformed| {
        ToolError::validation("patch", malformed)
            .hint("nothing was changed; correct the patch and send the whole patch again")
    })?;
    let planned = |change: FileChange| {
        let path = within(place, &change, &change.path)?;
        let source = change.source.as_deref().map(|source| within(place, &change, source)).transpose()?;
        if source.as_ref() == Some(&path) {
            let problem = format!("line {} of the patch: {} keeps its name", change.line, change.path);
            return Err(ToolError::validation("patch", problem));
        }
        Ok(PlannedPart { change, path, source })
    };
    patch.files.into_iter().map(planned).collect()
}

/// Resolves a path of the patch. The path must be in the workspace, because only the workspace
/// changes atomically.
fn within(place: &Place, change: &FileChange, path: &str) -> Result<PathBuf, ToolError> {
    let line = change.line;
    let resolved = place.resolve("patch", path)?;
    if resolved == place.workspace || path.ends_with('/') {
        let problem = format!("line {line} of the patch: `{path}` names a folder");
        return Err(ToolError::validation("patch", problem));
    }
    if !resolved.starts_with(&place.workspace) {
        let message = format!("line {line} of the patch: {path} is outside the workspace");
        return Err(ToolError::new(Code::Permission, message)
            .hint("a patch changes only the workspace; file_edit can change other allowed paths"));
    }
    Ok(resolved)
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{ErasedTool, StopReason};

    use super::*;

    fn patch(workspace: &Workspace, patch: &str) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FilePatch).as_ref(), workspace, json!({ "patch": patch }))
    }

    const MANY: &str = "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
        diff --git a/old/name b/new/name\nsimilarity index 100%\nrename from old/name\nrename to new/name\n\
        diff --git a/run b/run\nnew file mode 100755\n--- /dev/null\n+++ b/run\n@@ -0,0 +1 @@\n+go\n\
        diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-g\n\
        diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n";

    fn many() -> Workspace {
        Workspace::new().with_files(&[("a.txt", "one\ntwo\n"), ("old/name", "x"), ("gone", "g\n")])
    }

    #[test]
    fn every_kind_of_change_of_git_is_made() {
        let workspace = many();
        let output = patch(&workspace, MANY).unwrap();
        let changes: Vec<_> =
            output["files"].as_array().unwrap().iter().map(|file| file["change"].as_str().unwrap()).collect();
        assert_eq!(changes, ["updated", "renamed", "added", "deleted", "added"]);
        // An empty folder is removed, as git does.
        assert_eq!(workspace.names(""), ["a.txt", "link", "new", "run"]);
        assert_eq!((workspace.read("link"), workspace.read("new/name")), ("one\n2\n".into(), "x".into()));
        let mode = rustix::fs::lstat(workspace.at("run")).unwrap().st_mode;
        assert_eq!(mode & 0o100, 0o100);
    }

    #[test]
    fn one_part_that_does_not_fit_keeps_all_of_it_out() {
        let with = |more: &str| format!("{MANY}{more}");
        for (more, code, said) in [
            ("--- a/b\n+++ b/b\n@@ -1 +1 @@\n-x\n+y\n", Code::NotFound, "line 32 of the patch"),
            (
                "--- a/d/f\n+++ b/d/f\n@@ -1 +1 @@\n-else\n+y\n",
                Code::Conflict,
                "line 34 of the patch does not fit d/f",
            ),
            ("--- /dev/null\n+++ b/d/f\n@@ -0,0 +1 @@\n+y\n", Code::Conflict, "d/f already exists"),
            ("--- a/d\n+++ b/d\n@@ -1 +1 @@\n-x\n+y\n", Code::Validation, "d "),
            ("--- a/../outside/f\n+++ b/../outside/f\n@@ -1 +1 @@\n-x\n+y\n", Code::Permission, "outside"),
            ("--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-x\n+y\n", Code::Permission, "outside"),
            ("--- a/out\n+++ b/out\n@@ -1 +1 @@\n-x\n+y\n", Code::Permission, "out"),
            ("--- /dev/null\n+++ b/a.txt/x\n@@ -0,0 +1 @@\n+y\n", Code::Conflict, "a.txt is a file"),
            (
                "diff --git a/x b/x\nBinary files a/x and b/x differ\n",
                Code::Validation,
                "line 33 of the patch: a binary",
            ),
            (
                "diff --git a/d/f b/a.txt\nsimilarity index 100%\nrename from d/f\nrename to a.txt\n",
                Code::Conflict,
                "earlier part",
            ),
            ("--- a/bin\n+++ b/bin\n@@ -1 +1 @@\n-x\n+y\n", Code::Validation, "binary"),
        ] {
            let workspace = many().with_files(&[("d/f", "x\n"), ("../outside/f", "x\n"), ("bin", "x\n\0")]);
            workspace.link("out", "../outside/f");
            let before = workspace.names("");
            let error = patch(&workspace, &with(more)).unwrap_err();
            assert_eq!((error.code, error.effect), (code, tool::EffectState::None), "{more}: {error}");
            assert!(error.message.contains(said), "{more}: {error}");
            assert_eq!(workspace.names(""), before);
            assert_eq!((workspace.read("a.txt"), workspace.read("d/f")), ("one\ntwo\n".into(), "x\n".into()));
            assert_eq!(workspace.read("../outside/f"), "x\n");
        }
    }

    #[test]
    fn the_envelope_adds_moves_and_deletes() {
        let workspace = many();
        let text = "*** Begin Patch\n*** Add File: b/c\n+new\n*** Update File: a.txt\n*** Move to: d/e.txt\n@@\n one\n-two\n+2\n\
            *** Delete File: gone\n*** End Patch\n";
        patch(&workspace, text).unwrap();
        assert_eq!(workspace.names(""), ["b", "d", "old"]);
        assert_eq!((workspace.read("b/c"), workspace.read("d/e.txt")), ("new\n".into(), "one\n2\n".into()));
        assert_eq!(patch(&workspace, text).unwrap_err().code, Code::NotFound);
        let over =
            "*** Begin Patch\n*** Update File: b/c\n*** Move to: d/e.txt\n@@\n-new\n+x\n*** End Patch\n";
        assert_eq!(patch(&workspace, over).unwrap_err().code, Code::Conflict);
        assert_eq!(workspace.read("b/c"), "new\n");
    }

    #[test]
    fn a_human_who_is_asked_is_shown_what_becomes_of_every_file() {
        let guard = DenyNames { read: &["secret"], write: &[] };
        let workspace = many().guarded(guard).with_files(&[("secret", "key\n")]);
        let shown = |patch: &str| {
            let context = workspace.context();
            let tool = ErasedTool::tool(FilePatch);
            tool.prepare(json!({ "patch": patch }), &context.place).unwrap().preview(&context).unwrap()
        };
        assert_eq!(
            shown(MANY),
            "gone is removed\n--- a/gone\n+++ b/gone\n@@ -1 +0,0 @@\n-g\n\
             --- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\
             link becomes a link to a.txt\n\
             old/name is moved to new/name\n\
             run becomes executable\n--- a/run\n+++ b/run\n@@ -0,0 +1 @@\n+go\n"
        );
        let stale = shown("--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-other\n+x\n");
        assert!(stale.starts_with("this would fail now: "), "{stale}");
        // For an unreadable file, only the agent's own patch is shown.
        let secret = "--- a/secret\n+++ b/secret\n@@ -1 +1 @@\n-guess\n+x\n";
        assert_eq!(shown(secret), secret);
        assert_eq!(workspace.names(""), ["a.txt", "gone", "old", "secret"]);
    }

    #[test]
    fn modes_attributes_line_ends_and_links_to_a_file_stay() {
        let workspace = Workspace::new().with_files(&[("script", "a\r\nb\r\n")]);
        rustix::fs::chmod(workspace.at("script"), Mode::from_raw_mode(0o751)).unwrap();
        workspace.link("link", "script");
        patch(&workspace, "--- a/link\n+++ b/link\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n").unwrap();
        let look = |path: &str| rustix::fs::lstat(workspace.at(path)).unwrap().st_mode;
        assert_eq!((look("link") & 0o170_000, look("script") & 0o7777), (0o120_000, 0o751));
        assert_eq!(workspace.read("script"), "a\r\nc\r\n");
        patch(&workspace, "diff --git a/script b/script\nold mode 100755\nnew mode 100644\n").unwrap();
        assert_eq!(look("script") & 0o7777, 0o640);
        // The patch is about the link itself: git marks it by its mode.
        let turned = "diff --git a/link b/link\nindex 1..2 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-script\n\\ No newline at end of file\n+other\n\\ No newline at end of file\n";
        patch(&workspace, turned).unwrap();
        let target = workspace.roots().link_target(&workspace.at("link")).unwrap();
        assert_eq!((target.to_str(), workspace.read("script").as_str()), (Some("other"), "a\r\nc\r\n"));
    }

    #[test]
    fn a_drift_is_told_and_a_dry_run_changes_nothing() {
        let workspace = Workspace::new().with_files(&[("f", "0\n1\na\n\tb\n")]);
        let text = "@@ -1,2 +1,2 @@\n a\n-  b\n+  c\n";
        let call = |dry_run: bool| {
            let arguments = json!({"patch": text, "path": "f", "dry_run": dry_run});
            run_tool(ErasedTool::tool(FilePatch).as_ref(), &workspace, arguments).unwrap()
        };
        let tried = call(true);
        assert_eq!((&tried["applied"], workspace.read("f")), (&json!(false), "0\n1\na\n\tb\n".into()));
        let applied = call(false);
        assert_eq!(workspace.read("f"), "0\n1\na\n\tc\n");
        assert_eq!(
            applied["drifts"],
            json!([
                "f: the hunk on patch line 1 matched at line 3, 2 lines below the stated line, with different whitespace"
            ])
        );
    }

    #[test]
    fn the_plan_names_every_path_and_a_patch_that_deletes_is_destructive() {
        let workspace = many();
        let plan = |dry_run: bool| {
            let arguments = json!({"patch": MANY, "dry_run": dry_run});
            ErasedTool::tool(FilePatch).prepare(arguments, &workspace.place()).unwrap().plan
        };
        let (read, write, delete) = (
            |path| Effect::Read { path: workspace.at(path) },
            |path| Effect::Write { path: workspace.at(path) },
            |path| Effect::Delete { path: workspace.at(path) },
        );
        let applied = plan(false);
        assert_eq!(
            applied.effects,
            [
                read("a.txt"),
                write("a.txt"),
                read("old/name"),
                delete("old/name"),
                write("new/name"),
                write("run"),
                read("gone"),
                delete("gone"),
                write("link"),
            ]
        );
        assert_eq!((applied.level, applied.on_snapshot), (Some(Level::Destructive), true));
        let tried = plan(true);
        assert!(tried.effects.iter().all(Effect::only_reads) && tried.level == Some(Level::Safe));
    }

    #[test]
    fn a_path_that_is_denied_anywhere_is_not_patched() {
        let guard = DenyNames { read: &["secret"], write: &["locked"] };
        for text in [
            "--- a/secret\n+++ b/secret\n@@ -1 +1 @@\n-x\n+y\n",
            "--- a/locked\n+++ b/locked\n@@ -1 +1 @@\n-x\n+y\n",
            "diff --git a/secret b/open\nsimilarity index 100%\nrename from secret\nrename to open\n",
            "diff --git a/locked b/open\nsimilarity index 100%\nrename from locked\nrename to open\n",
            "diff --git a/f b/locked/f\nsimilarity index 100%\nrename from f\nrename to locked/f\n",
            "*** Begin Patch\n*** Delete File: locked\n*** End Patch",
        ] {
            let workspace = Workspace::new().guarded(guard).with_files(&[
                ("secret", "x\n"),
                ("locked", "x\n"),
                ("f", ""),
            ]);
            let error = patch(&workspace, text).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{text}: {error}");
            assert_eq!(workspace.names(""), ["f", "locked", "secret"]);
        }
    }

    #[test]
    fn a_stopped_call_patches_nothing() {
        let workspace = many();
        let context = workspace.context();
        context.stop.request(StopReason::Cancelled);
        let tool = ErasedTool::tool(FilePatch);
        let error = testkit::run_in(tool.as_ref(), &context, json!({ "patch": MANY })).unwrap_err();
        assert_eq!((error.code, workspace.read("a.txt")), (Code::Cancelled, "one\ntwo\n".into()));
    }
}
