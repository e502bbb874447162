//! The serve loop: reads requests and writes answers.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use dialects::Dialect;
use engine::{CallRequest, Door, Engine, NoAsker, Origin, Principal};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::{Id, JoinSet};
use tool::{ByteReservation, CallResult, Code, SessionId, Stop, StopReason, ToolError};

use crate::answer;
use crate::command_end::RequestedCommand;
use crate::incoming::{Incoming, Requests};
use crate::request::{self, Request, Task};

/// Default timeout of a command in milliseconds (the source: 30 s).
const TIMEOUT_MS: u64 = 30_000;

/// Maximum number of requests in progress. The lanes bound the commands that run or wait. The
/// maximum also covers requests that wait for an approval or are about to be refused. At the limit,
/// no further request is read.
const AT_A_TIME: usize = 64;

/// Options of [`serve`].
#[derive(Clone)]
pub struct Options {
    /// Session that the audit records for the requests. An approval for the session covers these
    /// requests only, and their commands share a lane.
    pub session: SessionId,
    /// Maximum size of one request in bytes.
    pub limit: usize,
    /// Maximum number of requests that are read, or `None` for no limit.
    pub requests: Option<usize>,
    /// Origin of the requests, for traces.
    pub origin: Origin,
}

impl Options {
    /// Creates options with the default size limit (design section 4: 32 MiB) and no limit on the
    /// number of requests.
    pub fn new(session: SessionId) -> Self {
        Self { session, limit: 32 * 1024 * 1024, requests: None, origin: Origin::default() }
    }
}

/// Hint for the caller: this door cannot ask, so another command answers the question.
const ANSWERED_ELSEWHERE: &str =
    "the user of Handfast answers with `handfast approvals`; then send the request again";

/// An answer that is not written yet.
struct Answer {
    text: String,
    /// Share of the bytes in flight, released after the answer is written.
    _held: ByteReservation,
}

/// Answers requests until the input ends and all requests are answered. When `stop` completes, the
/// function stops reading, cancels the running calls and writes their answers.
///
/// The engine must speak the dialect `csp1`. Requires a tokio runtime with time enabled. Dropping
/// the future cancels its calls.
///
/// # Errors
/// If the input cannot be read or the output cannot be written. Running calls are cancelled in both
/// cases.
pub async fn serve(
    engine: Arc<Engine>,
    options: Options,
    input: impl AsyncBufRead + Unpin,
    mut output: impl AsyncWrite + Unpin,
    stop: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut requests = Requests::new(input, options.limit);
    let mut working: JoinSet<Answer> = JoinSet::new();
    let mut stops: HashMap<Id, Stop> = HashMap::new();
    let (mut is_reading, mut is_stopped) = (true, false);
    let mut left = options.requests;
    let mut actions = ActionOrder::default();
    tokio::pin!(stop);
    while is_reading || !working.is_empty() {
        let has_room = is_reading && working.len() < AT_A_TIME;
        tokio::select! {
            () = &mut stop, if !is_stopped => {
                (is_reading, is_stopped) = (false, true);
                for stop in stops.values() {
                    stop.request(StopReason::Cancelled);
                }
            }
            Some(ended) = working.join_next_with_id() => {
                let text = match ended {
                    Ok((id, answer)) => {
                        stops.remove(&id);
                        Ok(answer)
                    }
                    Err(broken) => {
                        stops.remove(&broken.id());
                        Err(io::Error::other(broken))
                    }
                };
                let answer = text?;
                let covered = engine.cover_message(answer.text.as_bytes());
                output.write_all(covered.as_deref().unwrap_or(answer.text.as_bytes())).await?;
                output.flush().await?;
            }
            incoming = requests.next(), if has_room => {
                let Some(incoming) = incoming? else {
                    is_reading = false;
                    continue;
                };
                let is_one_too_many = left == Some(0);
                left = left.map(|left| left.saturating_sub(1));
                is_reading = !is_one_too_many;
                let stop = Stop::default();
                let turn = actions.next(&incoming);
                let answering = PendingRequest { engine: engine.clone(), options: options.clone(), stop: stop.clone() };
                let id = working.spawn(async move {
                    let _turn = match turn {
                        Some(turn) => Some(turn.taken().await),
                        None => None,
                    };
                    if is_one_too_many { answering.one_too_many().await } else { answering.answer(incoming).await }
                });
                stops.insert(id.id(), stop);
            }
        }
    }
    Ok(())
}

