//! `knowledge_index`: an update of the index to the current files, with all vectors.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, StopReason, TextCap,
    Timeout, Tool, ToolError,
};

use crate::base::{FOLDER, KnowledgeBase, within};

/// The `knowledge_index` tool.
pub struct KnowledgeIndex(pub(crate) Arc<KnowledgeBase>);

/// Arguments of `knowledge_index`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Files to read: `changed_only` (default), or `all` to read every file again.
    #[serde(default)]
    scope: Which,
    /// One file or folder, relative to knowledge/; default all.
    path: Option<String>,
    /// Wait for all vectors, default true; with false they are computed in the background.
    #[serde(default = "waits")]
    wait: bool,
}

fn waits() -> bool {
    true
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// A choice of the files to read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub(crate) enum Which {
    All,
    #[default]
    ChangedOnly,
}

/// Result of `knowledge_index`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of files whose sections were created again.
    files_indexed: u64,
    /// Number of new sections.
    chunks_created: u64,
    /// Duration in seconds.
    duration_seconds: f64,
    /// Number of deleted files that were removed from the index.
    files_removed: u64,
    /// Number of computed vectors.
    vectors_made: u64,
    /// Number of sections without a vector yet: without `wait`, or after a timeout.
    waiting: u64,
    /// Kind of search that the index allows: `hybrid`, or `keyword` without a model.
    mode: String,
    /// Files that were skipped or read in another encoding, at most 50.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<LeftOut>,
    /// Total number of files that were skipped or read in another encoding.
    left_out_count: u64,
}

/// A file that was skipped or read in another encoding.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LeftOut {
    /// Path relative to the workspace.
    file: String,
    /// Reason.
    reason: String,
}

