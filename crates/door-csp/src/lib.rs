//! The door for CSP/1, the text protocol of the tool specialist: requests from one stream, answers
//! to another.
//!
//! A request is a `TASK` line followed by lines of a key and a value each. An empty line ends a
//! request, and an empty line ends an answer. [`serve`] answers each request when its command ends,
//! so answers may come out of order. The `ID` of a request is repeated in its answer.
//!
//! A value that could be mistaken for a protocol line is written as a JSON string. Hence the output
//! of a command never looks like a protocol line. [`sum_up`] summarizes that output for every door
//! that offers the dialect. The implementation of [`ExecLog`] stores the full output, and the
//! answer names its location.
//!
//! No state is shared between requests, except for the browser of the session, whose actions are done in
//! the order of their requests. This crate owns the protocol and makes no decisions.

mod answer;
mod command_end;
mod incoming;
mod log;
mod request;
mod serve;
mod summary;
mod value;

pub use command_end::StreamKind;
pub use log::{ExecLog, Record, Stream, sum_up, sum_up_page};
pub use serve::{Options, serve};
