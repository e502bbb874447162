//! A stream that limits the time in which the client must read its data, and each response as a whole.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// Maximum time in which a client reads nothing of a response. A response occupies memory that
/// other requests wait for.
const STILL: Duration = Duration::from_secs(10);

/// Maximum time in which a client reads a whole response: 32 MiB at about 280 KB/s.
pub(crate) const WHOLE: Duration = Duration::from_mins(2);

/// Deadline for the current response of a connection.
#[derive(Clone, Default)]
pub(crate) struct WriteDeadline(Arc<Mutex<Option<Instant>>>);

impl WriteDeadline {
    /// Starts the deadline of a response, unless one is running.
    pub(crate) fn begin(&self) {
        let mut until = self.lock();
        *until = until.or_else(|| Some(Instant::now() + WHOLE));
    }

    /// Clears the deadline: no part of a response waits for the client.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    fn until(&self) -> Option<Instant> {
        *self.lock()
    }

    fn lock(&self) -> parking_lot::MutexGuard<'_, Option<Instant>> {
        self.0.lock()
    }
}

/// A stream that fails a write which is blocked for too long, or whose response has passed its
/// deadline. Otherwise a client that stops reading, or reads a few bytes at a time, would occupy
/// its response forever.
pub(crate) struct WriteTimeout<S> {
    stream: S,
    still: Duration,
    pace: WriteDeadline,
    /// Timer of the blocked write.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> WriteTimeout<S> {
    /// Wraps a stream. `patience` applies if it is shorter than the fixed limit.
    pub(crate) fn new(stream: S, patience: Duration, pace: WriteDeadline) -> Self {
        Self { stream, still: patience.min(STILL), pace, until: None }
    }

    /// Returns the result of a write, or a timeout error if the write was blocked for too long.
    fn judge<T>(&mut self, attempt: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.until = None;
            return attempt;
        }
        let (still, pace) = (self.still, &self.pace);
        let until = self.until.get_or_insert_with(|| {
            let still = Instant::now() + still;
            Box::pin(tokio::time::sleep_until(pace.until().map_or(still, |whole| whole.min(still))))
        });
        match until.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WriteTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for WriteTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(attempt, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(attempt, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_ten_seconds_is_let_go() {
        for (patience, expected) in [(TIMEOUT, STILL), (STILL / 5, STILL / 5)] {
            let (_client, server) = tokio::io::duplex(4);
            let mut server = WriteTimeout::new(server, patience, WriteDeadline::default());
            let began = Instant::now();
            let error = server.write_all(b"longer than what fits").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_goes_on_reading_gets_all_of_it() {
        let (mut client, server) = tokio::io::duplex(4);
        let pace = WriteDeadline::default();
        let mut server = WriteTimeout::new(server, TIMEOUT, pace.clone());
        pace.begin();
        let written = tokio::spawn(async move { server.write_all(&[7; 40]).await });
        let mut read = 0;
        while read < 40 {
            tokio::time::sleep(STILL / 2).await;
            read += client.read(&mut [0; 4]).await.unwrap();
        }
        written.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_drips_is_let_go_when_the_time_of_its_answer_has_passed() {
        let (mut client, server) = tokio::io::duplex(4);
        let pace = WriteDeadline::default();
        let mut server = WriteTimeout::new(server, TIMEOUT, pace.clone());
        let began = Instant::now();
        pace.begin();
        let written = tokio::spawn(async move { server.write_all(&[7; 4000]).await });
        while !written.is_finished() {
            tokio::time::sleep(STILL / 10).await;
            // One byte per second. In the end the server closes the connection.
            let _ = client.read(&mut [0; 1]).await;
        }
        assert_eq!(written.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WHOLE, "not before its time");
        // The next response has a new deadline.
        pace.end();
        tokio::time::sleep(WHOLE).await;
        pace.begin();
        assert_eq!(pace.until(), Some(Instant::now() + WHOLE));
    }
}
