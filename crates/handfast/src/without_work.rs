//! A build without the tools for Linear and Gmail (the feature `work`).

use std::sync::Arc;

use tool::AnyTool;
use vault::Contents;

use crate::config::{GmailPlace, LinearPlace};
use crate::failure::Failure;

/// Environment variable with the key of Linear, which this build does not use.
pub(crate) const LINEAR_VARIABLE: &str = "LINEAR_API_KEY";

/// No locations.
#[derive(Clone)]
pub(crate) struct Work;

impl Work {
    /// Refuses configured locations, because no tool of this build would use them.
    ///
    /// # Errors
    /// If a location is configured.
    pub(crate) fn new(
        linear: Option<LinearPlace>,
        _key_in_environment: bool,
        gmail: Option<GmailPlace>,
    ) -> Result<Self, Failure> {
        let key = linear.map(|_| "linear").or(gmail.map(|_| "gmail"));
        match key {
            Some(key) => Err(Failure::usage(format!(
                "`{key}` is configured, but this program was built without these tools; build it with the feature `work`"
            ))),
            None => Ok(Self),
        }
    }

    /// Returns no tools.
    #[expect(clippy::unused_self, reason = "the signature is that of the build with the feature")]
    pub(crate) fn tools(&self) -> Vec<Arc<dyn AnyTool>> {
        Vec::new()
    }
}

/// Returns false: this build has no login.
pub(crate) fn has_login(_contents: &Contents) -> bool {
    false
}
