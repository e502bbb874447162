//! Notifications about changes of data that clients have received.
//!
//! Up to revision 2025-11-25, a notice is sent on the connection, or on the session's standing
//! stream over HTTP. From revision 2026-07-28 on, it is an event of a `subscriptions/listen` that
//! asked for it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::calls::Calls;
use crate::connection::Connection;
use crate::notice::Notice;

/// The connections of one server.
#[derive(Default)]
pub struct Notices(Mutex<Vec<Weak<Connection>>>);

impl Notices {
    /// Adds a connection to notify, for as long as it exists.
    pub(crate) fn add(&self, connection: &Arc<Connection>) {
        let mut connections = self.0.lock();
        // Remove closed connections before the list would grow.
        if connections.len() == connections.capacity() {
            connections.retain(|connection| connection.strong_count() > 0);
        }
        connections.push(Arc::downgrade(connection));
    }

    /// Tells every client when the tools of the engine change, or the resources and prompts of other servers, for as
    /// long as these notices exist.
    pub(crate) fn follow(self: &Arc<Self>, calls: &impl Calls) {
        if let Some(content) = calls.foreign_content() {
            let own = Arc::downgrade(self);
            content.on_change(Box::new(move |change| {
                own.upgrade().is_some_and(|notices| {
                    if change.resources {
                        notices.tell(Notice::Resources);
                    }
                    if change.prompts {
                        notices.tell(Notice::Prompts);
                    }
                    true
                })
            }));
        }
        let own = Arc::downgrade(self);
        calls.on_tool_change(move || {
            own.upgrade().is_some_and(|notices| {
                notices.tell(Notice::Tools);
                true
            })
        });
    }

    /// Sends the notice to every client that subscribes to it.
    pub fn tell(&self, notice: Notice<'_>) {
        let connections = self.0.lock().clone();
        for connection in connections.iter().filter_map(Weak::upgrade) {
            connection.tell(notice);
        }
    }
}
