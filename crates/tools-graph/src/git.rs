//! The files of a commit, read from the repository of the workspace without a checkout and without the program git,
//! which would follow the repository's own configuration. Every file is opened through the roots of the call.
//!
//! This module knows loose objects and packs with SHA-1, and references in files.

mod error;
mod format;
mod id;
mod objects;
mod pack;
mod revision;
mod tree;

pub(crate) use error::GitError;
pub(crate) use objects::Objects;
pub(crate) use revision::resolve;
pub(crate) use tree::{CommitFile, files};
