//! A request body that is sent as it arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::sync::mpsc::{Receiver, Sender, channel};

/// Maximum number of parts that wait to be sent.
const WAITING: usize = 4;

/// The end that supplies the parts. If it is dropped without [`Uploader::end`], the body breaks
/// off, so that no server takes the part for the whole.
#[derive(Debug)]
pub(crate) struct Uploader {
    parts: Sender<Bytes>,
    whole: Arc<AtomicBool>,
}

impl Uploader {
    /// Sends a part. Returns false if the receiver is gone.
    pub(crate) async fn send(&self, part: Bytes) -> bool {
        self.parts.send(part).await.is_ok()
    }

    /// Marks the end of the body.
    pub(crate) fn end(self) {
        self.whole.store(true, Ordering::Release);
    }
}

/// The receiving end, used as the body of the request.
#[derive(Debug)]
pub(crate) struct Upload {
    parts: Receiver<Bytes>,
    whole: Arc<AtomicBool>,
    /// Remaining length in bytes, if known.
    left: Option<u64>,
}

impl Upload {
    /// Creates both ends.
    pub(crate) fn of(length: Option<u64>) -> (Uploader, Self) {
        let (sender, parts) = channel(WAITING);
        let whole = Arc::new(AtomicBool::new(false));
        (Uploader { parts: sender, whole: whole.clone() }, Self { parts, whole, left: length })
    }
}

impl Body for Upload {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        self.parts.poll_recv(context).map(|part| match part {
            Some(part) => {
                if let Some(left) = &mut self.left {
                    *left = left.saturating_sub(part.len() as u64);
                }
                Some(Ok(Frame::data(part)))
            }
            None if self.whole.load(Ordering::Acquire) => None,
            None => Some(Err(io::ErrorKind::ConnectionAborted.into())),
        })
    }

    fn is_end_stream(&self) -> bool {
        self.left == Some(0)
    }

    fn size_hint(&self) -> SizeHint {
        self.left.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}
