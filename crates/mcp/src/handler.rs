//! What is answered to each request.

use std::borrow::Cow;
use std::sync::Arc;

use engine::{Asker, CallRequest, Caller, Door};
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, ClientCapabilities, CustomRequest, CustomResult,
    DiscoverResult, ElicitRequest, ElicitResult, ErrorCode, ErrorData, Implementation,
    InitializeRequestParams, InitializeResult, InputRequest, InputRequests, InputRequiredResult,
    ListToolsResult, PaginatedRequestParams, ProtocolVersion, RequestId, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{RoleServer, ServerHandler};
use serde_json::Value;
use tool::{CallResult, Code, Outcome, Progress, Stop, ToolError};

use crate::asker::{ByRequest, ByRetry, Said, shows_forms};
use crate::calls::Calls;
use crate::connection::Connection;
use crate::decode::Unusable;
use crate::outbox::Outbox;
use crate::progress::{HEARTBEAT, Reporter};
use crate::seal::Sealer;
use crate::{Options, list, present, question};

/// How long a client may keep the list of tools: it never changes while this process lives.
const LIST_GOOD_FOR_MS: u64 = 3_600_000;

/// The key of the one question that a call can raise.
const QUESTION: &str = "approval";

/// The methods that rmcp has a type for and this server has an answer to. A request of one that does not fit the type arrives as a
/// custom request.
const KNOWN_METHODS: &[&str] = &["initialize", "server/discover", "ping", "tools/list", "tools/call"];

/// One connection's answers.
pub(crate) struct Handler<C> {
    pub(crate) calls: Arc<C>,
    pub(crate) connection: Arc<Connection>,
    pub(crate) options: Arc<Options>,
    pub(crate) sealer: Sealer,
}

/// What of a request's context decides how its call is answered.
struct Peer {
    modern: bool,
    structured: bool,
    shows_forms: bool,
    by: String,
}

impl Peer {
    fn of(context: &RequestContext<RoleServer>) -> Self {
        let version = context.protocol_version();
        let since = |revision: ProtocolVersion| {
            version.as_ref().is_some_and(|version| version.as_str() >= revision.as_str())
        };
        let capabilities: Option<ClientCapabilities> = context.client_capabilities();
        let by = context.client_info().map_or_else(
            || "the user of an unnamed client".to_owned(),
            |client| format!("the user of {} {}", client.name, client.version),
        );
        Self {
            modern: since(ProtocolVersion::V_2026_07_28),
            structured: since(ProtocolVersion::V_2025_06_18),
            shows_forms: shows_forms(capabilities.as_ref()),
            // It goes into the audit, and the client chose it.
            by: by.chars().filter(|character| !character.is_control()).take(100).collect(),
        }
    }
}

impl<C: Calls> ServerHandler for Handler<C> {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new(&self.options.name, &self.options.version);
        server.title.clone_from(&self.options.title);
        let mut config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
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
        let answer = self.negotiate_initialize(&request)?;
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
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let peer = Peer::of(&context);
        let listed = ListToolsResult::with_all_items(list::list(
            self.calls.tools(),
            self.options.dialect,
            self.options.catalogue,
            peer.structured,
        ));
        Ok(if peer.modern {
            listed.with_ttl_ms(LIST_GOOD_FOR_MS).with_cache_scope(CacheScope::Private)
        } else {
            listed
        })
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let peer = Peer::of(&context);
        let stop = Stop::default();
        let number = match context.id {
            RequestId::Number(number) => number,
            RequestId::String(_) => return Err(ErrorData::internal_error("a request lost its number", None)),
        };
        let Some(outbox) = self.connection.outbox_of(number) else {
            return Err(ErrorData::internal_error("nobody waits for this request any more", None));
        };
        self.connection.attach(number, &stop);
        if peer.modern {
            let said = self.said(&request, &peer)?;
            let asker = Arc::new(ByRetry::new(peer.shows_forms, self.options.elicitation, said));
            let result = self.call(request, &context, stop, asker.clone(), outbox).await?;
            if let Some(question) = asker.open_question()
                && result.error().is_some_and(|error| error.code == Code::Approval)
                && let Ok(form) = question::form(&question, self.options.elicitation)
            {
                let form = InputRequest::Elicitation(ElicitRequest::new(form));
                let requests = InputRequests::from([(QUESTION.to_owned(), form)]);
                return Ok(InputRequiredResult::new(
                    Some(requests),
                    Some(self.sealer.seal(&question, question::offered(&question, self.options.elicitation))),
                )
                .into());
            }
            return Ok(self.answer(number, result, &peer));
        }
        let asker = Arc::new(ByRequest {
            connection: self.connection.clone(),
            outbox: outbox.clone(),
            shows_forms: peer.shows_forms,
            allowed: self.options.elicitation,
            patience: self.options.patience,
            by: peer.by.clone(),
        });
        let result = self.call(request, &context, stop, asker, outbox).await?;
        Ok(self.answer(number, result, &peer))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(100).collect();
        Err(if KNOWN_METHODS.contains(&method.as_str()) {
            ErrorData::invalid_params(format!("the parameters of {method} are missing or wrong"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("there is no method {method}"), None)
        })
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }
}

