//! The door of the library: the same runtime as the program's, for a Rust program that is itself an agent or serves some.

use std::error::Error;
use std::fmt;
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dialects::Dialect;
use engine::{Approvals, Asker, CallRequest, Caller, Ceiling, PolicyCheck, Door, NoAsker, UndoOutcome};
use policy::{EffectKind, Mode};
use sandbox::{Pool, SessionLimits, Spawner};
use serde_json::Value;
use store::StoreError;
use tool::{
    AnyTool, BoxFuture, CallResult, ErasedTool, Progress, Stop, Tool, ToolError, UndoRequest, NoProgress,
    subset_violations,
};
use vault::Keys;

use crate::cli::Global;
use crate::commands::{Failure, NoInput, mcp_options};
use crate::compose::{Composed, Wanted, compose};
use crate::report;

/// Why a [`Runtime`] could not be put together. [`Error::source`] has what caused it.
#[derive(Debug)]
pub struct BuildError(Box<dyn Error + Send + Sync>);

impl fmt::Display for BuildError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl From<Failure> for BuildError {
    fn from(failure: Failure) -> Self {
        Self(failure.error)
    }
}

/// What a [`Runtime`] is made of. Everything has the value that the program gives it, configuration files included.
pub struct Builder {
    global: Global,
    configuration: Option<PathBuf>,
    tools: Vec<Arc<dyn AnyTool>>,
    asker: Arc<dyn Asker>,
    waiting: Option<u8>,
    key_file: Option<PathBuf>,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl Builder {
    /// The folder that the tools work in; the current directory, unless named.
    #[must_use]
    pub fn workspace(mut self, folder: impl Into<PathBuf>) -> Self {
        self.global.workspace = Some(folder.into());
        self
    }

    /// Where the audit, the checkpoints and all else durable lie; `$XDG_STATE_HOME/handfast`, unless named.
    #[must_use]
    pub fn state(mut self, folder: impl Into<PathBuf>) -> Self {
        self.global.state = Some(folder.into());
        self
    }

    /// The folder of the user's `config.yaml`; `$XDG_CONFIG_HOME/handfast`, unless named. The administrator's file and the workspace's
    /// count as ever.
    #[must_use]
    pub fn configuration(mut self, folder: impl Into<PathBuf>) -> Self {
        self.configuration = Some(folder.into());
        self
    }

    /// The profile of `sandbox_config` that decides; `normal`, unless named.
    #[must_use]
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.global.profile = Some(name.into());
        self
    }

