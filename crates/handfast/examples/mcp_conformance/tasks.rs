//! Tools that become tasks, as in the extension of revision 2026-07-28.

use std::time::Duration;

use door_mcp::ActiveRequest;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ContentBlock,
    CreateTaskResult, ErrorData, InputRequest, InputRequiredResult, Tool,
};
use rmcp::task_manager::{TaskContext, TaskExit, TaskFuture, TaskManager, TaskOptions};
use serde_json::{Value, json};

use crate::asking::{answer, form, questions};
use crate::tools::object;

/// Tools that require a task, and tools for which a task is optional.
const ONLY_TASKS: [&str; 4] = ["failing_job", "confirm_delete", "multi_input", "test_tool_with_task"];
const OTHERS: [&str; 3] = ["greet", "slow_compute", "protocol_error_job"];

pub(crate) fn list() -> Vec<Tool> {
    let schema = json!({"type": "object", "properties": {
        "name": {"type": "string"}, "seconds": {"type": "number"}, "label": {"type": "string"},
        "filename": {"type": "string"},
    }});
    let names = OTHERS.into_iter().chain(ONLY_TASKS);
    names.map(|name| Tool::new(name, "May become a task", object(&schema))).collect()
}

fn said(text: impl Into<String>) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

/// Asks the client's user for one field while the task runs. Returns the field.
async fn asked(context: &TaskContext, key: &str, field: &str, kind: &str) -> Result<Value, TaskExit> {
    let question: InputRequest = serde_json::from_value(form("Please answer", field, kind))
        .map_err(|error| TaskExit::Error(ErrorData::internal_error(error.to_string(), None)))?;
    let said = context.request_input(key, question).await?;
    Ok(said["content"][field].clone())
}

/// Runs a tool, with or without a task.
async fn work(
    name: &str,
    arguments: Value,
    context: Option<TaskContext>,
) -> Result<CallToolResult, TaskExit> {
    match (name, context) {
        ("greet", _) => Ok(said(format!("Hello, {}!", arguments["name"].as_str().unwrap_or("friend")))),
        ("failing_job", _) => Ok(CallToolResult::error(vec![ContentBlock::text("this job fails")])),
        ("protocol_error_job", _) => {
            Err(TaskExit::Error(ErrorData::internal_error("this job fails as a request", None)))
        }
        ("confirm_delete", Some(context)) => {
            let confirmed = asked(&context, "confirm", "confirm", "boolean").await?;
            Ok(said(format!("confirmed: {confirmed}")))
        }
        ("multi_input", Some(context)) => {
            let (first, second) = tokio::join!(
                asked(&context, "input-a", "value", "string"),
                asked(&context, "input-b", "value", "string")
            );
            Ok(said(format!("{} and {}", first?, second?)))
        }
        (_, context) => {
            let seconds = Duration::try_from_secs_f64(arguments["seconds"].as_f64().unwrap_or(0.2));
            let sleep = tokio::time::sleep(seconds.unwrap_or_default());
            match context {
                None => sleep.await,
                Some(context) => tokio::select! {
                    () = sleep => {}
                    () = context.cancelled() => return Err(TaskExit::Cancelled),
                },
            }
            Ok(said(format!("{} is done", arguments["label"].as_str().unwrap_or(name))))
        }
    }
}

/// Runs one of these tools; `None` for any other tool.
pub(crate) async fn call(
    request: &CallToolRequestParams,
    turn: &ActiveRequest,
    tasks: &TaskManager,
) -> Option<Result<CallToolResponse, ErrorData>> {
    let name = OTHERS.into_iter().chain(ONLY_TASKS).find(|name| *name == request.name)?;
    let takes_tasks = turn.peer.takes_tasks();
    if ONLY_TASKS.contains(&name) && !takes_tasks {
        let needed = ClientCapabilities::builder().enable_tasks().build();
        return Some(Err(ErrorData::missing_required_client_capability(needed)));
    }
    let mut arguments = Value::Object(request.arguments.clone().unwrap_or_default());
    if name == "test_tool_with_task" {
        match answer(request.input_responses.as_ref(), "user_name") {
            None => {
                let question = questions([("user_name", form("What is your name?", "name", "string"))]);
                return Some(question.map(|asked| InputRequiredResult::new(Some(asked), None).into()));
            }
            Some(answer) => {
                arguments["label"] =
                    json!(format!("Hello, {}: this", answer["content"]["name"].as_str().unwrap_or("-")));
            }
        }
    }
    if name == "greet" || !takes_tasks {
        let done = work(name, arguments, None).await;
        return Some(done.map(Into::into).map_err(|exit| match exit {
            TaskExit::Error(error) => error,
            TaskExit::Cancelled => ErrorData::internal_error("it was given up", None),
        }));
    }
    let task = tasks.spawn(TaskOptions::default(), move |context| -> TaskFuture {
        Box::pin(async move { work(name, arguments, Some(context)).await })
    });
    Some(Ok(CreateTaskResult::new(task).into()))
}
