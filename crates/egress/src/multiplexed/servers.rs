//! Connections to servers for the requests of one program connection: one shared HTTP/2 connection,
//! or one HTTP/1.1 connection per concurrent request.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fetch::address::Host;
use parking_lot::Mutex;
use tokio::sync::{Mutex as Turn, OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::refusal::Refusal;
use crate::session::Session;
use crate::sni::TIMEOUT;
use crate::upstream::{Sender, Upstream};
use crate::{Gate, Way};

/// Time within which a waiting connection must be ready for its next request.
const READY: Duration = Duration::from_millis(100);

/// Server connections of one program connection.
pub(super) struct Servers {
    /// State of the server, behind a lock: the holder of the lock finds out which protocol the
    /// server speaks.
    shared: Turn<LastProtocol>,
    /// Permit for the one HTTP/1.1 connection that every program connection may have. Further
    /// connections need a permit of the session.
    own: Arc<Semaphore>,
    idle: Arc<Mutex<Option<Upstream>>>,
}

/// Protocol of the last server.
enum LastProtocol {
    Nothing,
    /// All requests share this HTTP/2 connection.
    Shared(Upstream),
    /// Each request needs its own connection to this host and port.
    Single(Host, u16),
}

impl Default for Servers {
    fn default() -> Self {
        Self {
            shared: Turn::new(LastProtocol::Nothing),
            own: Arc::new(Semaphore::new(1)),
            idle: Arc::default(),
        }
    }
}

/// A connection for one request.
pub(super) struct TakenConnection {
    pub(super) upstream: Upstream,
    back: Option<ConnectionReturn>,
}

impl TakenConnection {
    /// Splits this into the connection and its return ticket.
    pub(super) fn parts(self) -> (Upstream, Option<ConnectionReturn>) {
        (self.upstream, self.back)
    }
}

/// Return ticket of a connection. Drop releases its permit to the next request.
pub(super) struct ConnectionReturn {
    idle: Weak<Mutex<Option<Upstream>>>,
    /// True if the connection may wait for the next request.
    is_own: bool,
    _place: OwnedSemaphorePermit,
}

impl ConnectionReturn {
    /// Returns the connection after its response was read to the end.
    pub(super) fn give(self, upstream: Upstream) {
        if let Some(idle) = self.idle.upgrade().filter(|_| self.is_own) {
            *idle.lock() = Some(upstream);
        }
    }
}

impl Servers {
    /// Returns a connection to the host, which was judged before.
    ///
    /// # Errors
    /// The reason why no connection is available.
    pub(super) async fn take<G: Gate>(
        &self,
        session: &Session<G>,
        host: &Host,
        port: u16,
    ) -> Result<TakenConnection, Refusal> {
        let mut known = self.shared.lock().await;
        match &*known {
            LastProtocol::Shared(there) if there.is_to(host, port) => {
                if let Some(upstream) = there.shared() {
                    return Ok(TakenConnection { upstream, back: None });
                }
            }
            LastProtocol::Single(there, at) if there == host && *at == port => {
                drop(known);
                let place = self.place(session, host).await?;
                if let Some(upstream) = self.waiting(host, port, &place).await {
                    return Ok(TakenConnection { upstream, back: Some(place) });
                }
                let upstream = open(session, host, port).await?;
                return Ok(TakenConnection { upstream, back: Some(place) });
            }
            _ => {}
        }
        let upstream = open(session, host, port).await?;
        if let Some(shared) = upstream.shared() {
            *known = LastProtocol::Shared(shared);
            return Ok(TakenConnection { upstream, back: None });
        }
        *known = LastProtocol::Single(host.clone(), port);
        drop(known);
        let place = self.place(session, host).await?;
        Ok(TakenConnection { upstream, back: Some(place) })
    }

    /// Acquires the permit for one more connection.
    async fn place<G: Gate>(&self, session: &Session<G>, host: &Host) -> Result<ConnectionReturn, Refusal> {
        let idle = Arc::downgrade(&self.idle);
        if let Ok(place) = self.own.clone().try_acquire_owned() {
            return Ok(ConnectionReturn { idle, is_own: true, _place: place });
        }
        // Take the first free permit. The connection's own permit is free once the previous request
        // has ended.
        let (own, further) = (self.own.clone(), session.further.clone());
        let place = async {
            tokio::select! {
                place = further.acquire_owned() => place.map(|place| (place, false)),
                place = own.acquire_owned() => place.map(|place| (place, true)),
            }
        };
        match timeout(TIMEOUT, place).await {
            Ok(Ok((place, is_own))) => Ok(ConnectionReturn { idle, is_own, _place: place }),
            _ => Err(Refusal::unreachable(format!("too many concurrent requests to {host}"))),
        }
    }

    /// Returns the idle connection if it is still usable.
    async fn waiting(&self, host: &Host, port: u16, place: &ConnectionReturn) -> Option<Upstream> {
        let waiting = self.idle.lock().take_if(|_| place.is_own);
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
    made.map_err(|error| Refusal::unreachable(format!("cannot connect to {host}: {error}")))
}
