//! Reasons why a server cannot start.

use std::net::SocketAddr;

/// Reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is in use, or this user may not bind it.
    #[error("cannot listen on {address}")]
    Listen {
        /// Requested address.
        address: SocketAddr,
        /// Error of the system.
        #[source]
        source: std::io::Error,
    },
    /// The server has no credentials, so every client that reaches the address could make calls.
    #[error(
        "refused to listen on {address} without a token: anyone who reaches that address could run \
         commands here; listen on 127.0.0.1, or leave --no-token out"
    )]
    Unguarded {
        /// Requested address.
        address: SocketAddr,
    },
    /// A mount has a path of this server, or a role that may also answer questions.
    #[error("nothing can be mounted at {path} for these roles")]
    Mount {
        /// Path of the mount.
        path: &'static str,
    },
}
