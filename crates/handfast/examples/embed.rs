//! A minimal program that embeds the runtime, with rules, a host, a vault and a tool of its own.
//! No configuration file is involved, and no other crate than `handfast` and `serde` is needed for a
//! tool. By hand: `cargo run --package handfast --no-default-features --example embed -- FOLDER`.

#![allow(clippy::print_stdout, reason = "an example: it prints what it has done")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handfast::jiff::Timestamp;
use handfast::schemars::{self, JsonSchema};
use handfast::tool::{Code, Context, Effect, ErasedTool, Place, Plan, Spec, Tool, ToolError};
use handfast::vault::{Keys, Vault, make_key_file};
use handfast::{ProfileSource, Roots, Runtime};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// A tool of this program.
struct WordCount;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(crate = "schemars")]
struct Args {
    /// A text file.
    path: String,
}

#[derive(Serialize, JsonSchema)]
#[schemars(crate = "schemars")]
struct Output {
    words: usize,
    /// Time of the count.
    #[schemars(with = "String")]
    at: Timestamp,
}

impl Tool for WordCount {
    type Args = Args;
    type Output = Output;
    const SPEC: Spec = Spec::reading("word_count", "Counts the words of a text file.");

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let path = context.place.resolve("path", &args.path)?;
        let unread = |error| ToolError::new(Code::Runtime, "the file cannot be read").because(error);
        let opened = context.service::<Roots>()?.open_file(&path).map_err(unread)?;
        let text = std::io::read_to_string(opened.file)
            .map_err(|error| ToolError::new(Code::Runtime, "the file is no text").because(error))?;
        Ok(Output { words: text.split_whitespace().count(), at: context.clock.now() })
    }
}

/// Builds a runtime for the folder without any configuration file.
fn runtime(folder: &Path) -> Result<Runtime, Box<dyn Error>> {
    let (workspace, state, key) = (folder.join("workspace"), folder.join("state"), folder.join("key"));
    std::fs::create_dir_all(&workspace)?;
    if !key.exists() {
        make_key_file(&key)?;
    }
    let vault = Vault::new(folder.join("vault"), Keys { key_file: Some(key), ..Keys::default() });
    let rules =
        ProfileSource { deny_write_paths: Some(vec!["./vendor/**".into()]), ..ProfileSource::default() };
    let runtime = Runtime::builder()
        .workspace(workspace)
        .state(state)
        .without_configuration_files()
        .rules("normal", rules)
        .allow_host("*.example.com")
        .vault(Arc::new(vault))
        .erased_tool(ErasedTool::tool(WordCount))
        .build()?;
    Ok(runtime)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("name a folder to work in")?;
    let runtime = runtime(&folder)?;
    let written = runtime.call("file_write", json!({"path": "notes.txt", "content": "one two three"})).await;
    println!("file_write: {}", written.ok());
    let counted = runtime.call("word_count", json!({"path": "notes.txt"})).await;
    println!("word_count: {}", serde_json::to_value(&counted)?["data"]);
    let denied = runtime.call("file_write", json!({"path": "vendor/a.rs", "content": ""})).await;
    println!("below vendor: {}", denied.error().map_or("allowed", |error| error.code.as_str()));
    let checkpoint = written.meta.checkpoint.ok_or("nothing was saved")?;
    runtime.undo(&checkpoint).await?;
    runtime.shutdown().await?;
    Ok(())
}
