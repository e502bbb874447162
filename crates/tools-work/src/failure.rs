//! Conversion of errors of the roots into tool errors.

use roots::RootsError;
use tool::{Code, Context, ToolError};

/// Returns a converter for `map_err`.
pub(crate) fn of_roots(context: &Context) -> impl Fn(RootsError) -> ToolError {
    |error| {
        let error = error.relative_to(&context.place.workspace);
        let code = match &error {
            RootsError::NotInRoots { .. }
            | RootsError::LeadsOutside { .. }
            | RootsError::ReadOnly { .. }
            | RootsError::Refused { .. } => Code::Permission,
            RootsError::NotFound { .. } | RootsError::NoFolder { .. } => Code::NotFound,
            RootsError::WrongKind { .. } => Code::Validation,
            _ => Code::Runtime,
        };
        ToolError::new(code, error.to_string()).because(error)
    }
}
