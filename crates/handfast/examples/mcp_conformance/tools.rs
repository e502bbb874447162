//! Tools that return directly, or ask the client while they run, as in the revisions up to 2025-11-25.

use std::sync::Arc;
use std::time::Duration;

use door_mcp::{ActiveRequest, Notice, Notices, Severity};
use rmcp::model::{
    AudioContent, CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    ErrorData, JsonObject, ServerRequest, Tool,
};
use serde_json::{Value, json};

use crate::content::{self, AUDIO, IMAGE};
use crate::fixtures::WATCHED;

/// Pause between two messages of a call.
const STEP: Duration = Duration::from_millis(50);

pub(crate) fn list() -> Vec<Tool> {
    let text =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let nothing = json!({"type": "object", "properties": {}});
    let tools = [
        ("test_simple_text", "Returns text", nothing.clone()),
        ("test_image_content", "Returns an image", nothing.clone()),
        ("test_audio_content", "Returns audio", nothing.clone()),
        ("test_embedded_resource", "Returns a resource", nothing.clone()),
        ("test_multiple_content_types", "Returns text, an image and a resource", nothing.clone()),
        ("test_tool_with_logging", "Logs while it runs", nothing.clone()),
        ("test_logging_tool", "Logs where the request wants it", nothing.clone()),
        ("test_tool_with_progress", "Reports progress", nothing.clone()),
        ("test_error_handling", "Fails", nothing.clone()),
        ("test_sampling", "Asks the client's model", text("prompt")),
        ("test_elicitation", "Asks the client's user", text("message")),
        ("test_elicitation_sep1034_defaults", "Asks with defaults", nothing.clone()),
        ("test_elicitation_sep1330_enums", "Asks for choices", nothing.clone()),
        ("test_missing_capability", "Needs sampling", nothing.clone()),
        ("test_trigger_tool_change", "Says that the tools have changed", nothing.clone()),
        ("test_trigger_prompt_change", "Says that the prompts have changed", nothing.clone()),
        ("test_trigger_resource_change", "Says that the watched resource has changed", nothing),
        ("json_schema_2020_12_tool", "Has a schema of JSON Schema 2020-12", schema_2020_12()),
    ];
    tools
        .into_iter()
        .map(|(name, description, schema)| Tool::new(name, description, object(&schema)))
        .collect()
}

fn schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "address",
                "type": "object",
                "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
            },
        },
        "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
        "allOf": [{"anyOf": [{"required": ["name"]}, {"required": ["address"]}]}],
        "if": {"required": ["address"]},
        "then": {"properties": {"address": {"required": ["street"]}}},
        "else": {"required": ["name"]},
        "additionalProperties": false,
    })
}

