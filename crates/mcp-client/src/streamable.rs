//! A server behind streamable HTTP: each message is a POST, and an answer is JSON or a stream of events.
//!
//! In the era of sessions a stream that breaks off is resumed by its last id, and a GET stream carries what
//! belongs to no request. In the stateless era a stream that breaks off is a lost request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tool::BoxFuture;

use crate::core::{Core, Outgoing, Wire};
use crate::error::{ClientError, CloseReason, line};
use crate::failure::{broken, failure, unreachable};
use crate::headers;
use crate::http::{HttpAnswer, HttpEndpoint, HttpFailure, HttpMethod, HttpRequest};
use crate::revision::{Era, Revision};
use crate::sse::{Event, Events};

/// Wait before a stream is resumed, if the server names none.
const RETRY: Duration = Duration::from_secs(1);

/// Longest wait before the stream of notices is opened again.
const LONGEST_RETRY: Duration = Duration::from_mins(1);

/// Time that a stream of notices must have lasted for earlier failures to be forgotten.
const STEADY: Duration = Duration::from_secs(10);

/// Number of failures in a row after which the stream of notices is not opened again.
const MOST_FAILURES: u32 = 10;

/// Header that names the session.
const SESSION: &str = "mcp-session-id";

/// Wire of an endpoint. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct Streamable(Arc<Shared>);

struct Shared {
    endpoint: HttpEndpoint,
    session: Mutex<Option<String>>,
}

/// End of one stream of events.
enum StreamEnd {
    /// The answer was among the events.
    Answered,
    /// The stream ended, or its connection failed.
    Broken(String),
}

impl Streamable {
    pub(crate) fn new(endpoint: HttpEndpoint) -> Self {
        Self(Arc::new(Shared { endpoint, session: Mutex::new(None) }))
    }

    async fn exchange(
        &self,
        core: &Core,
        method: HttpMethod,
        more: Vec<(String, String)>,
        body: Bytes,
    ) -> Result<HttpAnswer, HttpFailure> {
        let endpoint = &self.0.endpoint;
        let session = self.0.session.lock().clone();
        let accepted = if method == HttpMethod::Get {
            "text/event-stream"
        } else {
            "application/json, text/event-stream"
        };
        let mut all = vec![("accept".to_owned(), accepted.to_owned())];
        if method == HttpMethod::Post {
            all.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        all.extend(headers::basic(core.revision(), session.as_deref()));
        all.extend(more);
        let configured = endpoint.headers.iter().filter(|(name, _)| !headers::is_of_protocol(name)).cloned();
        all.extend(configured);
        endpoint.transport.send(HttpRequest { method, url: endpoint.url.clone(), headers: all, body }).await
    }

    async fn ask(&self, core: &Arc<Core>, request: Outgoing) -> Result<(), ClientError> {
        let method = request.method.as_str();
        let more = headers::repeated(core.revision(), &request);
        let sent = self.exchange(core, HttpMethod::Post, more, request.message.clone()).await;
        let mut answer = sent.map_err(|failure| unreachable(&failure))?;
        if !(200..300).contains(&answer.status) {
            return Err(failure(&mut answer, request.id, method, self.has_session()).await);
        }
        if method == "initialize" {
            *self.0.session.lock() = headers::session_id(answer.header(SESSION));
        }
        match answer.media_type().as_str() {
            "text/event-stream" => self.read_events(core, answer, &request).await,
            "application/json" => {
                let limit = core.limits.message;
                let body = answer.read(limit).await.map_err(|failure| broken(method, &failure.message))?;
                let body = body.ok_or(CloseReason::MessageTooLong { limit })?;
                if core.take(&body)?.contains(&request.id) {
                    Ok(())
                } else {
                    Err(broken(method, "the body holds no answer to this request"))
                }
            }
            other => Err(broken(method, &format!("its media type is {:?}", line(other)))),
        }
    }

    /// Reads the events until the answer is among them. Resumes the stream where the era has that.
    async fn read_events(
        &self,
        core: &Arc<Core>,
        mut answer: HttpAnswer,
        request: &Outgoing,
    ) -> Result<(), ClientError> {
        let mut events = Events::new(core.limits.message);
        let mut resumptions = 0;
        loop {
            let problem = match read_stream(core, &mut answer, &mut events, Some(request.id)).await? {
                StreamEnd::Answered => return Ok(()),
                StreamEnd::Broken(problem) => problem,
            };
            let is_resumable = core.revision().is_none_or(|revision| revision.era() == Era::Sessions);
            let Some(last) = events.last_id().filter(|_| is_resumable).map(ToOwned::to_owned) else {
                return Err(broken(&request.method, &problem));
            };
            loop {
                if resumptions >= core.limits.resumptions {
                    return Err(broken(&request.method, &problem));
                }
                resumptions += 1;
                core.timer.sleep(events.retry().unwrap_or(RETRY)).await;
                let more = vec![("last-event-id".to_owned(), last.clone())];
                match self.exchange(core, HttpMethod::Get, more, Bytes::new()).await {
                    Ok(resumed) if resumed.is_event_stream() => {
                        answer = resumed;
                        break;
                    }
                    Ok(mut refused) if refused.status < 500 => {
                        return Err(
                            failure(&mut refused, request.id, &request.method, self.has_session()).await
                        );
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            // A line that was cut off comes again as a whole.
            events = events.resumed();
        }
    }

    /// Keeps the stream of notices open (`GET`), as long as the server offers one.
    async fn listen(&self, core: &Arc<Core>) {
        let mut events = Events::new(core.limits.message);
        let mut failures: u32 = 0;
        while failures < MOST_FAILURES {
            let more =
                events.last_id().map(|id| ("last-event-id".to_owned(), id.to_owned())).into_iter().collect();
            match self.exchange(core, HttpMethod::Get, more, Bytes::new()).await {
                Ok(mut answer) if answer.is_event_stream() => {
                    let opened = core.timer.now();
                    if let Err(reason) = read_stream(core, &mut answer, &mut events, None).await {
                        if let ClientError::Closed(reason) = reason {
                            core.close(&reason);
                        }
                        return;
                    }
                    if core.timer.now().saturating_duration_since(opened) >= STEADY {
                        failures = 0;
                    }
                }
                // The server offers none, or has forgotten the session, which the next request notices.
                Ok(answer) if answer.status < 500 => return,
                Ok(_) | Err(_) => {}
            }
            failures += 1;
            let wait = events.retry().unwrap_or(RETRY);
            core.timer.sleep(wait.saturating_mul(1 << (failures - 1).min(6)).min(LONGEST_RETRY)).await;
            events = events.resumed();
        }
    }

    fn has_session(&self) -> bool {
        self.0.session.lock().is_some()
    }

    async fn end_session(&self, core: &Core) {
        if self.0.session.lock().is_none() {
            return;
        }
        // A server may refuse the end (405), and forgets the session in its own time then.
        let _ = self.exchange(core, HttpMethod::Delete, Vec::new(), Bytes::new()).await;
        *self.0.session.lock() = None;
    }
}

/// Starts the task that keeps the stream of notices open.
pub(crate) fn listen(core: &Arc<Core>, wire: Streamable) {
    let task = core.clone();
    core.tasks.start(async move { wire.listen(&task).await });
}

impl Wire for Streamable {
    fn request<'a>(
        &'a self,
        core: &'a Arc<Core>,
        request: Outgoing,
    ) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            let done = self.ask(core, request).await;
            // A message that breaks the protocol ends the connection here as on every wire.
            if let Err(ClientError::Closed(reason)) = &done {
                core.close(reason);
            }
            done
        })
    }

