//! Connections to servers: the start of a process in a cell, and the first words.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mcp_client::config::{HttpConfig, ServerConfig, StdioConfig};
use mcp_client::definition::{DefinitionHash, ToolDefinition};
use mcp_client::expand::Template;
use mcp_client::restart::RecycleRules;
use mcp_client::text::clean_line;
use mcp_client::{
    Client, ClientError, ClientName, CloseReason, FirstContact, HttpEndpoint, Limits, Listener, Notice,
    Options, ProcessStreams, ServerProcess,
};
use parking_lot::Mutex;
use sandbox::{
    CellRequest, CellSource, CellSpec, Lifetime, PipedAs, PipedProgram, ProgramFolder, ProgramPipes,
    WorkspaceView,
};
use tokio::net::unix::pipe;
use tool::{Context, Timer, ToolError};

use crate::failure;
use crate::http_transport::{self, CheckedTransport};
use crate::login_use::LoginUse;
use crate::own_calls::OwnCalls;
use crate::parts::ServersParts;
use crate::settings::ServerSettings;

/// Maximum length of one message of a server, in bytes: a quarter of the bytes that all answers in flight may take.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// Time after which the list of a server is read again before a call, although the server announced no change.
const LIST_AGE: Duration = Duration::from_mins(1);

/// Length of a program's last words in an error, in bytes.
const LONGEST_WORDS: usize = 500;

/// Age of the lists of resources and prompts that a call accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListAge {
    /// Any age, unless the server announced a change.
    Any,
    /// A minute or less.
    Fresh,
}

/// Connection to a server.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) calls: Arc<OwnCalls>,
    program: Option<Arc<PipedProgram>>,
    transport: Option<Arc<CheckedTransport>>,
    listed: Mutex<Option<ToolList>>,
    notices: Arc<Notices>,
    content_listed_at: Mutex<Option<Instant>>,
}

/// Receiver of a connection's notices. It notes the lists that changed, and hands on the rest.
struct Notices {
    calls: Arc<OwnCalls>,
    /// True if the resources and prompts must be listed: at the beginning, and after a notice.
    must_list_content: AtomicBool,
}

impl Listener for Notices {
    fn notice(&self, notice: Notice) {
        if matches!(notice, Notice::PromptsChanged | Notice::ResourcesChanged) {
            self.must_list_content.store(true, Ordering::SeqCst);
        }
        self.calls.notice(notice);
    }
}

impl Notices {
    fn new(calls: Arc<OwnCalls>) -> Arc<Self> {
        Arc::new(Self { calls, must_list_content: AtomicBool::new(true) })
    }
}

/// Tools of a server at one time.
struct ToolList {
    at: Instant,
    tools: HashMap<String, (DefinitionHash, Arc<ToolDefinition>)>,
}

/// Parts of the runtime that a start needs.
pub(crate) struct Start<'a> {
    pub(crate) parts: &'a ServersParts,
    pub(crate) settings: &'a ServerSettings,
    pub(crate) context: &'a Context,
    pub(crate) source: Arc<CellSource>,
    /// True if the process serves every session.
    pub(crate) is_shared: bool,
}

/// Process of a server in its cell.
struct InCell(Arc<PipedProgram>);

impl ServerProcess for InCell {
    fn kill(&self) {
        self.0.begin_to_end();
    }
}

impl Connection {
    /// Connects to a server, and starts it if it is a program.
    ///
    /// # Errors
    /// `EUNAVAILABLE` with what the program printed, or another error of the server.
    pub(crate) async fn begin(start: &Start<'_>) -> Result<Self, ToolError> {
        match &start.settings.config {
            ServerConfig::Stdio(config) => match in_cell(start, config, FirstContact::Discover).await {
                // Some older servers end at a message that they do not know.
                Err((ClientError::Closed(CloseReason::ByServer), _)) => {
                    in_cell(start, config, FirstContact::Handshake).await
                }
                other => other,
            }
            .map_err(|(error, words)| failed(&start.settings.key, error, &words)),
            ServerConfig::Http(config) => over_http(start, config, false).await,
            ServerConfig::EventStream(config) => over_http(start, config, true).await,
        }
    }

    fn new(
        client: Client,
        program: Option<Arc<PipedProgram>>,
        transport: Option<Arc<CheckedTransport>>,
        notices: Arc<Notices>,
    ) -> Self {
        Self {
            client,
            calls: notices.calls.clone(),
            program,
            transport,
            listed: Mutex::default(),
            notices,
            content_listed_at: Mutex::default(),
        }
    }

