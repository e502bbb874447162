//! Handler of all requests: revisions, pages and subscriptions, for any kind of server content.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, ClientCapabilities, ClientRequest, CompleteResult, DiscoverResult, ErrorCode, ErrorData,
    Implementation, InitializeRequestParams, InitializeResult, JsonObject, ListPromptsResult,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, ProtocolVersion, RequestId,
    RequestMetaObject, ServerCapabilities, ServerConfig, ServerResult, SubscribeRequestParams,
    SubscriptionFilter, SubscriptionsListenResult,
};
use serde_json::json;
use tokio::sync::oneshot;

use crate::active_request::{ActiveRequest, Arrival, ClientLine, TaskSlot};
use crate::client_info::ClientInfo;
use crate::connection::{Connection, MAX_WATCHED, PendingRequest};
use crate::decode::Request;
use crate::engine_server::capabilities;
use crate::log::Severity;
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::outbox::Message;
use crate::page::Pages;
use crate::server_backend::{Reply, ServerBackend};
use crate::tasks;

/// Time for which a client may cache a list, in milliseconds. The tools of plugins and other servers can come
/// and go.
const LIST_GOOD_FOR_MS: u64 = 60_000;

/// Request handler of one connection.
#[derive(Clone)]
pub(crate) struct Handler {
    pub(crate) backend: Arc<dyn ServerBackend>,
    pub(crate) connection: Arc<Connection>,
    options: Arc<Options>,
    pages: Arc<Pages>,
}

fn no_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method}"), None)
}

/// Builds one page of a list, in the form of the client's revision.
macro_rules! listed {
    ($handler:ident, $result:ident, $name:literal, $entries:expr, $asked:expr, $peer:ident) => {{
        let (entries, next) = $handler.pages.of($name, $entries, $asked.as_ref())?;
        let mut listed = $result::with_all_items(entries);
        listed.next_cursor = next;
        ServerResult::$result(if $peer.modern {
            listed.with_ttl_ms(LIST_GOOD_FOR_MS).with_cache_scope(CacheScope::Private)
        } else {
            listed
        })
    }};
}

