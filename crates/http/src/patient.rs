//! A stream whose other side has to take what it is sent, and to take each answer as a whole in time.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// The longest time in which a client takes nothing of an answer. The answer occupies room that others wait for.
const STILL: Duration = Duration::from_secs(10);

/// The longest time in which a client takes one whole answer: 32 MiB at about 280 KB a second.
pub(crate) const WHOLE: Duration = Duration::from_mins(2);

/// The time by which a client must have taken the answer that its connection carries now.
#[derive(Clone, Default)]
pub(crate) struct Pace(Arc<Mutex<Option<Instant>>>);

impl Pace {
    /// Begins to count the time of an answer, unless it counts already.
    pub(crate) fn begin(&self) {
        let mut until = self.lock();
        *until = until.or_else(|| Some(Instant::now() + WHOLE));
    }

    /// Ends counting: nothing of an answer waits for the client.
    pub(crate) fn end(&self) {
        *self.lock() = None;
    }

    fn until(&self) -> Option<Instant> {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that fails a write which could not go on for a time, or for which the time of its answer has passed: a client that reads no
/// further, or a few bytes now and then, would hold its answer for ever.
pub(crate) struct Patient<S> {
    stream: S,
    still: Duration,
    pace: Pace,
    /// The end of patience with the write that waits now.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    /// Wraps a stream. The client's own patience counts where it is the shorter.
    pub(crate) fn new(stream: S, patience: Duration, pace: Pace) -> Self {
        Self { stream, still: patience.min(STILL), pace, until: None }
    }

    /// Gives what came of an attempt to write, or the error of a client that is let go.
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

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
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

    const PATIENCE: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_for_ten_seconds_is_let_go() {
        for (patience, expected) in [(PATIENCE, STILL), (STILL / 5, STILL / 5)] {
            let (_client, server) = tokio::io::duplex(4);
            let mut server = Patient::new(server, patience, Pace::default());
            let began = Instant::now();
            let error = server.write_all(b"longer than what fits").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_client_that_goes_on_reading_gets_all_of_it() {
        let (mut client, server) = tokio::io::duplex(4);
        let pace = Pace::default();
        let mut server = Patient::new(server, PATIENCE, pace.clone());
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
        let pace = Pace::default();
        let mut server = Patient::new(server, PATIENCE, pace.clone());
        let began = Instant::now();
        pace.begin();
        let written = tokio::spawn(async move { server.write_all(&[7; 4000]).await });
        while !written.is_finished() {
            tokio::time::sleep(STILL / 10).await;
            // One byte a second; the server is gone in the end.
            let _ = client.read(&mut [0; 1]).await;
        }
        assert_eq!(written.await.unwrap().unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= WHOLE, "not before its time");
        // The next answer has a time of its own.
        pace.end();
        tokio::time::sleep(WHOLE).await;
        pace.begin();
        assert_eq!(pace.until(), Some(Instant::now() + WHOLE));
    }
}
