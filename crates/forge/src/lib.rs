//! Meaning of a request to a git forge: whether it reads or writes, and what it would write.
//!
//! [`judge`] understands git's smart HTTP protocol, GraphQL, git LFS, and the publishing of npm
//! packages. Any other request reads if its method does. A request that is not understood writes.
//!
//! The crate is pure: it does no input or output, knows no policy, and takes the body as far as it
//! has arrived.

mod action;
mod encoding;
mod graphql;
mod header;
mod json;
mod judge;
mod lfs;
mod npm;
mod pack;
mod pkt_line;
mod push;
mod push_answer;
mod request;
mod shown;
mod target;
mod upload_pack;

pub use action::Action;
pub use judge::judge;
pub use push::{Push, RefChange, RefCommand};
pub use request::{MAX_BODY, Meaning, Request};
