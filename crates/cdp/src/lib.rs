//! Client of the Chrome `DevTools` Protocol: connection, sessions, commands and events.
//!
//! Messages stay raw JSON at the edge, and small structs describe the methods in use, so an event
//! that this crate does not know can never break a connection. The crate knows no tools and starts
//! no browser.
//!
//! A [`Connection`] carries the calls of any number of sessions over one pair of streams. A
//! [`SessionClient`] is the same connection bound to one session. Each module below `protocol` has
//! the commands and events of one domain.

mod connection;
mod error;
mod event;
mod id;
mod message;
mod pending;
mod pipe;
pub mod protocol;
mod session;
mod surrogates;
mod transport;

pub use connection::{CALL_DEADLINE, Connection};
pub use error::CdpError;
pub use event::{Delivery, Event, Progress, Subscription};
pub use id::{
    BackendNodeId, BrowserContextId, ExecutionContextId, FrameId, LoaderId, ObjectId, RequestId, SessionId,
    TargetId,
};
pub use pipe::{PipeReader, PipeWriter};
pub use protocol::{Command, EventKind, NoAnswer};
pub use session::SessionClient;
pub use transport::{IncomingMessage, MESSAGE_LIMIT, ReadMessages, WriteMessages};
