//! The calls that use one network, and the search for the call that a connection belongs to.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use egress::Peer;
use parking_lot::Mutex;
use sandbox::CellConnection;

use crate::connections::CallConnections;

/// Number of searches for the owner of one connection. A cell is registered shortly after its
/// program has started.
const SEARCHES: usize = 4;

/// Time between two searches.
const BETWEEN: Duration = Duration::from_millis(25);

/// Maximum number of connections whose owner is remembered.
const MAX_REMEMBERED: usize = 1024;

/// Calls of one network, with the connections whose owner is known.
#[derive(Default)]
pub(crate) struct ConnectionOwners {
    calls: Mutex<Vec<Arc<CallConnections>>>,
    /// Owners and programs, by the number of the connection.
    found: Mutex<HashMap<u64, (Weak<CallConnections>, String)>>,
}

impl ConnectionOwners {
    /// Adds a call.
    pub(crate) fn add(&self, call: Arc<CallConnections>) {
        let mut calls = self.calls.lock();
        calls.retain(|call| !call.is_over());
        calls.push(call);
    }

    /// Finds the call whose cell has the connection, and the path of the program there.
    pub(crate) async fn find(&self, peer: Peer) -> Option<(Arc<CallConnections>, String)> {
        if let Some((call, program)) = self.found.lock().get(&peer.number)
            && let Some(call) = call.upgrade().filter(|call| !call.is_over())
        {
            return Some((call, program.clone()));
        }
        for search in 0..SEARCHES {
            if search > 0 {
                tokio::time::sleep(BETWEEN).await;
            }
            let calls: Vec<_> = self.calls.lock().iter().filter(|call| !call.is_over()).cloned().collect();
            let connection = CellConnection { client: peer.client, server: peer.server };
            let searched = tokio::task::spawn_blocking(move || {
                calls.into_iter().find_map(|call| {
                    let program = call.cells.program_of(&connection)?;
                    Some((call, tool::path_text(&program)))
                })
            });
            // A panic was printed; then the owner is unknown.
            if let Ok(Some((call, program))) = searched.await {
                let mut found = self.found.lock();
                if found.len() >= MAX_REMEMBERED {
                    found.clear();
                }
                found.insert(peer.number, (Arc::downgrade(&call), program.clone()));
                return Some((call, program));
            }
        }
        None
    }

    /// Finds the call of a connection to a listed host. With one call in the network, no search is
    /// needed.
    pub(crate) async fn find_if_listed(&self, peer: Peer) -> Option<(Arc<CallConnections>, String)> {
        let only = {
            let calls = self.calls.lock();
            let mut open = calls.iter().filter(|call| !call.is_over());
            let first = open.next().cloned();
            if open.next().is_none() { Some(first) } else { None }
        };
        match only {
            Some(only) => only.map(|call| (call, String::new())),
            None => self.find(peer).await,
        }
    }
}
