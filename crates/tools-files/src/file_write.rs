//! `file_write`: creation or replacement of a file.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use roots::{Roots, RootsError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, EditedFile, EditedLines, Effect, EffectState, Example, Lane, Level, Place, Plan,
    Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};
use tool_support::files::failure;

use crate::diff_preview;

/// The `file_write` tool.
pub(crate) struct FileWrite;

const DESCRIPTION: &str = "Create or overwrite a file. Keeps mode and owner; follows links.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path, relative or absolute.
    path: String,
    /// Whole new content.
    content: String,
    /// Encoding of `content`.
    #[serde(default)]
    encoding: Encoding,
    /// Create missing folders.
    #[serde(default = "yes")]
    create_directories: bool,
    /// Keep the old content as PATH.bak.
    #[serde(default)]
    backup: bool,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Deserialize, Serialize, JsonSchema, Clone, Copy, Default, PartialEq, Eq)]
enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    #[serde(rename = "base64")]
    Base64,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Path of the file.
    path: String,
    /// Number of bytes written.
    size_bytes: u64,
    /// True if PATH.bak has the old content.
    backed_up: bool,
    /// True if the file is new.
    created: bool,
    /// Change as a diff; only in a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

fn yes() -> bool {
    true
}

impl Tool for FileWrite {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_write",
        title: "Write a file",
        description: DESCRIPTION,
        example: Example {
            files: &[("greeting.txt", "hello\n")],
            arguments: r#"{"path": "greeting.txt", "content": "hello, world\n"}"#,
            result: r#"{"path": "greeting.txt", "size_bytes": 13, "backed_up": false, "created": false}"#,
        },
        level: Level::Moderate,
        // A second identical call overwrites the backup of the first.
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if args.encoding == Encoding::Base64 {
            decode(&args.content)?;
        }
        let path = place.resolve("path", &args.path)?;
        // Paths outside the workspace are for the policy to refuse, in any spelling.
        if path == place.workspace || path.starts_with(&place.workspace) && is_spelled_as_folder(&args.path) {
            return Err(ToolError::validation("path", "is a folder").hint("give the path of a file in it"));
        }
        let backup = backup_of(&path);
        let mut effects = vec![Effect::Write { path }];
        if args.backup {
            effects.push(Effect::Write { path: backup });
        }
        Ok(Plan::of(effects).only_tried(args.dry_run))
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let path = context.place.resolve("path", &args.path).ok()?;
        let content = content(args).ok()?;
        let roots = context.service::<Roots>().ok()?;
        let shown = diff_preview::written(context, &roots, &path, &content);
        // An unreadable file is shown as a new one. The effects state that it is overwritten.
        let as_new = |_| {
            diff_preview::difference(
                &context.place.show(&path),
                &diff_preview::Side::Absent,
                &diff_preview::Side::of(&content),
            )
        };
        Some(shown.unwrap_or_else(as_new))
    }

    fn edits(&self, context: &Context, args: &Args) -> Vec<EditedFile> {
        let edited = || {
            let path = context.place.resolve("path", &args.path).ok()?;
            let new = content(args).ok()?;
            let roots = context.service::<Roots>().ok()?;
            let old = diff_preview::content_of(&roots, &path)?;
            let lines = EditedLines::Ranges(edit::changed_lines(&old, &new));
            Some(EditedFile { path, lines })
        };
        edited().into_iter().collect()
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let roots = context.service::<Roots>()?;
        let path = context.place.resolve("path", &args.path)?;
        let content = content(&args)?;
        let folders = if args.create_directories {
            roots.create_parents(&path).map_err(failure(context))?
        } else {
            roots::CreatedFolders::default()
        };
        // A dry run creates no folders, and a file in a missing folder is new.
        let written = if folders.are_planned() {
            Ok((false, true))
        } else {
            write(context, &roots, &path, &content, args.backup)
        };
        match written {
            Ok((backed_up, created)) => {
                let shown = || diff_preview::written(context, &roots, &path, &content);
                Ok(Output {
                    path: context.place.show(&path),
                    size_bytes: u64::try_from(content.len()).unwrap_or(u64::MAX),
                    backed_up,
                    created,
                    diff: args.dry_run.then(shown).transpose().map_err(failure(context))?,
                })
            }
            Err(error) => {
                folders.take_back();
                Err(error)
            }
        }
    }
}

/// Returns the bytes to write.
fn content(args: &Args) -> Result<Cow<'_, [u8]>, ToolError> {
    match args.encoding {
        Encoding::Utf8 => Ok(args.content.as_bytes().into()),
        Encoding::Base64 => decode(&args.content).map(Cow::Owned),
    }
}

