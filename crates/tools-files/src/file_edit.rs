//! `file_edit`: replacements of exact texts in a file.

use std::io::Read;
use std::path::PathBuf;

use edit::{Count, Document, Replacement};
use roots::{OpenedFile, Roots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, EditedFile, EditedLines, Effect, Example, Lane, Level, Place, Plan, Presentation,
    Spec, TextCap, Timeout, Tool, ToolError,
};
use tool_support::files::failure;

use crate::edit_error::{changed_since, refusal, unreadable};
use crate::text::Decoding;
use crate::version;

/// The `file_edit` tool.
pub(crate) struct FileEdit;

const DESCRIPTION: &str = "Replace exact texts in a file, all or none. Each `old_text` must occur once. Keeps line \
                           endings and encoding.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Path, relative or absolute.
    path: String,
    /// Replacements, in any order.
    #[schemars(length(min = 1, max = 1_000))]
    edits: Vec<EditArgs>,
    /// `version` that the file must still have.
    version: Option<String>,
    /// `check` is a dry run.
    #[serde(default)]
    strategy: Strategy,
    /// Encoding of the file, such as latin1; default from its byte order mark, else UTF-8.
    encoding: Option<String>,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

impl Args {
    fn is_dry_run(&self) -> bool {
        self.dry_run || self.strategy == Strategy::Check
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgs {
    /// Text to replace.
    old_text: String,
    /// Replacement.
    new_text: String,
    /// Replace every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// Required number of occurrences; all are replaced.
    #[schemars(range(min = 1))]
    expected_count: Option<usize>,
}

/// A choice between making and trying a change, as in the SAGE source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Strategy {
    #[default]
    Apply,
    Check,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// Path of the file.
    path: String,
    /// Change as a unified diff.
    diff: String,
    /// Number of replaced occurrences.
    replacements: usize,
    /// False in a dry run.
    applied: bool,
    /// Version of the new content.
    version: String,
}

/// Maximum size of a file that is edited, in bytes: it is in memory three times.
pub(crate) const LARGEST_FILE: u64 = 256 << 20;
/// Maximum number of edits per call, more than a caller writes by hand; each one scans the file.
const MAX_EDITS: usize = 1_000;

impl Tool for FileEdit {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        name: "file_edit",
        title: "Edit a file",
        description: DESCRIPTION,
        example: Example {
            files: &[("greet.py", "def greet():\n    print('hi')\n")],
            arguments: r#"{"path": "greet.py", "edits": [{"old_text": "'hi'", "new_text": "'hello'"}]}"#,
            result: r#"{"path": "greet.py", "replacements": 1, "applied": true,
                        "diff": "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,2 @@\n def greet():\n-    print('hi')\n+    print('hello')\n"}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Write,
        text: TextCap::Default,
        presentation: Presentation::Text { field: "diff" },
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if args.edits.is_empty() || args.edits.len() > MAX_EDITS {
            let problem = format!("must have between 1 and {MAX_EDITS} edits, not {}", args.edits.len());
            return Err(ToolError::validation("edits", problem));
        }
        for (index, edit) in args.edits.iter().enumerate() {
            if edit.old_text.is_empty() {
                return Err(ToolError::validation(&format!("edits[{index}].old_text"), "is empty").hint(
                    "to insert, repeat a neighbouring text in `new_text` with the addition; file_write creates a file",
                ));
            }
            if edit.old_text == edit.new_text {
                let field = format!("edits[{index}].new_text");
                return Err(ToolError::validation(&field, "is the same as `old_text`"));
            }
            if edit.expected_count == Some(0) {
                return Err(ToolError::validation(&format!("edits[{index}].expected_count"), "is 0"));
            }
        }
        decoding(args)?;
        let path = place.resolve("path", &args.path)?;
        let read = Effect::Read { path: path.clone() };
        Ok(Plan::of(vec![read, Effect::Write { path }]).only_tried(args.is_dry_run()))
    }

    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let roots = context.service::<Roots>().ok()?;
        Some(match edited(context, &roots, args) {
            Ok(edited) => edited.diff,
            // A file that may not be read before the approval is not shown, but the requested edits
            // are known.
            Err(error) if error.code == Code::Permission => as_asked(&args.edits),
            Err(error) => format!("this would fail now: {}", error.message),
        })
    }

    fn edits(&self, context: &Context, args: &Args) -> Vec<EditedFile> {
        let edited = context.service::<Roots>().and_then(|roots| edited(context, &roots, args));
        // An edit that does not fit now has no known lines.
        let file = |EditResult { path, old, text, .. }| {
            let lines = EditedLines::Ranges(edit::changed_lines(old.text(), &text));
            EditedFile { path, lines }
        };
        edited.map(file).into_iter().collect()
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let roots = context.service::<Roots>()?;
        let EditResult { path, shown, opened, content, diff, replacements, .. } =
            edited(context, &roots, &args)?;
        let version = version::of_content(&content);
        let staged = roots.stage(&path, &content).map_err(failure(context))?;
        context.stop.check()?;
        staged.commit_over(&opened).map_err(failure(context))?;
        if opened.identity.names > 1 {
            context.warn(format!("{shown} has other hard links, which keep the old content"));
        }
        let applied = !args.is_dry_run();
        Ok(Output { path: shown, diff, replacements, applied, version })
    }
}

