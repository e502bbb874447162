//! Tools and a prompt that end with a question and are repeated with its answer, as in revision 2026-07-28.

use door_mcp::ActiveRequest;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetPromptResult, InputRequest, InputRequests, InputRequiredResult, InputResponses,
    PromptMessage, RequestStateCodec, Role, Tool,
};
use serde_json::{Value, json};

use crate::tools::object;

const BEGIN: &str = "test_input_required_result_";

/// Name of the prompt that asks first.
pub(crate) const PROMPT: &str = "test_input_required_result_prompt";

pub(crate) fn list() -> Vec<Tool> {
    let names = [
        "elicitation",
        "sampling",
        "list_roots",
        "request_state",
        "multiple_inputs",
        "multi_round",
        "tampered_state",
        "capabilities",
    ];
    let mut tools: Vec<Tool> = names
        .into_iter()
        .map(|name| {
            let schema = json!({"type": "object", "properties": {}});
            Tool::new(format!("{BEGIN}{name}"), "Asks before it answers", object(&schema))
        })
        .collect();
    let schema = json!({"type": "object", "properties": {}});
    tools.push(Tool::new("test_streaming_elicitation", "Asks before it answers", object(&schema)));
    tools
}

pub(crate) fn form(message: &str, field: &str, kind: &str) -> Value {
    let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
    json!({"method": "elicitation/create", "params": {"mode": "form", "message": message, "requestedSchema": schema}})
}

fn sampling(text: &str) -> Value {
    let content = json!({"type": "text", "text": text});
    let params = json!({"messages": [{"role": "user", "content": content}], "maxTokens": 100});
    json!({"method": "sampling/createMessage", "params": params})
}

fn roots() -> Value {
    json!({"method": "roots/list", "params": {}})
}

/// Builds the questions by key.
pub(crate) fn questions<const N: usize>(questions: [(&str, Value); N]) -> Result<InputRequests, ErrorData> {
    let read = |(key, question): (&str, Value)| {
        let question: InputRequest = serde_json::from_value(question)
            .map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok((key.to_owned(), question))
    };
    questions.into_iter().map(read).collect()
}

fn ask<const N: usize>(
    asked: [(&str, Value); N],
    state: Option<String>,
) -> Result<CallToolResponse, ErrorData> {
    Ok(InputRequiredResult::new(Some(questions(asked)?), state).into())
}

fn said(text: impl Into<String>) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

/// Returns the answer to a question; `None` if there is no valid answer.
pub(crate) fn answer<'a>(responses: Option<&'a InputResponses>, key: &str) -> Option<&'a Value> {
    responses.and_then(|responses| responses.get(key)).filter(|answer| answer.is_object())
}

/// Runs a tool that asks; `None` for any other tool.
pub(crate) fn call(
    request: &CallToolRequestParams,
    turn: &ActiveRequest,
    codec: &RequestStateCodec,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let responses = request.input_responses.as_ref();
    let name = request.name.as_ref();
    if name == "test_streaming_elicitation" {
        return Some(ask([("value", form("Please give a value", "value", "string"))], None));
    }
    let sealed = request.request_state.as_deref();
    let opened = || -> Result<Option<Value>, ErrorData> {
        let open = |sealed| codec.open_json(sealed);
        sealed
            .map(open)
            .transpose()
            .map_err(|_| ErrorData::invalid_params("`requestState` is not one that was given out here", None))
    };
    let seal = |round: u64| {
        let sealed = codec.seal_json(&json!({"round": round}));
        sealed.map(Some).map_err(|error| ErrorData::internal_error(error.to_string(), None))
    };
    let your_name = || form("What is your name?", "name", "string");
    Some(match name.strip_prefix(BEGIN)? {
        "elicitation" => match answer(responses, "user_name") {
            Some(answer) => {
                Ok(said(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or("stranger"))))
            }
            None => ask([("user_name", your_name())], None),
        },
        "sampling" => match answer(responses, "capital_question") {
            Some(answer) => Ok(said(answer["content"]["text"].as_str().unwrap_or_default())),
            None => ask([("capital_question", sampling("What is the capital of France?"))], None),
        },
        "list_roots" => match answer(responses, "client_roots") {
            Some(answer) => Ok(said(answer["roots"].to_string())),
            None => ask([("client_roots", roots())], None),
        },
        "request_state" | "tampered_state" => {
            opened().and_then(|state| match (state, answer(responses, "confirm")) {
                (Some(_), Some(_)) => Ok(said("state-ok")),
                _ => ask([("confirm", form("Please confirm", "ok", "boolean"))], seal(1)?),
            })
        }
        "multiple_inputs" => opened().and_then(|state| {
            let all = ["user_name", "greeting", "client_roots"];
            if state.is_some() && all.iter().all(|key| answer(responses, key).is_some()) {
                return Ok(said("All questions are answered."));
            }
            let asked = [
                ("user_name", your_name()),
                ("greeting", sampling("Please greet the user")),
                ("client_roots", roots()),
            ];
            ask(asked, seal(1)?)
        }),
        "multi_round" => opened().and_then(|state| {
            let round = state.and_then(|state| state["round"].as_u64()).unwrap_or_default();
            match round {
                2 if answer(responses, "step2").is_some() => Ok(said("Both questions are answered.")),
                1 | 2 if round == 2 || answer(responses, "step1").is_some() => {
                    let asked = form("Step 2: what is your favourite colour?", "color", "string");
                    ask([("step2", asked)], seal(2)?)
                }
                _ => ask([("step1", form("Step 1: what is your name?", "name", "string"))], seal(1)?),
            }
        }),
        "capabilities" => {
            let capabilities = &turn.peer.capabilities;
            let asked = if responses.is_some() {
                None
            } else if capabilities.elicitation.is_some() {
                Some(("user_name", your_name()))
            } else if capabilities.sampling.is_some() {
                Some(("greeting", sampling("Please greet the user")))
            } else {
                None
            };
            asked.map_or_else(|| Ok(said("Nothing is asked.")), |asked| ask([asked], None))
        }
        _ => return None,
    })
}

/// Runs the prompt that asks; `None` for any other prompt.
pub(crate) fn prompt(request: &GetPromptRequestParams) -> Option<GetPromptResponse> {
    if request.name != PROMPT {
        return None;
    }
    let answer = answer(request.input_responses.as_ref(), "user_context");
    let Some(answer) = answer else {
        let asked = questions([("user_context", form("Which context?", "context", "string"))]).ok()?;
        return Some(InputRequiredResult::new(Some(asked), None).into());
    };
    let context = answer["content"]["context"].as_str().unwrap_or_default();
    let message = PromptMessage::new_text(Role::User, format!("The context is: {context}"));
    Some(GetPromptResult::new(vec![message]).into())
}
