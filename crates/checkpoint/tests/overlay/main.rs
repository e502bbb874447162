//! Tests of commands that change a workspace through a real overlay, and of the commits of their
//! changes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test ends where its set-up fails")]
#![expect(
    clippy::disallowed_methods,
    reason = "the commands of these tests run in an overlay and not in a cell"
)]

mod baseline;
mod commits;
mod conflicts;
mod drafts;
mod fixture;
mod generated;
mod git_index;
mod hidden;
mod interrupted;
mod ordinary_user;
mod regenerable;
mod restored;
