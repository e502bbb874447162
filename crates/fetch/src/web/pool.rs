//! Pool of open connections, for further requests to the same origin.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::client::conn::{http1, http2};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::address::{Host, Target};
use crate::dial::Permission;

/// Time after which an idle connection is closed. Servers keep idle connections for a minute or more.
const KEPT: Duration = Duration::from_secs(30);
/// Maximum number of open connections for one origin, and in total.
const MAX_OF_AN_ORIGIN: usize = 4;
const MOST: usize = 64;
/// Time within which a pooled connection must be ready for its next request.
const READY: Duration = Duration::from_millis(100);

/// Sending half of a connection.
pub(super) enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

type Origin = (bool, Host, u16);

struct Idle {
    sender: Sender,
    peer: IpAddr,
    since: Instant,
}

/// The pooled connections of one client, by origin.
#[derive(Default)]
pub(super) struct Pool(Mutex<HashMap<Origin, Vec<Idle>>>);

impl Pool {
    /// Takes a connection to the target's origin, at an address that the permission covers.
    pub(super) async fn take(&self, target: &Target, permission: &Permission) -> Option<(Sender, IpAddr)> {
        loop {
            let Idle { mut sender, peer, .. } = self.newest(target, permission)?;
            let ready = match &mut sender {
                Sender::Http1(sender) => timeout(READY, sender.ready()).await,
                Sender::Http2(sender) => timeout(READY, sender.ready()).await,
            };
            // Drop connections that were closed meanwhile.
            if !matches!(ready, Ok(Ok(()))) {
                continue;
            }
            if let Sender::Http2(shared) = &sender {
                self.put(origin(target), Sender::Http2(shared.clone()), peer);
            }
            return Some((sender, peer));
        }
    }

    fn newest(&self, target: &Target, permission: &Permission) -> Option<Idle> {
        let mut all = self.0.lock();
        all.retain(|_, idle| {
            idle.retain(|one| one.since.elapsed() < KEPT);
            !idle.is_empty()
        });
        let idle = all.get_mut(&origin(target))?;
        let at = idle.iter().rposition(|one| permission.covers(one.peer))?;
        Some(idle.remove(at))
    }

    fn put(&self, origin: Origin, sender: Sender, peer: IpAddr) {
        let mut all = self.0.lock();
        if all.values().map(Vec::len).sum::<usize>() >= MOST {
            all.clear();
        }
        let idle = all.entry(origin).or_default();
        let is_shared = |one: &Idle| matches!(one.sender, Sender::Http2(_)) && one.peer == peer;
        if matches!(sender, Sender::Http2(_)) && idle.iter().any(is_shared) {
            return;
        }
        if idle.len() >= MAX_OF_AN_ORIGIN {
            idle.remove(0);
        }
        idle.push(Idle { sender, peer, since: Instant::now() });
    }
}

fn origin(target: &Target) -> Origin {
    (target.is_tls(), target.host().clone(), target.port())
}

/// A connection in use, to be returned to the pool at the end of its response.
pub(super) struct BorrowedConnection {
    pool: Weak<Pool>,
    origin: Origin,
    sender: Sender,
    peer: IpAddr,
}

impl BorrowedConnection {
    pub(super) fn new(pool: &Arc<Pool>, target: &Target, sender: Sender, peer: IpAddr) -> Self {
        Self { pool: Arc::downgrade(pool), origin: origin(target), sender, peer }
    }

    pub(super) fn give(self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.put(self.origin, self.sender, self.peer);
        }
    }
}