    /// Makes what follows a use by this call.
    ///
    /// # Errors
    /// The error of a secret that may not be sent, or of a login that cannot be renewed.
    pub(crate) async fn act_for(
        &self,
        context: &Context,
        parts: &ServersParts,
        settings: &ServerSettings,
    ) -> Result<(), ToolError> {
        if let Some(program) = &self.program {
            program.touch();
        }
        match (&self.transport, &settings.config) {
            (Some(transport), ServerConfig::Http(config) | ServerConfig::EventStream(config)) => {
                let login = LoginUse::of(context, parts, settings)?;
                transport.act_for(context, config, login).await
            }
            _ => Ok(()),
        }
    }

    /// Returns true if the list of tools must be read before the next call.
    pub(crate) fn must_list(&self, now: Instant) -> bool {
        // Both are asked, because the first forgets the change.
        let has_changed = self.calls.take_change();
        let is_fresh = |listed: &ToolList| now.saturating_duration_since(listed.at) < LIST_AGE;
        has_changed || !self.listed.lock().as_ref().is_some_and(is_fresh)
    }

    /// Returns true if the resources and prompts must be read before the next call, and forgets the reason.
    pub(crate) fn must_list_content(&self, now: Instant, age: ListAge) -> bool {
        let has_changed = self.notices.must_list_content.swap(false, Ordering::SeqCst);
        let mut listed_at = self.content_listed_at.lock();
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < LIST_AGE;
        let must = has_changed || age == ListAge::Fresh && !listed_at.as_ref().is_some_and(is_fresh);
        if must {
            *listed_at = Some(now);
        }
        must
    }

    /// Stores the tools that the server has now.
    pub(crate) fn set_tools(&self, tools: &[ToolDefinition], now: Instant) {
        let hashed = |tool: &ToolDefinition| (tool.name.clone(), (tool.hash(), Arc::new(tool.clone())));
        *self.listed.lock() = Some(ToolList { at: now, tools: tools.iter().map(hashed).collect() });
    }

    /// Returns the definition of a tool as the server gave it last.
    pub(crate) fn definition(&self, tool: &str) -> Option<(DefinitionHash, Arc<ToolDefinition>)> {
        self.listed.lock().as_ref()?.tools.get(tool).cloned()
    }

    /// Returns what the program of a closed connection printed last; empty for a server behind a URL.
    pub(crate) async fn final_words(&self) -> String {
        match &self.program {
            Some(program) if self.client.closed().is_some() => words(program).await,
            _ => String::new(),
        }
    }

    /// Ends every process of the server, and waits until they have ended. Blocks.
    pub(crate) fn end(&self) {
        if let Some(program) = &self.program {
            program.end();
        }
    }

    /// Returns true if the server is a program of this machine.
    pub(crate) fn is_program(&self) -> bool {
        self.program.is_some()
    }
}

/// Ends a program, and returns what it printed last.
async fn words(program: &Arc<PipedProgram>) -> String {
    let program = program.clone();
    let words = tokio::task::spawn_blocking(move || program.final_words()).await.unwrap_or_default();
    clean_line(&words, LONGEST_WORDS)
}

fn failed(server: &str, error: ClientError, words: &str) -> ToolError {
    if words.is_empty() {
        return failure::of_client(server, error, false);
    }
    failure::unavailable(server, &format!("{error}; it printed: {words}"))
}

fn options(start: &Start<'_>, first: FirstContact, notices: Arc<Notices>, wants_notices: bool) -> Options {
    Options {
        name: ClientName { name: "handfast".to_owned(), version: start.parts.version.clone() },
        first,
        limits: Limits { message: LONGEST_MESSAGE, ..Limits::default() },
        timer: start.parts.timer.clone() as Arc<dyn Timer>,
        requests: notices.calls.clone(),
        listener: notices,
        wants_notices,
    }
}

async fn over_http(start: &Start<'_>, config: &HttpConfig, is_old: bool) -> Result<Connection, ToolError> {
    let target = http_transport::target(config)?;
    let transport = CheckedTransport::new(start.parts.web.clone(), target.clone());
    let login = LoginUse::of(start.context, start.parts, start.settings)?;
    transport.act_for(start.context, config, login).await?;
    // A server on another machine learns nothing about this one.
    let calls = OwnCalls::new(start.settings, start.is_shared, None);
    let notices = Notices::new(calls);
    let options = options(start, FirstContact::Discover, notices.clone(), false);
    let endpoint =
        HttpEndpoint { url: target.to_string(), headers: Vec::new(), transport: transport.clone() };
    let begun = if is_old {
        Client::over_event_stream(endpoint, options).await
    } else {
        Client::over_http(endpoint, options).await
    };
    let client = begun.map_err(|error| failure::of_client(&start.settings.key, error, false))?;
    let transport = Some(transport);
    Ok(Connection::new(client, None, transport, notices))
}

