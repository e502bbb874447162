//! Models behind a provider's interface.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tool::{BoxFuture, Stop, Timer};

use crate::assembly::Assembly;
use crate::error::{ModelError, StreamFault};
use crate::info::ModelInfo;
use crate::interrupt::{Interrupt, StopWatch};
use crate::lines::{Lines, text};
use crate::message::ChatRequest;
use crate::model::Model;
use crate::response::{Response, Sink};
use crate::retry_after;
use crate::sse::{Event, Events};
use crate::transport::{Body, HttpRequest, HttpResponse, Transport, TransportError};
use crate::usage::Usage;
use crate::wire::{Decoder, Framing, WireFormat, of_response};

/// Maximum size of the body of a failure, in bytes. Only its message is shown.
const LARGEST_REPORT: usize = 64 * 1024;

/// Longest wait for the end of a body after the end of its answer. It usually comes in the same packet.
const WAIT_FOR_END: Duration = Duration::from_millis(20);

/// Limits on one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of one event of the stream, in bytes. Servers send a few tokens, or one whole call.
    pub event: usize,
    /// Maximum size of text, thoughts and calls of an answer together, in bytes. 128,000 tokens, the most
    /// that a model of the table writes, are about 512 KiB.
    pub content: usize,
    /// Maximum size of the stream with everything around the content, in bytes. `OpenAI` takes about 300
    /// bytes for each token.
    pub stream: usize,
    /// Maximum time until the head of the response, and between two pieces. Models think for minutes, and
    /// not every server sends signs of life.
    pub idle: Duration,
    /// Maximum time for the whole answer.
    pub whole: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            event: 1024 * 1024,
            content: 4 * 1024 * 1024,
            stream: 128 * 1024 * 1024,
            idle: Duration::from_mins(5),
            whole: Duration::from_hours(1),
        }
    }
}

/// Provider of models: a server and its wire format.
pub struct Provider {
    /// Address before the path, without a slash at its end; see [`WireFormat::usual_base`].
    pub base: String,
    /// Wire format.
    pub wire: WireFormat,
    /// Sender of the requests.
    pub transport: Arc<dyn Transport>,
    /// Clock for the limits.
    pub timer: Arc<dyn Timer>,
    /// Limits on each answer.
    pub limits: Limits,
}

/// Model of a provider.
pub struct RemoteModel {
    provider: Arc<Provider>,
    info: ModelInfo,
}

impl RemoteModel {
    /// Creates a model of a provider. Facts about known models are in [`known`](crate::known).
    pub fn new(provider: Arc<Provider>, info: ModelInfo) -> Self {
        Self { provider, info }
    }
}

impl Model for RemoteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn chat<'a>(
        &'a self,
        request: &'a ChatRequest,
        sink: &'a mut dyn Sink,
        stop: &'a Stop,
    ) -> BoxFuture<'a, Result<Response, ModelError>> {
        Box::pin(self.ask(request, sink, stop))
    }
}

impl RemoteModel {
    async fn ask(
        &self,
        request: &ChatRequest,
        sink: &mut dyn Sink,
        stop: &Stop,
    ) -> Result<Response, ModelError> {
        let Provider { base, wire, transport, timer, limits } = &*self.provider;
        let rendered = wire.render(request, &self.info)?;
        if let Some(reason) = stop.requested() {
            return Err(ModelError::Cancelled { reason, usage: Usage::default() });
        }
        let body =
            serde_json::to_vec(&rendered.body).map_err(|error| crate::error::invalid(error.to_string()))?;
        let http = HttpRequest {
            url: format!("{}{}", base.trim_end_matches('/'), rendered.path),
            headers: wire.headers(),
            key: wire.key_header(),
            body: Bytes::from(body),
        };
        let mut wait =
            Wait { watch: StopWatch::new(stop), timer: &**timer, limits, whole: timer.sleep(limits.whole) };
        // A server that got the request may charge for it, whether or not anybody waits for its answer.
        let asked = Usage { input: self.most_input(request), is_estimate: true, ..Usage::default() };
        let sent = wait.until(transport.send(http)).await.map_err(|error| error.spending(asked))?;
        let mut response = sent.map_err(|error| unreachable(&error))?;
        if !(200..300).contains(&response.status) {
            return Err(wait.failure(&mut response).await);
        }
        let mut answer = Assembly::new(sink, &self.info.name, request.calls(), limits.content);
        let mut decoder = wire.decoder();
        let mut read = read(&mut wait, *wire, &mut *response.body, &mut *decoder, &mut answer).await;
        if read.is_ok() {
            read = decoder.end(&mut answer);
        }
        let usage = Self::spent(asked, &answer);
        match read {
            Ok(()) => answer.complete(usage, rendered.omitted),
            Err(error) => Err(error.spending(usage)),
        }
    }