impl<C: Calls> Handler<C> {
    /// Makes the call, and says meanwhile that it runs.
    ///
    /// # Errors
    /// `-32602` where there is no such tool.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
        stop: Stop,
        asker: Arc<dyn Asker>,
        outbox: Outbox,
    ) -> Result<CallResult, ErrorData> {
        let known = self.calls.tools().iter().any(|tool| tool.name() == request.name);
        let reporter = context.meta.get_progress_token().map(|token| Arc::new(Reporter::new(token, outbox)));
        let progress: Arc<dyn Progress> = match &reporter {
            Some(reporter) => reporter.clone(),
            None => Arc::new(Unasked),
        };
        let request = CallRequest {
            cache: false,
            tool: request.name.into_owned(),
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            caller: Caller {
                session: self.options.session.clone(),
                door: Door::Mcp,
                dialect: self.options.dialect.as_str(),
                asker,
                ceiling: engine::Ceiling::default(),
            },
            stop,
            progress,
        };
        if let Some(Unusable { problem, hint }) = context.extensions.get::<Unusable>().cloned() {
            let mut error = ToolError::new(Code::Validation, problem);
            error.hint = hint.map(str::to_owned);
            return Ok(self.calls.refuse(request, error).await);
        }
        let call = self.calls.call(request);
        let result = match reporter {
            Some(reporter) => accompanied(call, &reporter).await,
            None => call.await,
        };
        // The engine has recorded the attempt and knows the nearest name.
        if known { Ok(result) } else { Err(unknown_tool(&result)) }
    }

    fn answer(&self, number: i64, result: CallResult, peer: &Peer) -> CallToolResponse {
        let presented = present::result(result, self.options.dialect, peer.structured);
        self.connection.hold(number, presented.held, presented.structured);
        presented.result.into()
    }

    /// What the user said, where the request brings an answer.
    ///
    /// # Errors
    /// `-32602` where the answer belongs to no open question of this connection.
    fn said(&self, request: &CallToolRequestParams, peer: &Peer) -> Result<Option<Said>, ErrorData> {
        let (state, responses) = match (&request.request_state, &request.input_responses) {
            (None, None) => return Ok(None),
            (Some(state), Some(responses)) => (state, responses),
            _ => {
                let problem = "`requestState` and `inputResponses` go together";
                return Err(ErrorData::invalid_params(problem, None));
            }
        };
        let response = responses
            .get(QUESTION)
            .and_then(|response| serde_json::from_value::<ElicitResult>(response.clone()).ok())
            .ok_or_else(|| {
                let problem = format!("`inputResponses.{QUESTION}` must be the answer to the form");
                ErrorData::invalid_params(problem, None)
            })?;
        let question = self
            .sealer
            .open(state, &request.name)
            .map_err(|error| ErrorData::invalid_params(error.to_string(), None))?;
        let choice = question::choice(&response, &question.offered);
        Ok(Some(Said { digest: question.digest, choice, by: peer.by.clone() }))
    }
}

/// Waits for the call and reports that it runs. Nothing is reported once this returns.
async fn accompanied(call: impl Future<Output = CallResult>, reporter: &Reporter) -> CallResult {
    tokio::pin!(call);
    let mut heartbeat = tokio::time::interval_at(tokio::time::Instant::now() + HEARTBEAT, HEARTBEAT);
    heartbeat.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let result = loop {
        tokio::select! {
            biased;
            result = &mut call => break result,
            _ = heartbeat.tick() => reporter.beat(),
        }
    };
    reporter.close();
    result
}

fn unknown_tool(result: &CallResult) -> ErrorData {
    let message = match &result.outcome {
        Outcome::Err(error) => match &error.hint {
            Some(hint) => format!("{}; {hint}", error.message),
            None => error.message.clone(),
        },
        Outcome::Ok(_) => "there is no such tool".to_owned(),
    };
    ErrorData::invalid_params(message, None)
}

/// The client did not ask for progress.
struct Unasked;

impl Progress for Unasked {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}
