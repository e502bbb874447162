//! HTTP server: calls, checks by the policy, approval requests, the audit log, and the paths of other
//! protocols that its composition mounts.
//!
//! [`serve`] serves one listening socket until it is stopped. Every request passes the same checks
//! in the same order: destination and origin (`guard`), resource (`route`), sender (`credential`),
//! and size (`body`).
//!
//! This crate owns every type of its wire format and maps it to the vocabulary of `tool`. The crate
//! knows no tool, makes no decisions and stores nothing. It reads neither the environment nor the
//! configuration.

mod agents;
mod approvals;
mod audit;
mod body;
mod call;
mod connections;
mod credential;
mod error;
mod events;
mod json_body;
mod keys;
mod metrics;
mod mount;
mod mount_point;
mod oauth;
mod openapi;
mod options;
mod origin;
mod origin_check;
mod principal;
mod query;
mod refusal;
pub mod reply;
mod response_counts;
mod route;
mod sender;
mod service;
mod state;
mod write_timeout;

use std::sync::Arc;

use engine::Engine;
pub use hyper::{Method, StatusCode, header};

pub use body::ReadBody;
pub use connections::Listener;
pub use credential::{Credential, Role};
pub use error::HttpError;
pub use keys::IdentityError;
pub use mount::{Gauge, Mount, MountBody, MountHandler, MountRequest};
pub use mount_point::{Content, MountPoint, Operation};
pub use oauth::Provider;
pub use openapi::document;
pub use options::Options;
pub use sender::Sender;

/// Serves requests until `stop` is ready, and returns its output.
///
/// Then no new connections are accepted, open requests have [`Options::drain`] to end, and every
/// call that still runs is stopped and recorded. Needs a tokio runtime with I/O and time.
///
/// # Errors
/// [`HttpError::Unguarded`] and [`HttpError::Mount`], before any response was sent.
pub async fn serve<T>(
    engine: Arc<Engine>,
    options: Options,
    listener: Listener,
    stop: impl Future<Output = T>,
) -> Result<T, HttpError> {
    let address = listener.address();
    if !options.agents_need_tokens() && !address.ip().is_loopback() {
        return Err(HttpError::Unguarded { address });
    }
    let routes = route::Routes::new(options.mounts.iter().map(|mount| mount.point).collect())?;
    let shared = state::ServerState::new(engine, options, routes, address);
    Ok(connections::accept(listener, Arc::new(shared), stop).await)
}