pub(crate) fn object(value: &Value) -> Arc<JsonObject> {
    Arc::new(value.as_object().cloned().unwrap_or_default())
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// Runs a tool.
///
/// # Errors
/// `-32602` if there is no such tool; `-32021` if the client lacks a required capability.
pub(crate) async fn call(
    request: &CallToolRequestParams,
    turn: &ActiveRequest,
    notices: &Notices,
) -> Result<CallToolResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        arguments.and_then(|arguments| arguments.get(name)).and_then(Value::as_str).unwrap_or_default()
    };
    let result = match request.name.as_ref() {
        "test_simple_text" => said("This is a simple text response for testing."),
        "test_image_content" => CallToolResult::success(vec![ContentBlock::image(IMAGE, "image/png")]),
        "test_audio_content" => {
            CallToolResult::success(vec![ContentBlock::Audio(AudioContent::new(AUDIO, "audio/wav"))])
        }
        "test_embedded_resource" => CallToolResult::success(vec![ContentBlock::resource(content::text(
            "test://embedded-resource",
            "text/plain",
            "This is an embedded resource content.",
        ))]),
        "test_multiple_content_types" => CallToolResult::success(vec![
            ContentBlock::text("Multiple content types test:"),
            ContentBlock::image(IMAGE, "image/png"),
            ContentBlock::resource(content::text(
                "test://mixed-content-resource",
                "application/json",
                r#"{"test":"data","value":123}"#,
            )),
        ]),
        "test_tool_with_logging" => {
            for step in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                turn.log(Severity::Info, "conformance", &json!(step));
                tokio::time::sleep(STEP).await;
            }
            said("Logged.")
        }
        "test_logging_tool" => {
            turn.log(Severity::Emergency, "conformance", &json!("the request wants to hear of this"));
            said("Logged where it was wanted.")
        }
        "test_tool_with_progress" => {
            for done in [0, 50, 100] {
                turn.report(done, 100);
                tokio::time::sleep(STEP).await;
            }
            said("Progress was reported.")
        }
        "test_error_handling" => {
            let text = "This tool intentionally returns an error for testing";
            CallToolResult::error(vec![ContentBlock::text(text)])
        }
        "test_sampling" => {
            let content = json!({"type": "text", "text": argument("prompt")});
            let params = json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100});
            let answer = ask(turn, "sampling/createMessage", &params).await;
            answer.map_or_else(failed, |answer| {
                let text = answer["content"]["text"].as_str().unwrap_or_default();
                said(format!("LLM response: {text}"))
            })
        }
        "test_elicitation" => {
            let text = json!({"type": "string", "description": "User's response"});
            let email = json!({"type": "string", "description": "User's email address"});
            let properties = json!({"username": text, "email": email});
            elicit(turn, argument("message"), &properties, &json!(["username", "email"])).await
        }
        "test_elicitation_sep1034_defaults" => {
            let message = "Please review and update the form fields with defaults";
            elicit(turn, message, &defaults(), &json!([])).await
        }
        "test_elicitation_sep1330_enums" => {
            elicit(turn, "Please select options from the enum fields", &enums(), &json!([])).await
        }
        "test_missing_capability" => {
            if turn.peer.modern && turn.peer.capabilities.sampling.is_none() {
                let needed: ClientCapabilities =
                    serde_json::from_value(json!({"sampling": {}})).unwrap_or_default();
                return Err(ErrorData::missing_required_client_capability(needed));
            }
            said("The client can do what is needed.")
        }
        "test_trigger_tool_change" => {
            notices.tell(Notice::Tools);
            said("Said.")
        }
        "test_trigger_prompt_change" => {
            notices.tell(Notice::Prompts);
            said("Said.")
        }
        "test_trigger_resource_change" => {
            notices.tell(Notice::Resource(WATCHED));
            said("Said.")
        }
        "json_schema_2020_12_tool" => said(
            request
                .arguments
                .as_ref()
                .map_or_else(String::new, |arguments| Value::Object(arguments.clone()).to_string()),
        ),
        _ => return Err(ErrorData::invalid_params("there is no such tool", None)),
    };
    Ok(result.into())
}

/// Returns every kind of field, each with a default value (SEP-1034).
fn defaults() -> Value {
    json!({
        "name": {"type": "string", "description": "User name", "default": "John Doe"},
        "age": {"type": "integer", "description": "User age", "default": 30},
        "score": {"type": "number", "description": "User score", "default": 95.5},
        "status": {
            "type": "string", "description": "User status",
            "enum": ["active", "inactive", "pending"], "default": "active",
        },
        "verified": {"type": "boolean", "description": "Verification status", "default": true},
    })
}

/// Returns every kind of choice (SEP-1330).
fn enums() -> Value {
    let titled = json!([
        {"const": "value1", "title": "First Option"},
        {"const": "value2", "title": "Second Option"},
        {"const": "value3", "title": "Third Option"},
    ]);
    let plain = json!(["option1", "option2", "option3"]);
    json!({
        "untitledSingle": {"type": "string", "description": "One", "enum": plain},
        "titledSingle": {"type": "string", "description": "One with a title", "oneOf": titled},
        "legacyEnum": {
            "type": "string", "description": "One with a name", "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {
            "type": "array", "description": "Several", "minItems": 1, "maxItems": 3,
            "items": {"type": "string", "enum": plain},
        },
        "titledMulti": {
            "type": "array", "description": "Several with titles", "minItems": 1, "maxItems": 3,
            "items": {"anyOf": titled},
        },
    })
}

/// Asks the client's user and returns the answer as text.
async fn elicit(turn: &ActiveRequest, message: &str, properties: &Value, required: &Value) -> CallToolResult {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let params = json!({"mode": "form", "message": message, "requestedSchema": schema});
    ask(turn, "elicitation/create", &params).await.map_or_else(failed, |answer| {
        let content = answer.get("content").map(Value::to_string).unwrap_or_default();
        said(format!("User response: action={}, content={content}", answer["action"].as_str().unwrap_or("-")))
    })
}

async fn ask(turn: &ActiveRequest, method: &str, params: &Value) -> Result<Value, String> {
    let request = json!({"method": method, "params": params});
    let request: ServerRequest = serde_json::from_value(request).map_err(|error| error.to_string())?;
    turn.ask(request).await.map_err(|unsaid| unsaid.to_string())
}

fn failed(problem: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(problem)])
}