async fn in_cell(
    start: &Start<'_>,
    config: &StdioConfig,
    first: FirstContact,
) -> Result<Connection, (ClientError, String)> {
    let (program, pipes) = started(start, config).await.map_err(unreachable_because)?;
    let program = Arc::new(program);
    let ProgramPipes { input, output, until_connected } = pipes;
    let open = |error: std::io::Error| unreachable_because(error.to_string());
    let streams = ProcessStreams {
        output: Box::new(pipe::Receiver::from_owned_fd(output).map_err(open)?),
        input: Box::new(pipe::Sender::from_owned_fd(input).map_err(open)?),
        process: Box::new(InCell(program.clone())),
    };
    let sees = start.settings.workspace != WorkspaceView::Hidden;
    let root = sees.then(|| format!("file://{}", start.context.place.workspace.display()));
    let calls = OwnCalls::new(start.settings, start.is_shared, root);
    let notices = Notices::new(calls);
    let begun = Client::over_streams(streams, options(start, first, notices.clone(), true)).await;
    drop(until_connected);
    let client = match begun {
        Ok(client) => client,
        Err(error) => return Err((error, words(&program).await)),
    };
    let program = Some(program);
    Ok(Connection::new(client, program, None, notices))
}

fn unreachable_because(message: String) -> (ClientError, String) {
    (ClientError::Unreachable { message }, String::new())
}

/// Variable with the folder of the package that has brought a server, for its words and its program.
const PACKAGE_VARIABLE: &str = "PACKAGE_FOLDER";

/// Starts the program of a server in its cell, on a thread that may block.
async fn started(start: &Start<'_>, config: &StdioConfig) -> Result<(PipedProgram, ProgramPipes), String> {
    let (folder, source) = (start.parts.folder.clone(), start.source.clone());
    let (settings, config) = (start.settings.clone(), config.clone());
    let (workspace, is_shared) = (start.context.place.workspace.clone(), start.is_shared);
    let starting = tokio::task::spawn_blocking(move || {
        let failed = |doing: &str, error: &dyn std::fmt::Display| format!("{doing}: {error}");
        let folder = ProgramFolder::make(&folder).map_err(|error| failed("its folder", &error))?;
        let own = folder.path().to_owned();
        let shows = settings.shows.clone();
        let request = CellRequest { folder: own.clone(), shows, workspace: settings.workspace, is_shared };
        let (mut spec, host) = source.cell(request).map_err(|error| failed("its cell", &error))?;
        if let Some(package) = &settings.package {
            spec.read_only.push(package.folder.clone());
            spec.environment.insert(PACKAGE_VARIABLE.into(), package.folder.clone().into());
        }
        let words = words_of(&config, &spec)?;
        for (name, value) in &config.env {
            let value = expanded(value, &spec)?;
            spec.environment.insert(name.into(), value.into());
        }
        let usual = if settings.workspace == WorkspaceView::Hidden { own } else { workspace };
        let directory = match &config.cwd {
            None => usual,
            Some(directory) => usual.join(PathBuf::from(expanded(directory, &spec)?)),
        };
        let RecycleRules { idle, lifetime } = RecycleRules::default();
        let lifetime = Lifetime { idle, absolute: lifetime };
        PipedProgram::start(folder, (spec, host), (words, directory), PipedAs::Standard, lifetime, || {})
            .map_err(|error| failed("its cell", &error))
    });
    starting.await.map_err(|error| error.to_string())?
}

fn words_of(config: &StdioConfig, spec: &CellSpec) -> Result<Vec<OsString>, String> {
    let all = std::iter::once(&config.command).chain(&config.args);
    all.map(|word| expanded(word, spec).map(OsString::from)).collect()
}

/// Puts the cell's variables into a value. The secrets among them are placeholders.
fn expanded(template: &Template, spec: &CellSpec) -> Result<String, String> {
    let value = |name: &str| {
        let value = spec.environment.get(std::ffi::OsStr::new(name))?;
        Some(value.to_string_lossy().into_owned())
    };
    template.expand(value).map_err(|error| error.to_string())
}
