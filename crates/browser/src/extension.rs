//! The user's own browser, lent through the extension of the folder `extension/`.
//!
//! A listener on this machine admits the paired extension and nobody else (`admission.rs`). Behind it
//! stands a bridge (`bridge.rs`): to the crate `cdp` it looks like a browser, and to the extension it
//! passes on the methods of `extension/methods.json`, for the tabs that the extension shows. The bridge
//! outlives the sockets, so tabs and their references outlive a break of the connection.
//!
//! This module decides nothing about hosts: the policy does, by the plan of a call.

mod admission;
mod bridge;
mod files;
mod keys;
mod listener;
mod messages;
mod methods;
mod pairing;
mod routes;
mod shareable;
mod user_browser;

use std::path::PathBuf;
use std::time::Duration;

pub use files::extension_files;
pub use listener::pair;
pub use methods::MethodLevel;
pub use pairing::{PairingCode, PairingProblem, forget_pairing, is_paired};
pub(crate) use user_browser::UserBrowser;

/// Port of the listener, unless the caller names another.
pub const PORT: u16 = 7600;

/// Origin of the extension. Its id follows from `key` in `extension/manifest.json`.
pub const ORIGIN: &str = "chrome-extension://jggmcdgcllniboifkkdcobdjdhghjcge";

/// State folder, which has the pairing.
#[derive(Debug, Clone)]
pub struct PairingFolder(pub PathBuf);

/// Path that the extension connects to.
const PATH: &str = "/extension";

/// Version of the messages between the extension and this program.
const PROTOCOL: u32 = 1;

/// Interval of pings. Chromium ends the worker of an extension after 30 s without a message.
const PING: Duration = Duration::from_secs(20);

/// Time without any message after which a connection counts as broken.
const SILENCE: Duration = Duration::from_mins(1);

/// Time that a call waits for an extension whose connection broke: it tries again every 5 seconds.
const BACK: Duration = Duration::from_secs(8);

/// Code of an error in an answer of the bridge: the extension is not connected.
pub(crate) const NOT_CONNECTED: i64 = -33_001;
/// Code of an error: the user has paused the extension.
pub(crate) const PAUSED: i64 = -33_002;
/// Code of an error: the method is not on the list, or above the level that the user has set.
pub(crate) const NOT_ALLOWED: i64 = -33_003;
