//! Resources, prompts and completions. All data is read by tool calls on behalf of the client, so
//! the policy and the audit log cover it like other calls.

use std::sync::Arc;

use dialects::content_tools;
use rmcp::model::{
    CacheScope, CompleteRequestParams, CompletionInfo, ContentBlock, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, Prompt, PromptArgument, PromptMessage, ReadResourceRequestParams,
    ReadResourceResponse, ReadResourceResult, Reference, ResourceContents, Role,
};
use serde_json::{Value, json};
use tool::{ByteReservation, FOREIGN_RESOURCE_TOOL, split_foreign_uri};

use crate::active_request::ActiveRequest;
use crate::address::{self, Address};
use crate::asker::{CurrentTask, ElicitByRetry, NoQuestions};
use crate::call_data::{given, refused};
use crate::calls::Calls;
use crate::engine_calls::{CallOutcome, EngineCalls, RequestedCall};
use crate::foreign;
use crate::server_backend::Reply;

/// Separator in the names of prompts of other servers.
const FOREIGN_NAME: &str = "__";

const REVIEW: &str = "review_changes";
const EXPLAIN: &str = "explain_denial";
const ABILITIES: &str = "what_can_be_done";

/// Returns the prompts, with descriptions.
pub(crate) fn prompts() -> Vec<Prompt> {
    let argument = |name: &str, description: &str| {
        Some(vec![PromptArgument::new(name).with_description(description).with_required(false)])
    };
    vec![
        Prompt::new(
            REVIEW,
            Some("Review what a call changed"),
            argument("checkpoint", "A checkpoint; default: the newest."),
        ),
        Prompt::new(
            EXPLAIN,
            Some("Explain why a call was denied and what to do"),
            argument("call", "A call of this session; default: the last denied one."),
        ),
        Prompt::new(ABILITIES, Some("Describe the available tools and their reach"), None),
    ]
}

/// Builds the content of a resource: JSON for a record, otherwise the text. The remaining fields
/// are in `_meta`, for example the offset at which the text continues.
fn contents(uri: String, mut data: Value) -> ResourceContents {
    let field = ["content", "diff"].into_iter().find(|field| data[*field].is_string());
    let Some(field) = field else {
        let (mime_type, text) = (Some("application/json".to_owned()), data.to_string());
        return ResourceContents::TextResourceContents { uri, mime_type, text, meta: None };
    };
    let text = data[field].as_str().unwrap_or_default().to_owned();
    let kind =
        data["mime_type"].as_str().unwrap_or(if field == "diff" { "text/x-diff" } else { "text/plain" });
    let mime_type = Some(kind.to_owned());
    let is_binary = data["encoding"] == "base64";
    let meta = data.as_object_mut().map(|rest| {
        rest.shift_remove(field);
        serde_json::Map::from_iter([("handfast/part".to_owned(), Value::Object(std::mem::take(rest)))])
    });
    let meta = meta.map(rmcp::model::MetaObject);
    if is_binary {
        return ResourceContents::BlobResourceContents { uri, mime_type, blob: text, meta };
    }
    ResourceContents::TextResourceContents { uri, mime_type, text, meta }
}

fn no_resource(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("unknown resource", Some(json!({"uri": uri})))
}

/// Reads a resource.
///
/// # Errors
/// `-32002` if unknown resource; `-32000` if it may not be read, or reading it failed.
pub(crate) async fn content<C: Calls>(
    own: &EngineCalls<C>,
    request: ReadResourceRequestParams,
    turn: &ActiveRequest,
) -> Result<Reply<ReadResourceResponse>, ErrorData> {
    let uri = request.uri;
    let mut held = ByteReservation::default();
    let address = Address::of(&uri).ok_or_else(|| no_resource(&uri))?;
    let is_foreign = address == Address::Foreign;
    if is_foreign && !foreign::has_tool(own, FOREIGN_RESOURCE_TOOL) {
        return Err(no_resource(&uri));
    }
    let data = match address {
        Address::Audit(call) => recorded(own, call, &uri).await?,
        Address::Tool(..) | Address::Foreign => {
            let (tool, arguments) = match address {
                Address::Tool(tool, arguments) => (tool, arguments),
                _ => foreign::reading(&uri),
            };
            let (state, responses) = (request.request_state, request.input_responses);
            let wanted = RequestedCall { tool: tool.to_owned(), arguments, state, responses };
            match own.make(wanted, turn).await? {
                CallOutcome::Asks(question) => return Ok(ReadResourceResponse::from(question).into()),
                CallOutcome::Done(mut result) => {
                    held = std::mem::take(&mut result.held);
                    given(*result)?
                }
            }
        }
    };
    let read =
        if is_foreign { foreign::read(&data)? } else { ReadResourceResult::new(vec![contents(uri, data)]) };
    // A file may change at any moment.
    let read =
        if turn.peer.modern { read.with_ttl_ms(0).with_cache_scope(CacheScope::Private) } else { read };
    Ok(Reply { result: read.into(), structured: None, held })
}

