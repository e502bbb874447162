//! Interface between a connection and the streams that carry its messages.
//!
//! A pipe separates messages by a zero byte (`pipe.rs`); other transports have messages of their own.
//! Each only needs to implement the two traits of this file.

use std::io;

/// Maximum size of a message in bytes, in both directions. A screenshot of a long page or a large
/// accessibility tree takes 7 MB and more, so the limit is far above these.
pub const MESSAGE_LIMIT: usize = 256 * 1024 * 1024;

/// A message from the browser.
#[derive(Debug, PartialEq, Eq)]
pub enum IncomingMessage {
    /// A whole message.
    Whole(Vec<u8>),
    /// A message above [`MESSAGE_LIMIT`]. Its bytes were read and thrown away.
    TooLarge {
        /// First bytes of the message, enough to find its id.
        head: Vec<u8>,
        /// Size of the message in bytes.
        bytes: usize,
    },
    /// Note of the transport that messages may have been lost, such as after a break of a connection.
    Missed,
}

/// Source of messages.
pub trait ReadMessages: Send + 'static {
    /// Returns the next message; `None` at the end of the stream.
    ///
    /// # Errors
    /// The error of the stream.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<IncomingMessage>>> + Send;
}

/// Destination of messages.
pub trait WriteMessages: Send + 'static {
    /// Writes one message, which contains no zero byte.
    ///
    /// # Errors
    /// The error of the stream.
    fn write(&mut self, message: Vec<u8>) -> impl Future<Output = io::Result<()>> + Send;
}
