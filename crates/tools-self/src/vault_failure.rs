//! What the tools of the vault answer where it fails.

use tool::{Code, ToolError};
use vault::VaultError;

/// The error as callers see it, with what to do.
pub(crate) fn failed(error: VaultError) -> ToolError {
    let message = error.to_string();
    match kind(&error) {
        (code, Some(hint)) => ToolError::new(code, message).hint(hint),
        (code, None) => ToolError::new(code, message).because(error),
    }
}

/// What callers and the audit call an error of the vault.
pub fn code_of_vault(error: &VaultError) -> Code {
    kind(error).0
}

fn kind(error: &VaultError) -> (Code, Option<&'static str>) {
    let (code, hint) = match error {
        VaultError::Locked
        | VaultError::Passphrase
        | VaultError::Key { .. }
        | VaultError::KeyFile { .. }
        | VaultError::DesktopRing { .. } => {
            (
                Code::Unavailable,
                "the user opens it with `handfast vault unlock`, or starts Handfast with HANDFAST_VAULT_KEY_FILE or \
             HANDFAST_VAULT_PASSPHRASE",
            )
        }
        VaultError::NoVault => {
            (Code::Unavailable, "the user makes one by storing a first secret: `handfast vault set NAME`")
        }
        VaultError::Damaged { .. } => (
            Code::Unavailable,
            "the user goes back to the secrets before the last change with `handfast vault restore`",
        ),
        VaultError::Later { .. } => (Code::Unavailable, "use the version of Handfast that wrote it"),
        VaultError::Unknown => (Code::NotFound, "vault_list has the names"),
        VaultError::Name
        | VaultError::Host { .. }
        | VaultError::Short
        | VaultError::Long
        | VaultError::NoText => (Code::Validation, "correct the argument and make the call again"),
        VaultError::Expired | VaultError::NotForHost | VaultError::NotForPlace { .. } => {
            (Code::Permission, "the user says where a secret may go: `handfast vault set NAME --host HOST`")
        }
        VaultError::KeyRing { .. } | VaultError::System { .. } => {
            return (Code::Runtime, None);
        }
    };
    (code, Some(hint))
}
