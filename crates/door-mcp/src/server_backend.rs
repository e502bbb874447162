//! Content of a server, independent of the transport.

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompletionInfo, ErrorData,
    GetPromptRequestParams, GetPromptResponse, Prompt, ReadResourceRequestParams, ReadResourceResponse,
    Resource, ResourceTemplate, ServerCapabilities, Tool,
};
use tool::BoxFuture;

use crate::active_request::ActiveRequest;
use crate::client_info::ClientInfo;
use crate::tasks::Tasks;

/// Future result of a request.
pub(crate) type FutureResult<'a, T> = BoxFuture<'a, Result<T, ErrorData>>;

/// Content of a server: the engine's tools, resources and prompts, or the fixtures of a protocol test.
///
/// Lists are complete and in the order of presentation; the handler splits them into pages.
pub(crate) trait ServerBackend: Send + Sync + 'static {
    /// Returns the supported parts of the protocol.
    fn capabilities(&self) -> ServerCapabilities;
    /// Redacts text from a client, then truncates it to the length that responses repeat.
    fn shown(&self, text: &str) -> String {
        tool::visible(text).chars().take(100).collect()
    }
    fn tools(&self, peer: &ClientInfo) -> Vec<Tool>;
    /// Calls a tool.
    ///
    /// # Errors
    /// `-32602` if there is no such tool. A failure of the tool is a result.
    fn call<'a>(
        &'a self,
        request: CallToolRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CallToolResponse>;
    /// Returns the tasks of this connection.
    fn tasks(&self) -> &Tasks;
    fn resources(&self) -> Vec<Resource>;
    fn templates(&self) -> Vec<ResourceTemplate>;
    /// Reads a resource.
    ///
    /// # Errors
    /// `-32002` if there is no such resource.
    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, ReadResourceResponse>;
    /// Returns true if clients may subscribe to this resource.
    fn watches(&self, uri: &str) -> bool;
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
}
