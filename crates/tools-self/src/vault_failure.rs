//! Conversion of vault errors into tool errors.

use tool::{Code, ToolError};
use vault::{Kind, VaultError};

/// Converts a vault error for callers, with advice.
pub(crate) fn failed(error: VaultError) -> ToolError {
    let failed = ToolError::new(code_of_vault(&error), error.to_string());
    match error.advice() {
        Some(advice) => failed.hint(advice),
        None => failed.because(error),
    }
}

/// Returns the error code of a vault error, for callers and the audit.
pub fn code_of_vault(error: &VaultError) -> Code {
    match error.kind() {
        Kind::Closed => Code::Unavailable,
        Kind::Unknown => Code::NotFound,
        Kind::Wrong => Code::Validation,
        Kind::Refused => Code::Permission,
        Kind::Failed => Code::Runtime,
    }
}
