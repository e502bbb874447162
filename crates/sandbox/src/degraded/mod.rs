//! Cells on hosts that refuse namespaces to this program: made by the system's bwrap where that may have them, else of
//! Landlock and a stricter filter of system calls alone.
//!
//! Either is less than a whole cell, and every result says which it was and what is missing. One is made only where a
//! whole cell cannot be had, and not where its caller is strict or wants changes kept apart.

mod alone;
mod bubblewrap;
mod private;
mod rules;
mod support;

use crate::error::SandboxError;
use crate::launch::Cell;
use crate::spec::{CellSpec, Command};
use crate::streams::Streams;

pub(crate) use private::PrivateFolder;
pub use support::{has_namespaces, try_namespaces};

/// Whether such a cell may be made for `spec` after a whole one could not be had, for this reason.
pub(crate) fn may_follow(spec: &CellSpec, error: &SandboxError) -> bool {
    matches!(error, SandboxError::Unavailable { .. }) && !spec.strict && spec.overlay.is_none()
}

/// Starts the better of the two that can be had, after a whole cell was `refused`.
pub(crate) fn launch(
    spec: &CellSpec,
    command: &Command,
    streams: Streams,
    refused: SandboxError,
) -> Result<Cell, SandboxError> {
    let cell = match bubblewrap::launch(spec, command, streams)? {
        Some(cell) => cell,
        None => alone::launch(spec, command, streams, refused)?,
    };
    Ok(cell.with_watched_limits(spec))
}