impl Handler {
    /// Creates the handler of a connection with this content.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new(
        backend: Arc<dyn ServerBackend>,
        options: Arc<Options>,
        connection: Arc<Connection>,
        notices: &Notices,
    ) -> Result<Self, McpError> {
        notices.add(&connection);
        Ok(Self { backend, connection, options, pages: Arc::new(Pages::new()?) })
    }

    /// Handles one request.
    ///
    /// # Errors
    /// The error that the client gets in place of a result.
    pub(crate) async fn handle(
        &self,
        request: Request,
        arrival: Arrival,
        pending: &Arc<PendingRequest>,
    ) -> Result<Reply<ServerResult>, ErrorData> {
        let handshake = self.connection.handshake();
        let peer = ClientInfo::of(&request.meta, handshake.as_deref());
        let modern = peer.modern;
        check_revision(&request)?;
        let mut reply = self.respond(request, peer, arrival, pending).await.map_err(|mut error| {
            if modern && error.code == ErrorCode::RESOURCE_NOT_FOUND {
                error.code = ErrorCode::INVALID_PARAMS;
            }
            error
        })?;
        if modern {
            reply.result.fill_missing_cache_hints();
        } else if matches!(reply.result, ServerResult::InputRequiredResult(_)) {
            let problem = "the answer is a question, which only clients of revision 2026-07-28 get this way";
            return Err(ErrorData::invalid_request(problem, None));
        } else {
            reply.result.strip_result_type_for_legacy_peer();
        }
        Ok(reply)
    }

    #[expect(
        deprecated,
        reason = "only revisions up to 2025-11-25 set a level per connection and watch single resources"
    )]
    async fn respond(
        &self,
        request: Request,
        peer: ClientInfo,
        arrival: Arrival,
        pending: &Arc<PendingRequest>,
    ) -> Result<Reply<ServerResult>, ErrorData> {
        use ClientRequest as Asked;
        let Request { content, meta, progress, unusable } = request;
        if !matches!(content, Asked::InitializeRequest(_) | Asked::CustomRequest(_)) {
            self.must_know(content.method(), &peer)?;
        }
        let turn = |method, peer: ClientInfo| ActiveRequest {
            pending: pending.clone(),
            method,
            progress,
            least_severity: Severity::wanted(&meta),
            traced: traced(&meta),
            unusable,
            arrival,
            line: ClientLine {
                connection: self.connection.clone(),
                outbox: pending.outbox.clone(),
                patience: self.options.patience,
            },
            task: TaskSlot::default(),
            peer,
        };
        let backend = &self.backend;
        let result = match content {
            Asked::InitializeRequest(asked) => ServerResult::InitializeResult(self.initialize(asked.params)),
            Asked::DiscoverRequest(_) => ServerResult::DiscoverResult(self.discover()),
            Asked::PingRequest(_) => ServerResult::empty(()),
            Asked::ListToolsRequest(asked) => {
                listed!(self, ListToolsResult, "tools", backend.tools(&peer), asked.params, peer)
            }
            Asked::CallToolRequest(asked) => {
                let reply = backend.call(asked.params, &turn("tools/call", peer)).await?;
                return Ok(reply.map(ServerResult::from));
            }
            Asked::ListResourcesRequest(asked) => {
                listed!(self, ListResourcesResult, "resources", backend.resources(), asked.params, peer)
            }
            Asked::ListResourceTemplatesRequest(asked) => {
                let templates = backend.templates();
                listed!(self, ListResourceTemplatesResult, "templates", templates, asked.params, peer)
            }
            Asked::ReadResourceRequest(asked) => {
                let reply = backend.read(asked.params, &turn("resources/read", peer)).await?;
                return Ok(reply.map(ServerResult::from));
            }
            Asked::SubscribeRequest(asked) => self.subscribe(asked.params).map(ServerResult::empty)?,
            Asked::UnsubscribeRequest(asked) => {
                self.connection.unwatch(&asked.params.uri);
                ServerResult::empty(())
            }
            Asked::SubscriptionsListenRequest(asked) => {
                let listened = self.listen(&asked.params.notifications, pending).await;
                ServerResult::SubscriptionsListenResult(listened)
            }
            Asked::ListPromptsRequest(asked) => {
                listed!(self, ListPromptsResult, "prompts", backend.prompts(), asked.params, peer)
            }
            Asked::GetPromptRequest(asked) => {
                backend.prompt(asked.params, &turn("prompts/get", peer)).await?.into()
            }
            Asked::CompleteRequest(asked) => {
                let info = backend.complete(asked.params, &turn("completion/complete", peer)).await?;
                ServerResult::CompleteResult(CompleteResult::new(info))
            }
            Asked::SetLevelRequest(asked) => {
                let level = serde_json::to_value(asked.params.level).unwrap_or_default();
                self.set_level(level.as_str()).map(ServerResult::empty)?
            }
            Asked::GetTaskRequest(asked) => {
                must_take_tasks(&peer)?;
                ServerResult::GetTaskResult(tasks::state(backend.tasks(), &asked.params.task_id)?)
            }
            Asked::UpdateTaskRequest(asked) => {
                must_take_tasks(&peer)?;
                let (task, responses) = (asked.params.task_id, asked.params.input_responses);
                let updated = backend.tasks().update_task(&task, responses);
                updated.map(ServerResult::task_ack).map_err(|_| tasks::unknown())?
            }
            Asked::CancelTaskRequest(asked) => {
                must_take_tasks(&peer)?;
                let cancelled = backend.tasks().cancel_task(&asked.params.task_id);
                cancelled.map(ServerResult::task_ack).map_err(|_| tasks::unknown())?
            }
            // A known method with invalid parameters arrives as a custom request.
            Asked::CustomRequest(asked) => {
                let method = backend.shown(&asked.method);
                self.must_know(&method, &peer)?;
                let problem = format!("the parameters of {method} are missing or invalid");
                return Err(ErrorData::invalid_params(problem, None));
            }
            other => return Err(no_method(other.method())),
        };
        Ok(result.into())
    }

    /// Checks that the client may use a method.
    ///
    /// # Errors
    /// `-32601` if the client's revision has no such method, or the server does not offer the feature.
    fn must_know(&self, method: &str, peer: &ClientInfo) -> Result<(), ErrorData> {
        let capabilities = self.backend.capabilities();
        let knows = match method {
            "server/discover" | "tools/list" | "tools/call" => true,
            "initialize" | "ping" => !peer.modern,
            "prompts/list" | "prompts/get" => capabilities.prompts.is_some(),
            "resources/list" | "resources/templates/list" | "resources/read" => {
                capabilities.resources.is_some()
            }
            "resources/subscribe" | "resources/unsubscribe" => {
                capabilities.resources.is_some() && !peer.modern
            }
            "subscriptions/listen" => capabilities.resources.is_some() && peer.modern,
            "tasks/get" | "tasks/update" | "tasks/cancel" => capabilities.supports_tasks() && peer.modern,
            "completion/complete" => capabilities.completions.is_some(),
            "logging/setLevel" => capabilities.logging.is_some() && !peer.modern,
            _ => false,
        };
        if knows { Ok(()) } else { Err(no_method(method)) }
    }

    fn info(&self) -> ServerConfig {
        info(&self.options, self.backend.capabilities())
    }

    fn initialize(&self, request: InitializeRequestParams) -> InitializeResult {
        let answer = initialize_result(self.info(), &request.protocol_version);
        self.connection.shake_hands(request.with_protocol_version(answer.protocol_version.clone()));
        answer
    }

    fn discover(&self) -> DiscoverResult {
        DiscoverResult::from_server_info(ProtocolVersion::KNOWN_VERSIONS.to_vec(), self.info())
            .with_ttl_ms(LIST_GOOD_FOR_MS)
            .with_cache_scope(CacheScope::Private)
    }

    fn subscribe(&self, request: SubscribeRequestParams) -> Result<(), ErrorData> {
        if !self.backend.watches(&request.uri) {
            let problem = "this resource sends no notifications; read it when needed";
            return Err(ErrorData::invalid_params(problem, None));
        }
        if !self.connection.watch(request.uri) {
            let problem = format!("{MAX_WATCHED} resources are already watched");
            return Err(ErrorData::invalid_request(problem, None));
        }
        Ok(())
    }

    /// Sends the client the notices that it asks for, until it cancels the request or disconnects.
    async fn listen(
        &self,
        requested: &SubscriptionFilter,
        pending: &PendingRequest,
    ) -> SubscriptionsListenResult {
        let mut offered = requested.supported_by(&self.backend.capabilities());
        if let Some(watched) = &mut offered.resource_subscriptions {
            watched.retain(|uri| self.backend.watches(uri));
            watched.truncate(MAX_WATCHED);
        }
        let accepted = requested.intersection(&offered);
        let method = "notifications/subscriptions/acknowledged";
        let acknowledged = json!({"jsonrpc": "2.0", "method": method, "params": {"notifications": accepted}});
        pending.outbox.post(Message::of_a_subscription(acknowledged, pending.id.clone()));
        pending.listen(accepted);
        let (ended, end) = oneshot::channel();
        pending.stop.on_request(|_| {
            // The receiver may be gone: then the request has ended already.
            let _ = ended.send(());
        });
        // The stop holds the sender.
        let _ = end.await;
        // The outbox replaces the number by the client's own id.
        let mut result = SubscriptionsListenResult::complete(RequestId::Number(0));
        result.meta.set_server_info(self.info().server_info);
        result
    }

    fn set_level(&self, level: Option<&str>) -> Result<(), ErrorData> {
        let level = level.and_then(Severity::named);
        let level =
            level.ok_or_else(|| ErrorData::invalid_params("`level` is not a level of the protocol", None))?;
        self.connection.set_log_level(level);
        Ok(())
    }
}