/// The result of a call for its file.
struct EditResult {
    path: PathBuf,
    shown: String,
    /// The file as opened and read.
    opened: OpenedFile,
    /// The whole new content.
    content: Vec<u8>,
    diff: String,
    /// Number of replaced occurrences.
    replacements: usize,
    /// File as it was.
    old: Document,
    /// New text.
    text: Vec<u8>,
}

fn edited(context: &Context, roots: &Roots, args: &Args) -> Result<EditResult, ToolError> {
    let path = context.place.resolve("path", &args.path)?;
    let shown = context.place.show(&path);
    let mut opened = roots.open_file(&path).map_err(failure(context))?;
    let content = whole(&mut opened, &shown)?;
    context.stop.check()?;
    if let Some(had) = &args.version
        && !version::is_that(had, &opened, &content)
    {
        return Err(changed_since(&shown, &version::of_content(&content)));
    }
    let document =
        Document::read(content, decoding(args)?).map_err(|problem| unreadable(&shown, &problem))?;
    let replaced = edit::replace(document.text(), &replacements(args, &document)?)
        .map_err(|refused| refusal(&shown, refused))?;
    let content = document.write(&replaced.text).map_err(|problem| {
        ToolError::validation("edits", format!("{problem}, and {shown} has that encoding"))
            .hint("file_write can write the file in UTF-8")
    })?;
    let diff = edit::unified(&shown, document.text(), &replaced.text, &replaced.edited);
    Ok(EditResult {
        path,
        shown,
        opened,
        content,
        diff,
        replacements: replaced.count,
        old: document,
        text: replaced.text,
    })
}

/// Returns the requested edits, without the text of the file around them.
fn as_asked(edits: &[EditArgs]) -> String {
    let mut shown = String::new();
    for edit in edits {
        let all = if edit.replace_all { " every occurrence" } else { "" };
        shown.push_str(&format!("@@ replaces{all} @@\n"));
        for (sign, text) in [('-', &edit.old_text), ('+', &edit.new_text)] {
            for line in text.lines() {
                shown.push_str(&format!("{sign}{line}\n"));
            }
        }
    }
    shown
}

fn decoding(args: &Args) -> Result<Option<&'static encoding_rs::Encoding>, ToolError> {
    let Some(label) = &args.encoding else { return Ok(None) };
    match Decoding::of(label)? {
        Decoding::Utf8 => Ok(Some(encoding_rs::UTF_8)),
        Decoding::Label(encoding) => Ok(Some(encoding)),
        Decoding::Base64 => Err(ToolError::validation("encoding", "must be a text encoding, not base64")),
    }
}

