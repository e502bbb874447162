//! A body that is sent on as it comes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Parts that may wait to be sent.
const WAITING: usize = 4;

/// The receiving end, which is sent.
#[derive(Debug)]
pub(crate) struct Upload {
    parts: Receiver<io::Result<Bytes>>,
    /// Its length in bytes, where it is known.
    left: Option<u64>,
}

impl Upload {
    /// Both ends. Dropping the other one ends the body.
    pub(crate) fn of(length: Option<u64>) -> (Sender<io::Result<Bytes>>, Self) {
        let (sender, parts) = channel(WAITING);
        (sender, Self { parts, left: length })
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.parts.poll_recv(context).map(|part| {
            let part = part?;
            if let (Some(left), Ok(part)) = (&mut self.left, &part) {
                *left = left.saturating_sub(part.len() as u64);
            }
            Some(part.map(Frame::data))
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
