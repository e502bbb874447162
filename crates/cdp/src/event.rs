//! Events and the bounded queues that hand them to subscribers.
//!
//! A queue holds a stated number of events and of bytes. When it is full, the oldest events make
//! room and are counted, so a subscriber that lags loses events and never blocks the connection.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::sync::{Notify, watch};

use crate::id::SessionId;
use crate::protocol::EventKind;

/// Maximum number of events that wait in a queue. A page that loads 1,000 files causes about 5,000.
const QUEUE_EVENTS: usize = 8192;
/// Maximum number of bytes that wait in a queue. The newest event is kept whatever its size.
const QUEUE_BYTES: usize = 32 * 1024 * 1024;

/// An event of the browser.
#[derive(Debug)]
pub struct Event {
    /// Session that the event belongs to; `None` for events of the browser itself.
    pub session: Option<SessionId>,
    /// Name, for example `Page.loadEventFired`.
    pub method: String,
    /// Parameters, as the browser wrote them.
    pub params: Box<RawValue>,
}

impl Event {
    /// Returns the parameters if the event is of this kind and has the expected shape.
    pub fn get<E: EventKind>(&self) -> Option<E> {
        (self.method == E::METHOD).then(|| self.parse()).flatten()
    }

    /// Returns the parameters if they have the expected shape.
    pub fn parse<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.params.get()).ok()
    }

    fn bytes(&self) -> usize {
        self.params.get().len() + self.method.len()
    }
}

/// The next thing that a subscriber gets.
#[derive(Debug)]
pub enum Delivery {
    /// An event.
    Event(Arc<Event>),
    /// Number of events that were dropped here, because the subscriber was too slow; 0 if the transport
    /// has lost an unknown number.
    Missed(u64),
}

/// Subscription to the events of one session. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    queue: Arc<Queue>,
}

/// View of how far the subscriber of a [`Subscription`] has come.
#[derive(Debug, Clone)]
pub struct Progress {
    queue: Arc<Queue>,
}

impl Progress {
    /// Waits until every event that has arrived so far is handled: taken, and the next one asked for.
    /// An answer can overtake the events before it on the way to a caller; this brings the caller
    /// back behind them.
    pub async fn caught_up(&self) {
        let (arrived, mut handled) = {
            let waiting = self.queue.waiting.lock();
            (waiting.arrived, self.queue.handled.subscribe())
        };
        // The sender lives as long as the queue, so the wait cannot fail.
        let _ = handled.wait_for(|handled| *handled >= arrived).await;
    }
}

impl Subscription {
    /// Returns a view of how far this subscriber has come.
    pub fn progress(&self) -> Progress {
        Progress { queue: Arc::clone(&self.queue) }
    }

    /// Returns the next event; `None` once the session or the connection has ended and all events
    /// were taken. Nothing is lost if the future is dropped.
    pub async fn next(&mut self) -> Option<Delivery> {
        loop {
            // Registered before the look into the queue, so no event can slip in between.
            let arrived = self.queue.arrived.notified();
            {
                let mut waiting = self.queue.waiting.lock();
                let left = u64::try_from(waiting.events.len()).unwrap_or(u64::MAX);
                self.queue.handled.send_replace(waiting.arrived.saturating_sub(left));
                if std::mem::take(&mut waiting.has_gap) && waiting.missed == 0 {
                    return Some(Delivery::Missed(0));
                }
                if waiting.missed > 0 {
                    return Some(Delivery::Missed(std::mem::take(&mut waiting.missed)));
                }
                if let Some(event) = waiting.events.pop_front() {
                    waiting.bytes -= event.bytes();
                    return Some(Delivery::Event(event));
                }
                if waiting.has_ended {
                    return None;
                }
            }
            arrived.await;
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        // The rest is handled by nobody, and no one shall wait for it.
        self.queue.handled.send_replace(u64::MAX);
    }
}

#[derive(Debug)]
struct Queue {
    waiting: Mutex<Waiting>,
    arrived: Notify,
    /// Number of events that were handled or dropped.
    handled: watch::Sender<u64>,
}

impl Default for Queue {
    fn default() -> Self {
        Self { waiting: Mutex::default(), arrived: Notify::new(), handled: watch::Sender::new(0) }
    }
}

#[derive(Debug, Default)]
struct Waiting {
    events: VecDeque<Arc<Event>>,
    bytes: usize,
    missed: u64,
    /// True if the transport may have lost events.
    has_gap: bool,
    /// Number of events that were ever put into the queue.
    arrived: u64,
    has_ended: bool,
}

impl Queue {
    fn push(&self, event: &Arc<Event>) {
        let mut waiting = self.waiting.lock();
        waiting.bytes += event.bytes();
        waiting.events.push_back(Arc::clone(event));
        waiting.arrived += 1;
        while waiting.events.len() > QUEUE_EVENTS || waiting.bytes > QUEUE_BYTES && waiting.events.len() > 1 {
            let Some(oldest) = waiting.events.pop_front() else { break };
            waiting.bytes -= oldest.bytes();
            waiting.missed += 1;
        }
        drop(waiting);
        self.arrived.notify_one();
    }

