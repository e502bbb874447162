//! What a server offers, apart from how it is carried.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompletionInfo, ErrorCode, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use serde_json::Value;
use tool::BoxFuture;

use crate::past_tasks::PastTasks;
use crate::peer::Peer;
use crate::task::Tasks;
use crate::turn::Turn;

/// What comes of a request.
pub(crate) type Answered<'a, T> = BoxFuture<'a, Result<T, ErrorData>>;

/// What a server offers: the engine's tools and what lies around them, or what a test of the protocol expects.
///
/// Lists are whole and in the order in which they are shown; the handler gives them out by pages.
pub(crate) trait Served: Send + Sync + 'static {
    /// Which parts of the protocol there are.
    fn capabilities(&self) -> ServerCapabilities;
    /// Cuts what a client sent to as much as an answer repeats, and covers it before that.
    fn shown(&self, text: &str) -> String {
        tool::visible(text).chars().take(100).collect()
    }
    fn tools(&self, peer: &Peer) -> Vec<Tool>;
    /// # Errors
    /// `-32602` where there is no such tool; that a tool failed is a result.
    fn call<'a>(&'a self, request: CallToolRequestParams, turn: &'a Turn) -> Answered<'a, CallToolResponse>;
    /// The long calls of this connection.
    fn tasks(&self) -> &Tasks;
    /// The same for clients of the revision of 2025-11-25; none where they have none.
    fn past_tasks(&self) -> Option<&PastTasks> {
        None
    }
    /// Whether clients of that revision may have calls of this tool as tasks; none where there is no such tool.
    fn may_be_task(&self, _tool: &str) -> Option<bool> {
        None
    }
    /// Makes a call as a task of that revision.
    ///
    /// # Errors
    /// `-32601` where it can be none.
    fn begin(&self, _request: CallToolRequestParams, _turn: &Turn) -> Result<Value, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "there are no tasks here", None))
    }
    fn resources(&self) -> Vec<Resource>;
    fn templates(&self) -> Vec<ResourceTemplate>;
    /// # Errors
    /// `-32002` where there is no such resource.
    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        turn: &'a Turn,
    ) -> Answered<'a, ReadResourceResponse>;
    /// Whether a client may be told when this resource is another.
    fn watches(&self, uri: &str) -> bool;
    fn prompts(&self) -> Vec<Prompt>;
    /// # Errors
    /// `-32602` where there is no such prompt, or an argument is missing or wrong.
    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        turn: &'a Turn,
    ) -> Answered<'a, GetPromptResponse>;
    /// # Errors
    /// `-32602` where what shall be completed is not there.
    fn complete<'a>(&'a self, request: CompleteRequestParams, turn: &'a Turn)
    -> Answered<'a, CompletionInfo>;
}
