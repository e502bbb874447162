//! Data of calls that answer requests other than `tools/call`.

use rmcp::model::{ErrorCode, ErrorData};
use serde_json::Value;
use tool::{CallResult, Code, Outcome, ToolError};

/// Converts the error of a failed call to the error of a request. Its data is the error object of
/// all protocols.
pub(crate) fn refused(error: &ToolError) -> ErrorData {
    let code = match error.code {
        Code::NotFound => ErrorCode::RESOURCE_NOT_FOUND,
        Code::Validation => ErrorCode::INVALID_PARAMS,
        Code::Internal => ErrorCode::INTERNAL_ERROR,
        _ => ErrorCode(-32000),
    };
    ErrorData::new(code, format!("{}: {}", error.code, error.message), Some(error.to_wire()))
}

/// Returns the data of a successful call.
///
/// # Errors
/// The error of a failed call.
pub(crate) fn given(result: CallResult) -> Result<Value, ErrorData> {
    match result.outcome {
        Outcome::Ok(tool::Data::Value(data)) => Ok(data),
        Outcome::Ok(tool::Data::Written(data)) => {
            data.parse().map_err(|error| ErrorData::internal_error(error.to_string(), None))
        }
        Outcome::Err(error) => Err(refused(&error)),
    }
}
