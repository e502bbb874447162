//! Cells on hosts that refuse namespaces to this program: made by the system's bwrap if that may
//! use them, or else of Landlock and a stricter system call filter alone.
//!
//! Both confine less than an ordinary cell, and every result reports the kind and the missing
//! parts. They are made only if an ordinary cell is not available, and never for a strict caller or
//! for one that wants changes in an overlay.

mod bubblewrap;
mod landlock_only;
mod private;
mod rules;
mod support;

use crate::error::SandboxError;
use crate::launch::Cell;
use crate::spec::{CellSpec, Command};
use crate::streams::Streams;

pub(crate) use private::PrivateFolder;
pub use support::{has_namespaces, try_namespaces};
pub(crate) use support::{may_have_namespaces, run_nothing};

/// Returns true if a degraded cell may be made for `spec` after an ordinary one failed with this
/// error.
pub(crate) fn may_follow(spec: &CellSpec, error: &SandboxError) -> bool {
    matches!(error, SandboxError::Unavailable { .. }) && !spec.strict && spec.overlay.is_none()
}

/// Starts the better of the two available kinds, after an ordinary cell was `refused`.
pub(crate) fn launch(
    spec: &CellSpec,
    command: &Command,
    streams: Streams,
    refused: SandboxError,
) -> Result<Cell, SandboxError> {
    let cell = match bubblewrap::launch(spec, command, streams)? {
        Some(cell) => cell,
        None => landlock_only::launch(spec, command, streams, refused)?,
    };
    Ok(cell.with_watched_limits(spec))
}
