//! The body of a response on its way back to the program: redacted as it arrives, with its trailers.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::HeaderMap;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Instant, Sleep, sleep};

use super::Active;
use super::servers::ConnectionReturn;
use crate::refusal::Refusal;
use crate::respond::{ANSWERED, ResponseRedactor};
use crate::upstream::Upstream;

/// Body of the response to the program.
pub(super) struct RedactedBody {
    state: State,
    active: Option<Active>,
    uploading: Option<UploadBody>,
}

enum State {
    /// The proxy's own message.
    Text(Bytes),
    /// The body from the server.
    Body(Box<IncomingBody>),
    /// The remaining trailers, after the body.
    Trailers(HeaderMap),
    Ended,
}

struct IncomingBody {
    body: Incoming,
    /// Received bytes that were not yet searched.
    pending: Bytes,
    looking: ResponseRedactor,
    /// The reason, if the body of the request is refused midway.
    failed: Option<oneshot::Receiver<Refusal>>,
    patience: Pin<Box<Sleep>>,
    back: Option<(ConnectionReturn, Upstream)>,
}

/// The upload of the request's body, aborted when the response has ended.
struct UploadBody(AbortHandle);

impl Drop for UploadBody {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl RedactedBody {
    pub(super) fn of_text(words: Bytes) -> Self {
        Self { state: State::Text(words), active: None, uploading: None }
    }

    pub(super) fn uploading(task: AbortHandle) -> Self {
        Self { state: State::Ended, active: None, uploading: Some(UploadBody(task)) }
    }

    pub(super) fn begin(
        &mut self,
        body: Incoming,
        looking: ResponseRedactor,
        failed: Option<oneshot::Receiver<Refusal>>,
        back: Option<(ConnectionReturn, Upstream)>,
    ) {
        if body.is_end_stream() {
            if let Some((back, upstream)) = back {
                back.give(upstream);
            }
            return;
        }
        let (pending, patience) = (Bytes::new(), Box::pin(sleep(ANSWERED)));
        let coming = IncomingBody { body, pending, looking, failed, patience, back };
        self.state = State::Body(Box::new(coming));
    }

    /// Counts the request as active until this body has ended.
    pub(super) fn holds(&mut self, active: Active) {
        self.active = Some(active);
    }

    fn end(&mut self) {
        self.active = None;
        self.uploading = None;
    }
}

impl IncomingBody {
    /// Returns the next bytes that are safe to pass on, or the trailers at the end of the body.
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Result<Vec<u8>, HeaderMap>>> {
        loop {
            while !self.pending.is_empty() {
                let shown = self.looking.some(&mut self.pending)?;
                if !shown.is_empty() {
                    return Poll::Ready(Ok(Ok(shown)));
                }
            }
            if let Some(failed) = &mut self.failed
                && let Poll::Ready(refusal) = Pin::new(failed).poll(context)
            {
                self.failed = None;
                if let Ok(refusal) = refusal {
                    return Poll::Ready(Err(io::Error::other(refusal.reason)));
                }
            }
            let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
                ready!(self.patience.as_mut().poll(context));
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            };
            self.patience.as_mut().reset(Instant::now() + ANSWERED);
            match frame {
                None => return Poll::Ready(Ok(Err(HeaderMap::new()))),
                Some(Err(error)) => return Poll::Ready(Err(io::Error::other(error))),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.pending = data,
                    Err(frame) => {
                        return Poll::Ready(Ok(Err(frame.into_trailers().unwrap_or_default())));
                    }
                },
            }
        }
    }
}

impl Body for RedactedBody {
    type Data = Bytes;
    type Error = io::Error;

    // BOUNDED: at most one nested call, in another state.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(active) = &self.active {
            active.activity.moves();
        }
        let trailers = match &mut self.state {
            State::Body(coming) => match ready!(coming.poll_next(context)) {
                Ok(Ok(shown)) => return Poll::Ready(Some(Ok(Frame::data(shown.into())))),
                Ok(Err(trailers)) => trailers,
                Err(error) => {
                    self.state = State::Ended;
                    self.end();
                    return Poll::Ready(Some(Err(error)));
                }
            },
            _ => HeaderMap::new(),
        };
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Text(words) if !words.is_empty() => Poll::Ready(Some(Ok(Frame::data(words)))),
            State::Body(coming) => {
                let IncomingBody { looking, back, .. } = *coming;
                let (rest, trailers) = match looking.rest(trailers) {
                    Ok(rest) => rest,
                    Err(error) => {
                        self.end();
                        return Poll::Ready(Some(Err(error)));
                    }
                };
                if let Some((back, upstream)) = back {
                    back.give(upstream);
                }
                if !trailers.is_empty() {
                    self.state = State::Trailers(trailers);
                }
                if !rest.is_empty() {
                    return Poll::Ready(Some(Ok(Frame::data(rest.into()))));
                }
                self.poll_frame(context)
            }
            State::Trailers(trailers) => {
                self.end();
                Poll::Ready(Some(Ok(Frame::trailers(trailers))))
            }
            State::Text(_) | State::Ended => {
                self.end();
                Poll::Ready(None)
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.state {
            State::Text(words) => words.is_empty(),
            State::Ended => true,
            State::Body(_) | State::Trailers(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.state {
            State::Text(words) => SizeHint::with_exact(words.len() as u64),
            _ => SizeHint::default(),
        }
    }
}