/// Writes the file. The new content is on disk before the backup starts, and the backup is complete
/// before the file changes.
fn write(
    context: &Context,
    roots: &Roots,
    path: &Path,
    content: &[u8],
    backup: bool,
) -> Result<(bool, bool), ToolError> {
    let outward = failure(context);
    let staged = roots.stage(path, content).map_err(outward)?;
    let backed_up = backup && staged.replaces().is_some();
    if backed_up {
        let stop = || context.stop.requested().is_some();
        roots.copy_file(path, &backup_of(path), &stop).map_err(|error| match error {
            RootsError::Stopped => outward(error),
            error => {
                let mut error = outward(error);
                error.message = format!("the backup failed, so nothing was written: {}", error.message);
                if error.code != Code::Runtime {
                    error.hint = Some("`backup: false` writes without keeping the old content".to_owned());
                }
                error
            }
        })?;
    }
    context.stop.check()?;
    let written = staged.commit().map_err(|error| {
        let error = outward(error);
        if backed_up { error.effect(EffectState::Maybe) } else { error }
    })?;
    Ok((backed_up, written.created))
}

/// Returns true if the path can only name a folder, whatever exists there.
fn is_spelled_as_folder(path: &str) -> bool {
    matches!(path.rsplit('/').next(), Some("" | "." | ".."))
}

fn backup_of(path: &Path) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".bak");
    name.into()
}

