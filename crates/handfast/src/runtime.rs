//! The library door: the program's runtime, for a Rust program that is itself an agent or serves agents.

mod builder;

use std::error::Error;
use std::future::IntoFuture;
use std::path::Path;
use std::sync::Arc;

use engine::{Approvals, Asker, CallRequest, Ceiling, Door, PolicyCheck, Principal, UndoOutcome};
use serde_json::Value;
use store_api::StoreError;
use tool::{AnyTool, BoxFuture, CallResult, Progress, Resource, Stop, ToolError, UndoRequest};

pub use self::builder::{BuildError, Builder};
use crate::compose::Composed;
use crate::mcp_options::{NoInput, mcp_options};

/// All tools of Handfast in one workspace. Each call is decided by the policy, run in a cell,
/// undoable and audited.
///
/// ```
/// use handfast::Runtime;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let (project, state) = (project.path(), state.path());
/// let runtime = Runtime::builder().workspace(project).state(state).build()?;
///
/// let written = runtime.call("file_write", json!({"path": "notes.txt", "content": "one two"})).await;
/// assert!(written.ok());
///
/// // Every change can be undone.
/// let checkpoint = written.meta.checkpoint.ok_or("nothing was saved")?;
/// runtime.undo(&checkpoint).await?;
/// assert!(!project.join("notes.txt").exists());
///
/// // The policy denies some calls.
/// let denied = runtime.call("shell_execute", json!({"command": "rm -rf /"})).await;
/// assert_eq!(denied.error().map(|error| error.code.as_str()), Some("EPERMISSION"));
/// runtime.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// A custom tool is a type with a plan and a run:
///
/// ```
/// use handfast::tool::{Code, Context, Effect, Place, Plan, Spec, Tool, ToolError};
/// use handfast::{Roots, Runtime};
/// use schemars::JsonSchema;
/// use serde::{Deserialize, Serialize};
///
/// struct WordCount;
///
/// #[derive(Deserialize, JsonSchema)]
/// #[serde(deny_unknown_fields)]
/// struct Args {
///     /// A text file.
///     path: String,
/// }
///
/// #[derive(Serialize, JsonSchema)]
/// struct Output {
///     words: usize,
/// }
///
/// impl Tool for WordCount {
///     type Args = Args;
///     type Output = Output;
///     const SPEC: Spec = Spec::reading("word_count", "Counts the words of a text file.");
///
///     fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
///         Ok(Plan::of(vec![Effect::Read { path: place.resolve("path", &args.path)? }]))
///     }
///
///     async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
///         let path = context.place.resolve("path", &args.path)?;
///         let unread = |error| ToolError::new(Code::Runtime, "the file cannot be read").because(error);
///         let opened = context.service::<Roots>()?.open_file(&path).map_err(unread)?;
///         let text = std::io::read_to_string(opened.file)
///             .map_err(|error| ToolError::new(Code::Runtime, "the file is no text").because(error))?;
///         Ok(Output { words: text.split_whitespace().count() })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// # let (project, state) = (project.path(), state.path());
/// # std::fs::write(project.join("a.txt"), "one two three")?;
/// # std::fs::write(project.join(".env"), "KEY=1")?;
/// let runtime = Runtime::builder().workspace(project).state(state).tool(WordCount).build()?;
/// let counted = runtime.call("word_count", serde_json::json!({"path": "a.txt"})).await;
/// assert_eq!(serde_json::to_value(&counted)?["data"]["words"], 3);
///
/// // The policy applies to custom tools as well: key files stay closed.
/// let denied = runtime.call("word_count", serde_json::json!({"path": ".env"})).await;
/// assert_eq!(denied.error().map(|error| error.code), Some(Code::Permission));
/// # Ok(())
/// # }
/// ```
pub struct Runtime {
    composed: Composed,
    asker: Arc<dyn Asker>,
}

