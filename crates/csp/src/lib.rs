//! The door for CSP/1, the text protocol of the tool specialist: requests in, answers out, over any pair of streams.
//!
//! A request is a `TASK` line and lines of a key and a value each; an empty line ends it, and an empty line ends an answer.
//! [`serve`] answers requests as their commands end, so answers may come out of order; the `ID` of a request stands in its answer.
//!
//! A value that a line of the protocol could hide in is a JSON string, so nothing that a command prints can look like such a line.
//! What a command printed is summed up by [`sum_up`], for every door with the dialect; the whole is kept by whoever implements
//! [`ExecLog`], and the answer says where.
//!
//! Nothing is remembered from one request to the next. This crate owns the protocol and decides nothing.

mod answer;
mod incoming;
mod log;
mod request;
mod serve;
mod summary;
mod value;

pub use log::{ExecLog, Record, Stream, StreamKind, sum_up};
pub use serve::{Options, serve};