fn decode(content: &str) -> Result<Vec<u8>, ToolError> {
    STANDARD.decode(content).map_err(|error| ToolError::validation("content", error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{ErasedTool, StopReason};

    use super::*;

    fn write(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FileWrite).as_ref(), workspace, arguments)
    }

    #[test]
    fn a_human_who_is_asked_is_shown_the_difference_and_nothing_that_is_denied() {
        let workspace = Workspace::new();
        workspace.write("f", "one\ntwo\n");
        workspace.write("binary", b"\xff\xfe");
        let context = workspace.context();
        let shown = |path: &str, content: &str| {
            let arguments = json!({"path": path, "content": content});
            let tool = ErasedTool::tool(FileWrite);
            tool.prepare(arguments, &context.place).unwrap().preview(&context)
        };
        assert_eq!(shown("f", "one\n2\n").unwrap(), "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        assert_eq!(shown("new", "x\n").unwrap(), "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+x\n");
        assert_eq!(shown("f", "one\ntwo\n").unwrap(), "f: the same content\n");
        assert_eq!(shown("binary", "x").unwrap(), "binary: a binary file of 2 bytes -> a text file\n");
        // The diff shows the changed part of the file.
        let long: String = (0..3_000).map(|line| format!("{line}\n")).collect();
        workspace.write("long", &long);
        let one = shown("long", &long.replace("2500\n", "x\n")).unwrap();
        assert_eq!(
            one,
            "--- a/long\n+++ b/long\n@@ -2498,7 +2498,7 @@\n 2497\n 2498\n 2499\n-2500\n+x\n 2501\n 2502\n 2503\n"
        );
    }

    #[test]
    fn folders_are_made_unless_told_otherwise_and_backups_where_asked_for() {
        let workspace = Workspace::new();
        let first = write(&workspace, json!({"path": "a/b/f", "content": "1"})).unwrap();
        assert_eq!(first, json!({"path": "a/b/f", "size_bytes": 1, "backed_up": false, "created": true}));
        for content in ["2", "3"] {
            write(&workspace, json!({"path": "a/b/f", "content": content, "backup": true})).unwrap();
        }
        assert_eq!((workspace.read("a/b/f"), workspace.read("a/b/f.bak")), ("3".into(), "2".into()));
        assert_eq!(write(&workspace, json!({"path": "a/b/f", "content": "4"})).unwrap()["backed_up"], false);
        assert_eq!((workspace.read("a/b/f"), workspace.read("a/b/f.bak")), ("4".into(), "2".into()));
        let missing = json!({"path": "x/y/f", "content": "", "create_directories": false});
        let error = write(&workspace, missing).unwrap_err();
        assert_eq!(error.code, Code::NotFound);
        assert!(error.message.contains("x/y"), "{}", error.message);
        assert!(!workspace.exists("x"));
    }

    #[test]
    fn base64_is_written_as_the_bytes_it_stands_for() {
        let workspace = Workspace::new();
        write(&workspace, json!({"path": "f", "content": "aGk=", "encoding": "base64"})).unwrap();
        assert_eq!(workspace.read("f"), "hi");
        let error =
            write(&workspace, json!({"path": "f", "content": "!", "encoding": "base64"})).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        assert!(error.message.starts_with("`content`"), "{}", error.message);
        assert_eq!(workspace.read("f"), "hi");
    }

    #[test]
    fn the_plan_names_the_backup_too() {
        let workspace = Workspace::new();
        let write = |path| Effect::Write { path: workspace.at(path) };
        for (backup, effects) in [(false, vec![write("f")]), (true, vec![write("f"), write("f.bak")])] {
            let arguments = json!({"path": "d/../f", "content": "", "backup": backup});
            let plan = ErasedTool::tool(FileWrite).prepare(arguments, &workspace.place()).unwrap().plan;
            assert_eq!(plan, Plan::of(effects));
        }
    }

    #[test]
    fn a_backup_has_the_mode_of_what_it_keeps() {
        let workspace = Workspace::new().with_files(&[("private", "old"), ("private.bak", "older")]);
        let set = |path: &str, mode| {
            rustix::fs::chmod(workspace.at(path), rustix::fs::Mode::from_raw_mode(mode)).unwrap();
        };
        set("private", 0o600);
        set("private.bak", 0o644);
        write(&workspace, json!({"path": "private", "content": "new", "backup": true})).unwrap();
        for path in ["private", "private.bak"] {
            let metadata = std::fs::File::from(
                rustix::fs::open(workspace.at(path), rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
                    .unwrap(),
            )
            .metadata()
            .unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{path}");
        }
        assert_eq!(workspace.read("private.bak"), "old");
    }

    #[test]
    fn what_may_not_be_written_is_refused_and_nothing_is_left() {
        let guard = DenyNames { write: &["locked", "f.bak"], read: &["hidden.pem"] };
        let workspace =
            Workspace::new().guarded(guard).with_files(&[("locked", "l"), ("f", "old"), ("hidden.pem", "k")]);
        workspace.link("link", "locked");
        for path in ["locked", "link", "locked/new", "new/locked/deep"] {
            let error = write(&workspace, json!({"path": path, "content": "x"})).unwrap_err();
            assert!(matches!(error.code, Code::Permission | Code::Validation), "{path}: {error}");
        }
        // A backup that may not be written, and a backup that would reveal an unreadable file.
        for path in ["f", "hidden.pem"] {
            let error = write(&workspace, json!({"path": path, "content": "x", "backup": true})).unwrap_err();
            assert_eq!(error.code, Code::Permission);
            assert!(error.hint.unwrap().contains("backup: false"));
        }
        assert_eq!(workspace.read("f"), "old");
        write(&workspace, json!({"path": "f", "content": "new"})).unwrap();
        assert_eq!(workspace.names(""), ["f", "hidden.pem", "link", "locked"]);
    }

    #[test]
    fn a_folder_in_the_way_is_refused() {
        let workspace = Workspace::new().with_files(&[("d/f", "x")]);
        let error = write(&workspace, json!({"path": "d", "content": ""})).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        let error = write(&workspace, json!({"path": "d/f/g", "content": ""})).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        let absolute = workspace.path().to_str().unwrap();
        for path in [".", "./", "d/", "new/", "d/.", "d/f/..", "d/f/", absolute] {
            let arguments = json!({"path": path, "content": ""});
            // The call is refused before approval is requested for a backup next to the folder.
            let planned = ErasedTool::tool(FileWrite).prepare(arguments, &workspace.place());
            let error = planned.map(|_| ()).unwrap_err();
            assert_eq!(error.code, Code::Validation, "{path}");
            assert!(error.message.starts_with("`path`"), "{path}: {}", error.message);
        }
        assert!(!workspace.exists("new"));
        assert_eq!(workspace.names("d"), ["f"]);
    }

    #[test]
    fn a_call_that_is_stopped_in_time_writes_nothing() {
        let workspace = Workspace::new().with_files(&[("f", "old")]);
        let context = workspace.context();
        context.stop.request(StopReason::Cancelled);
        let tool = ErasedTool::tool(FileWrite);
        for arguments in [json!({"path": "f", "content": "x"}), json!({"path": "d/new", "content": "x"})] {
            let error = testkit::run_in(tool.as_ref(), &context, arguments).unwrap_err();
            assert_eq!(error.code, Code::Cancelled);
        }
        assert_eq!(workspace.names(""), ["f"]);
        assert_eq!(workspace.read("f"), "old");
    }
}
