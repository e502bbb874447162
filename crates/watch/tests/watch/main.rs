//! The set on a real file system: its entries, and its updates after every kind of change.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test program")]

mod changes;
mod fixture;
mod found;
