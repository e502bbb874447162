//! Content of a server, independent of the transport.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompletionInfo, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use rmcp::task_manager::TaskManager;
use tool::{BoxFuture, ByteReservation, RawJson};

use crate::active_request::ActiveRequest;
use crate::client_info::ClientInfo;

/// Future result of a request.
pub type FutureResult<'a, T> = BoxFuture<'a, Result<T, ErrorData>>;

/// Result of a request, with the resources that it occupies until it was sent.
pub struct Reply<T> {
    /// Result, in the types of the protocol.
    pub result: T,
    /// Structured content that a tool has written as JSON text, which no type of the protocol holds.
    pub structured: Option<RawJson>,
    /// Resources that are released when the client has taken the result.
    pub held: ByteReservation,
}

impl<T> From<T> for Reply<T> {
    fn from(result: T) -> Self {
        Self { result, structured: None, held: ByteReservation::default() }
    }
}

impl<T> Reply<T> {
    /// Converts the result.
    pub fn map<U>(self, convert: impl FnOnce(T) -> U) -> Reply<U> {
        Reply { result: convert(self.result), structured: self.structured, held: self.held }
    }
}

/// Content of a server for one connection: the engine's tools, resources and prompts, or the
/// fixtures of a protocol test.
///
/// Lists are complete and in the order of presentation; the handler splits them into pages.
pub trait ServerBackend: Send + Sync + 'static {
    /// Returns the supported parts of the protocol.
    fn capabilities(&self) -> ServerCapabilities;
    /// Redacts text from a client, then truncates it to the length that responses repeat.
    fn shown(&self, text: &str) -> String {
        tool::visible(text).chars().take(100).collect()
    }
    /// Returns the tools that this client can call.
    fn tools(&self, peer: &ClientInfo) -> Vec<Tool>;
    /// Calls a tool.
    ///
    /// # Errors
    /// `-32602` if there is no such tool. A failure of the tool is a result.
    fn call<'a>(
        &'a self,
        request: CallToolRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<CallToolResponse>>;
    /// Returns the tasks of this connection.
    fn tasks(&self) -> &TaskManager;
    /// Returns the resources with fixed URIs.
    fn resources(&self) -> Vec<Resource>;
    /// Returns the templates of resources with variable URIs.
    fn templates(&self) -> Vec<ResourceTemplate>;
    /// Reads a resource.
    ///
    /// # Errors
    /// `-32002` if there is no such resource.
    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<ReadResourceResponse>>;
    /// Returns true if clients may subscribe to this resource.
    fn watches(&self, uri: &str) -> bool;
    /// Returns the prompts.
    fn prompts(&self) -> Vec<Prompt>;
    /// Fills in a prompt.
    ///
    /// # Errors
    /// `-32602` if there is no such prompt, or an argument is missing or wrong.
    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, GetPromptResponse>;
    /// Completes an argument.
    ///
    /// # Errors
    /// `-32602` if the argument cannot be completed.
    fn complete<'a>(
        &'a self,
        request: CompleteRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CompletionInfo>;
    /// Ends the work that remains of this connection.
    fn end(&self) -> BoxFuture<'_, ()>;
}
