use std::io::Read;

use edit::{Count, Document, Near, Refused, Replacement};
use roots::{OpenedFile, Roots};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Retry, Spec, TextCap,
    Timeout, Tool, ToolError,
};

use crate::failure::failure;
use crate::text::Decoding;
use crate::version;

/// Replaces texts in a file.
pub(crate) struct FileEdit;

const DESCRIPTION: &str = "Replace exact texts in a file, all or none. Each `old_text` must be there once. Line ends \
                           and encoding stay.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// Relative, or absolute.
    path: String,
    /// In any order.
    edits: Vec<EditArgs>,
    /// Refuse if the file is no longer this one.
    version: Option<String>,
    /// `check` changes nothing.
    #[serde(default)]
    strategy: Strategy,
    /// Such as latin1.
    encoding: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgs {
    /// What is there.
    old_text: String,
    /// What comes.
    new_text: String,
    /// Every occurrence.
    #[serde(default)]
    replace_all: bool,
    /// So many occurrences.
    #[schemars(range(min = 1))]
    expected_count: Option<usize>,
}

/// Whether a change is made or only tried, as the SAGE source has it.
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
    /// The file.
    path: String,
    /// The change, as a unified diff.
    diff: String,
    /// Places replaced.
    replacements: usize,
    /// False for `check`.
    applied: bool,
    /// Of the new content.
    version: String,
}

/// The largest file that is edited: it is held in memory three times.
pub(crate) const LARGEST_FILE: u64 = 256 << 20;
/// More than any caller writes by hand; each costs a look through the file.
const MOST_EDITS: usize = 1_000;

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
        if args.edits.is_empty() || args.edits.len() > MOST_EDITS {
            let problem = format!("{} edits are not between 1 and {MOST_EDITS}", args.edits.len());
            return Err(ToolError::validation("edits", problem));
        }
        for (index, edit) in args.edits.iter().enumerate() {
            if edit.old_text.is_empty() {
                return Err(ToolError::validation(&format!("edits[{index}].old_text"), "it is empty").hint(
                    "to insert, replace a text beside the place by itself and what is new; file_write makes a file",
                ));
            }
            if edit.old_text == edit.new_text {
                let field = format!("edits[{index}].new_text");
                return Err(ToolError::validation(&field, "it is the same as `old_text`"));
            }
            if edit.expected_count == Some(0) {
                return Err(ToolError::validation(&format!("edits[{index}].expected_count"), "it is 0"));
            }
        }
        decoding(args)?;
        let path = place.resolve("path", &args.path)?;
        let read = Effect::Read { path: path.clone() };
        Ok(match args.strategy {
            Strategy::Apply => Plan::of(vec![read, Effect::Write { path }]),
            Strategy::Check => Plan { level: Some(Level::Safe), ..Plan::of(vec![read]) },
        })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let roots = context.service::<Roots>()?;
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
            Document::read(content, decoding(&args)?).map_err(|problem| unreadable(&shown, &problem))?;
        let replaced = edit::replace(document.text(), &replacements(&args, &document)?)
            .map_err(|refused| refusal(&shown, refused))?;
        let content = document.write(&replaced.text).map_err(|problem| {
            ToolError::validation("edits", format!("{problem}, the encoding of {shown}"))
                .hint("file_write can write the file in UTF-8")
        })?;
        let diff = edit::unified(&shown, document.text(), &replaced.text, &replaced.edited);
        let version = version::of_content(&content);
        let applied = args.strategy == Strategy::Apply;
        if applied {
            let staged = roots.stage(&path, &content).map_err(failure(context))?;
            context.stop.check()?;
            staged.commit_over(&opened).map_err(failure(context))?;
            if opened.identity.names > 1 {
                context.warn(format!("{shown} has other names (hard links), which keep the old content"));
            }
        }
        Ok(Output { path: shown, diff, replacements: replaced.count, applied, version })
    }
}

fn decoding(args: &Args) -> Result<Option<&'static encoding_rs::Encoding>, ToolError> {
    let Some(label) = &args.encoding else { return Ok(None) };
    match Decoding::of(label)? {
        Decoding::Utf8 => Ok(Some(encoding_rs::UTF_8)),
        Decoding::Label(encoding) => Ok(Some(encoding)),
        Decoding::Base64 => Err(ToolError::validation("encoding", "text is edited, and base64 is none")),
    }
}

