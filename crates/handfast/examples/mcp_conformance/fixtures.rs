//! The tools, resources and prompts that the description of the official test suite requires.

use std::sync::Arc;

use door_mcp::{ActiveRequest, ClientInfo, FutureResult, McpError, Notices, Reply, ServerBackend};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompletionInfo, ErrorData,
    GetPromptRequestParams, GetPromptResponse, JsonObject, Prompt, PromptArgument, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, RequestStateCodec, Resource, ResourceContents,
    ResourceTemplate, ServerCapabilities, Tool,
};
use rmcp::task_manager::TaskManager;
use tool::BoxFuture;

use crate::{asking, content, tasks, tools};

/// Resource that the suite may subscribe to.
pub(crate) const WATCHED: &str = "test://watched-resource";

/// The fixtures of one connection.
pub(crate) struct Conformance {
    codec: RequestStateCodec,
    notices: Arc<Notices>,
    tasks: TaskManager,
}

impl Conformance {
    /// Creates the fixtures.
    ///
    /// # Errors
    /// [`McpError::Random`] if the operating system returns no random bytes.
    pub(crate) fn new(notices: Arc<Notices>) -> Result<Self, McpError> {
        let mut key = [0; RequestStateCodec::MIN_KEY_LENGTH];
        getrandom::fill(&mut key).map_err(McpError::Random)?;
        Ok(Self { codec: RequestStateCodec::new_unchecked(key), notices, tasks: TaskManager::default() })
    }
}

impl ServerBackend for Conformance {
    fn capabilities(&self) -> ServerCapabilities {
        let mut capabilities = ServerCapabilities::builder()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        capabilities.logging = Some(JsonObject::new());
        capabilities
    }

    fn tools(&self, _peer: &ClientInfo) -> Vec<Tool> {
        tools::list().into_iter().chain(asking::list()).chain(tasks::list()).collect()
    }

    fn call<'a>(
        &'a self,
        request: CallToolRequestParams,
        turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<CallToolResponse>> {
        Box::pin(async move {
            if let Some(answer) = tasks::call(&request, turn, &self.tasks).await {
                return answer.map(Reply::from);
            }
            let answer = match asking::call(&request, turn, &self.codec) {
                Some(answer) => answer,
                None => tools::call(&request, turn, &self.notices).await,
            };
            answer.map(Reply::from)
        })
    }

    fn resources(&self) -> Vec<Resource> {
        vec![
            Resource::new("test://static-text", "static-text").with_mime_type("text/plain"),
            Resource::new("test://static-binary", "static-binary").with_mime_type("image/png"),
            Resource::new(WATCHED, "watched-resource").with_mime_type("text/plain"),
        ]
    }

    fn templates(&self) -> Vec<ResourceTemplate> {
        vec![ResourceTemplate::new("test://template/{id}/data", "data").with_mime_type("application/json")]
    }

    fn read<'a>(
        &'a self,
        request: ReadResourceRequestParams,
        _turn: &'a ActiveRequest,
    ) -> FutureResult<'a, Reply<ReadResourceResponse>> {
        Box::pin(async move {
            let uri = request.uri;
            let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
            let contents = match (uri.as_str(), id) {
                ("test://static-text", _) => {
                    content::text(&uri, "text/plain", "This is the content of the static text resource.")
                }
                (WATCHED, _) => content::text(&uri, "text/plain", "Watched resource content"),
                ("test://static-binary", _) => ResourceContents::BlobResourceContents {
                    blob: content::IMAGE.to_owned(),
                    mime_type: Some("image/png".to_owned()),
                    meta: None,
                    uri,
                },
                (_, Some(id)) => {
                    let data = format!("Data for ID: {id}");
                    let data = serde_json::json!({"id": id, "templateTest": true, "data": data});
                    content::text(&uri, "application/json", &data.to_string())
                }
                _ => {
                    let named = serde_json::json!({"uri": uri});
                    return Err(ErrorData::resource_not_found("there is no such resource", Some(named)));
                }
            };
            Ok(ReadResourceResponse::from(ReadResourceResult::new(vec![contents])).into())
        })
    }

    fn tasks(&self) -> &TaskManager {
        &self.tasks
    }

    fn watches(&self, uri: &str) -> bool {
        uri == WATCHED
    }

    fn prompts(&self) -> Vec<Prompt> {
        let argument = |name: &str, required| PromptArgument::new(name).with_required(required);
        let arguments = vec![argument("arg1", true), argument("arg2", true)];
        let resource = vec![argument("resourceUri", true)];
        vec![
            Prompt::new("test_simple_prompt", Some("A prompt without arguments"), None),
            Prompt::new("test_prompt_with_arguments", Some("A prompt with arguments"), Some(arguments)),
            Prompt::new(
                "test_prompt_with_embedded_resource",
                Some("A prompt with a resource"),
                Some(resource),
            ),
            Prompt::new("test_prompt_with_image", Some("A prompt with an image"), None),
            Prompt::new(asking::PROMPT, Some("A prompt that asks first"), None),
        ]
    }

    fn prompt<'a>(
        &'a self,
        request: GetPromptRequestParams,
        _turn: &'a ActiveRequest,
    ) -> FutureResult<'a, GetPromptResponse> {
        Box::pin(async move {
            match asking::prompt(&request) {
                Some(answer) => Ok(answer),
                None => content::prompt(&request).map(Into::into),
            }
        })
    }

    fn complete<'a>(
        &'a self,
        request: CompleteRequestParams,
        _turn: &'a ActiveRequest,
    ) -> FutureResult<'a, CompletionInfo> {
        Box::pin(async move {
            let values: &[&str] = match request.r#ref {
                Reference::Resource(_) => &["1", "2", "3"],
                _ => &["paris", "park", "party"],
            };
            let wanted = values.iter().filter(|value| value.starts_with(&request.argument.value));
            let wanted = wanted.map(|value| (*value).to_owned()).collect();
            CompletionInfo::new(wanted).map_err(|problem| ErrorData::internal_error(problem, None))
        })
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}