/// Reads the audit log of this session, or of one of its calls.
async fn recorded<C: Calls>(
    own: &EngineCalls<C>,
    call: Option<String>,
    uri: &str,
) -> Result<Value, ErrorData> {
    let whole = call.is_none();
    let rows = rows(own, call).await?;
    if rows.is_empty() && !whole { Err(no_resource(uri)) } else { Ok(Value::Array(rows)) }
}

async fn rows<C: Calls>(own: &EngineCalls<C>, call: Option<String>) -> Result<Vec<Value>, ErrorData> {
    let (session, dialect) = (&own.options.session, own.options.dialect.as_str());
    own.calls.recorded(session, dialect, call).await.map_err(|error| refused(&error))
}

/// Makes a call without asking the user.
async fn quietly<C: Calls>(
    own: &EngineCalls<C>,
    tool: &str,
    arguments: Value,
    turn: &ActiveRequest,
) -> Result<Value, ErrorData> {
    let nobody = Arc::new(
        ElicitByRetry::new(turn, CurrentTask::of(turn), own.options.elicitation, None).without_forms(),
    );
    given(own.accompanied(tool.to_owned(), arguments, nobody, turn).await)
}

/// Makes a call for a completion while the user types. Returns `None` if the call would need an
/// approval, or its arguments are not valid yet.
async fn at_once<C: Calls>(
    own: &EngineCalls<C>,
    tool: &str,
    arguments: Value,
    turn: &ActiveRequest,
) -> Option<Value> {
    given(own.accompanied(tool.to_owned(), arguments, Arc::new(NoQuestions), turn).await).ok()
}

/// Fills in a prompt.
///
/// # Errors
/// `-32602` if unknown prompt, or its subject does not exist.
pub(crate) async fn prompt<C: Calls>(
    own: &EngineCalls<C>,
    request: GetPromptRequestParams,
    turn: &ActiveRequest,
) -> Result<GetPromptResponse, ErrorData> {
    let arguments = request.arguments.clone().unwrap_or_default();
    let argument = |name: &str| match arguments.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(ErrorData::invalid_params(format!("`{name}` must be a string"), None)),
    };
    let (text, uri, data) = match request.name.as_str() {
        REVIEW => {
            let id = match argument("checkpoint")? {
                Some(id) => id,
                None => checkpoints(own, turn)
                    .await?
                    .into_iter()
                    .next()
                    .ok_or_else(|| ErrorData::invalid_params("there is no change to undo yet", None))?,
            };
            let tool = content_tools::CHECKPOINT;
            let diff = quietly(own, tool.name, json!({tool.argument: id}), turn).await?;
            let restore = content_tools::CHECKPOINT_RESTORE;
            let text = format!(
                "Review the changes below, made by the call {id}: their effect, possible breakage, \
                 and gaps. `{restore}` with this id undoes them."
            );
            (text, format!("handfast://checkpoint/{id}"), diff)
        }
        EXPLAIN => {
            let named = argument("call")?;
            let rows = rows(own, named.clone()).await?;
            let is_wanted = |row: &&Value| named.is_some() || row["decision"] == "deny";
            let row = rows
                .iter()
                .rfind(|row| named.is_some() && is_wanted(row))
                .or_else(|| rows.iter().find(is_wanted));
            let row = row.cloned().ok_or_else(|| {
                let problem = if named.is_some() {
                    "this session has no such call"
                } else {
                    "nothing was denied in this session"
                };
                ErrorData::invalid_params(problem, None)
            })?;
            let id = row["call"].as_str().unwrap_or_default().to_owned();
            let text = format!(
                "Explain the decision on the call {id} in the record below to the user: the \
                 planned effect, the rule that decided, and how the user could allow the call. Do \
                 not try to achieve the same by other means."
            );
            (text, format!("handfast://call/{id}"), row)
        }
        ABILITIES => {
            let abilities = quietly(own, content_tools::CAPABILITIES, json!({}), turn).await?;
            let text = "Describe in a few sentences which tools only read, which change something, \
                 and which destroy or send something.";
            (text.to_owned(), "handfast://capabilities".to_owned(), abilities)
        }
        // No other name of a prompt of Handfast exists.
        _ => return foreign::filled_in(own, request, turn).await,
    };
    let shown = ContentBlock::resource(contents(uri, data));
    let messages = vec![PromptMessage::new_text(Role::User, text), PromptMessage::new(Role::User, shown)];
    Ok(GetPromptResult::new(messages).into())
}