fn replacements<'a>(args: &'a Args, document: &Document) -> Result<Vec<Replacement<'a>>, ToolError> {
    let any = document.takes_any_character();
    let replacement = |(index, edit): (usize, &'a EditArgs)| {
        if !any && !edit.new_text.is_ascii() {
            let field = format!("edits[{index}].new_text");
            return Err(ToolError::validation(
                &field,
                "has characters beyond ASCII, but the file is not in UTF-8",
            )
            .hint("set `encoding` to that of the file, such as latin1"));
        }
        let count = match (edit.expected_count, edit.replace_all) {
            (Some(count), _) => Count::Exactly(count),
            (None, true) => Count::Any,
            (None, false) => Count::Exactly(1),
        };
        Ok(Replacement { old: &edit.old_text, new: &edit.new_text, count })
    };
    args.edits.iter().enumerate().map(replacement).collect()
}

/// Reads the content of a file to be edited.
pub(crate) fn whole(opened: &mut OpenedFile, shown: &str) -> Result<Vec<u8>, ToolError> {
    let too_large = || {
        ToolError::new(
            Code::Quota,
            format!("{shown} is larger than the limit for edits, {LARGEST_FILE} bytes"),
        )
        .hint("a command such as sed can change the file")
    };
    if opened.metadata.size_bytes > LARGEST_FILE {
        return Err(too_large());
    }
    let mut content = Vec::with_capacity(usize::try_from(opened.metadata.size_bytes).unwrap_or_default() + 1);
    (&opened.file)
        .take(LARGEST_FILE + 1)
        .read_to_end(&mut content)
        .map_err(|error| ToolError::io("read", shown.as_ref(), error))?;
    if u64::try_from(content.len()).is_ok_and(|length| length <= LARGEST_FILE) {
        return Ok(content);
    }
    // The file grew during the read.
    Err(too_large())
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;
    use serde_json::{Value, json};
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{ErasedTool, StopReason};

    use super::*;

    fn edit(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(FileEdit).as_ref(), workspace, arguments)
    }

    fn one(path: &str, old: &str, new: &str) -> Value {
        json!({"path": path, "edits": [{"old_text": old, "new_text": new}]})
    }

    fn bytes(workspace: &Workspace, path: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        workspace.roots().open_file(&workspace.at(path)).unwrap().file.read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn line_ends_marks_and_encodings_stay_as_they_are() {
        let workspace = Workspace::new();
        for (name, before, label, after) in [
            ("crlf", &b"a\r\nb\r\nc"[..], None, &b"a\r\nx\r\ny\r\nc"[..]),
            ("bom", b"\xef\xbb\xbfb\n\tc\n", None, b"\xef\xbb\xbfx\ny\n\tc\n"),
            ("wide", b"\xff\xfeb\0\r\0\n\0", None, b"\xff\xfex\0\r\0\n\0y\0\r\0\n\0"),
            ("latin", b"caf\xe9 b\n", Some("latin1"), b"caf\xe9 x\ny\n"),
            ("other", b"caf\xe9 b\n", None, b"caf\xe9 x\ny\n"),
        ] {
            workspace.write(name, before);
            let mut arguments = one(name, "b", "x\ny");
            if let Some(label) = label {
                arguments["encoding"] = json!(label);
            }
            edit(&workspace, arguments).unwrap();
            assert_eq!(bytes(&workspace, name), after, "{name}");
        }
        edit(
            &workspace,
            json!({"path": "latin", "encoding": "latin1",
            "edits": [{"old_text": "café", "new_text": "thé"}]}),
        )
        .unwrap();
        assert_eq!(bytes(&workspace, "latin"), b"th\xe9 x\ny\n");
        for (arguments, field) in [
            (one("other", "x", "é"), "edits[0].new_text"),
            (
                json!({"path": "latin", "encoding": "latin1", "edits": [{"old_text": "x", "new_text": "→"}]}),
                "edits",
            ),
        ] {
            let error = edit(&workspace, arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(field), "{error}");
        }
        workspace.write("binary", b"a\0b");
        assert!(edit(&workspace, one("binary", "a", "x")).unwrap_err().message.contains("binary"));
    }

    #[test]
    fn mode_attributes_and_a_link_to_the_file_stay() {
        let workspace = Workspace::new().with_files(&[("script", "old\n")]);
        rustix::fs::chmod(workspace.at("script"), Mode::from_raw_mode(0o751)).unwrap();
        rustix::fs::setxattr(workspace.at("script"), "user.note", b"kept", rustix::fs::XattrFlags::empty())
            .unwrap();
        workspace.link("link", "script");
        edit(&workspace, one("link", "old", "new")).unwrap();
        let mut note = [0; 4];
        rustix::fs::getxattr(workspace.at("script"), "user.note", &mut note[..]).unwrap();
        let look = |path: &str| rustix::fs::lstat(workspace.at(path)).unwrap().st_mode;
        assert_eq!((look("link") & 0o170_000, look("script") & 0o7777, &note), (0o120_000, 0o751, b"kept"));
        assert_eq!(workspace.read("script"), "new\n");
        assert_eq!(workspace.names(""), ["link", "script"]);
    }

    #[test]
    fn a_text_that_is_absent_shows_where_something_like_it_is() {
        let workspace = Workspace::new().with_files(&[("f.rs", "fn a() {\n\tlet x = 1;\n}\n")]);
        let error = edit(&workspace, one("f.rs", "    let x = 1;", "    let x = 2;")).unwrap_err();
        assert_eq!(error.code, Code::Conflict);
        assert_eq!(
            error.message,
            "`edits[0].old_text` is not in f.rs; nearest match, except for whitespace: line 2: [-····-]{+\\t+}let x = 1;"
        );
        assert_eq!(error.data.unwrap()["nearest"][0]["line"], 2);
        let error = edit(&workspace, one("f.rs", "unlike anything", "x")).unwrap_err();
        assert!(error.message.ends_with("nor is any similar text"), "{error}");
    }

    #[test]
    fn one_edit_that_does_not_fit_keeps_all_of_them_out() {
        let workspace = Workspace::new().with_files(&[("f", "a b b\n")]);
        let list =
            |second: Value| json!({"path": "f", "edits": [{"old_text": "a", "new_text": "x"}, second]});
        for (second, said) in [
            (json!({"old_text": "b", "new_text": "y"}), "2 times in f, not 1: lines 1, 1"),
            (json!({"old_text": "b", "new_text": "y", "expected_count": 3}), "2 times in f, not 3"),
            (json!({"old_text": "c", "new_text": "y", "replace_all": true}), "is not in f"),
            (json!({"old_text": "x", "new_text": "y"}), "edits[0].new_text"),
            (json!({"old_text": "a b", "new_text": "y"}), "change the same text, on line 1 of f"),
        ] {
            let error = edit(&workspace, list(second)).unwrap_err();
            assert_eq!((error.code, error.effect), (Code::Conflict, tool::EffectState::None));
            assert!(error.message.contains(said), "{error}");
            assert_eq!(workspace.read("f"), "a b b\n");
        }
        let both =
            edit(&workspace, list(json!({"old_text": "b", "new_text": "bb", "expected_count": 2}))).unwrap();
        assert_eq!((&both["replacements"], workspace.read("f")), (&json!(3), "x bb bb\n".into()));
        for (arguments, field) in [
            (json!({"path": "f", "edits": []}), "`edits`"),
            (one("f", "", "x"), "`edits[0].old_text`"),
            (one("f", "x", "x"), "`edits[0].new_text`"),
        ] {
            let error = edit(&workspace, arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.starts_with(field), "{error}");
        }
    }

    #[test]
    fn an_old_version_is_refused_and_the_new_one_goes_on() {
        let workspace = Workspace::new().with_files(&[("f", "one\n")]);
        let versioned = |old, new, version: &Value| {
            let mut arguments = one("f", old, new);
            arguments["version"] = version.clone();
            edit(&workspace, arguments)
        };
        let first = edit(&workspace, one("f", "one", "two")).unwrap()["version"].clone();
        let second = versioned("two", "three", &first).unwrap()["version"].clone();
        assert_eq!(versioned("three", "four", &second).unwrap()["applied"], true);
        let error = versioned("four", "five", &second).unwrap_err();
        assert_eq!(error.code, Code::Conflict);
        assert_eq!(workspace.read("f"), "four\n");
    }

    #[test]
    fn a_human_who_is_asked_is_shown_the_difference_and_nothing_that_is_denied() {
        let guard = DenyNames { read: &["secret"], write: &[] };
        let workspace =
            Workspace::new().guarded(guard).with_files(&[("f", "one\ntwo\n"), ("secret", "k two")]);
        let context = workspace.context();
        let shown = |path: &str, old: &str| {
            let arguments = one(path, old, "2");
            ErasedTool::tool(FileEdit).prepare(arguments, &context.place).unwrap().preview(&context).unwrap()
        };
        assert_eq!(shown("f", "two"), "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n");
        assert_eq!(shown("secret", "two"), "@@ replaces @@\n-two\n+2\n");
        let absent = shown("f", "three");
        assert!(absent.starts_with("this would fail now: `edits[0].old_text` is not in f"), "{absent}");
        assert_eq!(workspace.read("f"), "one\ntwo\n");
    }

    #[test]
    fn a_check_and_a_dry_run_only_read() {
        let workspace = Workspace::new().with_files(&[("f", "old\n")]);
        for (field, value) in [("strategy", json!("check")), ("dry_run", json!(true))] {
            let mut arguments = one("f", "old", "new");
            arguments[field] = value;
            let plan =
                ErasedTool::tool(FileEdit).prepare(arguments.clone(), &workspace.place()).unwrap().plan;
            assert!(plan.effects.iter().all(Effect::only_reads) && plan.level == Some(Level::Safe));
            let output = edit(&workspace, arguments).unwrap();
            assert!(output["diff"].as_str().unwrap().contains("-old\n+new\n") && output["applied"] == false);
            assert_eq!(workspace.read("f"), "old\n");
        }
    }

    #[test]
    fn what_may_not_be_read_or_written_is_not_edited() {
        let guard = DenyNames { read: &["secret"], write: &["locked"] };
        let workspace =
            Workspace::new().guarded(guard).with_files(&[("secret", "a"), ("locked", "a"), ("d/f", "")]);
        workspace.link("link", "secret");
        workspace.link("out", "../outside/f");
        for path in ["secret", "link", "locked", "out", "../outside/f"] {
            let error = edit(&workspace, one(path, "a", "b")).unwrap_err();
            assert_eq!(error.code, Code::Permission, "{path}: {error}");
        }
        assert_eq!((workspace.read("secret"), workspace.read("locked")), ("a".into(), "a".into()));
        assert_eq!(edit(&workspace, one("d", "a", "b")).unwrap_err().code, Code::Validation);
        assert_eq!(edit(&workspace, one("gone", "a", "b")).unwrap_err().code, Code::NotFound);
    }

    #[test]
    fn a_stopped_call_edits_nothing_and_a_file_beyond_the_limit_is_refused() {
        let workspace = Workspace::new().with_files(&[("f", "a")]);
        workspace.sparse("large", LARGEST_FILE + 1);
        assert_eq!(edit(&workspace, one("large", "a", "b")).unwrap_err().code, Code::Quota);
        let context = workspace.context();
        context.stop.request(StopReason::Cancelled);
        let error =
            testkit::run_in(ErasedTool::tool(FileEdit).as_ref(), &context, one("f", "a", "b")).unwrap_err();
        assert_eq!((error.code, workspace.read("f")), (Code::Cancelled, "a".into()));
    }
}