    /// When a human is asked; [`Mode::SmartAuto`], unless named.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.global.mode = Some(mode);
        self
    }

    /// What the tools are called, and their shapes.
    #[must_use]
    pub fn dialect(mut self, dialect: Dialect) -> Self {
        self.global.dialect = Some(dialect);
        self
    }

    /// Only the tools that read.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.global.read_only = true;
        self
    }

    /// Calls change nothing: each is only tried, and says what it would do. Tools that cannot be tried are not there.
    ///
    /// ```
    /// # use handfast::Runtime;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (project, state) = (project.path(), state.path());
    /// let runtime = Runtime::builder().workspace(project).state(state).dry_run().build()?;
    /// let tried = runtime.call("file_write", json!({"path": "notes.txt", "content": "one"})).await;
    /// assert!(tried.ok());
    /// assert!(!project.join("notes.txt").exists());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn dry_run(mut self) -> Self {
        self.global.dry_run = true;
        self
    }

    /// What calls may do, whatever else the policy lets pass: this, and what was named before it. Where none is named, all that the
    /// policy lets pass. It lets nothing pass that the policy denies.
    ///
    /// ```
    /// # use handfast::{EffectKind, Runtime};
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let (project, state) = (tempfile::tempdir()?, tempfile::tempdir()?);
    /// # let (project, state) = (project.path(), state.path());
    /// # std::fs::write(project.join("notes.txt"), "one")?;
    /// let builder = Runtime::builder().workspace(project).state(state);
    /// let runtime = builder.permission(EffectKind::Read).permission(EffectKind::Run).build()?;
    /// assert!(runtime.call("file_read", json!({"path": "notes.txt"})).await.ok());
    /// let denied = runtime.call("file_write", json!({"path": "notes.txt", "content": "two"})).await;
    /// assert_eq!(denied.error().map(|error| error.code.as_str()), Some("EPERMISSION"));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn permission(mut self, kind: EffectKind) -> Self {
        self.global.permission.push(kind);
        self
    }

    /// What opens the vault of the state, and nothing else does; the environment, the configuration and the key rings, unless
    /// named. [`vault::make_key_file`](crate::vault::make_key_file) makes one.
    #[must_use]
    pub fn vault_key_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.key_file = Some(file.into());
        self
    }

    /// A tool beside the built-in ones. It is called by its own name in every dialect, and decided, audited, bounded and
    /// undone as they are. One whose plan names secrets ([`Effect::UseSecret`](tool::Effect::UseSecret)) is given them by
    /// `context.service::<Secrets>()`, see [`Secrets`](crate::Secrets).
    #[must_use]
    pub fn tool(mut self, tool: impl Tool) -> Self {
        self.tools.push(ErasedTool::tool(tool));
        self
    }

    /// Who answers where the policy asks. Without one such calls end as `EAPPROVAL`, and are answered by `handfast approvals`.
    #[must_use]
    pub fn asker(mut self, asker: impl Asker + 'static) -> Self {
        self.asker = Arc::new(asker);
        self
    }

    /// Keeps so many cells waiting, so that a command begins in half the time. They are the children of a process that is a copy
    /// of this one as it is now: build the runtime at the beginning of `main`, before there is a second thread.
    #[must_use]
    pub fn waiting_cells(mut self, cells: u8) -> Self {
        self.waiting = Some(cells);
        self
    }

    /// Who hears what is not as it should be, such as a rule that can never decide; standard error, unless named.
    #[must_use]
    pub fn on_warning(mut self, warn: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.warn = Box::new(warn);
        self
    }

    /// Reads the configuration, opens the state, and puts the runtime together.
    ///
    /// # Errors
    /// Where the workspace or the state cannot be used, a configuration file is wrong, two tools have one name, a tool's schema
    /// says what not every model's provider accepts, or cells are to wait and there are threads already.
    pub fn build(self) -> Result<Runtime, BuildError> {
        for tool in &self.tools {
            if let Some(violation) = subset_violations(tool.input_schema()).first() {
                return Err(BuildError(
                    format!("the arguments of the tool {}: {violation}", tool.name()).into(),
                ));
            }
        }
        let spawner = self.waiting.map(|waiting| Spawner::start(Pool { waiting })).transpose();
        let spawner = spawner.map_err(|error| BuildError(error.into()))?;
        let composed = compose(Wanted {
            global: &self.global,
            configuration: self.configuration,
            home: None,
            spawner: spawner.map(Arc::new),
            sessions: Some(SessionLimits::default()),
            // Only the program itself knows how to begin such a cell.
            entrance: None,
            keys: self.key_file.map(|file| Keys { key_file: Some(file), ..Keys::default() }),
            tools: self.tools,
            warn: &self.warn,
        })?;
        Ok(Runtime { composed, asker: self.asker })
    }
}

