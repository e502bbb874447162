//! Result of an appended row, to be awaited or waited for.
//!
//! The crate has its own oneshot channel, because it must work under any executor and under none.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::error::StoreError;

/// A receipt that resolves when the row has the requested durability. The row is recorded whether or
/// not a caller waits; dropping the receipt only discards the result.
#[must_use = "a row is only known to be recorded when its receipt says so"]
pub struct Receipt(Arc<Answer>);

impl Receipt {
    /// Blocks the calling thread until the result arrives. In async code, await the receipt instead.
    pub fn wait(self) -> Result<(), StoreError> {
        let mut state = self.0.lock();
        loop {
            if let State::Ready(result) = &*state {
                return result.clone();
            }
            self.0.answered.wait(&mut state);
        }
    }

    /// Returns true if the result has arrived.
    pub fn is_answered(&self) -> bool {
        matches!(&*self.0.lock(), State::Ready(_))
    }

    /// Creates a receipt without a result, and the sender of that result.
    pub fn pending() -> (Self, Sender) {
        let answer = Arc::new(Answer { state: Mutex::new(State::Waiting(None)), answered: Condvar::new() });
        (Self(Arc::clone(&answer)), Sender(Some(answer)))
    }

    /// Creates a receipt with a result.
    pub fn ready(result: Result<(), StoreError>) -> Self {
        Self(Arc::new(Answer { state: Mutex::new(State::Ready(result)), answered: Condvar::new() }))
    }
}

impl Future for Receipt {
    type Output = Result<(), StoreError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Ready(result) => Poll::Ready(result.clone()),
            State::Waiting(waker) => {
                *waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Sender of the result of a receipt. A sender dropped without a result reports that the writer stopped, so no caller
/// waits forever.
pub struct Sender(Option<Arc<Answer>>);

impl Sender {
    /// Sends the result.
    pub fn send(mut self, result: Result<(), StoreError>) {
        self.answer(result);
    }

    fn answer(&mut self, result: Result<(), StoreError>) {
        let Some(answer) = self.0.take() else { return };
        let before = std::mem::replace(&mut *answer.lock(), State::Ready(result));
        answer.answered.notify_all();
        if let State::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.answer(Err(StoreError::WriterStopped));
    }
}

struct Answer {
    state: Mutex<State>,
    answered: Condvar,
}

enum State {
    Waiting(Option<Waker>),
    Ready(Result<(), StoreError>),
}

impl Answer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Counter(AtomicUsize);

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn an_awaited_receipt_is_woken_once_by_its_answer() {
        let counter = Arc::new(Counter::default());
        let waker = Waker::from(Arc::clone(&counter));
        let mut context = Context::from_waker(&waker);
        let (mut receipt, sender) = Receipt::pending();

        assert!(Pin::new(&mut receipt).poll(&mut context).is_pending());
        assert_eq!(counter.0.load(Ordering::SeqCst), 0);
        sender.send(Ok(()));

        assert_eq!(counter.0.load(Ordering::SeqCst), 1);
        assert!(matches!(Pin::new(&mut receipt).poll(&mut context), Poll::Ready(Ok(()))));
    }

    #[test]
    fn a_blocking_wait_gets_an_answer_from_another_thread() {
        let (receipt, sender) = Receipt::pending();
        std::thread::scope(|scope| {
            scope.spawn(|| sender.send(Err(StoreError::Closed)));
            assert!(matches!(receipt.wait(), Err(StoreError::Closed)));
        });
    }

    #[test]
    fn a_receipt_whose_writer_is_gone_says_so() {
        let (receipt, sender) = Receipt::pending();
        drop(sender);
        assert!(matches!(receipt.wait(), Err(StoreError::WriterStopped)));
    }
}