impl Tool for KnowledgeIndex {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "knowledge_index",
        title: "Index the knowledge",
        description: "Update the index of knowledge/ and wait for all vectors. Searches make quick updates automatically.",
        example: Example {
            files: &[("knowledge/user/notes.md", "# One\n\na\n\n# Two\n\nb\n")],
            arguments: r#"{"scope": "changed_only"}"#,
            result: r#"{"files_indexed": 1, "chunks_created": 2, "files_removed": 0, "mode": "keyword"}"#,
        },
        level: Level::Safe,
        class: Class::READ,
        // Finished work is stored, so a call after a timeout continues there.
        timeout: Timeout::fixed(3_600),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let mut path = place.workspace.join(FOLDER);
        if let Some(given) = &args.path {
            path.push(within(given)?);
        }
        Ok(Plan::of(vec![Effect::Read { path }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let began = Instant::now();
        let under = args.path.as_deref().map(within).transpose()?;
        let synced = self.0.sync(context, args.scope == Which::All, under.as_deref())?;
        let has_model = self.0.index.has_model();
        if !has_model {
            context.warn(
                "no model is set up, so searches use words alone; the user gets a model with `handfast setup embeddings`"
                    .to_owned(),
            );
        }
        let embedded = if args.wait { self.0.embed_all(context)? } else { self.0.catch_up(context)? };
        match context.stop.requested() {
            // Finished work is stored, so a timeout is a warning and not an error.
            Some(StopReason::Deadline) if embedded.left > 0 => context.warn(format!(
                "the call timed out with {} sections without a vector; call knowledge_index again to continue",
                embedded.left
            )),
            _ => context.stop.check()?,
        }
        let left = synced.left.into_iter().map(|left| LeftOut {
            file: tool::path_text(&Path::new(FOLDER).join(left.path)),
            reason: left.why,
        });
        Ok(Output {
            files_indexed: synced.files_indexed,
            chunks_created: synced.chunks_created,
            duration_seconds: (began.elapsed().as_secs_f64() * 1_000.0).round() / 1_000.0,
            files_removed: synced.files_removed,
            vectors_made: embedded.made,
            waiting: embedded.left,
            mode: if has_model { "hybrid" } else { "keyword" }.to_owned(),
            left_out: left.collect(),
            left_out_count: synced.left_in_all,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::mpsc::{Sender, channel};

    use parking_lot::Mutex;
    use serde_json::json;
    use testkit::{DenyNames, Workspace};
    use tool::{Code, ErasedTool, Progress};

    use super::*;
    use crate::tests::World;

    #[test]
    fn changed_files_are_indexed_with_their_vectors_and_what_is_left_out_is_named() {
        let world = World::with_model(Workspace::new().with_files(&[
            ("knowledge/user/a.md", "# Rain\n\na\n"),
            ("knowledge/user/b.markdown", "# Sun\n\nb\n"),
            ("knowledge/user/c.txt", "no markdown\n"),
            ("knowledge/.hidden/d.md", "# Hidden\n"),
        ]));
        world.workspace.write("knowledge/user/raw.md", b"\0\0");
        world.workspace.link("knowledge/user/up", "..");
        let first = world.run("knowledge_index", json!({})).unwrap();
        assert_eq!(
            (&first["files_indexed"], &first["chunks_created"], &first["vectors_made"]),
            (&json!(3), &json!(2), &json!(2))
        );
        assert_eq!(
            first["left_out"],
            json!([
                {"file": "knowledge/user/raw.md", "reason": "skipped: it is binary"},
                {"file": "knowledge/user/up", "reason": "skipped: it is a link; copy the file, or move it here"},
            ])
        );
        let second = world.run("knowledge_index", json!({"scope": "changed_only"})).unwrap();
        assert_eq!((&second["files_indexed"], &second["vectors_made"]), (&json!(0), &json!(0)));
        let all = world.run("knowledge_index", json!({"scope": "all", "path": "user/a.md"})).unwrap();
        assert_eq!((&all["files_indexed"], &all["chunks_created"]), (&json!(1), &json!(0)));
    }

    /// A progress listener that sends each report to the test.
    struct TestProgress(Mutex<Sender<(u64, Option<u64>)>>);

    impl Progress for TestProgress {
        fn report(&self, done: u64, total: Option<u64>, message: &str) {
            if message == "sections understood" {
                self.0.lock().send((done, total)).unwrap();
            }
        }
    }

    /// Creates a base of two sections. Another process computes their vectors while the returned
    /// file is open.
    fn busy() -> (World, File) {
        let world = World::with_model(
            Workspace::new().with_files(&[("knowledge/a.md", "# Rain\n\na\n\n# Sun\n\nb\n")]),
        );
        let lock = File::create(world.workspace.at("../index.embedding")).unwrap();
        lock.lock().unwrap();
        (world, lock)
    }

    #[test]
    fn it_waits_for_vectors_that_another_process_makes_and_without_wait_it_does_not() {
        let (world, lock) = busy();
        let at_once = world.run("knowledge_index", json!({"wait": false})).unwrap();
        assert_eq!((&at_once["vectors_made"], &at_once["waiting"]), (&json!(0), &json!(2)));
        let (says, hears) = channel();
        let mut context = world.workspace.context();
        context.progress = Arc::new(TestProgress(Mutex::new(says)));
        let tool = ErasedTool::tool(KnowledgeIndex(world.base.clone()));
        std::thread::scope(|scope| {
            let call = scope.spawn(|| testkit::run_in(tool.as_ref(), &context, json!({})).unwrap());
            // The call has reported progress, so it is waiting.
            assert_eq!(hears.recv().unwrap(), (0, Some(2)));
            drop(lock);
            let done = call.join().unwrap();
            assert_eq!((&done["vectors_made"], &done["waiting"]), (&json!(2), &json!(0)));
        });
    }

    #[test]
    fn where_its_time_is_over_it_says_how_many_are_left_and_a_cancelled_call_is_one() {
        for (reason, expected) in
            [(StopReason::Deadline, None), (StopReason::Cancelled, Some(Code::Cancelled))]
        {
            let (world, _lock) = busy();
            let (says, hears) = channel();
            let mut context = world.workspace.context();
            context.progress = Arc::new(TestProgress(Mutex::new(says)));
            let tool = ErasedTool::tool(KnowledgeIndex(world.base.clone()));
            std::thread::scope(|scope| {
                let call = scope.spawn(|| testkit::run_in(tool.as_ref(), &context, json!({})));
                hears.recv().unwrap();
                context.stop.request(reason);
                let ended = call.join().unwrap();
                assert_eq!(ended.as_ref().err().map(|error| error.code), expected);
                if let Ok(output) = ended {
                    assert_eq!((&output["files_indexed"], &output["waiting"]), (&json!(1), &json!(2)));
                    let warnings = context.take_warnings();
                    assert!(
                        warnings.iter().any(|told| told.contains("2 sections without a vector")),
                        "{warnings:?}"
                    );
                }
            });
        }
    }

    #[test]
    fn what_is_missing_denied_or_outside_is_refused_and_a_stop_is_one() {
        let guard = DenyNames { read: &["closed.md"], write: &[] };
        let world = World::new(
            Workspace::new()
                .guarded(guard)
                .with_files(&[("knowledge/closed.md", "# C\n"), ("knowledge/open.md", "# O\n")]),
        );
        let fails = |path: &str| world.run("knowledge_index", json!({"path": path})).unwrap_err().code;
        assert_eq!(fails("none.md"), Code::NotFound);
        assert_eq!(fails("closed.md"), Code::Permission);
        assert_eq!(fails("../x.md"), Code::Validation);
        let context = world.workspace.context();
        context.stop.request(StopReason::Cancelled);
        let tool = ErasedTool::tool(KnowledgeIndex(world.base.clone()));
        assert_eq!(testkit::run_in(tool.as_ref(), &context, json!({})).unwrap_err().code, Code::Cancelled);
        assert_eq!(world.run("knowledge_index", json!({})).unwrap()["files_indexed"], 1);
    }
}
