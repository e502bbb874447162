//! Opened connections on which a program speaks HTTP/2 (RFC 9113): concurrent requests, each read,
//! judged and rewritten like an HTTP/1.1 request.
//!
//! The library handles frames, flow control and header compression. This module bounds the cost of
//! a connection: concurrent requests, size of heads, idle time, and the number of requests that a
//! client may cancel.

mod exchange;
mod passed;
mod servers;

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use hyper::rt::Executor;
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{sleep, timeout};

use crate::Gate;
use crate::forward::Scope;
use crate::head::LARGEST;
use crate::respond::ANSWERED;
use crate::session::Session;
use crate::slots::KEPT;
use crate::sni::TIMEOUT;
use servers::Servers;

/// Maximum number of concurrent requests per connection: the lowest value that RFC 9113 (section
/// 5.1.2) recommends.
const STREAMS: u32 = 100;
/// Bytes that this proxy buffers of one request, and of all requests of a connection.
const WINDOW: u32 = 256 * 1024;
const WINDOW_OF_ALL: u32 = 1024 * 1024;
/// Bytes of one response that may wait to be sent.
const WAITING: usize = 64 * 1024;
/// Maximum number of bodies that are buffered whole at a time.
const WHOLE_BODIES: usize = 8;
/// Maximum excess of cancelled requests over answered ones. A request counts as cancelled if the
/// client resets it before its response.
const TAKEN_BACK: usize = 100;
/// Interval of the checks for activity.
const LOOKED: Duration = Duration::from_secs(10);

/// Serves the requests of a connection until it ends.
pub(crate) async fn serve<G: Gate, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    session: Arc<Session<G>>,
    client: S,
    scope: Scope,
) -> io::Result<()> {
    let tasks = Tasks::default();
    let _end = AllEnd(tasks.clone());
    let activity = Arc::new(Activity::default());
    let connection = Arc::new(Connection {
        session,
        scope,
        servers: Servers::default(),
        tasks: tasks.clone(),
        activity: activity.clone(),
        whole_bodies: Semaphore::new(WHOLE_BODIES),
    });
    let service = service_fn(move |request| {
        let connection = connection.clone();
        async move { Ok::<_, Infallible>(exchange::answer(connection, request).await) }
    });
    let mut builder = Builder::new(tasks);
    builder
        .auto_date_header(false)
        .max_concurrent_streams(STREAMS)
        .max_header_list_size(u32::try_from(LARGEST).unwrap_or(u32::MAX))
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW_OF_ALL)
        .max_send_buf_size(WAITING);
    let mut serving = pin!(builder.serve_connection(TokioIo::new(client), service));
    let ended = tokio::select! {
        ended = &mut serving => return ended.map_err(io::Error::other),
        why = activity.ends() => why,
    };
    if ended == EndReason::Idle {
        // A client that sends a request at this moment must use another connection.
        serving.as_mut().graceful_shutdown();
        let _late = timeout(TIMEOUT, serving).await;
    }
    Ok(())
}

/// Shared state of the requests of a connection.
struct Connection<G> {
    session: Arc<Session<G>>,
    scope: Scope,
    servers: Servers,
    tasks: Tasks,
    activity: Arc<Activity>,
    whole_bodies: Semaphore,
}

/// The tasks of a connection, which end with the connection.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<JoinSet<()>>>);

impl Tasks {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        let mut tasks = self.0.lock();
        // Reap finished tasks.
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task)
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        self.spawn(task);
    }
}

/// Aborts all tasks on drop. The tasks keep each other alive, so they would not end otherwise.
struct AllEnd(Tasks);

impl Drop for AllEnd {
    fn drop(&mut self) {
        self.0.0.lock().abort_all();
    }
}

/// Reason why this side ends a connection.
#[derive(Debug, PartialEq, Eq)]
enum EndReason {
    /// The connection has no requests.
    Idle,
    /// The requests make no progress, or the client cancels too many of them.
    Useless,
}

/// Activity of a connection.
#[derive(Default)]
struct Activity {
    /// Requests whose response is not complete.
    active: AtomicUsize,
    /// Counter that grows with every event.
    moved: AtomicU64,
    /// Requests that were cancelled before their response, minus answered ones.
    taken_back: AtomicUsize,
    enough: Notify,
}

impl Activity {
    fn moves(&self) {
        self.moved.fetch_add(1, Ordering::Relaxed);
    }

    async fn ends(&self) -> EndReason {
        tokio::select! {
            ended = self.stillness() => ended,
            () = self.enough.notified() => EndReason::Useless,
        }
    }

    async fn stillness(&self) -> EndReason {
        let (mut seen, mut still) = (self.moved.load(Ordering::Relaxed), Duration::ZERO);
        loop {
            sleep(LOOKED).await;
            let now = self.moved.load(Ordering::Relaxed);
            still = if now == seen { still + LOOKED } else { Duration::ZERO };
            seen = now;
            match self.active.load(Ordering::Relaxed) {
                0 if still >= KEPT => return EndReason::Idle,
                0 => {}
                _ if still >= ANSWERED => return EndReason::Useless,
                _ => {}
            }
        }
    }
}

/// A request, until its response is complete.
struct Active {
    activity: Arc<Activity>,
    is_answered: bool,
}

impl Active {
    fn begin(activity: &Arc<Activity>) -> Self {
        activity.active.fetch_add(1, Ordering::Relaxed);
        activity.moves();
        Self { activity: activity.clone(), is_answered: false }
    }

    /// Marks the response as begun.
    fn answered(&mut self) {
        self.is_answered = true;
        self.activity.moves();
        let less = |count: usize| Some(count.saturating_sub(1));
        // `less` always returns a value, so the update cannot fail.
        let _before = self.activity.taken_back.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.activity.active.fetch_sub(1, Ordering::Relaxed);
        self.activity.moves();
        if !self.is_answered && self.activity.taken_back.fetch_add(1, Ordering::Relaxed) >= TAKEN_BACK {
            self.activity.enough.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// Runs `work` on a clock that advances while all tasks are idle.
    fn later<T>(work: impl Future<Output = T>) -> T {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn a_connection_without_requests_ends_after_a_minute_and_one_that_stands_still_later() {
        later(async {
            let (began, activity) = (Instant::now(), Arc::new(Activity::default()));
            assert_eq!(activity.ends().await, EndReason::Idle);
            assert!((KEPT..KEPT + 2 * LOOKED).contains(&began.elapsed()));
            let (began, _active) = (Instant::now(), Active::begin(&activity));
            assert_eq!(activity.ends().await, EndReason::Useless);
            assert!((ANSWERED..ANSWERED + 2 * LOOKED).contains(&began.elapsed()));
        });
    }

    #[test]
    fn who_takes_back_more_than_was_answered_is_let_go() {
        later(async {
            let activity = Arc::new(Activity::default());
            for _ in 0..1000 {
                drop(Active::begin(&activity));
                Active::begin(&activity).answered();
            }
            for _ in 0..TAKEN_BACK {
                drop(Active::begin(&activity));
            }
            assert_eq!(activity.ends().await, EndReason::Idle, "as many as it may");
            drop(Active::begin(&activity));
            let began = Instant::now();
            assert_eq!(activity.ends().await, EndReason::Useless);
            assert_eq!(began.elapsed(), Duration::ZERO);
            assert_eq!(activity.active.load(Ordering::Relaxed), 0);
        });
    }
}
