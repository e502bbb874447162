//! Look-up of a secret's value for the host that the secret is bound to.

use std::collections::{BTreeMap, HashMap};

use tool::{Code, Context, ToolError};
use vault::{HostRule, Kind, RequestPart, SecretBytes, Vault, VaultError};

/// Environment variables of this process that may be sent, each with the hosts that may receive its
/// value. In a runtime with this service, `$NAME` is looked up here first.
pub struct EnvironmentSecrets {
    set: HashMap<String, (SecretBytes, Vec<HostRule>)>,
    /// Configured variables without a usable value, each with the reason, as the end of a sentence.
    unset: BTreeMap<String, String>,
}

impl EnvironmentSecrets {
    /// Creates the set from triples of name, value and hosts.
    pub fn new(entries: impl IntoIterator<Item = (String, SecretBytes, Vec<HostRule>)>) -> Self {
        let set = entries.into_iter().map(|(name, value, hosts)| (name, (value, hosts))).collect();
        Self { set, unset: BTreeMap::new() }
    }

    /// Adds configured variables without a usable value, each with the reason.
    #[must_use]
    pub fn without(self, unset: BTreeMap<String, String>) -> Self {
        Self { unset, ..self }
    }
}

/// Returns the value of the secret `name` for this position of a request to `host`.
///
/// # Errors
/// `EPERMISSION` if the secret is not bound to that host and position, `EUNAVAILABLE` if the vault
/// is locked.
pub fn secret(
    context: &Context,
    name: &str,
    host: &str,
    position: RequestPart,
) -> Result<SecretBytes, ToolError> {
    let refused = |why: &str, hint: &str| {
        Err(ToolError::new(Code::Permission, format!("the secret {name} {why}")).hint(hint.to_owned()))
    };
    let environment = context.service::<EnvironmentSecrets>().ok();
    if let Some(why) = environment.as_ref().and_then(|environment| environment.unset.get(name)) {
        let message = format!("{name} is in `environment_secrets`, but {why}");
        return Err(ToolError::new(Code::Unavailable, message)
            .hint(format!("the user starts Handfast with the key in the variable {name}")));
    }
    if let Some(environment) = &environment
        && let Some((value, hosts)) = environment.set.get(name)
    {
        if position != RequestPart::Header {
            return refused(
                "is an environment variable, which may be sent only in headers",
                "the user can store it for other parts of a request: `handfast vault set NAME --host HOST --in query`",
            );
        }
        if hosts.iter().any(|rule| rule.matches(host)) {
            return Ok(SecretBytes::copy_of(value));
        }
        return refused(
            &format!("may not be sent to {host}"),
            "the user sets its hosts in `environment_secrets` of the configuration",
        );
    }
    let vault = context.service::<Vault>()?;
    let error = match vault.value_for(name, host, position, context.clock.now()) {
        Ok(value) => return Ok(value),
        // A runtime with environment secrets has its keys in the environment, so the hint points there.
        Err(VaultError::Unknown | VaultError::NoVault | VaultError::Locked) if environment.is_some() => {
            return refused(
                "is neither in `environment_secrets` of the user's configuration nor in an open vault",
                &format!(
                    "the user adds it there with its hosts, as in `environment_secrets: {{{name}: [{host}]}}`"
                ),
            );
        }
        Err(VaultError::Unknown | VaultError::NoVault) => {
            return refused("is not stored", "the user stores it: `handfast vault set NAME --host HOST`");
        }
        Err(error) => error,
    };
    if error.kind() == Kind::Refused {
        return refused(&format!("may not be sent to {host}: {error}"), error.advice().unwrap_or_default());
    }
    Err(vault_error(error))
}

/// Converts a vault error to the tool error of a call that gets no secret.
pub fn vault_error(error: VaultError) -> ToolError {
    let failed = ToolError::new(Code::Unavailable, error.to_string());
    match error.advice() {
        Some(advice) => failed.hint(advice),
        None => failed,
    }
    .because(error)
}
