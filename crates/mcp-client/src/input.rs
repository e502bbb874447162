//! Requests whose server may ask for more input before it answers (revision 2026-07-28).

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::core::{Core, Request};
use crate::error::{ClientError, invalid, line};
use crate::requests::{Refusal, ServerRequests};
use crate::revision::Era;

/// Maximum length of the state that a server gives and gets back, in bytes.
const LONGEST_STATE: usize = 64 * 1024;

/// Sends a request, answers what the server asks for meanwhile, and returns the result. The time of the request is
/// that of all rounds together.
///
/// # Errors
/// [`ClientError::TooManyRounds`], or the errors of a request.
pub(crate) async fn complete(core: &Arc<Core>, request: Request) -> Result<Value, ClientError> {
    let method = request.method;
    let requests = request.requests.as_ref().unwrap_or(&core.requests);
    let after = request.timeout.unwrap_or(core.limits.answer);
    let is_stateless = core.revision().is_some_and(|revision| revision.era() == Era::Stateless);
    let started = core.timer.now();
    let late = || ClientError::Timeout { method: method.to_owned(), after };
    let mut more = Map::new();
    for _ in 0..=core.limits.rounds {
        let mut params = request.params.clone();
        params.append(&mut more);
        let passed = core.timer.now().saturating_duration_since(started);
        let left = after.checked_sub(passed).filter(|left| !left.is_zero()).ok_or_else(late)?;
        let round = Request {
            progress: request.progress.clone(),
            headers: request.headers.clone(),
            ..Request::new(method, params, left)
        };
        let answer = match core.request(round).await {
            Err(ClientError::Timeout { .. }) => return Err(late()),
            answer => answer?,
        };
        let mut result: Value = serde_json::from_str(answer.get()).map_err(|error| invalid(method, error))?;
        let kind = result.get("resultType").and_then(Value::as_str);
        match kind.filter(|_| is_stateless) {
            None | Some("complete") => return Ok(result),
            Some("input_required") => {
                let passed = core.timer.now().saturating_duration_since(started);
                tokio::select! {
                    biased;
                    inputs = inputs(core, &**requests, method, &mut result) => more = inputs?,
                    () = core.timer.sleep(after.saturating_sub(passed)) => return Err(late()),
                }
            }
            Some(other) => return Err(invalid(method, format!("its kind is {:?}", line(other)))),
        }
    }
    Err(ClientError::TooManyRounds { method: method.to_owned(), rounds: core.limits.rounds })
}

/// Answers the requests within a result, and returns the parameters that the next round adds.
async fn inputs(
    core: &Core,
    answers: &dyn ServerRequests,
    method: &str,
    result: &mut Value,
) -> Result<Map<String, Value>, ClientError> {
    let mut more = Map::new();
    match result.get_mut("requestState").map(Value::take) {
        Some(Value::String(state)) if state.len() <= LONGEST_STATE => {
            more.insert("requestState".to_owned(), json!(state));
        }
        Some(Value::String(_)) => {
            return Err(ClientError::TooMuch {
                method: method.to_owned(),
                limit: LONGEST_STATE,
                unit: "bytes of state",
            });
        }
        _ => {}
    }
    if let Some(Value::Object(requests)) = result.get_mut("inputRequests").map(Value::take) {
        core.count_inputs(requests.len()).map_err(|_| ClientError::TooMuch {
            method: method.to_owned(),
            limit: usize::try_from(core.limits.server_requests).unwrap_or(usize::MAX),
            unit: "requests of the server",
        })?;
        let mut responses = Map::new();
        for (key, mut request) in requests {
            let wanted = request.get("method").and_then(Value::as_str).unwrap_or_default().to_owned();
            let params = request.get_mut("params").map_or_else(|| json!({}), Value::take);
            match core.answer_within_time(answers, &wanted, params).await {
                Ok(response) => {
                    responses.insert(key, response);
                }
                Err(refusal) => return Err(refused(method, &wanted, &refusal)),
            }
        }
        more.insert("inputResponses".to_owned(), Value::Object(responses));
    }
    if more.is_empty() {
        return Err(invalid(method, "it asks for input and names none"));
    }
    Ok(more)
}

/// Makes the error of a call whose input was refused here. The protocol has no refusal within a response.
fn refused(method: &str, wanted: &str, refusal: &Refusal) -> ClientError {
    ClientError::Refused {
        method: method.to_owned(),
        code: refusal.code,
        message: line(&format!("it needs `{wanted}`: {}", refusal.message)),
        data: None,
    }
}
