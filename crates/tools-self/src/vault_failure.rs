//! What the tools of the vault answer where it fails.

use tool::{Code, ToolError};
use vault::{Kind, VaultError};

/// The error as callers see it, with what to do.
pub(crate) fn failed(error: VaultError) -> ToolError {
    let failed = ToolError::new(code_of_vault(&error), error.to_string());
    match error.advice() {
        Some(advice) => failed.hint(advice),
        None => failed.because(error),
    }
}

/// What callers and the audit call an error of the vault.
pub fn code_of_vault(error: &VaultError) -> Code {
    match error.kind() {
        Kind::Closed => Code::Unavailable,
        Kind::Unknown => Code::NotFound,
        Kind::Wrong => Code::Validation,
        Kind::Refused => Code::Permission,
        Kind::Failed => Code::Runtime,
    }
}
