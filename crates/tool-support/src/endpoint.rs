//! Parsing of a service's address from the user's configuration.

use std::fmt;

use fetch::address::{AddressError, Host, Target};

/// Reason why a text is refused as the address of a service.
#[derive(Debug)]
pub enum EndpointError {
    /// The text is not a URL.
    Address(AddressError),
    /// The URL would send the secret unencrypted over the network.
    Plain,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(formatter),
            Self::Plain => formatter.write_str("http is allowed only for this machine; use https"),
        }
    }
}

impl std::error::Error for EndpointError {}

/// Parses the URL of a service: https, or http on this machine.
///
/// # Errors
/// [`EndpointError`].
pub fn endpoint(url: &str) -> Result<Target, EndpointError> {
    let target = Target::parse(url).map_err(EndpointError::Address)?;
    let is_here = match target.host() {
        Host::Address(address) => address.is_loopback(),
        host @ Host::Name(_) => host.is_localhost(),
    };
    if target.is_tls() || is_here { Ok(target) } else { Err(EndpointError::Plain) }
}