    /// Tells the subscriber that the transport may have lost events.
    fn note_missed(&self) {
        self.waiting.lock().has_gap = true;
        self.arrived.notify_one();
    }

    fn end(&self) {
        self.waiting.lock().has_ended = true;
        self.arrived.notify_one();
    }
}

/// The subscribers of a connection.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    queues: Vec<(Option<SessionId>, Weak<Queue>)>,
}

impl Subscribers {
    pub(crate) fn add(&mut self, session: Option<SessionId>) -> Subscription {
        let queue = Arc::new(Queue::default());
        self.queues.retain(|(_, queue)| queue.strong_count() > 0);
        self.queues.push((session, Arc::downgrade(&queue)));
        Subscription { queue }
    }

    /// Returns a subscription that has ended already.
    pub(crate) fn ended() -> Subscription {
        let queue = Arc::new(Queue::default());
        queue.end();
        Subscription { queue }
    }

    pub(crate) fn wants(&self, session: Option<&SessionId>) -> bool {
        self.queues.iter().any(|(wanted, queue)| wanted.as_ref() == session && queue.strong_count() > 0)
    }

    pub(crate) fn deliver(&self, event: Event) {
        let event = Arc::new(event);
        let wanted = self.queues.iter().filter(|(session, _)| *session == event.session);
        wanted.filter_map(|(_, queue)| queue.upgrade()).for_each(|queue| queue.push(&event));
    }

    /// Tells all subscribers that events may be missing.
    pub(crate) fn note_missed(&self) {
        self.queues.iter().filter_map(|(_, queue)| queue.upgrade()).for_each(|queue| queue.note_missed());
    }

    /// Ends the subscriptions to a session.
    pub(crate) fn end(&mut self, ended: &SessionId) {
        self.queues.retain(|(session, queue)| {
            let has_ended = session.as_ref() == Some(ended);
            if has_ended && let Some(queue) = queue.upgrade() {
                queue.end();
            }
            !has_ended
        });
    }

    /// Ends all subscriptions.
    pub(crate) fn end_all(&mut self) {
        self.queues.drain(..).filter_map(|(_, queue)| queue.upgrade()).for_each(|queue| queue.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(params: &str) -> Event {
        let params = RawValue::from_string(params.to_owned()).unwrap();
        Event { session: None, method: "A.b".to_owned(), params }
    }

    #[tokio::test]
    async fn a_slow_subscriber_is_told_how_many_events_it_missed() {
        let mut subscribers = Subscribers::default();
        let mut subscription = subscribers.add(None);
        for _ in 0..QUEUE_EVENTS + 3 {
            subscribers.deliver(event("{}"));
        }
        assert!(matches!(subscription.next().await, Some(Delivery::Missed(3))));
        assert!(matches!(subscription.next().await, Some(Delivery::Event(_))));
        subscribers.end_all();
        let mut left = 0;
        while subscription.next().await.is_some() {
            left += 1;
        }
        assert_eq!(left, QUEUE_EVENTS - 1);
    }

    #[tokio::test]
    async fn progress_waits_until_what_has_arrived_is_handled() {
        let mut subscribers = Subscribers::default();
        let mut subscription = subscribers.add(None);
        let progress = subscription.progress();
        progress.caught_up().await;
        subscribers.deliver(event("{}"));
        let mut catching_up = std::pin::pin!(progress.caught_up());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, &mut catching_up).await.is_err());
        assert!(subscription.next().await.is_some());
        // The event is taken, and handled once the next one is asked for.
        assert!(tokio::time::timeout(std::time::Duration::ZERO, &mut catching_up).await.is_err());
        assert!(tokio::time::timeout(std::time::Duration::ZERO, subscription.next()).await.is_err());
        catching_up.await;
        subscribers.deliver(event("{}"));
        drop(subscription);
        progress.caught_up().await;
    }

    #[tokio::test]
    async fn waiting_events_are_bounded_in_bytes() {
        let mut subscribers = Subscribers::default();
        let subscription = subscribers.add(None);
        let large = format!("\"{}\"", "x".repeat(QUEUE_BYTES / 3));
        for _ in 0..10 {
            subscribers.deliver(event(&large));
        }
        let waiting = subscription.queue.waiting.lock();
        assert_eq!((waiting.events.len(), waiting.missed), (2, 8));
        assert!(waiting.bytes <= QUEUE_BYTES);
    }
}
