//! Client of one server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tool::Timer;

use crate::content::{self, PromptMessage, ResourceContent, ToolAnswer};
use crate::core::{Core, Request, Wire};
use crate::definition::ToolDefinition;
use crate::error::{ClientError, CloseReason, invalid};
use crate::event_stream::EventStream;
use crate::handshake::{self, ClientName, FirstContact};
use crate::headers;
use crate::http::HttpEndpoint;
use crate::input;
use crate::limits::Limits;
use crate::listing::{Entry, Listing, PromptEntry, ResourceEntry, TemplateEntry};
use crate::requests::{Abilities, Listener, ProgressSink, ServerRequests};
use crate::restart::ServerUse;
use crate::revision::{Era, Revision};
use crate::server::ServerFacts;
use crate::stdio::{self, ProcessStreams, Stdio};
use crate::streamable::{self, Streamable};

/// Wait before a stream of notices that ended is opened again.
const REOPEN: Duration = Duration::from_secs(5);

/// Number of times that a stream of notices is opened.
const MOST_STREAMS: u32 = 1_000;

/// Parts that a connection needs from its caller.
pub struct Options {
    /// Name of this client.
    pub name: ClientName,
    /// First message.
    pub first: FirstContact,
    /// Limits.
    pub limits: Limits,
    /// Clock.
    pub timer: Arc<dyn Timer>,
    /// Answers to the server's requests.
    pub requests: Arc<dyn ServerRequests>,
    /// Receiver of notices.
    pub listener: Arc<dyn Listener>,
    /// True if notices about changes are wanted. A stream of its own carries them over HTTP; it is also opened for
    /// servers with sessions that may send requests.
    pub wants_notices: bool,
}

/// Call of a tool.
pub struct ToolCall<'a> {
    /// Name of the tool at the server.
    pub tool: &'a str,
    /// Arguments.
    pub arguments: Map<String, Value>,
    /// Input schema as the server gave it. Over HTTP it names the arguments that are also sent as headers.
    pub input_schema: Option<&'a Value>,
    /// Time for the result; the limit `answer` if it is absent.
    pub timeout: Option<Duration>,
    /// Receiver of the progress.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Answers to what the server asks for within results of this call (revision 2026-07-28), with the abilities of
    /// the connection; those of the connection if they are absent.
    pub requests: Option<Arc<dyn ServerRequests>>,
}

/// Values for the completion of an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Values, at most 100 (the protocol's own bound).
    pub values: Vec<String>,
    /// True if there are more.
    pub has_more: bool,
}

/// Connection to one server. Dropping it ends the connection, its tasks and its process.
pub struct Client {
    core: Arc<Core>,
    facts: ServerFacts,
    started: Instant,
    /// True if arguments may also be headers.
    sends_headers: bool,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.core.close(&CloseReason::ByCaller);
    }
}

impl Client {
    /// Begins a connection to a started server. The process is killed if that fails.
    ///
    /// # Errors
    /// [`ClientError`]: the server ended, did not answer in time, broke the protocol, or knows no common revision.
    pub async fn over_streams(streams: ProcessStreams, options: Options) -> Result<Self, ClientError> {
        let (wire, ends) = Stdio::new(streams);
        let core = core(Box::new(wire), &options)?;
        stdio::serve(&core, ends);
        begin(core, &options, None).await
    }

    /// Begins a connection to a server behind streamable HTTP.
    ///
    /// # Errors
    /// [`ClientError`], such as [`ClientError::Unauthorized`] with the challenge of the server.
    pub async fn over_http(endpoint: HttpEndpoint, options: Options) -> Result<Self, ClientError> {
        let wire = Streamable::new(endpoint);
        let core = core(Box::new(wire.clone()), &options)?;
        begin(core, &options, Some(wire)).await
    }

