//! A base of knowledge as its callers use it: real files, a real index, real processes.

#![allow(clippy::disallowed_methods, reason = "these tests lay out the files that are indexed")]

mod base;
mod cutting;
mod evaluation;
mod finding;
mod processes;
mod quality;
mod syncing;
