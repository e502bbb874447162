//! The error of an index that cannot be read.

use std::io;

/// An index that cannot be read, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum ScipError {
    /// The system failed to read the file.
    #[error("the index cannot be read")]
    Read(#[source] io::Error),
    /// The file ends within a message.
    #[error("the index ends after {at} bytes, in the middle of a message: make the index anew")]
    Truncated {
        /// Number of bytes that are there.
        at: u64,
    },
    /// The bytes are no message of the Protocol Buffers.
    #[error("the index is damaged near byte {at}: {problem}; make the index anew")]
    Damaged {
        /// Offset of the message in the file, in bytes.
        at: u64,
        /// Reason.
        problem: String,
    },
    /// The file is something else.
    #[error("this is no SCIP index: {problem}; name a file that a SCIP indexer wrote, such as `index.scip`")]
    NotAnIndex {
        /// Reason.
        problem: &'static str,
    },
    /// A limit is exceeded.
    #[error("the index has {what} above the limit of {limit}: index a smaller part of the project")]
    TooLarge {
        /// Part of the index that is too large.
        what: &'static str,
        /// Limit.
        limit: u64,
    },
}
