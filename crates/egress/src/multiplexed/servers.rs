//! The connections to servers that the requests of one connection go on: one for all where the server speaks HTTP/2, else one for each
//! at a time.

use std::io;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use fetch::address::Host;
use tokio::sync::{Mutex as Turn, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::answer::Refusal;
use crate::hello::PATIENCE;
use crate::session::Session;
use crate::upstream::{Sender, Upstream};
use crate::{Gate, Way};

/// How long a connection may take to be ready for its next request.
const READY: Duration = Duration::from_millis(100);

/// Those of one connection of a program.
pub(super) struct Servers {
    /// Whoever has the turn finds out what the server speaks.
    shared: Turn<Known>,
    /// The right to the one connection of HTTP/1.1 that every connection of a program may have. More are bounded in the session.
    own: Arc<Semaphore>,
    idle: Arc<Mutex<Option<Upstream>>>,
}

/// What is known of the server that was asked last.
enum Known {
    Nothing,
    /// All requests go on this connection.
    Shared(Upstream),
    /// Each needs one.
    Single(Host, u16),
}

impl Default for Servers {
    fn default() -> Self {
        Self { shared: Turn::new(Known::Nothing), own: Arc::new(Semaphore::new(1)), idle: Arc::default() }
    }
}

/// A connection for one request.
pub(super) struct Taken {
    pub(super) upstream: Upstream,
    back: Option<Back>,
}

impl Taken {
    /// The connection, and what gives it back when the answer has ended.
    pub(super) fn parts(self) -> (Upstream, Option<Back>) {
        (self.upstream, self.back)
    }
}

/// What gives a connection back. Dropped, it lets the next one have its place.
pub(super) struct Back {
    idle: Weak<Mutex<Option<Upstream>>>,
    /// Whether it may wait for the next request.
    is_own: bool,
    _place: OwnedSemaphorePermit,
}

impl Back {
    /// The answer was read to its end.
    pub(super) fn give(self, upstream: Upstream) {
        if let Some(idle) = self.idle.upgrade().filter(|_| self.is_own) {
            *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(upstream);
        }
    }
}

impl Servers {
    /// A connection to the host, which was judged.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn take<G: Gate>(
        &self,
        session: &Session<G>,
        host: &Host,
        port: u16,
    ) -> Result<Taken, Refusal> {
        let mut known = self.shared.lock().await;
        match &*known {
            Known::Shared(there) if there.is_to(host, port) => {
                if let Some(upstream) = there.shared() {
                    return Ok(Taken { upstream, back: None });
                }
            }
            Known::Single(there, at) if there == host && *at == port => {
                drop(known);
                let place = self.place(session, host).await?;
                if let Some(upstream) = self.waiting(host, port, &place).await {
                    return Ok(Taken { upstream, back: Some(place) });
                }
                let upstream = open(session, host, port).await?;
                return Ok(Taken { upstream, back: Some(place) });
            }
            _ => {}
        }
        let upstream = open(session, host, port).await?;
        if let Some(shared) = upstream.shared() {
            *known = Known::Shared(shared);
            return Ok(Taken { upstream, back: None });
        }
        *known = Known::Single(host.clone(), port);
        drop(known);
        let place = self.place(session, host).await?;
        Ok(Taken { upstream, back: Some(place) })
    }

    /// The right to one more connection.
    async fn place<G: Gate>(&self, session: &Session<G>, host: &Host) -> Result<Back, Refusal> {
        let idle = Arc::downgrade(&self.idle);
        if let Ok(place) = self.own.clone().try_acquire_owned() {
            return Ok(Back { idle, is_own: true, _place: place });
        }
        // Whichever is free first: the one of its own is so when the request before has ended.
        let (own, further) = (self.own.clone(), session.further.clone());
        let place = async {
            tokio::select! {
                place = further.acquire_owned() => place.map(|place| (place, false)),
                place = own.acquire_owned() => place.map(|place| (place, true)),
            }
        };
        match timeout(PATIENCE, place).await {
            Ok(Ok((place, is_own))) => Ok(Back { idle, is_own, _place: place }),
            _ => Err(Refusal::unreachable(format!("too many requests to {host} at a time"))),
        }
    }

    /// The connection that waits, where it is still good.
    async fn waiting(&self, host: &Host, port: u16, place: &Back) -> Option<Upstream> {
        let waiting = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take_if(|_| place.is_own);
        let mut upstream = waiting.filter(|there| there.is_to(host, port))?;
        let ready = match &mut upstream.sender {
            Sender::Http1(sender) => timeout(READY, sender.ready()).await,
            Sender::Http2(_) => return None,
        };
        matches!(ready, Ok(Ok(()))).then_some(upstream)
    }
}

async fn open<G: Gate>(session: &Session<G>, host: &Host, port: u16) -> Result<Upstream, Refusal> {
    let stream = session.open(host, port, Way::Http).await?;
    let made = match session.gate.authority() {
        Some(authority) => Upstream::by_tls(stream, host.clone(), port, authority.servers_of_both()).await,
        None => Err(io::ErrorKind::Unsupported.into()),
    };
    made.map_err(|error| Refusal::unreachable(format!("{host} cannot be spoken to: {error}")))
}