    /// Begins a connection to a server behind the transport of 2024-11-05, whose URL usually ends in `/sse`. Such a
    /// server begins with a handshake, so `first` has no meaning here.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn over_event_stream(endpoint: HttpEndpoint, options: Options) -> Result<Self, ClientError> {
        let wire = EventStream::new(endpoint);
        let core = core(Box::new(wire.clone()), &options)?;
        let mut unready = Handshake(Some(core.clone()));
        wire.open(&core).await?;
        unready.0 = None;
        begin(core, &Options { first: FirstContact::Handshake, ..options }, None).await
    }

    /// Returns the facts about the server.
    pub fn facts(&self) -> &ServerFacts {
        &self.facts
    }

    /// Returns the use of the connection, for a decision about its end.
    pub fn server_use(&self) -> ServerUse {
        let (running, last_used) = self.core.usage();
        ServerUse { started: self.started, last_used, running }
    }

    /// Returns the reason of the end, if the connection has ended.
    pub fn closed(&self) -> Option<CloseReason> {
        self.core.closed().borrow().clone()
    }

    /// Waits for the end of the connection, and returns its reason.
    pub async fn wait_closed(&self) -> CloseReason {
        let mut closed = self.core.closed();
        let reason = closed.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        reason.unwrap_or(CloseReason::ByCaller)
    }

    /// Ends the connection, and lets the server end by itself within a time before its process is killed.
    pub async fn end(self, within: Duration) {
        self.core.finish(within).await;
    }

    /// Lists the tools, page by page. Entries that cannot be read are left out.
    ///
    /// # Errors
    /// [`ClientError::TooMuch`] for more pages, entries or bytes than the limits allow, or another [`ClientError`].
    pub async fn list_tools(&self) -> Result<Listing<ToolDefinition>, ClientError> {
        let mut listing: Listing<ToolDefinition> = self.list(self.facts.offers.tools, "tools").await?;
        if self.sends_headers {
            // The protocol demands it: a header that an intermediary reads must be the argument.
            let mut faults = Vec::new();
            listing.entries.retain(|tool| match headers::check(&tool.input_schema_value()) {
                Ok(()) => true,
                Err(fault) => {
                    faults.push(format!("the tool {:?} is left out: {fault}", tool.name));
                    false
                }
            });
            for fault in &faults {
                listing.fault(fault);
            }
        }
        Ok(listing)
    }

    /// Lists the resources, page by page.
    ///
    /// # Errors
    /// Fails like [`Client::list_tools`].
    pub async fn list_resources(&self) -> Result<Listing<ResourceEntry>, ClientError> {
        self.list(self.facts.offers.resources, "resources").await
    }

    /// Lists the templates of resources, page by page.
    ///
    /// # Errors
    /// Fails like [`Client::list_tools`].
    pub async fn list_templates(&self) -> Result<Listing<TemplateEntry>, ClientError> {
        self.list(self.facts.offers.resources, "resources").await
    }

    /// Lists the prompts, page by page.
    ///
    /// # Errors
    /// Fails like [`Client::list_tools`].
    pub async fn list_prompts(&self) -> Result<Listing<PromptEntry>, ClientError> {
        self.list(self.facts.offers.prompts, "prompts").await
    }

    /// Calls a tool. Dropping the future withdraws the call.
    ///
    /// # Errors
    /// [`ClientError`]. A failure that the tool itself reports is an answer with `is_error`.
    pub async fn call_tool(&self, call: ToolCall<'_>) -> Result<ToolAnswer, ClientError> {
        let method = "tools/call";
        let mut params = named("name", call.tool);
        let headers = call.input_schema.map(|schema| headers::parameters(schema, &call.arguments));
        params.insert("arguments".to_owned(), Value::Object(call.arguments));
        let timeout = call.timeout.unwrap_or(self.core.limits.answer);
        let template = Request {
            progress: call.progress,
            requests: call.requests,
            headers: headers.unwrap_or_default(),
            ..Request::new(method, params, timeout)
        };
        ToolAnswer::read(method, input::complete(&self.core, template).await?)
    }

    /// Reads a resource.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn read_resource(&self, uri: &str) -> Result<Vec<ResourceContent>, ClientError> {
        offered(self.facts.offers.resources, "resources")?;
        let request = Request::new("resources/read", named("uri", uri), self.core.limits.answer);
        content::resource_contents("resources/read", input::complete(&self.core, request).await?)
    }

    /// Asks for notices about a resource, in the era of sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn subscribe(&self, uri: &str) -> Result<(), ClientError> {
        offered(self.facts.offers.subscriptions, "subscriptions")?;
        self.in_sessions("resources/subscribe", named("uri", uri)).await.map(drop)
    }

    /// Takes back [`Client::subscribe`].
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn unsubscribe(&self, uri: &str) -> Result<(), ClientError> {
        self.in_sessions("resources/unsubscribe", named("uri", uri)).await.map(drop)
    }

    /// Returns the messages of a prompt. Arguments of prompts are texts.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn get_prompt(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> Result<Vec<PromptMessage>, ClientError> {
        offered(self.facts.offers.prompts, "prompts")?;
        let mut params = named("name", name);
        params.insert("arguments".to_owned(), Value::Object(arguments));
        let request = Request::new("prompts/get", params, self.core.limits.answer);
        content::prompt_messages("prompts/get", input::complete(&self.core, request).await?)
    }

    /// Completes an argument. `reference` names a prompt (`{"type": "ref/prompt", "name": ...}`) or a template
    /// (`{"type": "ref/resource", "uri": ...}`).
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn complete(
        &self,
        reference: Value,
        argument: &str,
        value: &str,
    ) -> Result<Completion, ClientError> {
        offered(self.facts.offers.completions, "completions")?;
        let method = "completion/complete";
        let mut params = Map::new();
        params.insert("ref".to_owned(), reference);
        params.insert("argument".to_owned(), json!({"name": argument, "value": value}));
        let answer = self.core.request(Request::new(method, params, self.core.limits.answer)).await?;
        let result: Value = serde_json::from_str(answer.get()).map_err(|error| invalid(method, error))?;
        let values = result.pointer("/completion/values").and_then(Value::as_array);
        let values = values.ok_or_else(|| invalid(method, "it has no list `completion.values`"))?;
        let texts = values.iter().filter_map(Value::as_str).take(100).map(ToOwned::to_owned).collect();
        let has_more =
            result.pointer("/completion/hasMore") == Some(&Value::Bool(true)) || values.len() > 100;
        Ok(Completion { values: texts, has_more })
    }

    /// Checks that the server answers, in the era of sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn ping(&self) -> Result<(), ClientError> {
        self.in_sessions("ping", Map::new()).await.map(drop)
    }

    /// Sets the least severity of the log that the server sends, in the era of sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn set_log_level(&self, level: &str) -> Result<(), ClientError> {
        offered(self.facts.offers.logging, "logging")?;
        self.in_sessions("logging/setLevel", named("level", level)).await.map(drop)
    }

    /// Tells the server that the roots of the caller changed, in the era of sessions.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn roots_changed(&self) -> Result<(), ClientError> {
        match self.facts.revision.era() {
            Era::Sessions => self.core.notify("notifications/roots/list_changed", json!({})).await,
            Era::Stateless => Ok(()),
        }
    }

    async fn list<T: Entry>(
        &self,
        is_offered: bool,
        ability: &'static str,
    ) -> Result<Listing<T>, ClientError> {
        offered(is_offered, ability)?;
        let limits = &self.core.limits;
        let too_much = |limit, unit| ClientError::TooMuch { method: T::METHOD.to_owned(), limit, unit };
        let mut listing = Listing::new();
        let mut cursor: Option<String> = None;
        let mut length = 0_usize;
        for _ in 0..limits.pages {
            let params = cursor.as_deref().map(|cursor| named("cursor", cursor)).unwrap_or_default();
            let page = self.core.request(Request::new(T::METHOD, params, limits.answer)).await?;
            length = length.saturating_add(page.get().len());
            if length > limits.list {
                return Err(too_much(limits.list, "bytes"));
            }
            let next = listing.add_page(&page, limits.entries)?;
            match next {
                None => return Ok(listing),
                Some(next) if Some(&next) == cursor.as_ref() => {
                    return Err(invalid(T::METHOD, "its next page is the one before"));
                }
                Some(next) => cursor = Some(next),
            }
        }
        Err(too_much(limits.pages, "pages"))
    }

    async fn in_sessions(
        &self,
        method: &'static str,
        params: Map<String, Value>,
    ) -> Result<Box<RawValue>, ClientError> {
        let revision = self.facts.revision;
        if revision.era() != Era::Sessions {
            return Err(ClientError::NotInRevision {
                method: method.to_owned(),
                revision: revision.as_str(),
            });
        }
        self.core.request(Request::new(method, params, self.core.limits.answer)).await
    }
}

