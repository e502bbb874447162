//! Secrets of the vault that the plan of a call names.

use std::sync::Arc;

use policy::Part;
use tool::{Clock, Code, Effect, ToolError};
use vault::{Kind, RequestPart, SecretBytes, Vault};

/// Access of a tool to the secrets that its plan names, each for the host in the plan. The policy
/// has decided on exactly these pairs.
///
/// A tool gets it from its context: `context.service::<Secrets>()`. Every value is redacted in the
/// response of the call.
pub struct Secrets {
    vault: Option<Arc<Vault>>,
    clock: Arc<dyn Clock>,
    /// Names and hosts of the planned secrets.
    planned: Vec<(String, String)>,
}

impl Secrets {
    pub(crate) fn of(vault: Option<Arc<Vault>>, clock: Arc<dyn Clock>, effects: &[Part]) -> Self {
        let planned = effects.iter().filter_map(|part| match &part.effect {
            Effect::UseSecret { name, host } => Some((name.clone(), host.clone())),
            _ => None,
        });
        Self { vault, clock, planned: planned.collect() }
    }

    /// Returns the value of a secret that is sent to this host at this position now.
    ///
    /// # Errors
    /// `EPERMISSION` if the plan does not name the secret for the host, or if the user does not
    /// allow the secret there (any more); `ENOTFOUND` for an unknown secret; `EUNAVAILABLE` if the
    /// vault is not open or cannot be read.
    pub fn value_for(&self, name: &str, host: &str, position: RequestPart) -> Result<SecretBytes, ToolError> {
        let is_planned = |(planned, to): &(String, String)| planned == name && to.eq_ignore_ascii_case(host);
        if !self.planned.iter().any(is_planned) {
            let problem = format!("the plan of this call does not name the secret {name} for {host}");
            return Err(ToolError::new(Code::Permission, problem));
        }
        let vault = self
            .vault
            .as_ref()
            .ok_or_else(|| ToolError::new(Code::Unavailable, "this runtime has no vault and no secrets"))?;
        vault.value_for(name, host, position, self.clock.now()).map_err(|error| {
            let code = match error.kind() {
                Kind::Unknown => Code::NotFound,
                Kind::Refused => Code::Permission,
                Kind::Closed | Kind::Wrong | Kind::Failed => Code::Unavailable,
            };
            let failed = ToolError::new(code, error.to_string());
            match error.advice() {
                Some(advice) => failed.hint(advice),
                None => failed,
            }
            .because(error)
        })
    }
}
