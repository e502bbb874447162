//! The library: a runtime that a program builds without any configuration file.

use std::sync::Arc;

use handfast::schemars::{self, JsonSchema};
use handfast::tool::{Class, Code, Context, Effect, ErasedTool, Place, Plan, Spec, Tool, ToolError};
use handfast::vault::{Change, Keys, Vault, make_key_file};
use handfast::{ProfileSource, Roots, Runtime};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::harness::{Fixture, Library};

/// A tool of the embedding program that writes a file, and may fail afterwards.
struct NoteWrite;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "schemars")]
struct Args {
    /// Path of the note.
    path: String,
    /// Fail after the note was written.
    #[serde(default)]
    fail: bool,
    /// Show the change without making it.
    #[serde(default)]
    dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
#[schemars(crate = "schemars")]
struct Output {
    path: String,
}

impl Tool for NoteWrite {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec {
        class: Class { reads_only: false, destructive: false, idempotent: true, open_world: false },
        ..Spec::reading("note_write", "Writes a note.")
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let effect = Effect::Write { path: place.resolve("path", &args.path)? };
        Ok(Plan::of(vec![effect]).only_tried(args.dry_run))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        let unwritten = |error| ToolError::new(Code::Runtime, "the note cannot be written").because(error);
        let staged = context.service::<Roots>()?.stage(&path, b"a note").map_err(unwritten)?;
        staged.commit().map_err(unwritten)?;
        if args.fail {
            return Err(ToolError::new(Code::Runtime, "the note is written, but nobody is pleased"));
        }
        Ok(Output { path: args.path })
    }
}

fn code(answer: &Value) -> &Value {
    &answer["error"]["code"]
}

#[test]
fn rules_of_the_program_precede_the_users_and_name_the_program() {
    let fixture = Fixture::new();
    fixture.write("handfast.yaml", "sandbox_config: {normal: {deny_read_paths: [./of-the-file]}}\n");
    fixture.write("of-the-file", "f");
    fixture.write("of-the-program", "p");
    let rules =
        ProfileSource { deny_write_paths: Some(vec!["./of-the-program".into()]), ..ProfileSource::default() };
    let builder = || fixture.builder().rules("normal", rules.clone());
    let read = json!({"path": "of-the-file"});

    let with_file = Library::of(builder());
    assert_eq!(code(&with_file.call("file_read", read.clone())), "EPERMISSION", "the file tightens");
    let denied = with_file.call("file_write", json!({"path": "of-the-program", "content": ""}));
    assert_eq!(code(&denied), "EPERMISSION", "{denied}");
    assert!(denied.to_string().contains("the embedding program"), "{denied}");

    let without = Library::of(builder().without_configuration_files());
    assert_eq!(without.call("file_read", read)["data"]["content"], "f");
    let denied = without.call("file_write", json!({"path": "of-the-program", "content": ""}));
    assert_eq!(code(&denied), "EPERMISSION", "{denied}");
}

#[test]
fn a_host_that_the_program_allows_is_asked_about_no_more() {
    let fixture = Fixture::new();
    let call = json!({"url": "https://files.example.com/a"});
    let decision = |runtime: &Runtime| {
        let checked = runtime.check("fetch_url", call.clone()).unwrap();
        serde_json::to_value(&checked).unwrap()["decision"].clone()
    };
    let plain = fixture.builder().without_configuration_files().build().unwrap();
    assert_ne!(decision(&plain), "pass");
    let builder = fixture.builder().without_configuration_files();
    let allowed = builder.allow_host("*.example.com").allow_host("other.example").build().unwrap();
    assert_eq!(decision(&allowed), "pass");
}

#[test]
fn a_vault_that_the_program_opens_is_the_one_that_calls_use_and_answers_cover() {
    let fixture = Fixture::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let key = elsewhere.path().join("key");
    make_key_file(&key).unwrap();
    let keys = Keys { key_file: Some(key), ..Keys::default() };
    let vault = Arc::new(Vault::new(elsewhere.path().join("vault"), keys));
    let secret = "hunter2-hunter2-hunter2";
    fixture.write("echo", secret);
    let library = Library::of(fixture.builder().without_configuration_files().vault(vault.clone()));
    assert_eq!(library.call("file_read", json!({"path": "echo"}))["data"]["content"], secret);
    let change = Change::named("A_KEY").unwrap();
    vault.set(&change, secret.as_bytes(), "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
    let covered = library.call("file_read", json!({"path": "echo"}));
    assert_eq!(covered["data"]["content"], "[SECRET:A_KEY]", "{covered}");
}

#[test]
fn a_tool_of_the_program_is_tried_undone_and_its_failure_says_that_it_has_changed_something() {
    let fixture = Fixture::new();
    let library = Library::of(fixture.builder().erased_tool(ErasedTool::tool(NoteWrite)));
    let tried = library.call("note_write", json!({"path": "n", "dry_run": true}));
    assert_eq!(tried["ok"], true, "{tried}");
    assert!(!fixture.workspace().join("n").exists());

    let failed = library.call("note_write", json!({"path": "n", "fail": true}));
    assert_eq!(failed["error"]["effect"], "done", "{failed}");
    assert!(fixture.workspace().join("n").exists());
    let checkpoint = failed["meta"]["checkpoint"].as_str().unwrap().to_owned();
    library.undo(&checkpoint);
    assert!(!fixture.workspace().join("n").exists());

    let refused = library.call("note_write", json!({"path": "d/n", "fail": true}));
    assert_eq!(refused["error"]["effect"], "none", "nothing was written: {refused}");
}

/// A tool whose name no provider takes.
struct Misnamed;
impl Tool for Misnamed {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec::reading("note write", "Has a name that no provider takes.");
    fn plan(&self, _: &Args, _: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(Vec::new()))
    }
    async fn run(&self, _: &Context, args: Args) -> Result<Output, ToolError> {
        Ok(Output { path: args.path })
    }
}

#[test]
fn errors_of_the_builder_are_in_the_words_of_a_program() {
    let fixture = Fixture::new();
    let error = fixture.builder().workspace("/").build().err().unwrap().to_string();
    assert!(error.contains("Builder::workspace") && !error.contains("--"), "{error}");

    let error = fixture.builder().tool(Misnamed).build().err().unwrap().to_string();
    assert!(error.contains("`note write`"), "{error}");

    let error = fixture.builder().tool(NoteWrite).tool(NoteWrite).build().err().unwrap().to_string();
    assert!(error.contains("note_write"), "{error}");
}