/// Order of the actions of `browser` and `cron`: the next begins when the one before it is done, because all
/// act on one page, or on the same jobs.
#[derive(Default)]
struct ActionOrder {
    /// Ends with the last action.
    last: Option<oneshot::Receiver<()>>,
}

/// Turn of one action, which begins when that of the action before it is dropped.
struct ActionTurn {
    before: Option<oneshot::Receiver<()>>,
    _own: oneshot::Sender<()>,
}

impl ActionOrder {
    /// Returns the turn of a request; `None` if it is no such action.
    fn next(&mut self, incoming: &Incoming) -> Option<ActionTurn> {
        let Incoming::Whole(bytes) = incoming else { return None };
        if !bytes.starts_with(b"TASK REQ:browser ") && !bytes.starts_with(b"TASK REQ:cron ") {
            return None;
        }
        let (own, ends) = oneshot::channel();
        Some(ActionTurn { before: self.last.replace(ends), _own: own })
    }
}

impl ActionTurn {
    /// Waits for the turn.
    async fn taken(mut self) -> Self {
        if let Some(before) = self.before.take() {
            // The other end sends nothing. It is dropped when the action is done.
            let _done = before.await;
        }
        self
    }
}

/// Tool that starts and lists the MCP servers of the configuration.
const SERVERS: &str = "mcp_servers";

fn answered(id: Option<&str>, server: &str, result: CallResult) -> Answer {
    let text = answer::of_mcp(id, server, &result).unwrap_or_else(|error| {
        let problem = format!("the call was made, but its result cannot be reported: {error}");
        answer::unreadable(id, &problem)
    });
    Answer { text, _held: result.held }
}

/// One request in progress.
struct PendingRequest {
    engine: Arc<Engine>,
    options: Options,
    stop: Stop,
}

impl PendingRequest {
    async fn answer(self, incoming: Incoming) -> Answer {
        let bytes = match incoming {
            Incoming::Whole(bytes) => bytes,
            Incoming::TooLong => {
                let problem =
                    format!("larger than the limit of {} bytes for one request", self.options.limit);
                return self.unreadable(None, problem).await;
            }
            Incoming::Unfinished(bytes) => {
                let problem =
                    "the input ended before the empty line that ends a request, so nothing was done";
                return self.unreadable(request::id_of(&bytes), problem.to_owned()).await;
            }
        };
        let request = match request::parse(&bytes) {
            Ok(request) => request,
            Err(fault) => {
                let problem = fault.to_string();
                return self.unreadable(fault.id, problem).await;
            }
        };
        drop(bytes);
        self.work(request).await
    }

    async fn one_too_many(self) -> Answer {
        let most = self.options.requests.unwrap_or_default();
        self.unreadable(None, format!("more than {most} requests in one message; the rest were not read"))
            .await
    }

    async fn work(self, Request { id, cache, task }: Request) -> Answer {
        if let Some((name, error)) = answer::missing(&task) {
            let refused = self.engine.refuse(self.call(name, Value::Null, cache), error).await;
            return Answer { text: answer::unavailable(id.as_deref(), &task), _held: refused.held };
        }
        let (command, timeout, folder) = match task {
            Task::Exec { command, timeout, folder } => (command, timeout, folder),
            Task::Act { operation, keys } => return self.act(id, operation, keys).await,
            Task::Mcp { server, tool, params } => return self.foreign(id, (server, tool), params).await,
            Task::Other(_) => {
                return self.unreadable(id, "there is nothing to do".to_owned()).await;
            }
        };
        let timeout = timeout.unwrap_or(TIMEOUT_MS);
        let mut arguments = Map::new();
        arguments.insert("COMMAND".to_owned(), json!(command));
        arguments.insert("TIMEOUT_MS".to_owned(), json!(timeout));
        if let Some(folder) = folder {
            arguments.insert("WORKING_DIR".to_owned(), json!(folder));
        }
        let result = self.engine.call(self.call("exec", Value::Object(arguments), cache)).await;
        // Secrets must be covered before the text is cut, because a part of a secret is not recognized.
        let command = self.engine.covered(command);
        let written = tokio::task::spawn_blocking(move || {
            let ran = RequestedCommand { command: &command, timeout };
            let text = answer::of_command(id.as_deref(), &ran, &result);
            let text = text.unwrap_or_else(|error| {
                answer::unreadable(
                    id.as_deref(),
                    &format!("the command ran, but its result cannot be reported: {error}"),
                )
            });
            Answer { text, _held: result.held }
        });
        match written.await {
            Ok(answer) => answer,
            // The answer could not be built. The audit still records that the command ran.
            Err(panic) => {
                let problem = format!("the command ran, but its response failed: {panic}");
                Answer { text: answer::unreadable(None, &problem), _held: ByteReservation::default() }
            }
        }
    }

