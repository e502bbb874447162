//! State that the connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;

use engine::Engine;
use tokio::sync::{Semaphore, watch};

use crate::body::BodyBudget;
use crate::mount::MountHandler;
use crate::mount_point::MountPoint;
use crate::options::Options;
use crate::origin_check::Guard;
use crate::response_counts::ResponseCounts;
use crate::route::Routes;

/// Maximum number of clients that listen to approval requests at a time, and of those that follow agents:
/// people and their user interfaces.
pub(crate) const MAX_FOLLOWERS: usize = 32;

/// State shared by all connections.
pub(crate) struct ServerState {
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: Options,
    pub(crate) guard: Guard,
    pub(crate) routes: Routes,
    pub(crate) room: BodyBudget,
    /// Permits for connections.
    pub(crate) places: Arc<Semaphore>,
    /// Permits for listeners of `/v1/events`.
    pub(crate) followers: Arc<Semaphore>,
    /// Permits for listeners of `/v1/agents/events`.
    pub(crate) agent_followers: Arc<Semaphore>,
    pub(crate) answered: ResponseCounts,
    /// Set to true when the server is stopped.
    pub(crate) stopping: watch::Sender<bool>,
}

impl ServerState {
    pub(crate) fn new(engine: Arc<Engine>, options: Options, routes: Routes, address: SocketAddr) -> Self {
        Self {
            engine,
            routes,
            guard: Guard::new(address, &options.hosts, &options.origins),
            room: BodyBudget::new(options.body_limit, options.patience),
            places: Arc::new(Semaphore::new(options.connections)),
            followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            agent_followers: Arc::new(Semaphore::new(MAX_FOLLOWERS)),
            answered: ResponseCounts::default(),
            stopping: watch::Sender::new(false),
            options,
        }
    }

    /// Returns the handler of a mounted path.
    pub(crate) fn handler(&self, point: &MountPoint) -> Option<&Arc<dyn MountHandler>> {
        self.options.mounts.iter().find(|mount| mount.point == point).map(|mount| &mount.handler)
    }
}
