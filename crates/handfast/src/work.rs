//! Linear and Gmail, as configured.

use std::sync::Arc;

use tool::AnyTool;
use tools_work::{Endpoints, Gmail, Linear, oauth};
use vault::Contents;

use crate::config::{GmailPlace, LinearPlace};
use crate::failure::Failure;

/// Environment variable with the key of Linear in the dialect `sluagh` (its source, section 2.2),
/// used if `environment_secrets` names it.
pub(crate) const LINEAR_VARIABLE: &str = "LINEAR_API_KEY";

/// The locations of Linear and Gmail.
#[derive(Clone)]
pub(crate) struct Work {
    /// Location of Linear, and the name of its key.
    linear: Linear,
    /// Location of Gmail.
    pub(crate) gmail: Gmail,
}

impl Work {
    /// Reads the locations. The key of Linear is that of the environment, or else of the vault.
    ///
    /// # Errors
    /// If a location is not a URL that may be used.
    pub(crate) fn new(
        linear_place: Option<LinearPlace>,
        key_in_environment: bool,
        gmail_place: Option<GmailPlace>,
    ) -> Result<Self, Failure> {
        Ok(Self { linear: linear(linear_place, key_in_environment)?, gmail: gmail(gmail_place)? })
    }

    /// Returns the tools, in listing order.
    pub(crate) fn tools(&self) -> Vec<Arc<dyn AnyTool>> {
        tools_work::tools(self.linear.clone(), &self.gmail)
    }
}

/// Returns true if the vault contains a login for Gmail.
pub(crate) fn has_login(contents: &Contents) -> bool {
    contents.get(oauth::LOGIN).is_some()
}

/// Returns the location of Linear and the source of its key: the environment or the vault.
fn linear(place: Option<LinearPlace>, key_in_environment: bool) -> Result<Linear, Failure> {
    let endpoint = place.map_or_else(|| Linear::ENDPOINT.to_owned(), |place| place.endpoint);
    let secret = if key_in_environment { LINEAR_VARIABLE } else { Linear::SECRET };
    Linear::at(&endpoint, secret).map_err(|error| Failure::usage(format!("`linear.endpoint`: {error}")))
}

/// Returns the location of Gmail.
fn gmail(place: Option<GmailPlace>) -> Result<Gmail, Failure> {
    let endpoints = place.map_or_else(Endpoints::default, |place| Endpoints {
        api: place.endpoint,
        authorization: place.authorization,
        token: place.token,
        revocation: place.revocation,
    });
    Gmail::at(endpoints).map_err(|(name, error)| Failure::usage(format!("`gmail.{name}`: {error}")))
}
