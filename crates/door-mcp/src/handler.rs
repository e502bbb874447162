//! Handler of all requests: revisions, pages and subscriptions, for any kind of server content.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams,
    CompleteRequestParams, CompleteResult, CustomRequest, CustomResult, DiscoverResult, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetTaskParams, GetTaskResult, Implementation,
    InitializeRequestParams, InitializeResult, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, RequestId, ServerConfig, ServerResult, SubscribeRequestParams, SubscriptionFilter,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tool::Stop;

use crate::active_request::ActiveRequest;
use crate::calls::Calls;
use crate::client_info::ClientInfo;
use crate::conformance::Conformance;
use crate::connection::{Connection, MAX_WATCHED};
use crate::engine_server::EngineServer;
use crate::log::Severity;
use crate::notices::Notices;
use crate::page::Pages;
use crate::server_backend::ServerBackend;
use crate::signed_state::Sealer;
use crate::tasks::{Tasks, unknown};
use crate::{McpError, Options};

/// Time for which a client may cache a list, in milliseconds: lists do not change during the life
/// of this process.
const LIST_GOOD_FOR_MS: u64 = 3_600_000;

/// Request handler of one connection.
#[derive(Clone)]
pub(crate) struct Handler {
    served: Arc<dyn ServerBackend>,
    connection: Arc<Connection>,
    options: Arc<Options>,
    pages: Arc<Pages>,
}

impl Handler {
    /// Creates the handler of a connection to this engine.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new<C: Calls>(
        calls: &Arc<C>,
        options: Options,
        connection: Arc<Connection>,
        notices: &Arc<Notices>,
    ) -> Result<Self, McpError> {
        notices.add(&connection);
        let options = Arc::new(options);
        let served: Arc<dyn ServerBackend> = if options.conformance {
            Arc::new(Conformance::new(notices.clone())?)
        } else {
            Arc::new(EngineServer {
                calls: calls.clone(),
                options: options.clone(),
                sealer: Arc::new(Sealer::new(options.session.clone()).map_err(McpError::Random)?),
                notices: notices.clone(),
                tasks: Tasks::default(),
            })
        };
        Ok(Self { served, connection, options, pages: Arc::new(Pages::new()?) })
    }

    fn turn(
        &self,
        context: RequestContext<RoleServer>,
        method: &'static str,
    ) -> Result<ActiveRequest, ErrorData> {
        ActiveRequest::begin(context, method, &self.connection, self.options.patience)
    }

    /// Returns true if the client's revision has this method. A known method with invalid
    /// parameters arrives as a custom request.
    fn knows(&self, method: &str, peer: &ClientInfo) -> bool {
        let capabilities = self.served.capabilities();
        match method {
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
        }
    }

    /// Checks that the client may use a method.
    ///
    /// # Errors
    /// `-32601` if the client's revision has no such method, or the server does not offer the feature.
    fn must_know(&self, method: &str, peer: &ClientInfo) -> Result<(), ErrorData> {
        if self.knows(method, peer) { Ok(()) } else { Err(no_method(method)) }
    }
}

fn no_method(method: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method {method}"), None)
}

/// Builds one page of a list, in the form of the client's revision.
macro_rules! listed {
    ($handler:ident, $result:ident, $name:literal, $entries:expr, $asked:ident, $peer:ident) => {{
        let (entries, next) = $handler.pages.of($name, $entries, $asked.as_ref())?;
        let mut listed = $result::with_all_items(entries);
        listed.next_cursor = next;
        Ok(if $peer.modern {
            listed.with_ttl_ms(LIST_GOOD_FOR_MS).with_cache_scope(CacheScope::Private)
        } else {
            listed
        })
    }};
}