    fn send<'a>(&'a self, core: &'a Arc<Core>, message: Bytes) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            let exchange = self.exchange(core, HttpMethod::Post, Vec::new(), message);
            let after = core.limits.notify;
            let answer = tokio::select! {
                answer = exchange => answer.map_err(|failure| unreachable(&failure))?,
                () = core.timer.sleep(after) => {
                    return Err(ClientError::Timeout { method: "a notification".to_owned(), after });
                }
            };
            if (200..300).contains(&answer.status) {
                return Ok(());
            }
            let retry_after = answer.retry_after();
            let method = "a notification".to_owned();
            Err(ClientError::Http { method, status: answer.status, message: String::new(), retry_after })
        })
    }

    fn post(&self, core: &Arc<Core>, message: Bytes) {
        let (wire, sender) = (self.clone(), core.clone());
        core.tasks.start(async move {
            // A server that does not take it misses it.
            let _ = wire.send(&sender, message).await;
        });
    }

    fn cancels_by_message(&self, revision: Option<Revision>) -> bool {
        revision.is_none_or(|revision| revision.era() == Era::Sessions)
    }

    fn finish<'a>(&'a self, core: &'a Arc<Core>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            self.end_session(core).await;
            core.close(&CloseReason::ByCaller);
        })
    }

    fn end(&self) {}
}

/// Reads a stream until it ends, or until it answers a request.
async fn read_stream(
    core: &Arc<Core>,
    answer: &mut HttpAnswer,
    events: &mut Events,
    until: Option<u64>,
) -> Result<StreamEnd, ClientError> {
    loop {
        let piece = match answer.body.piece().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return Ok(StreamEnd::Broken("its stream ended".to_owned())),
            Err(failure) => return Ok(StreamEnd::Broken(line(&failure.message))),
        };
        let mut is_answered = false;
        for event in events.push(&piece)?.into_iter().filter(Event::is_message) {
            let answered = core.take(&event.data)?;
            is_answered |= until.is_some_and(|id| answered.contains(&id));
        }
        if is_answered {
            return Ok(StreamEnd::Answered);
        }
    }
}
