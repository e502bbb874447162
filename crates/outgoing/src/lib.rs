//! What the tools that ask other servers have in common: a secret for its host, which addresses may be dialled, the whole of a body,
//! what a failure is to callers, and the end of the call.
//!
//! It sends nothing by itself and tries nothing again: each tool knows what of its requests may come twice.

mod body;
mod endpoint;
mod failure;
mod secret;
mod stopping;

use std::sync::Arc;

use fetch::address::Target;
use fetch::dial::Permission;
use tool::{Context, Covering, Hosts, ToolError};

pub use body::{BodyError, decoder, whole};
pub use endpoint::{EndpointError, endpoint};
pub use failure::failure;
pub use secret::{EnvironmentSecrets, closed, secret};
pub use stopping::unless_stopped;
pub use vault::Position;

/// Finds out which addresses the call may dial for this target, as the policy has it. A request with a secret goes to a public
/// address over TLS alone.
///
/// # Errors
/// `EUNAVAILABLE` where this runtime was composed without a policy for hosts.
pub fn permission(context: &Context, target: &Target, holds_secret: bool) -> Result<Permission, ToolError> {
    let hosts = context.service::<Arc<dyn Hosts>>()?;
    let (host, port) = (target.host().to_string(), target.port());
    let permission = Permission::judged(move |address| hosts.may_dial(&host, address, port));
    Ok(if holds_secret && !target.is_tls() { permission.never_public() } else { permission })
}

/// Finds what covers secrets in what the call puts elsewhere than into its answer.
///
/// # Errors
/// `EUNAVAILABLE` where this runtime was composed without it.
pub fn covering(context: &Context) -> Result<Arc<Arc<dyn Covering>>, ToolError> {
    context.service::<Arc<dyn Covering>>()
}
