//! The set on a real file system: what is in it, and that it stays true whatever happens to the folders.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test program")]

mod changes;
mod fixture;
mod found;
