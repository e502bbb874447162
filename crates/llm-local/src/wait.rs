//! Future of an answer that another thread writes.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use llm::{Delta, ModelError, Response, Sink, StreamFault};
use parking_lot::Mutex;

use crate::answer::Piece;

/// State that the thread and the future share.
#[derive(Default)]
struct Shared {
    news: Mutex<News>,
    is_abandoned: AtomicBool,
}

#[derive(Default)]
struct News {
    /// Pieces that the future has not handed on yet.
    pieces: VecDeque<Piece>,
    result: Option<Result<Response, ModelError>>,
    /// True if the thread says no more.
    is_over: bool,
    waker: Option<Waker>,
}

/// End of the thread.
pub(crate) struct Writer(Arc<Shared>);

/// End of the caller. Dropping it tells the thread.
pub(crate) struct Reader<'a> {
    shared: Arc<Shared>,
    sink: &'a mut dyn Sink,
}

/// Creates both ends of an answer whose pieces go to `sink`.
pub(crate) fn channel(sink: &mut dyn Sink) -> (Writer, Reader<'_>) {
    let shared = Arc::new(Shared::default());
    (Writer(Arc::clone(&shared)), Reader { shared, sink })
}

impl Writer {
    /// Returns true if nobody waits for the answer any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.0.is_abandoned.load(Ordering::Relaxed)
    }

    /// Hands on a piece.
    pub(crate) fn piece(&self, piece: Piece) {
        self.tell(|news| news.pieces.push_back(piece));
    }

    /// Hands on the whole answer.
    pub(crate) fn result(&self, result: Result<Response, ModelError>) {
        self.tell(|news| news.result = Some(result));
    }

    fn tell(&self, change: impl FnOnce(&mut News)) {
        let waker = {
            let mut news = self.0.news.lock();
            change(&mut news);
            news.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.tell(|news| news.is_over = true);
    }
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.shared.is_abandoned.store(true, Ordering::Relaxed);
    }
}

impl Future for Reader<'_> {
    type Output = Result<Response, ModelError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let (pieces, result) = {
            let mut news = self.shared.news.lock();
            news.waker = Some(context.waker().clone());
            let result = news.result.take();
            let ended = || Err(ModelError::from(StreamFault::Ended));
            (std::mem::take(&mut news.pieces), result.or_else(|| news.is_over.then(ended)))
        };
        for piece in pieces {
            match piece {
                Piece::Text(text) => self.sink.take(Delta::Text(&text)),
                Piece::Call(name) => self.sink.take(Delta::CallStarted { index: 0, name: &name }),
                Piece::Arguments(text) => self.sink.take(Delta::CallArguments { index: 0, text: &text }),
            }
        }
        result.map_or(Poll::Pending, Poll::Ready)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[test]
    fn a_reader_that_is_dropped_is_told_to_the_thread() {
        let mut sink = |_: Delta<'_>| {};
        let (writer, reader) = channel(&mut sink);
        assert!(!writer.is_abandoned());
        drop(reader);
        assert!(writer.is_abandoned());
    }

    #[test]
    fn a_thread_that_ends_without_a_result_is_an_error_after_its_pieces() {
        let mut told = Vec::new();
        let mut sink = |delta: Delta<'_>| told.push(format!("{delta:?}"));
        let (writer, reader) = channel(&mut sink);
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut reader = pin!(reader);
            assert!(reader.as_mut().poll(&mut context).is_pending());
            writer.piece(Piece::Text("a".to_owned()));
            writer.piece(Piece::Call("b".to_owned()));
            drop(writer);
            let ended = Poll::Ready(Err(StreamFault::Ended.into()));
            assert_eq!(reader.as_mut().poll(&mut context), ended);
        }
        assert_eq!(told, ["Text(\"a\")", "CallStarted { index: 0, name: \"b\" }"]);
    }
}
