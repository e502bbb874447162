//! The reason why a run could not start or failed.

use std::error::Error;

/// The reason why a runtime could not be composed, or why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The error.
    pub(crate) error: Box<dyn Error + Send + Sync>,
    /// Exit code: 2 for wrong usage, 1 otherwise.
    pub(crate) exit_code: u8,
}

impl Failure {
    /// Creates a failure for wrong usage or a wrong configuration.
    pub(crate) fn usage(error: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { error: error.into(), exit_code: 2 }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { error: error.into(), exit_code: 1 }
    }
}