/// Every tool of Handfast, in one workspace: each call decided by the policy, run in a cell, undoable and audited.
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
/// // What was done can be undone.
/// let checkpoint = written.meta.checkpoint.ok_or("nothing was saved")?;
/// runtime.undo(&checkpoint).await?;
/// assert!(!project.join("notes.txt").exists());
///
/// // What the policy denies is not done.
/// let denied = runtime.call("shell_execute", json!({"command": "rm -rf /"})).await;
/// assert_eq!(denied.error().map(|error| error.code.as_str()), Some("EPERMISSION"));
/// runtime.shutdown().await?;
/// # Ok(())
/// # }
/// ```
///
/// A tool of your own is a type with a plan and a run:
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
/// // The policy decides on it like on any other: files of keys stay closed.
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
    /// A runtime as the program would have it in the current directory.
    pub fn builder() -> Builder {
        let hint = "the program that made the call asks nobody; answer with `handfast approvals`, or loosen the rule in the \
                    configuration";
        Builder {
            global: Global::default(),
            configuration: None,
            tools: Vec::new(),
            asker: Arc::new(NoAsker { hint: hint.to_owned() }),
            waiting: None,
            key_file: None,
            warn: Box::new(report::warn),
        }
    }

    /// Makes a call, once it is awaited within a tokio runtime. What is dropped before it has ended is cancelled.
    pub fn call(&self, tool: impl Into<String>, arguments: Value) -> Call<'_> {
        Call {
            runtime: self,
            request: CallRequest {
                tool: tool.into(),
                arguments,
                caller: Caller {
                    session: self.composed.session.clone(),
                    holder: None,
                    door: Door::Library,
                    dialect: self.composed.toolset.dialect.as_str(),
                    asker: self.asker.clone(),
                    ceiling: Ceiling::default(),
                },
                stop: Stop::default(),
                progress: Arc::new(NoProgress),
                cache: false,
                origin: engine::Origin::default(),
            },
        }
    }

    /// What the policy would decide on a call, and why. Runs nothing and records nothing.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown tool, `EVALIDATION` for wrong arguments.
    pub fn check(&self, tool: &str, arguments: Value) -> Result<PolicyCheck, ToolError> {
        self.composed.engine.check_for_user(tool, arguments)
    }

    /// Undoes what a call changed, by its `meta.checkpoint`, all of it or nothing.
    ///
    /// # Errors
    /// `ENOTFOUND` for an unknown checkpoint, `ECONFLICT` with the difference where something was changed since.
    pub async fn undo(&self, checkpoint: &str) -> Result<UndoOutcome, ToolError> {
        let checkpoint = checkpoint.to_owned();
        let request = UndoRequest { checkpoint, and_later: false, paths: Vec::new(), force: Vec::new() };
        self.composed.engine.undo(&request).await
    }

    /// The calls that wait for an answer, and what was allowed for a time.
    pub fn approvals(&self) -> Approvals {
        self.composed.engine.approvals()
    }

    /// Every tool, in the order in which they are listed.
    pub fn tools(&self) -> &[Arc<dyn AnyTool>] {
        self.composed.engine.tools()
    }

    /// The folder that the tools work in, without links.
    pub fn workspace(&self) -> &Path {
        &self.composed.workspace
    }

    /// Serves an agent over the Model Context Protocol on standard input and output until it goes away, then shuts down.
    ///
    /// # Errors
    /// Where the streams cannot be used or break, or the state cannot be written.
    pub async fn serve_mcp(self) -> Result<(), Box<dyn Error + Send + Sync>> {
        let served =
            mcp::serve_stdio(self.composed.engine.clone(), mcp_options(&self.composed, NoInput(false))).await;
        self.shutdown().await?;
        Ok(served?)
    }

    /// Ends every call and every command that runs on, and writes down what is still to be written.
    ///
    /// # Errors
    /// Where the state cannot be written.
    pub async fn shutdown(self) -> Result<(), StoreError> {
        self.composed.engine.shutdown().await;
        let closed = self.composed.store.close();
        // It waits for a collector, and this thread may have others to see to.
        let composed = self.composed;
        // That it broke off leaves what was not sent unsent.
        let _ = tokio::task::spawn_blocking(move || composed.close_traces()).await;
        closed
    }
}

/// A call, made when it is awaited.
#[must_use = "a call is made when it is awaited"]
pub struct Call<'a> {
    runtime: &'a Runtime,
    request: CallRequest,
}

impl Call<'_> {
    /// Lets another task end the call early.
    pub fn stopped_by(mut self, stop: Stop) -> Self {
        self.request.stop = stop;
        self
    }

    /// Where a long call reports how far it is.
    pub fn reporting_to(mut self, progress: Arc<dyn Progress>) -> Self {
        self.request.progress = progress;
        self
    }

    /// Lets a read be answered from the cache.
    pub fn cached(mut self) -> Self {
        self.request.cache = true;
        self
    }

    /// Bounds what the call may do, whatever the policy allows: for one that is made on behalf of somebody else.
    pub fn within(mut self, ceiling: &Ceiling) -> Self {
        self.request.caller.ceiling = self.request.caller.ceiling.meet(ceiling);
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
