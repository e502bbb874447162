//! `file_delete`: deletion of a file, a symbolic link or a folder.

use roots::{Removal, Roots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::files::failure;

use crate::diff_preview;

/// The `file_delete` tool.
pub(crate) struct FileDelete;

const DESCRIPTION: &str =
    "Delete a file, a link (not its target) or a folder; a non-empty folder needs `recursive`.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path, relative or absolute.
    path: String,
    /// Delete a folder with its content.
    #[serde(default)]
    recursive: bool,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// False in a dry run.
    deleted: bool,
    /// Path that was deleted.
    path: String,
    /// Change as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Tool for FileDelete {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_delete",
        title: "Delete",
        description: DESCRIPTION,
        example: Example {
            files: &[("build/out.o", ""), ("build/log/1.txt", "")],
            arguments: r#"{"path": "build", "recursive": true}"#,
            result: r#"{"deleted": true, "path": "build"}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let effect = Effect::Delete { path: place.resolve("path", &args.path)? };
        Ok(Plan::of(vec![effect]).only_tried(args.dry_run))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        let removal = if args.recursive { Removal::Tree } else { Removal::Entry };
        let stop = || context.stop.requested().is_some();
        let roots = context.service::<Roots>()?;
        roots.remove(&path, removal, &stop).map_err(failure(context))?;
        let diff = args.dry_run.then(|| diff_preview::removed(context, &roots, &path)).transpose()?;
        Ok(Output { deleted: !args.dry_run, path: context.place.show(&path), diff })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{Code, ErasedTool};

    use super::*;

    fn delete(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FileDelete).as_ref(), workspace, arguments)
    }

    #[test]
    fn a_folder_with_content_needs_recursive() {
        let workspace = Workspace::new().with_files(&[("d/f", ""), ("f", "")]);
        workspace.folder("empty");
        let error = delete(&workspace, json!({"path": "d"})).unwrap_err();
        assert_eq!(error.code, Code::Conflict);
        assert!(error.hint.unwrap().contains("recursive"));
        assert!(workspace.exists("d/f"));
        for arguments in
            [json!({"path": "f"}), json!({"path": "empty"}), json!({"path": "d", "recursive": true})]
        {
            delete(&workspace, arguments).unwrap();
        }
        assert_eq!(workspace.names(""), Vec::<String>::new());
        assert_eq!(delete(&workspace, json!({"path": "d"})).unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn a_link_goes_and_its_target_stays() {
        let workspace = Workspace::new().with_files(&[("../outside/kept", "k"), ("d/kept", "k")]);
        workspace.link("out", "../outside");
        workspace.link("in", "d");
        for path in ["out", "in"] {
            delete(&workspace, json!({"path": path, "recursive": true})).unwrap();
        }
        assert_eq!((workspace.read("../outside/kept"), workspace.read("d/kept")), ("k".into(), "k".into()));
        assert_eq!(workspace.names(""), ["d"]);
    }

    #[test]
    fn the_workspace_and_what_lies_outside_are_refused() {
        let workspace = Workspace::new().with_files(&[("../outside/kept", "k")]);
        workspace.link("out", "../outside");
        for path in [".", "..", "../outside/kept", "out/kept", "/", "/etc/hostname"] {
            let error = delete(&workspace, json!({"path": path, "recursive": true})).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{path}: {error}");
        }
        assert_eq!(workspace.read("../outside/kept"), "k");
    }

    #[test]
    fn a_denied_file_keeps_the_folder_around_it() {
        for guard in [
            DenyNames { write: &["locked"], ..DenyNames::default() },
            DenyNames { read: &["locked"], ..DenyNames::default() },
        ] {
            let workspace = Workspace::new().guarded(guard).with_files(&[("d/a", ""), ("d/e/locked", "")]);
            let error = delete(&workspace, json!({"path": "d", "recursive": true})).unwrap_err();
            assert_eq!(error.code, Code::Permission);
            assert_eq!(error.effect, tool::EffectState::None);
            assert!(error.message.contains("d/e/locked"), "{}", error.message);
            assert!(workspace.exists("d/a") && workspace.exists("d/e/locked"));
        }
    }
}