/// Completes an argument.
///
/// # Errors
/// `-32602` if the argument cannot be completed.
pub(crate) async fn completion<C: Calls>(
    own: &EngineCalls<C>,
    request: CompleteRequestParams,
    turn: &ActiveRequest,
) -> Result<CompletionInfo, ErrorData> {
    let (begin, name) = (request.argument.value.as_str(), request.argument.name.as_str());
    let of = match &request.r#ref {
        Reference::Resource(reference) => reference.uri.as_str(),
        Reference::Prompt(reference) => reference.name.as_str(),
        _ => "",
    };
    let known = match (of, name) {
        (address::FILE, "path") => paths(own, begin, turn).await,
        (address::CHECKPOINT, "id") | (REVIEW, "checkpoint") => {
            let listed = at_once(own, content_tools::CHECKPOINT_LIST, json!({"limit": 100}), turn).await;
            listed.map(|listed| ids(&listed)).unwrap_or_default()
        }
        (address::CALL, "id") | (EXPLAIN, "call") => {
            let rows = rows(own, None).await?;
            rows.iter().filter_map(|row| row["call"].as_str()).map(str::to_owned).collect()
        }
        (address::OUTPUT | address::FILE, _) => Vec::new(),
        // A stranger completes nothing while the user types.
        _ if of.contains(FOREIGN_NAME) || split_foreign_uri(of).is_some() => Vec::new(),
        _ => return Err(ErrorData::invalid_params("there is nothing to complete under this name", None)),
    };
    let mut fitting: Vec<String> = known.into_iter().filter(|known| known.starts_with(begin)).collect();
    let all = fitting.len();
    fitting.truncate(CompletionInfo::MAX_VALUES);
    let mut info =
        CompletionInfo::new(fitting).map_err(|problem| ErrorData::internal_error(problem, None))?;
    info.total = u32::try_from(all).ok();
    info.has_more = Some(all > CompletionInfo::MAX_VALUES);
    Ok(info)
}

/// Returns the ids of the checkpoints, the newest first.
async fn checkpoints<C: Calls>(own: &EngineCalls<C>, turn: &ActiveRequest) -> Result<Vec<String>, ErrorData> {
    Ok(ids(&quietly(own, content_tools::CHECKPOINT_LIST, json!({"limit": 100}), turn).await?))
}

/// Lists the folder named by the beginning of a path. Returns nothing if the folder cannot be
/// listed, because the user is still typing.
async fn paths<C: Calls>(own: &EngineCalls<C>, begin: &str, turn: &ActiveRequest) -> Vec<String> {
    let (folder, name) = begin.rsplit_once('/').map_or(("", begin), |(folder, name)| (folder, name));
    let within = match (folder, begin.starts_with('/')) {
        ("", false) => ".",
        ("", true) => "/",
        (folder, _) => folder,
    };
    let arguments = json!({"path": within, "details": false, "include_hidden": name.starts_with('.')});
    let Some(listed) = at_once(own, content_tools::FILE_LIST, arguments, turn).await else {
        return Vec::new();
    };
    let names = listed["names"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let separator = if folder.is_empty() && !begin.starts_with('/') { "" } else { "/" };
    names.map(|name| format!("{folder}{separator}{}", name.trim_end_matches('@'))).collect()
}

/// Extracts the ids from a list of checkpoints.
fn ids(listed: &Value) -> Vec<String> {
    let checkpoints = listed["checkpoints"].as_array().into_iter().flatten();
    checkpoints.filter_map(|checkpoint| checkpoint["id"].as_str()).map(str::to_owned).collect()
}
