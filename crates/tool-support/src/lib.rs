//! Shared parts of the tools that send requests to other servers: secrets bound to hosts,
//! permission to dial addresses, whole bodies, error conversion, and cancellation.
//!
//! This crate sends nothing and retries nothing: each tool knows which of its requests may be repeated.

mod body;
mod endpoint;
mod fetch_failure;
pub mod files;
pub mod left_out;
mod secret;
mod stopping;

use std::sync::Arc;

use fetch::address::Target;
use fetch::dial::Permission;
use tool::{Context, Hosts, Redaction, ToolError};

pub use body::{BodyError, decoder, whole};
pub use endpoint::{EndpointError, endpoint};
pub use fetch_failure::failure;
pub use secret::{EnvironmentSecrets, secret, vault_error};
pub use stopping::unless_stopped;
pub use vault::RequestPart;

/// Builds the permission that decides which addresses the call may dial for `target` under the
/// policy. A request with a secret goes to a public address over TLS only.
///
/// # Errors
/// `EUNAVAILABLE` if this runtime was composed without a policy for hosts.
pub fn permission(context: &Context, target: &Target, holds_secret: bool) -> Result<Permission, ToolError> {
    let hosts = context.service::<Arc<dyn Hosts>>()?;
    let (host, port) = (target.host().to_string(), target.port());
    let permission = Permission::judged(move |address| hosts.may_dial(&host, address, port));
    Ok(if holds_secret && !target.is_tls() { permission.never_public() } else { permission })
}

/// Returns the service that redacts secrets in data that the call writes elsewhere than into its result.
///
/// # Errors
/// `EUNAVAILABLE` if this runtime was composed without that service.
pub fn covering(context: &Context) -> Result<Arc<Arc<dyn Redaction>>, ToolError> {
    context.service::<Arc<dyn Redaction>>()
}