fn replacements<'a>(args: &'a Args, document: &Document) -> Result<Vec<Replacement<'a>>, ToolError> {
    let any = document.takes_any_character();
    let replacement = |(index, edit): (usize, &'a EditArgs)| {
        if !any && !edit.new_text.is_ascii() {
            let field = format!("edits[{index}].new_text");
            return Err(ToolError::validation(
                &field,
                "the file is not in UTF-8, and this has more than ASCII",
            )
            .hint("name its `encoding`, such as latin1"));
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

/// The content of a file that is to be edited.
pub(crate) fn whole(opened: &mut OpenedFile, shown: &str) -> Result<Vec<u8>, ToolError> {
    let too_large = || {
        ToolError::new(
            Code::Quota,
            format!("{shown} is larger than {LARGEST_FILE} bytes, the limit for edits"),
        )
        .hint("a command such as sed can change it")
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
    // It grew while it was read.
    Err(too_large())
}

fn changed_since(shown: &str, now: &str) -> ToolError {
    ToolError::new(Code::Conflict, format!("{shown} changed since that `version` was read"))
        .hint("read it again")
        .data(json!({ "version": now }))
}

pub(crate) fn unreadable(shown: &str, problem: &edit::Unreadable) -> ToolError {
    let error = ToolError::new(Code::Validation, format!("{shown} cannot be edited as text: {problem}"));
    match problem {
        edit::Unreadable::Binary => error.hint("file_write can replace it as a whole"),
        edit::Unreadable::NotIn { .. } => error.hint("name its `encoding`, or leave that out"),
    }
}

fn refusal(shown: &str, refused: Refused) -> ToolError {
    match refused {
        Refused::Absent { index, nearest, comes_with } => {
            let message = format!("`edits[{index}].old_text` is not in {shown}");
            let error = match comes_with {
                Some(earlier) => ToolError::new(
                    Code::Conflict,
                    format!(
                        "{message}: `edits[{earlier}].new_text` has it, but edits see the file as it is now"
                    ),
                )
                .hint("make one edit of the two"),
                None => absent(&message, &nearest),
            };
            error.data(json!({ "edit": index, "nearest": nearest.iter().map(place).collect::<Vec<_>>() }))
        }
        Refused::Count { index, found, wanted, places } => {
            let lines: Vec<String> = places.iter().map(|place| place.line.to_string()).collect();
            let more = if places.len() < found { ", …" } else { "" };
            let message = format!(
                "`edits[{index}].old_text` is {found} times in {shown}, not {wanted}: lines {}{more}",
                lines.join(", ")
            );
            let places: Vec<Value> =
                places.iter().map(|place| json!({ "line": place.line, "text": place.text })).collect();
            ToolError::new(Code::Conflict, message)
                .hint("add lines around it to `old_text`, or say `replace_all` or `expected_count`")
                .data(json!({ "edit": index, "places": places }))
        }
        Refused::Overlap { first, second, line } => ToolError::new(
            Code::Conflict,
            format!("`edits[{first}]` and `edits[{second}]` change the same text, in line {line} of {shown}"),
        )
        .hint("make one edit of the two"),
    }
    .retry(Retry::Never)
}

/// The error for a text that is not there, with the best of the places that are like it.
pub(crate) fn absent(message: &str, nearest: &[Near]) -> ToolError {
    let Some(best) = nearest.first() else {
        return ToolError::new(Code::Conflict, format!("{message}, nor anything like it"))
            .hint("read the file again");
    };
    let lines = if best.line == best.end_line {
        format!("line {}", best.line)
    } else {
        format!("lines {} to {}", best.line, best.end_line)
    };
    let how = if best.white_space_only { " but for white space" } else { "" };
    ToolError::new(Code::Conflict, format!("{message}; nearest{how}, {lines}: {}", best.difference))
        .hint("[-…-] is only in what was looked for, {+…+} only in the file")
}

pub(crate) fn place(near: &Near) -> Value {
    json!({
        "line": near.line,
        "end_line": near.end_line,
        "white_space_only": near.white_space_only,
        "difference": near.difference,
    })
}

#[cfg(test)]
mod tests {
    use rustix::fs::Mode;
    use testkit::{DenyNames, Workspace, run_tool};
    use tool::{Erased, StopReason};

    use super::*;

    fn edit(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(Erased::tool(FileEdit).as_ref(), workspace, arguments)
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
            "`edits[0].old_text` is not in f.rs; nearest but for white space, line 2: [-····-]{+\\t+}let x = 1;"
        );
        assert_eq!(error.data.unwrap()["nearest"][0]["line"], 2);
        let error = edit(&workspace, one("f.rs", "unlike anything", "x")).unwrap_err();
        assert!(error.message.ends_with("nor anything like it"), "{error}");
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
            (json!({"old_text": "a b", "new_text": "y"}), "change the same text, in line 1 of f"),
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
    fn a_check_only_reads() {
        let workspace = Workspace::new().with_files(&[("f", "old\n")]);
        let mut arguments = one("f", "old", "new");
        arguments["strategy"] = json!("check");
        let prepared = Erased::tool(FileEdit).prepare(arguments.clone(), &workspace.place()).unwrap();
        assert!(
            prepared.plan.effects.iter().all(Effect::only_reads) && prepared.plan.level == Some(Level::Safe)
        );
        let output = edit(&workspace, arguments).unwrap();
        assert!(output["diff"].as_str().unwrap().contains("-old\n+new\n") && output["applied"] == false);
        assert_eq!(workspace.read("f"), "old\n");
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
            testkit::run_in(Erased::tool(FileEdit).as_ref(), &context, one("f", "a", "b")).unwrap_err();
        assert_eq!((error.code, workspace.read("f")), (Code::Cancelled, "a".into()));
    }
}