#[expect(
    deprecated,
    reason = "only revisions up to 2025-11-25 set a level per connection and watch single resources"
)]
impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new(&self.options.name, &self.options.version);
        server.title.clone_from(&self.options.title);
        let mut config = ServerConfig::new(self.served.capabilities())
            .with_server_info(server)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE);
        config.instructions.clone_from(&self.options.instructions);
        config
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let mut answer = self.negotiate_initialize(&request)?;
        // Extensions exist only in the revision without a handshake.
        answer.capabilities.extensions = None;
        let version = answer.protocol_version.clone();
        context.peer.set_peer_info(request.with_protocol_version(version));
        Ok(answer)
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(versions, self.get_info())
            .with_ttl_ms(LIST_GOOD_FOR_MS)
            .with_cache_scope(CacheScope::Private))
    }

    async fn list_tools(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let peer = ClientInfo::of(&context);
        listed!(self, ListToolsResult, "tools", self.served.tools(&peer), asked, peer)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let turn = self.turn(context, "tools/call")?;
        self.served.call(request, &turn).await
    }

    async fn list_resources(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let peer = ClientInfo::of(&context);
        self.must_know("resources/list", &peer)?;
        listed!(self, ListResourcesResult, "resources", self.served.resources(), asked, peer)
    }

    async fn list_resource_templates(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let peer = ClientInfo::of(&context);
        self.must_know("resources/templates/list", &peer)?;
        listed!(self, ListResourceTemplatesResult, "templates", self.served.templates(), asked, peer)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let turn = self.turn(context, "resources/read")?;
        self.must_know("resources/read", &turn.peer)?;
        self.served.read(request, &turn).await
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.must_know("resources/subscribe", &ClientInfo::of(&context))?;
        if !self.served.watches(&request.uri) {
            let problem = "this resource sends no notifications; read it when needed";
            return Err(ErrorData::invalid_params(problem, None));
        }
        if !self.connection.watch(request.uri) {
            let problem = format!("{MAX_WATCHED} resources are already watched");
            return Err(ErrorData::invalid_request(problem, None));
        }
        Ok(())
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.must_know("resources/unsubscribe", &ClientInfo::of(&context))?;
        self.connection.unwatch(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // rmcp calls this only for clients of the revision that has subscriptions.
        self.served.capabilities().resources.as_ref()?;
        let mut accepted = requested.clone();
        if let Some(watched) = &mut accepted.resource_subscriptions {
            watched.retain(|uri| self.served.watches(uri));
            watched.truncate(MAX_WATCHED);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let RequestId::Number(number) = context.request_context().id else {
            return Err(ErrorData::internal_error("a request has lost its number", None));
        };
        let (ended, end) = oneshot::channel();
        let stop = Stop::default();
        stop.on_request(|_| {
            // The receiver may be gone: then the request has ended already.
            let _ = ended.send(());
        });
        self.connection.listen(number, context.accepted().clone());
        self.connection.attach(number, &stop);
        // `stop` holds the sender.
        let _ = end.await;
        Ok(())
    }

    async fn list_prompts(
        &self,
        asked: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let peer = ClientInfo::of(&context);
        self.must_know("prompts/list", &peer)?;
        listed!(self, ListPromptsResult, "prompts", self.served.prompts(), asked, peer)
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let turn = self.turn(context, "prompts/get")?;
        self.must_know("prompts/get", &turn.peer)?;
        self.served.prompt(request, &turn).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let turn = self.turn(context, "completion/complete")?;
        self.must_know("completion/complete", &turn.peer)?;
        self.served.complete(request, &turn).await.map(CompleteResult::new)
    }

    async fn set_level(
        &self,
        request: rmcp::model::SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.must_know("logging/setLevel", &ClientInfo::of(&context))?;
        let level = serde_json::to_value(request.level).ok();
        let level = level.as_ref().and_then(serde_json::Value::as_str).and_then(Severity::named);
        let level =
            level.ok_or_else(|| ErrorData::invalid_params("`level` is not a level of the protocol", None))?;
        self.connection.set_log_level(level);
        Ok(())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        self.served.tasks().state(&request.task_id)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let tasks = self.served.tasks().inside();
        tasks.update_task(&request.task_id, request.input_responses).map_err(|_| unknown())
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.served.tasks().cancel(&request.task_id)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = self.served.shown(&request.method);
        let peer = ClientInfo::of(&context);
        Err(if self.knows(&method, &peer) {
            ErrorData::invalid_params(format!("the parameters of {method} are missing or invalid"), None)
        } else {
            no_method(&method)
        })
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }
}