impl Runtime {
    /// Returns a builder with the program's defaults in the current directory.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Creates a call, which is made when it is awaited within a tokio runtime. Dropping the future
    /// cancels the call.
    pub fn call(&self, tool: impl Into<String>, arguments: Value) -> Call<'_> {
        let dialect = self.composed.toolset.dialect.as_str();
        let session = self.composed.session.clone();
        let principal = Principal::new(Door::Library, session, dialect, self.asker.clone());
        Call { runtime: self, request: CallRequest::new(principal, tool, arguments) }
    }

    /// Returns what the policy would decide on a call, and why. Runs nothing and records nothing.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, `EVALIDATION` for wrong arguments.
    pub fn check(&self, tool: &str, arguments: Value) -> Result<PolicyCheck, ToolError> {
        self.composed.engine.check_for_user(tool, arguments)
    }

    /// Undoes the changes of a call, by its `meta.checkpoint`, all of them or none.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown checkpoint, `ECONFLICT` with the difference if something was
    /// changed since.
    pub async fn undo(&self, checkpoint: &str) -> Result<UndoOutcome, ToolError> {
        let checkpoint = checkpoint.to_owned();
        let request = UndoRequest { checkpoint, and_later: false, paths: Vec::new(), force: Vec::new() };
        self.composed.engine.undo(&request).await
    }

    /// Returns the calls that wait for an answer, and the leases.
    pub fn approvals(&self) -> Approvals {
        self.composed.engine.approvals()
    }

    /// Returns every tool, in listing order.
    pub fn tools(&self) -> Arc<[Arc<dyn AnyTool>]> {
        self.composed.engine.tools()
    }

    /// Returns the folder that the tools work in, without links.
    pub fn workspace(&self) -> &Path {
        &self.composed.workspace
    }

    /// Serves an agent over the Model Context Protocol on standard input and output until it
    /// disconnects, then shuts down.
    ///
    /// # Errors
    /// If the streams cannot be used or break, or the state cannot be written.
    pub async fn serve_mcp(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let served =
            door_mcp::serve_stdio(self.composed.engine.clone(), mcp_options(&self.composed, NoInput(false)))
                .await;
        self.shutdown().await?;
        Ok(served?)
    }

    /// Ends every call, every background command and every thread, and writes pending state. The
    /// drop of a runtime does the same on the present thread, and reports no error.
    ///
    /// # Errors
    /// If the state cannot be written.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.composed.engine.shutdown().await;
        let closed = self.composed.store.close();
        // Closing waits for a collector, and this thread may have other work.
        // If this fails, the remaining traces stay unsent.
        let _ = tokio::task::spawn_blocking(move || drop(self)).await;
        closed
    }

    /// Returns everything that outlives calls and exists now: background commands, networks,
    /// threads.
    pub fn resources(&self) -> Vec<Resource> {
        self.composed.engine.resources()
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.composed.engine.close();
        self.composed.close_traces();
    }
}

/// A call, made when it is awaited.
#[must_use = "a call is made when it is awaited"]
pub struct Call<'a> {
    runtime: &'a Runtime,
    request: CallRequest,
}

impl Call<'_> {
    /// Sets a handle by which another task can end the call early.
    pub fn stopped_by(mut self, stop: Stop) -> Self {
        self.request.stop = stop;
        self
    }

    /// Sets the receiver of progress reports.
    pub fn reporting_to(mut self, progress: Arc<dyn Progress>) -> Self {
        self.request.progress = progress;
        self
    }

    /// Permits an answer from the cache, for calls that read.
    pub fn cached(mut self) -> Self {
        self.request.cache = true;
        self
    }

    /// Limits what the call may do, in addition to the policy. Meant for calls on behalf of
    /// somebody else.
    pub fn within(mut self, ceiling: &Ceiling) -> Self {
        self.request.principal = self.request.principal.within(ceiling);
        self
    }
}

impl<'a> IntoFuture for Call<'a> {
    type Output = CallResult;
    type IntoFuture = BoxFuture<'a, CallResult>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.runtime.composed.engine.call(self.request).await })
    }
}