fn offered(is_offered: bool, ability: &'static str) -> Result<(), ClientError> {
    if is_offered { Ok(()) } else { Err(ClientError::NotOffered { ability }) }
}

/// Connection whose handshake is not over. Dropping it ends it.
struct Handshake(Option<Arc<Core>>);

impl Drop for Handshake {
    fn drop(&mut self) {
        if let Some(core) = &self.0 {
            core.close(&CloseReason::ByCaller);
        }
    }
}

/// Creates the connection over a wire.
fn core(wire: Box<dyn Wire>, options: &Options) -> Result<Arc<Core>, ClientError> {
    let Options { limits, timer, requests, listener, .. } = options;
    Core::new(limits.clone(), timer.clone(), requests.clone(), listener.clone(), wire)
}

async fn begin(core: Arc<Core>, options: &Options, http: Option<Streamable>) -> Result<Client, ClientError> {
    let mut unready = Handshake(Some(core.clone()));
    let facts = handshake::begin(&core, options.first, &options.name).await?;
    unready.0 = None;
    let sends_headers = http.is_some() && facts.revision.era() == Era::Stateless;
    match (facts.revision.era(), http) {
        // Many servers send their own requests on this stream, and not on that of the call.
        (Era::Sessions, Some(wire))
            if options.wants_notices || options.requests.abilities() != Abilities::default() =>
        {
            streamable::listen(&core, wire);
        }
        (Era::Stateless, _) if options.wants_notices => listen(&core, &facts),
        _ => {}
    }
    Ok(Client { started: options.timer.now(), core, facts, sends_headers })
}

