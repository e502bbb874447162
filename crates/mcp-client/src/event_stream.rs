//! A server behind the transport of 2024-11-05 (`sse` in configurations): one stream of events carries all messages
//! of the server, and its first event names the URL for those of the client.
//!
//! The protocol has replaced it by streamable HTTP. Servers that offer nothing else are still there.

use std::sync::Arc;
use std::sync::OnceLock;

use bytes::Bytes;
use tool::BoxFuture;
use url::Url;

use crate::core::{Core, Outgoing, Wire};
use crate::error::{ClientError, CloseReason, line};
use crate::failure::{broken, failure, unreachable};
use crate::headers;
use crate::http::{HttpAnswer, HttpEndpoint, HttpMethod, HttpRequest};
use crate::revision::Revision;
use crate::sse::{Event, Events};

/// Method that errors name before there is any.
const OPENING: &str = "the stream of events";

/// Wire of a stream. Clones are the same wire.
#[derive(Clone)]
pub(crate) struct EventStream(Arc<Shared>);

struct Shared {
    endpoint: HttpEndpoint,
    /// URL for the messages of the client, once the server has named it.
    target: OnceLock<String>,
}

impl EventStream {
    pub(crate) fn new(endpoint: HttpEndpoint) -> Self {
        Self(Arc::new(Shared { endpoint, target: OnceLock::new() }))
    }

    /// Opens the stream, and starts the task that reads it. The connection ends with the stream.
    pub(crate) async fn open(&self, core: &Arc<Core>) -> Result<(), ClientError> {
        let after = core.limits.handshake;
        tokio::select! {
            biased;
            opened = self.open_now(core) => opened,
            () = core.timer.sleep(after) => Err(ClientError::Timeout { method: OPENING.to_owned(), after }),
        }
    }

    async fn open_now(&self, core: &Arc<Core>) -> Result<(), ClientError> {
        let request =
            self.request_of(core, HttpMethod::Get, &self.0.endpoint.url, "text/event-stream", Bytes::new());
        let sent = self.0.endpoint.transport.send(request).await;
        let mut answer = sent.map_err(|failure| unreachable(&failure))?;
        if !answer.is_event_stream() {
            return Err(failure(&mut answer, 0, OPENING, false).await);
        }
        let mut events = Events::new(core.limits.message);
        loop {
            let piece = answer.body.piece().await.map_err(|failure| broken(OPENING, &failure.message))?;
            let piece = piece.ok_or_else(|| broken(OPENING, "it ended before it named its endpoint"))?;
            let mut complete = events.push(&piece)?.into_iter();
            let Some(named) = complete.find(|event| event.name == "endpoint") else { continue };
            let target = self.target_of(&String::from_utf8_lossy(&named.data))?;
            // The first one counts, and there is no second opening.
            let _ = self.0.target.set(target);
            for event in complete.filter(Event::is_message) {
                core.take(&event.data)?;
            }
            let reader = core.clone();
            core.tasks.start(async move {
                let reason = read(&reader, answer, events).await;
                reader.close(&reason);
            });
            return Ok(());
        }
    }

    /// Returns the URL for messages. It must belong to the server, because credentials go there.
    fn target_of(&self, named: &str) -> Result<String, ClientError> {
        let base = Url::parse(&self.0.endpoint.url).map_err(|error| broken(OPENING, &error.to_string()))?;
        let target = base.join(named.trim()).map_err(|error| broken(OPENING, &error.to_string()))?;
        if target.origin() == base.origin() {
            Ok(target.into())
        } else {
            Err(broken(OPENING, &format!("its endpoint is at another server: {named}")))
        }
    }

    fn request_of(
        &self,
        core: &Core,
        method: HttpMethod,
        url: &str,
        accepted: &str,
        body: Bytes,
    ) -> HttpRequest {
        let mut all = vec![("accept".to_owned(), accepted.to_owned())];
        if method == HttpMethod::Post {
            all.push(("content-type".to_owned(), "application/json".to_owned()));
        }
        all.extend(headers::basic(core.revision(), None));
        let configured = self.0.endpoint.headers.iter();
        all.extend(configured.filter(|(name, _)| !headers::is_of_protocol(name)).cloned());
        HttpRequest { method, url: url.to_owned(), headers: all, body }
    }

    async fn deliver(&self, core: &Core, method: &str, id: u64, message: Bytes) -> Result<(), ClientError> {
        let target = self.0.target.get().ok_or_else(|| broken(OPENING, "it is not open"))?;
        let request = self.request_of(core, HttpMethod::Post, target, "application/json", message);
        let sent = self.0.endpoint.transport.send(request).await;
        let mut answer = sent.map_err(|failure| unreachable(&failure))?;
        if (200..300).contains(&answer.status) {
            Ok(())
        } else {
            Err(failure(&mut answer, id, method, true).await)
        }
    }
}

impl Wire for EventStream {
    fn request<'a>(
        &'a self,
        core: &'a Arc<Core>,
        request: Outgoing,
    ) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move { self.deliver(core, &request.method, request.id, request.message).await })
    }

    fn send<'a>(&'a self, core: &'a Arc<Core>, message: Bytes) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(async move {
            let (after, method) = (core.limits.notify, "a notification");
            tokio::select! {
                biased;
                sent = self.deliver(core, method, 0, message) => sent,
                () = core.timer.sleep(after) => Err(ClientError::Timeout { method: method.to_owned(), after }),
            }
        })
    }

    fn post(&self, core: &Arc<Core>, message: Bytes) {
        let (wire, sender) = (self.clone(), core.clone());
        core.tasks.start(async move {
            // A server that does not take it misses it.
            let _ = wire.send(&sender, message).await;
        });
    }

    fn cancels_by_message(&self, _: Option<Revision>) -> bool {
        true
    }

    fn finish<'a>(&'a self, core: &'a Arc<Core>) -> BoxFuture<'a, ()> {
        core.close(&CloseReason::ByCaller);
        Box::pin(std::future::ready(()))
    }

    fn end(&self) {}
}

async fn read(core: &Arc<Core>, mut answer: HttpAnswer, mut events: Events) -> CloseReason {
    loop {
        let piece = match answer.body.piece().await {
            Ok(Some(piece)) => piece,
            Ok(None) => return CloseReason::ByServer,
            Err(failure) => return CloseReason::Stream(line(&failure.message)),
        };
        let taken = events.push(&piece).and_then(|complete| {
            complete
                .into_iter()
                .filter(Event::is_message)
                .try_for_each(|event| core.take(&event.data).map(drop))
        });
        if let Err(reason) = taken {
            return reason;
        }
    }
}
