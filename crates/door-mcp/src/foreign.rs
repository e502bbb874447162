//! Resources and prompts of other MCP servers. Lists come from what is stored; everything else is a call of the
//! engine, like that of a tool.

use rmcp::model::{
    ContentBlock, ErrorCode, ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult,
    JsonObject, MetaObject, Prompt, PromptArgument, PromptMessage, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate, Role,
};
use serde_json::{Value, json};
use tool::{FOREIGN_PROMPT_TOOL, FOREIGN_RESOURCE_TOOL, ForeignPrompt, ForeignResource};

use crate::active_request::ActiveRequest;
use crate::call_data::given;
use crate::calls::Calls;
use crate::engine_calls::{CallOutcome, EngineCalls, RequestedCall};

/// Maximum number of bytes of text and Base64 of a resource.
const LARGEST_RESOURCE: u64 = 8 * 1024 * 1024;
/// Maximum number of bytes of text and Base64 of a prompt.
const LARGEST_PROMPT: u64 = 1024 * 1024;

/// Field of `_meta` that says whose words a content has.
const SOURCE: &str = "handfast/source";

/// Returns a resource as clients list it.
pub(crate) fn resource(resource: ForeignResource) -> Resource {
    let mut listed = Resource::new(resource.uri, resource.name).with_description(resource.description);
    listed.mime_type = resource.mime_type;
    listed.size = resource.size;
    listed
}

/// Returns a template as clients list it.
pub(crate) fn template(template: ForeignResource) -> ResourceTemplate {
    let mut listed =
        ResourceTemplate::new(template.uri, template.name).with_description(template.description);
    listed.mime_type = template.mime_type;
    listed
}

/// Returns a prompt as clients list it.
pub(crate) fn prompt(prompt: ForeignPrompt) -> Prompt {
    let argument = |argument: tool::ForeignArgument| {
        let mut listed = PromptArgument::new(argument.name).with_required(argument.is_required);
        listed.description = Some(argument.description).filter(|text| !text.is_empty());
        listed
    };
    let arguments: Vec<PromptArgument> = prompt.arguments.into_iter().map(argument).collect();
    Prompt::new(prompt.name, Some(prompt.description), Some(arguments).filter(|all| !all.is_empty()))
}

/// Returns true if the engine has this tool, which it has only if some server offers resources or prompts.
pub(crate) fn has_tool<C: Calls>(own: &EngineCalls<C>, name: &str) -> bool {
    own.calls.tools().iter().any(|tool| tool.name() == name)
}

/// Returns the call that reads a resource.
pub(crate) fn reading(uri: &str) -> (&'static str, Value) {
    (FOREIGN_RESOURCE_TOOL, json!({"uri": uri, "max_bytes": LARGEST_RESOURCE}))
}

/// Converts the data of [`FOREIGN_RESOURCE_TOOL`].
///
/// # Errors
/// `-32000` if a binary content is too large.
pub(crate) fn read(data: &Value) -> Result<ReadResourceResult, ErrorData> {
    let source = text(data, "source");
    let contents = data["contents"].as_array().into_iter().flatten();
    let contents: Result<Vec<_>, _> = contents.map(|entry| content(entry, &source)).collect();
    let mut contents = contents?;
    if data["is_cut"] == true
        && let Some(ResourceContents::TextResourceContents { meta: Some(meta), .. }) = contents.last_mut()
    {
        meta.0.insert("handfast/part".to_owned(), json!({"is_cut": true}));
    }
    Ok(ReadResourceResult::new(contents))
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

fn content(entry: &Value, source: &str) -> Result<ResourceContents, ErrorData> {
    let (uri, mime_type) = (text(entry, "uri"), entry["mime_type"].as_str().map(str::to_owned));
    let meta = Some(MetaObject(JsonObject::from_iter([(SOURCE.to_owned(), source.into())])));
    match (&entry["text"], &entry["base64"]) {
        (Value::String(text), _) => {
            Ok(ResourceContents::TextResourceContents { uri, mime_type, text: text.clone(), meta })
        }
        (_, Value::String(blob)) => {
            Ok(ResourceContents::BlobResourceContents { uri, mime_type, blob: blob.clone(), meta })
        }
        _ => {
            let problem = format!(
                "the resource has {} bytes, and the answer has room for {LARGEST_RESOURCE} of Base64",
                entry["bytes"]
            );
            Err(ErrorData::new(ErrorCode(-32000), problem, None))
        }
    }
}

/// Fills in a prompt of another server.
///
/// # Errors
/// `-32602` if no server has the prompt, or its server does not accept the arguments.
pub(crate) async fn filled_in<C: Calls>(
    own: &EngineCalls<C>,
    request: GetPromptRequestParams,
    turn: &ActiveRequest,
) -> Result<GetPromptResponse, ErrorData> {
    if !has_tool(own, FOREIGN_PROMPT_TOOL) {
        return Err(ErrorData::invalid_params("unknown prompt", None));
    }
    let given_arguments = Value::Object(request.arguments.unwrap_or_default());
    let arguments =
        json!({"prompt": request.name, "arguments": given_arguments, "max_bytes": LARGEST_PROMPT});
    let (state, responses) = (request.request_state, request.input_responses);
    let wanted = RequestedCall { tool: FOREIGN_PROMPT_TOOL.to_owned(), arguments, state, responses };
    match own.make(wanted, turn).await? {
        CallOutcome::Asks(question) => Ok(GetPromptResponse::from(question)),
        CallOutcome::Done(result) => {
            let data = given(*result).map_err(|mut error| {
                // The protocol has no other code for an unknown prompt.
                if error.code == ErrorCode::RESOURCE_NOT_FOUND {
                    error.code = ErrorCode::INVALID_PARAMS;
                }
                error
            })?;
            let source = text(&data, "source");
            let messages = data["messages"].as_array().into_iter().flatten();
            let messages: Result<Vec<_>, _> = messages.map(|entry| message(entry, &source)).collect();
            let mut result = GetPromptResult::new(messages?);
            result.description = Some(source);
            Ok(result.into())
        }
    }
}

fn message(entry: &Value, source: &str) -> Result<PromptMessage, ErrorData> {
    let role = if entry["role"] == "assistant" { Role::Assistant } else { Role::User };
    let mime_type = || text(entry, "mime_type");
    let shown = match (entry["kind"].as_str(), entry["base64"].as_str()) {
        (Some("image"), Some(data)) => ContentBlock::image(data, mime_type()),
        (Some("audio"), Some(data)) => ContentBlock::audio(data, mime_type()),
        (Some("link"), _) => {
            ContentBlock::resource_link(Resource::new(text(entry, "uri"), text(entry, "name")))
        }
        (Some("resource"), _) => ContentBlock::resource(content(entry, source)?),
        (Some("image" | "audio"), None) => {
            ContentBlock::text(format!("[{} bytes of type {} are left out]", entry["bytes"], mime_type()))
        }
        _ => ContentBlock::text(text(entry, "text")),
    };
    Ok(PromptMessage::new(role, shown))
}
