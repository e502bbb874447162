//! Requests in, answers out.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use dialects::Dialect;
use engine::{CallRequest, Caller, Ceiling, Door, Engine, NoAsker, Origin};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncBufRead, AsyncWrite, AsyncWriteExt};
use tokio::task::{Id, JoinSet};
use tool::{Code, Held, Progress, SessionId, Stop, StopReason, ToolError};

use crate::answer::{self, Ran};
use crate::incoming::{Incoming, Requests};
use crate::request::{self, Request, Task};

/// How long a command may take unless the request says otherwise, in milliseconds (the source: 30 s).
const TIMEOUT_MS: u64 = 30_000;

/// Requests that are worked on at a time. The lanes bound the commands that run and wait; these are also those that are about to be
/// refused, or wait for an approval. Beyond them nothing is read.
const AT_A_TIME: usize = 64;

/// How requests are answered.
#[derive(Clone)]
pub struct Options {
    /// Names the requests in the audit. What is allowed for a session is allowed for them alone, and their commands share a lane.
    pub session: SessionId,
    /// The most bytes that one request may have.
    pub limit: usize,
    /// The most requests that are read; none where there is no limit.
    pub requests: Option<usize>,
    /// Where the requests come from, for traces.
    pub origin: Origin,
}

impl Options {
    /// The usual limit on a request (design section 4: 32 MiB), and none on their number.
    pub fn new(session: SessionId) -> Self {
        Self { session, limit: 32 * 1024 * 1024, requests: None, origin: Origin::default() }
    }
}

/// Where an answer to a question comes from.
const ANSWERED_ELSEWHERE: &str =
    "whoever runs Handfast answers with `handfast approvals`; send the request again then";

/// An answer on its way.
struct Answer {
    text: String,
    /// Its place among the bytes in flight, until it is written.
    _held: Held,
}

/// Answers requests until the input ends and all are answered. When `stop` is done nothing more is read, what runs is stopped, and
/// its answers are written.
///
/// The engine speaks the dialect `csp1`. Needs a tokio runtime with time around it. Where this is dropped its calls are cancelled.
///
/// # Errors
/// Where the input cannot be read or the output not be written. The calls that ran are cancelled then.
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
                let answering = Answering { engine: engine.clone(), options: options.clone(), stop: stop.clone() };
                let id = working.spawn(async move {
                    if is_one_too_many { answering.one_too_many().await } else { answering.answer(incoming).await }
                });
                stops.insert(id.id(), stop);
            }
        }
    }
    Ok(())
}

/// One request being answered.
struct Answering {
    engine: Arc<Engine>,
    options: Options,
    stop: Stop,
}

impl Answering {
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
        self.unreadable(
            None,
            format!("more than {most} requests in one message; those from here on were not read"),
        )
        .await
    }

    async fn work(self, Request { id, cache, task }: Request) -> Answer {
        if let Some((name, error)) = answer::missing(&task) {
            let refused = self.engine.refuse(self.call(name, Value::Null, cache), error).await;
            return Answer { text: answer::unavailable(id.as_deref(), &task), _held: refused.held };
        }
        let Task::Exec { command, timeout, folder } = task else {
            return self.unreadable(id, "there is nothing to do".to_owned()).await;
        };
        let timeout = timeout.unwrap_or(TIMEOUT_MS);
        let mut arguments = Map::new();
        arguments.insert("COMMAND".to_owned(), json!(command));
        arguments.insert("TIMEOUT_MS".to_owned(), json!(timeout));
        if let Some(folder) = folder {
            arguments.insert("WORKING_DIR".to_owned(), json!(folder));
        }
        let result = self.engine.call(self.call("exec", Value::Object(arguments), cache)).await;
        // Before it is cut: a part of a secret is none that is known.
        let command = self.engine.covered(command);
        let written = tokio::task::spawn_blocking(move || {
            let ran = Ran { command: &command, timeout };
            let text = answer::of_command(id.as_deref(), &ran, &result);
            let text = text.unwrap_or_else(|error| {
                answer::unreadable(
                    id.as_deref(),
                    &format!("the command ran, but its result cannot be told: {error}"),
                )
            });
            Answer { text, _held: result.held }
        });
        match written.await {
            Ok(answer) => answer,
            // The answer could not be made; that the command ran is in the audit.
            Err(panic) => {
                let problem = format!("the command ran, but its answer broke off: {panic}");
                Answer { text: answer::unreadable(None, &problem), _held: Held::default() }
            }
        }
    }

    async fn unreadable(&self, id: Option<String>, problem: String) -> Answer {
        let problem = self.engine.covered(problem);
        let error = ToolError::new(Code::Validation, problem.clone());
        let refused = self.engine.refuse(self.call("", Value::Null, false), error).await;
        Answer { text: answer::unreadable(id.as_deref(), &problem), _held: refused.held }
    }

    fn call(&self, name: &str, arguments: Value, cache: bool) -> CallRequest {
        CallRequest {
            tool: name.to_owned(),
            arguments,
            caller: Caller {
                session: self.options.session.clone(),
                holder: None,
                door: Door::Csp,
                dialect: Dialect::Csp1.as_str(),
                asker: Arc::new(NoAsker { hint: ANSWERED_ELSEWHERE.to_owned() }),
                ceiling: Ceiling::default(),
            },
            stop: self.stop.clone(),
            progress: Arc::new(Unheard),
            cache,
            origin: self.options.origin.clone(),
        }
    }
}

/// The protocol has no progress.
struct Unheard;

impl Progress for Unheard {
    fn report(&self, _done: u64, _total: Option<u64>, _message: &str) {}
}
