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
use tool::{Context, Hosts, ToolError};

pub use body::{BodyError, decoder, whole};
pub use endpoint::{EndpointError, endpoint};
pub use failure::failure;
pub use secret::{EnvironmentSecrets, closed, secret};
pub use stopping::unless_stopped;
pub use vault::Position;

/// Which addresses the call may dial for this target, as the policy has it.
///
/// # Errors
/// `EUNAVAILABLE` where this runtime was composed without a policy for hosts.
pub fn permission(context: &Context, target: &Target) -> Result<Permission, ToolError> {
    let hosts = context.service::<Arc<dyn Hosts>>()?;
    let (host, port) = (target.host().to_string(), target.port());
    Ok(Permission::judged(move |address| hosts.may_dial(&host, address, port)))
}