    /// Returns the tokens of an answer, whole or not. Where the server reported none, the upper bounds of
    /// the request and of what came stand in their place.
    fn spent(asked: Usage, answer: &Assembly<'_>) -> Usage {
        let mut usage = answer.usage.unwrap_or_default();
        if usage.input == 0 {
            usage.input = asked.input;
            usage.is_estimate = true;
        }
        // Anthropic counts the output at the end; before it, the number is that of the first tokens.
        if answer.usage.is_none() || answer.finish.is_none() {
            usage.output = usage.output.max(u64::try_from(answer.bytes()).unwrap_or(u64::MAX));
            usage.is_estimate = true;
        }
        usage
    }
}

/// Waits for the parts of one answer.
struct Wait<'a> {
    watch: StopWatch<'a>,
    timer: &'a dyn Timer,
    limits: &'a Limits,
    whole: BoxFuture<'static, ()>,
}

impl Wait<'_> {
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> Result<T, ModelError> {
        let whole = std::mem::replace(&mut self.whole, Box::pin(std::future::pending()));
        let mut alarms = [self.timer.sleep(self.limits.idle), whole];
        let done = self.watch.wait(work, &mut alarms).await;
        let [_, whole] = alarms;
        self.whole = whole;
        done.map_err(|interrupt| match interrupt {
            Interrupt::Stopped(reason) => ModelError::Cancelled { reason, usage: Usage::default() },
            Interrupt::Alarm(0) => StreamFault::Idle(self.limits.idle).into(),
            Interrupt::Alarm(_) => StreamFault::Late(self.limits.whole).into(),
        })
    }

    /// Reads the body of a failure, as far as it comes.
    async fn failure(&mut self, response: &mut HttpResponse) -> ModelError {
        let mut body = Vec::new();
        while body.len() < LARGEST_REPORT {
            match self.until(response.body.piece()).await {
                Ok(Ok(Some(piece))) => {
                    let room = LARGEST_REPORT - body.len();
                    body.extend_from_slice(piece.get(..room).unwrap_or(&piece));
                }
                Err(error @ ModelError::Cancelled { .. }) => return error,
                Ok(Ok(None) | Err(_)) | Err(_) => break,
            }
        }
        let retry_after = retry_after::of_headers(|name| response.header(name));
        of_response(response.status, retry_after, &body)
    }
}

fn unreachable(error: &TransportError) -> ModelError {
    ModelError::Unreachable { message: crate::error::shorten(&error.message) }
}

/// Parser of a stream into events.
enum Parser {
    Events(Events),
    Lines(Lines),
}

/// Reads the stream of an answer until nothing that follows matters.
async fn read(
    wait: &mut Wait<'_>,
    wire: WireFormat,
    body: &mut dyn Body,
    decoder: &mut dyn Decoder,
    answer: &mut Assembly<'_>,
) -> Result<(), ModelError> {
    let limit = wait.limits.event;
    let mut parser = match wire.framing() {
        Framing::Events => Parser::Events(Events::new(limit)),
        Framing::Lines => Parser::Lines(Lines::new(limit)),
    };
    let mut bytes: usize = 0;
    while !decoder.is_done() {
        let piece = wait.until(body.piece()).await?;
        let piece = piece.map_err(|error| StreamFault::Connection(crate::error::shorten(&error.message)))?;
        let Some(piece) = piece else {
            // A last line needs no end.
            if let Parser::Lines(lines) = &mut parser {
                line(&lines.rest(), decoder, answer)?;
            }
            return Ok(());
        };
        bytes = bytes.saturating_add(piece.len());
        if bytes > wait.limits.stream {
            return Err(StreamFault::TooLarge { what: "stream", limit: wait.limits.stream }.into());
        }
        match &mut parser {
            Parser::Events(events) => {
                events.push(
                    &piece,
                    |event| if decoder.is_done() { Ok(()) } else { decoder.event(event, answer) },
                )?;
            }
            Parser::Lines(lines) => {
                lines.push(&piece, |bytes| line(bytes, decoder, answer))?;
            }
        }
    }
    take_end(wait, body).await;
    Ok(())
}

/// Waits shortly for the end of a body, so that its connection can serve another request. A body that is
/// dropped before its end takes the connection with it, and the next request would have to dial again.
async fn take_end(wait: &mut Wait<'_>, body: &mut dyn Body) {
    let mut alarms = [wait.timer.sleep(WAIT_FOR_END)];
    let _there = wait.watch.wait(body.piece(), &mut alarms).await;
}

fn line(bytes: &[u8], decoder: &mut dyn Decoder, answer: &mut Assembly<'_>) -> Result<(), ModelError> {
    let data = text(bytes)?;
    if data.trim().is_empty() || decoder.is_done() {
        return Ok(());
    }
    decoder.event(Event { name: "", data }, answer)
}