    async fn act(
        &self,
        id: Option<String>,
        operation: &'static str,
        keys: Vec<(&'static str, String)>,
    ) -> Answer {
        let action = keys.iter().find(|(key, _)| *key == "ACTION").map_or("none", |(_, action)| action);
        let action = self.engine.covered(action.to_owned());
        let arguments = keys.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
        let result = self.engine.call(self.call(operation, Value::Object(arguments), false)).await;
        let answer = if operation == "cron" { answer::of_cron } else { answer::of_browser };
        let text = answer(id.as_deref(), &action, &result).unwrap_or_else(|error| {
            let problem = format!("the action is done, but its result cannot be reported: {error}");
            answer::unreadable(id.as_deref(), &problem)
        });
        Answer { text, _held: result.held }
    }

    /// Calls a tool of an MCP server. A server that was never listed is listed first, as a call of its own.
    async fn foreign(
        &self,
        id: Option<String>,
        (server, tool): (String, String),
        params: Option<String>,
    ) -> Answer {
        let parsed: Option<Map<String, Value>> =
            params.as_deref().map_or(Some(Map::new()), |params| serde_json::from_str(params).ok());
        let Some(arguments) = parsed else {
            return self.unreadable(id, "PARAMS is no JSON object".to_owned()).await;
        };
        let name = format!("{server}__{tool}");
        let shown = self.engine.covered(server.clone());
        if !self.has_tool(&name) && self.has_tool(SERVERS) {
            let listing = self.engine.call(self.call(SERVERS, json!({"server": server}), false)).await;
            if listing.error().is_some() {
                return answered(id.as_deref(), &shown, listing);
            }
        }
        if !self.has_tool(&name) {
            let message = format!("the MCP server {shown} is not there, or has no tool of this name");
            let error = ToolError::new(Code::Unavailable, message);
            let refused = self.engine.refuse(self.call("mcp", Value::Null, false), error).await;
            let task = Task::Mcp { server: shown, tool, params: None };
            return Answer { text: answer::unavailable(id.as_deref(), &task), _held: refused.held };
        }
        let result = self.engine.call(self.call(&name, Value::Object(arguments), false)).await;
        answered(id.as_deref(), &shown, result)
    }

    fn has_tool(&self, name: &str) -> bool {
        self.engine.registry().tools().iter().any(|tool| tool.name() == name)
    }

    async fn unreadable(&self, id: Option<String>, problem: String) -> Answer {
        let problem = self.engine.covered(problem);
        let error = ToolError::new(Code::Validation, problem.clone());
        let refused = self.engine.refuse(self.call("", Value::Null, false), error).await;
        Answer { text: answer::unreadable(id.as_deref(), &problem), _held: refused.held }
    }

    fn call(&self, name: &str, arguments: Value, cache: bool) -> CallRequest {
        let asker = Arc::new(NoAsker { hint: ANSWERED_ELSEWHERE.to_owned() });
        let session = self.options.session.clone();
        CallRequest {
            stop: self.stop.clone(),
            cache,
            origin: self.options.origin.clone(),
            // The protocol has no progress reports.
            ..CallRequest::new(
                Principal::new(Door::Csp, session, Dialect::Csp1.as_str(), asker),
                name,
                arguments,
            )
        }
    }
}
