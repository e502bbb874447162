//! Limit on concurrent connections of a network, and the choice of the connection that ends in
//! favour of a new one.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::Peer;

/// Maximum wait for the next request on a connection.
pub(crate) const KEPT: Duration = Duration::from_mins(1);

/// Interval at which a waiting connection looks for one that has been idle for long enough.
const LOOKED: Duration = Duration::from_secs(1);

/// The connection slots of one network.
pub(crate) struct Slots {
    most: usize,
    taken: Mutex<SlotTable>,
    freed: Notify,
}

#[derive(Default)]
struct SlotTable {
    /// Slots in order of arrival.
    places: BTreeMap<u64, Arc<Slot>>,
    next: u64,
}

/// The slot of one connection.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) peer: Peer,
    moved: Mutex<Instant>,
    /// Number of active requests and tunnels.
    working: AtomicUsize,
    wanted_back: Notify,
}

/// A slot that is released on drop.
pub(crate) struct HeldSlot {
    places: Arc<Slots>,
    number: u64,
    pub(crate) place: Arc<Slot>,
}

impl Slots {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(Self { most, taken: Mutex::default(), freed: Notify::new() })
    }

    /// Takes a slot for a new connection. If all slots are taken, the connection that has been idle
    /// for longest ends. Connections without an active request come first; after them, active ones
    /// without traffic for a minute.
    pub(crate) async fn enter(self: &Arc<Self>, client: SocketAddr, server: SocketAddr) -> HeldSlot {
        loop {
            let freed = self.freed.notified();
            if let Some(held) = self.try_enter(client, server) {
                return held;
            }
            // Look again even if no slot was freed: an active connection may have become idle.
            let _looked = timeout(LOOKED, freed).await;
        }
    }

    fn try_enter(self: &Arc<Self>, client: SocketAddr, server: SocketAddr) -> Option<HeldSlot> {
        let mut taken = self.taken.lock();
        if taken.places.len() >= self.most {
            let idlest = taken.places.iter().min_by_key(|(_, place)| (place.works(), place.moved()));
            let number = idlest
                .filter(|(_, place)| !place.works() || place.moved().elapsed() >= KEPT)
                .map(|(number, _)| *number)?;
            if let Some(ended) = taken.places.remove(&number) {
                ended.wanted_back.notify_one();
            }
        }
        let number = taken.next;
        taken.next += 1;
        let place = Arc::new(Slot {
            peer: Peer { number, client, server },
            moved: Mutex::new(Instant::now()),
            working: AtomicUsize::new(0),
            wanted_back: Notify::new(),
        });
        taken.places.insert(number, place.clone());
        Some(HeldSlot { places: self.clone(), number, place })
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        self.places.taken.lock().places.remove(&self.number);
        self.places.freed.notify_one();
    }
}

impl Slot {
    fn works(&self) -> bool {
        self.working.load(Ordering::Relaxed) > 0
    }

    fn moved(&self) -> Instant {
        *self.moved.lock()
    }

    /// Records traffic on the connection.
    pub(crate) fn moves(&self) {
        *self.moved.lock() = Instant::now();
    }

    /// Marks the connection as active until the returned value is dropped.
    pub(crate) fn work(self: &Arc<Self>) -> WorkingGuard {
        self.working.fetch_add(1, Ordering::Relaxed);
        WorkingGuard(self.clone())
    }

    /// Waits until the slot is given to another connection.
    pub(crate) async fn is_wanted_back(&self) {
        self.wanted_back.notified().await;
    }
}

/// A mark that a connection is active, until it is dropped.
pub(crate) struct WorkingGuard(Arc<Slot>);

impl Drop for WorkingGuard {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::Relaxed);
        self.0.moves();
    }
}

/// The connection of a program, in its slot.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    pub(crate) place: Arc<Slot>,
}

impl AsyncRead for Client {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.place.moves();
        }
        read
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_ready() {
            self.place.moves();
        }
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
