//! A stream with a read-ahead buffer.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// Bytes per read while the buffer is searched.
const AT_ONCE: usize = 16 * 1024;

/// A stream and the bytes that were read from it and not yet used. Reads return these bytes first.
#[derive(Debug)]
pub(crate) struct PeekedStream<S> {
    pub(crate) bytes: BytesMut,
    pub(crate) stream: S,
}

impl<S> PeekedStream<S> {
    pub(crate) fn of(stream: S) -> Self {
        Self { bytes: BytesMut::new(), stream }
    }
}

impl<S: AsyncRead + Unpin> PeekedStream<S> {
    /// Reads more into the buffer. Returns the number of bytes; 0 at the end of the stream.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.bytes.reserve(AT_ONCE);
        self.stream.read_buf(&mut self.bytes).await
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PeekedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = self.bytes.len().min(buffer.remaining());
        buffer.put_slice(&self.bytes[..count]);
        self.bytes.advance(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PeekedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
