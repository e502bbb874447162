//! `file_move`: a move or a rename of a file or a folder.

use roots::{Roots, RootsError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::files::failure;

/// The `file_move` tool.
pub(crate) struct FileMove;

const DESCRIPTION: &str = "Move or rename a file or folder. Overwrites nothing; creates missing folders.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path to move.
    source: String,
    /// New path.
    destination: String,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Old path.
    source: String,
    /// New path.
    destination: String,
    /// False in a dry run.
    moved: bool,
    /// Change as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Tool for FileMove {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_move",
        title: "Move or rename",
        description: DESCRIPTION,
        example: Example {
            files: &[("draft.md", "# Title\n"), ("docs/index.md", "")],
            arguments: r#"{"source": "draft.md", "destination": "docs/title.md"}"#,
            result: r#"{"source": "draft.md", "destination": "docs/title.md", "moved": true}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    /// Plans a read too, because the new path may allow reads that the old path does not.
    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let source = place.resolve("source", &args.source)?;
        let destination = place.resolve("destination", &args.destination)?;
        if destination == source {
            return Err(ToolError::validation("destination", "is the same as `source`"));
        }
        let effects = vec![
            Effect::Read { path: source.clone() },
            Effect::Delete { path: source.clone() },
            Effect::Write { path: destination.clone() },
        ];
        let plan = Plan { renames: Some((source, destination)), ..Plan::of(effects) };
        Ok(plan.only_tried(args.dry_run))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let source = context.place.resolve("source", &args.source)?;
        let destination = context.place.resolve("destination", &args.destination)?;
        let stop = || context.stop.requested().is_some();
        let roots = context.service::<Roots>()?;
        let folders = roots.create_parents(&destination).map_err(failure(context))?;
        let moved = roots.rename(&source, &destination, &stop);
        if moved.is_err() {
            folders.take_back();
        }
        moved.map_err(|error| {
            let into_folder = matches!(error, RootsError::Exists { found: roots::EntryKind::Folder, .. })
                .then(|| {
                    let name = source.file_name().unwrap_or_default();
                    let path = context.place.show(&destination.join(name));
                    format!("to move it into that folder, set `destination` to {path}")
                });
            let mut error = failure(context)(error);
            error.hint = into_folder.or(error.hint);
            error
        })?;
        let (source, destination) = (context.place.show(&source), context.place.show(&destination));
        let diff = args.dry_run.then(|| format!("rename from {source}\nrename to {destination}\n"));
        Ok(Output { source, destination, moved: !args.dry_run, diff })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{Code, ErasedTool};

    use super::*;

    fn rename(workspace: &Workspace, source: &str, destination: &str) -> Result<Value, ToolError> {
        let arguments = json!({"source": source, "destination": destination});
        run_tool(ErasedTool::tool(FileMove).as_ref(), workspace, arguments)
    }

    #[test]
    fn files_folders_and_links_move_as_they_are() {
        let workspace = Workspace::new().with_files(&[("d/e/f", "content")]);
        workspace.link("d/link", "e/f");
        rename(&workspace, "d", "moved").unwrap();
        rename(&workspace, "moved/link", "moved/e/link").unwrap();
        assert_eq!(workspace.read("moved/e/f"), "content");
        assert!(workspace.exists("moved/e/link") && !workspace.exists("d"));
    }

    #[test]
    fn folders_above_the_destination_are_made() {
        let workspace = Workspace::new().with_files(&[("a", "a"), ("d/x", "x")]);
        for (source, destination) in [("a", "new/deep/a"), ("d", "other/d")] {
            rename(&workspace, source, destination).unwrap();
        }
        assert_eq!((workspace.read("new/deep/a"), workspace.read("other/d/x")), ("a".into(), "x".into()));
        assert_eq!(workspace.names(""), ["new", "other"]);
    }

    #[test]
    fn what_is_there_is_refused_as_a_destination() {
        let workspace = Workspace::new().with_files(&[("a", "a"), ("b", "b"), ("d/x", "")]);
        assert_eq!(rename(&workspace, "a", "b").unwrap_err().code, Code::Conflict);
        let into = rename(&workspace, "a", "d").unwrap_err();
        assert_eq!(into.code, Code::Conflict);
        assert!(into.hint.unwrap().ends_with("d/a"));
        assert_eq!(rename(&workspace, "gone", "x").unwrap_err().code, Code::NotFound);
        for (source, destination) in [("d", "d/inner"), ("d", "d/new/inner"), ("a", "./a")] {
            assert_eq!(rename(&workspace, source, destination).unwrap_err().code, Code::Validation);
        }
        // A refused call leaves no new folders.
        assert_eq!(rename(&workspace, "gone", "x/y/gone").unwrap_err().code, Code::NotFound);
        assert_eq!(rename(&workspace, "a", "b/c").unwrap_err().code, Code::Validation);
        assert_eq!(workspace.names("d"), ["x"]);
        assert_eq!(workspace.names(""), ["a", "b", "d"]);
        assert_eq!(workspace.read("b"), "b");
    }

    #[test]
    fn a_denied_file_is_refused_also_inside_a_folder() {
        let guard = DenyNames { read: &["unread"], write: &["unwritten"] };
        let files = [("unread", ""), ("a/b/unread", ""), ("c/unwritten", ""), ("e/f", "")];
        let workspace = Workspace::new().guarded(guard).with_files(&files);
        for (source, destination) in
            [("unread", "public"), ("a", "moved"), ("c", "moved"), ("e/f", "unwritten"), ("e", "unwritten")]
        {
            let error = rename(&workspace, source, destination).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{source}");
        }
        assert_eq!(workspace.names(""), ["a", "c", "e", "unread"]);
    }

    #[test]
    fn what_lies_outside_is_refused_on_either_side() {
        let workspace = Workspace::new().with_files(&[("a", "a"), ("../outside/b", "b")]);
        workspace.link("out", "../outside");
        for (source, destination) in [
            ("a", "../outside/a"),
            ("a", "out/a"),
            ("out/b", "b"),
            ("../outside/b", "b"),
            (".", "../outside/w"),
        ] {
            let error = rename(&workspace, source, destination).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{source} to {destination}: {error}");
        }
        assert_eq!(workspace.names("../outside"), ["b"]);
    }
}
