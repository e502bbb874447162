//! The value of a secret, for the host that it belongs to.

use std::collections::HashMap;

use tool::{Code, Context, ToolError};
use vault::{HostRule, Kind, Locked, Position, Vault, VaultError};

/// The variables of this process's environment that may be sent, each with the hosts that it may go to. Where a runtime has this,
/// `$NAME` means one of these first.
pub struct EnvironmentSecrets(HashMap<String, (Locked, Vec<HostRule>)>);

impl EnvironmentSecrets {
    /// These: name, value, hosts.
    pub fn new(entries: impl IntoIterator<Item = (String, Locked, Vec<HostRule>)>) -> Self {
        Self(entries.into_iter().map(|(name, value, hosts)| (name, (value, hosts))).collect())
    }
}

/// The value of a secret for this place of a request to this host.
///
/// # Errors
/// `EPERMISSION` where it does not belong there, `EUNAVAILABLE` where the vault is locked.
pub fn secret(context: &Context, name: &str, host: &str, position: Position) -> Result<Locked, ToolError> {
    let refused = |why: &str, hint: &str| {
        Err(ToolError::new(Code::Permission, format!("the secret {name} {why}")).hint(hint.to_owned()))
    };
    if let Ok(environment) = context.service::<EnvironmentSecrets>()
        && let Some((value, hosts)) = environment.0.get(name)
    {
        if position != Position::Header {
            return refused(
                "is a variable of the environment, which goes into headers alone",
                "the user can store it for other places: `handfast vault set NAME --host HOST --in query`",
            );
        }
        if hosts.iter().any(|rule| rule.matches(host)) {
            return Ok(Locked::copy_of(value));
        }
        return refused(
            &format!("may not be sent to {host}"),
            "the user says where it may go: `environment_secrets` in the configuration",
        );
    }
    let vault = context.service::<Vault>()?;
    let error = match vault.value_for(name, host, position, context.clock.now()) {
        Ok(value) => return Ok(value),
        Err(VaultError::Unknown | VaultError::NoVault) => {
            return refused(
                "is bound to nothing",
                "the user stores it: `handfast vault set NAME --host HOST`",
            );
        }
        Err(error) => error,
    };
    if error.kind() == Kind::Refused {
        return refused(&format!("may not be sent to {host}: {error}"), error.advice().unwrap_or_default());
    }
    Err(closed(error))
}

/// What a call answers that the vault has nothing for.
pub fn closed(error: VaultError) -> ToolError {
    let failed = ToolError::new(Code::Unavailable, error.to_string());
    match error.advice() {
        Some(advice) => failed.hint(advice),
        None => failed,
    }
    .because(error)
}