/// Starts the task that keeps a stream of notices open in the stateless era.
fn listen(core: &Arc<Core>, facts: &ServerFacts) {
    let offers = facts.offers;
    let mut wanted = Map::new();
    for (key, is_offered) in [
        ("toolsListChanged", offers.tools_change),
        ("promptsListChanged", offers.prompts_change),
        ("resourcesListChanged", offers.resources_change),
    ] {
        if is_offered {
            wanted.insert(key.to_owned(), json!(true));
        }
    }
    if wanted.is_empty() || facts.revision != Revision::V20260728 {
        return;
    }
    let task = core.clone();
    core.tasks.start(async move {
        for _ in 0..MOST_STREAMS {
            let mut params = Map::new();
            params.insert("notifications".to_owned(), Value::Object(wanted.clone()));
            let request =
                Request { timeout: None, ..Request::new("subscriptions/listen", params, Duration::ZERO) };
            match task.request(request).await {
                Ok(_) | Err(ClientError::BrokenStream { .. } | ClientError::Unreachable { .. }) => {}
                // A server that refuses the stream, or a connection that has ended, does so again.
                Err(_) => return,
            }
            task.timer.sleep(REOPEN).await;
        }
    });
}

fn named(key: &str, value: &str) -> Map<String, Value> {
    let mut params = Map::new();
    params.insert(key.to_owned(), json!(value));
    params
}
