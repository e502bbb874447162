//! The address of a service, as the user's configuration names it.

use std::fmt;

use fetch::address::{AddressError, Host, Target};

/// Why a text cannot be the address of a service.
#[derive(Debug)]
pub enum EndpointError {
    /// It is no URL.
    Address(AddressError),
    /// The secret would go over the network for everybody to read.
    Plain,
}

impl fmt::Display for EndpointError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(error) => error.fmt(formatter),
            Self::Plain => formatter.write_str("http is for this machine alone; write https"),
        }
    }
}

impl std::error::Error for EndpointError {}

/// The service at this URL: https, or http on this machine.
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
