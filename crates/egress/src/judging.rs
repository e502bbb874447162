//! Judgement of a request of an opened connection, which may need the beginning of its body.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use fetch::address::Host;
use tokio::sync::OwnedSemaphorePermit;

use crate::begun::{BegunRequest, RequestHead, RequestVerdict};
use crate::head::{Framing, Head};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::{Gate, Peer};

/// Bytes of a body that a request may have in memory without a permit.
const WITHOUT_PERMIT: usize = 64 * 1024;

/// Maximum number of bytes that a gate may need.
const MOST: usize = 8 * 1024 * 1024;

/// A request that is being judged.
pub(crate) struct Judging<'a, G> {
    session: &'a Session<G>,
    host: &'a Host,
    port: u16,
    peer: Peer,
    head: Arc<RequestHead>,
    body: BytesMut,
    is_whole: bool,
    permit: Option<OwnedSemaphorePermit>,
}

/// The beginning of a body, which is to be sent first.
pub(crate) struct Beginning {
    pub(crate) bytes: Bytes,
    /// Permit for the memory of a long beginning.
    _permit: Option<OwnedSemaphorePermit>,
}

impl<'a, G: Gate> Judging<'a, G> {
    /// Begins the judgement of a request with this head, without headers of the connection.
    pub(crate) fn of(
        session: &'a Session<G>,
        (host, port, peer): (&'a Host, u16, Peer),
        head: &Head,
        path: &str,
    ) -> Self {
        let headers = head.headers.iter();
        let headers = headers.map(|(name, value)| (name.as_str().to_owned(), value.as_bytes().to_owned()));
        let length = match head.framing {
            Framing::Length(length) => Some(length),
            Framing::Chunked => None,
        };
        let is_whole = length == Some(0);
        let head = RequestHead {
            method: head.method.as_str().to_owned(),
            target: path.to_owned(),
            headers: headers.collect(),
            length,
        };
        let (head, body) = (Arc::new(head), BytesMut::new());
        Self { session, host, port, peer, head, body, is_whole, permit: None }
    }

    /// Asks the gate. Returns how many bytes of the body it needs; `None` if the request passes.
    ///
    /// # Errors
    /// Returns the refusal.
    pub(crate) async fn needs(&mut self) -> Result<Option<usize>, Refusal> {
        let request = BegunRequest {
            head: self.head.clone(),
            body: self.body.clone().freeze(),
            is_whole: self.is_whole,
        };
        let verdict = self.session.gate.judge_request(self.host, self.port, self.peer, request).await;
        let wanted = match verdict {
            RequestVerdict::Passed => return Ok(None),
            RequestVerdict::Refused(refusal) => return Err(Refusal::of_request(refusal)),
            RequestVerdict::NeedsMore(wanted) => wanted,
        };
        if self.is_whole || wanted <= self.body.len() || wanted > MOST {
            return Err(Refusal::denied("the request was not judged"));
        }
        if wanted > WITHOUT_PERMIT && self.permit.is_none() {
            self.permit = self.session.beginnings.clone().acquire_owned().await.ok();
        }
        Ok(Some(wanted))
    }

    /// Returns true if this many bytes of the body are there, or all of it.
    pub(crate) fn has(&self, wanted: usize) -> bool {
        self.is_whole || self.body.len() >= wanted
    }

    /// Adds the next part of the body; `None` marks its end.
    pub(crate) fn add(&mut self, part: Option<Bytes>) {
        match part {
            Some(part) => self.body.extend_from_slice(&part),
            None => self.is_whole = true,
        }
    }

    /// Returns the bytes that were taken from the body.
    pub(crate) fn finish(self) -> Beginning {
        Beginning { bytes: self.body.freeze(), _permit: self.permit }
    }
}
