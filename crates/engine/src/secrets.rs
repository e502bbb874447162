//! The secrets that the plan of a call names: what a tool is given of the vault.

use std::sync::Arc;

use policy::Part;
use tool::{Clock, Code, Effect, ToolError};
use vault::{Kind, Locked, Position, Vault};

/// Gives a tool the secrets that its plan says it uses, each for the host that the plan says. The policy has decided on exactly these.
///
/// A tool has it of its context: `context.service::<Secrets>()`. Every value is covered in what the call answers.
pub struct Secrets {
    vault: Option<Arc<Vault>>,
    clock: Arc<dyn Clock>,
    /// Their names and hosts.
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

    /// The value of a secret, to be sent to this host in this place now.
    ///
    /// # Errors
    /// `EPERMISSION` where the plan does not name the secret for the host, and where the user did not say that it may go there, or no
    /// longer; `ENOTFOUND` for an unknown one; `EUNAVAILABLE` where the vault is not open or cannot be read.
    pub fn value_for(&self, name: &str, host: &str, position: Position) -> Result<Locked, ToolError> {
        let is_planned = |(planned, to): &(String, String)| planned == name && to.eq_ignore_ascii_case(host);
        if !self.planned.iter().any(is_planned) {
            let problem = format!("the plan of this call does not name the secret {name} for {host}");
            return Err(ToolError::new(Code::Permission, problem));
        }
        let vault = self.vault.as_ref().ok_or_else(|| {
            ToolError::new(Code::Unavailable, "this runtime has no vault, and so no secrets")
        })?;
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