/// Returns the fields of `_meta` with the parent span.
fn traced(meta: &RequestMetaObject) -> JsonObject {
    let named = |name: &&str| meta.get(*name).map(|value| ((*name).to_owned(), value.clone()));
    ["traceparent", "tracestate"].iter().filter_map(named).collect()
}

/// Checks that a request states a supported revision, and the data that its revision requires.
///
/// # Errors
/// `-32022` for an unknown revision, `-32602` for missing data.
fn check_revision(request: &Request) -> Result<(), ErrorData> {
    if request.is_handshake() {
        return Ok(());
    }
    let known = ProtocolVersion::KNOWN_VERSIONS;
    if let Some(version) = request.meta.protocol_version().filter(|version| !known.contains(version)) {
        return Err(ErrorData::unsupported_protocol_version(version, known));
    }
    if request.is_modern() == Some(true) || matches!(request.content, ClientRequest::DiscoverRequest(_)) {
        let missing = request.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
        if !missing.is_empty() {
            let missing = missing.join(", ");
            let problem = format!("request _meta is missing or has malformed required fields: {missing}");
            return Err(ErrorData::invalid_params(problem, None));
        }
    }
    Ok(())
}

/// Checks that a client that names a task has declared that it supports tasks.
fn must_take_tasks(peer: &ClientInfo) -> Result<(), ErrorData> {
    if peer.takes_tasks() {
        return Ok(());
    }
    let needed = ClientCapabilities::builder().enable_tasks().build();
    Err(ErrorData::missing_required_client_capability(needed))
}

/// Describes the server.
fn info(options: &Options, capabilities: ServerCapabilities) -> ServerConfig {
    let mut server = Implementation::new(&options.name, &options.version);
    server.title.clone_from(&options.title);
    let mut config = ServerConfig::new(capabilities)
        .with_server_info(server)
        .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
    config.instructions.clone_from(&options.instructions);
    config
}

/// Builds the answer to `initialize` for a client that asks for this version of the protocol.
fn initialize_result(mut answer: ServerConfig, asked: &ProtocolVersion) -> InitializeResult {
    if asked.has_initialize() && ProtocolVersion::KNOWN_VERSIONS.contains(asked) {
        answer.protocol_version = asked.clone();
    }
    // Extensions exist only in the revision without a handshake.
    answer.capabilities.extensions = None;
    answer
}

/// Builds the answer to `initialize` before there is an engine.
pub(crate) fn early_answer(options: &Options, asked: &ProtocolVersion) -> InitializeResult {
    initialize_result(info(options, capabilities(options)), asked)
}
