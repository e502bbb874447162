//! Errors of calls, in the form that callers see.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Stable error codes, identical through every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Code {
    /// The arguments, or the message that carried them, are wrong.
    #[serde(rename = "EVALIDATION")]
    Validation,
    /// The tool, file or reference does not exist.
    #[serde(rename = "ENOTFOUND")]
    NotFound,
    /// The policy or the operating system denies the call.
    #[serde(rename = "EPERMISSION")]
    Permission,
    /// The call needs an approval that nobody could give now.
    #[serde(rename = "EAPPROVAL")]
    Approval,
    /// The deadline passed.
    #[serde(rename = "ETIMEOUT")]
    Timeout,
    /// A lane is full or a limit is reached.
    #[serde(rename = "EQUOTA")]
    Quota,
    /// The tool tried and failed: the disk is full, a file cannot be read.
    #[serde(rename = "ERUNTIME")]
    Runtime,
    /// The state differs from the caller's expectation: changed since it was read, exists already,
    /// ambiguous.
    #[serde(rename = "ECONFLICT")]
    Conflict,
    /// A dependency of the tool is missing: namespaces, a server, a browser.
    #[serde(rename = "EUNAVAILABLE")]
    Unavailable,
    /// The caller cancelled the call.
    #[serde(rename = "ECANCELLED")]
    Cancelled,
    /// Handfast has a defect.
    #[serde(rename = "EINTERNAL")]
    Internal,
}

impl Code {
    /// All codes.
    pub const ALL: [Self; 11] = [
        Self::Validation,
        Self::NotFound,
        Self::Permission,
        Self::Approval,
        Self::Timeout,
        Self::Quota,
        Self::Runtime,
        Self::Conflict,
        Self::Unavailable,
        Self::Cancelled,
        Self::Internal,
    ];

    /// Returns the code as text, as in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::Validation => "EVALIDATION",
            Code::NotFound => "ENOTFOUND",
            Code::Permission => "EPERMISSION",
            Code::Approval => "EAPPROVAL",
            Code::Timeout => "ETIMEOUT",
            Code::Quota => "EQUOTA",
            Code::Runtime => "ERUNTIME",
            Code::Conflict => "ECONFLICT",
            Code::Unavailable => "EUNAVAILABLE",
            Code::Cancelled => "ECANCELLED",
            Code::Internal => "EINTERNAL",
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// Effect of a failed call on the world. Without this field a caller cannot retry safely.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// The call changed nothing.
    #[default]
    None,
    /// The call may have changed something.
    Maybe,
    /// The call made the change.
    Done,
}

impl EffectState {
    /// Returns the name of the state in responses.
    pub fn as_str(self) -> &'static str {
        match self {
            EffectState::None => "none",
            EffectState::Maybe => "maybe",
            EffectState::Done => "done",
        }
    }
}

/// Advice about retrying the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Retry {
    /// The call will fail again in the same way.
    #[default]
    Never,
    /// The call may succeed if it is repeated at once.
    Now,
    /// The call may succeed after this many milliseconds.
    AfterMs(u64),
}

/// Failure of a call, in the one form that callers see.
///
/// `Display` writes the message alone, never the source.
/// [`ToolError::source`](std::error::Error::source) returns the source for code that prints a chain
/// of causes.
#[derive(Debug)]
pub struct ToolError {
    /// Stable code.
    pub code: Code,
    /// Description of the failure, which names the field, path or limit.
    pub message: String,
    /// Advice for the caller.
    pub hint: Option<String>,
    /// Effect of the failed call on the world.
    pub effect: EffectState,
    /// Advice about retrying.
    pub retry: Retry,
    /// Data that is available in spite of the failure, such as partial output.
    pub data: Option<Value>,
    /// Id of the approval that would allow the call, with [`Code::Approval`].
    pub approval_id: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl ToolError {
    /// Creates an error that reports no effect and advises against a retry.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            effect: EffectState::None,
            retry: Retry::Never,
            data: None,
            approval_id: None,
            source: None,
        }
    }

    /// Creates an `EVALIDATION` error that names the argument at fault.
    pub fn validation(field: &str, problem: impl std::fmt::Display) -> Self {
        Self::new(Code::Validation, format!("`{field}`: {problem}"))
    }

    /// Creates an `EINTERNAL` error, which reports a defect in Handfast.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(Code::Internal, message)
    }

    /// Creates the error for a failed operation from `message` and the system's own message. The
    /// code is `ECONFLICT` for `ESTALE`, because somebody else changed the file during the
    /// operation, and `ERUNTIME` otherwise.
    pub fn caused_by(message: &str, error: impl std::error::Error + Send + Sync + 'static) -> Self {
        let source = error.source();
        let system = source.and_then(|source| source.downcast_ref::<std::io::Error>());
        let is_stale = system.is_some_and(|error| error.kind() == std::io::ErrorKind::StaleNetworkFileHandle);
        let message = source.map_or_else(|| message.to_owned(), |source| format!("{message}: {source}"));
        let made = if is_stale { changed_meanwhile(message) } else { Self::new(Code::Runtime, message) };
        made.because(error)
    }

    /// Creates the error for a failed input or output operation on `path`.
    ///
    /// `doing` is the verb for the message, such as `read`.
    pub fn io(doing: &str, path: &std::path::Path, error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let shown = path.display();
        let (code, message, hint) = match error.kind() {
            ErrorKind::NotFound => {
                (Code::NotFound, format!("cannot {doing} {shown}: it does not exist"), None)
            }
            ErrorKind::PermissionDenied => (
                Code::Permission,
                format!("cannot {doing} {shown}: the operating system denies it"),
                Some("the user that runs Handfast has no permission"),
            ),
            ErrorKind::IsADirectory => {
                (Code::Validation, format!("cannot {doing} {shown}: it is a folder"), None)
            }
            ErrorKind::NotADirectory => (
                Code::Validation,
                format!("cannot {doing} {shown}: a part of the path is not a folder"),
                None,
            ),
            ErrorKind::AlreadyExists => {
                (Code::Conflict, format!("cannot {doing} {shown}: it already exists"), None)
            }
            ErrorKind::DirectoryNotEmpty => {
                (Code::Conflict, format!("cannot {doing} {shown}: the folder is not empty"), None)
            }
            ErrorKind::StorageFull => (
                Code::Runtime,
                format!("cannot {doing} {shown}: no space left on the device"),
                Some("free some space, then try again"),
            ),
            ErrorKind::QuotaExceeded => (
                Code::Runtime,
                format!("cannot {doing} {shown}: the disk quota is used up"),
                Some("free some space, then try again"),
            ),
            ErrorKind::ReadOnlyFilesystem => {
                (Code::Runtime, format!("cannot {doing} {shown}: the file system is read-only"), None)
            }
            ErrorKind::StaleNetworkFileHandle => {
                return changed_meanwhile(format!(
                    "cannot {doing} {shown}: another program changed it meanwhile"
                ))
                .because(error);
            }
            ErrorKind::InvalidFilename => (
                Code::Validation,
                format!("cannot {doing} {shown}: the name is too long or not allowed"),
                None,
            ),
            _ => (Code::Runtime, format!("cannot {doing} {shown}: {error}"), None),
        };
        let mut made = Self::new(code, message);
        made.hint = hint.map(str::to_owned);
        made.source = Some(Box::new(error));
        made
    }

    /// Adds advice for the caller.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Sets the effect of the failed call on the world.
    #[must_use]
    pub fn effect(mut self, effect: EffectState) -> Self {
        self.effect = effect;
        self
    }

    /// Sets the advice about retrying.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Adds data that is available in spite of the failure.
    #[must_use]
    pub fn data(mut self, data: Value) -> Self {
        self.data = Some(data);
        self
    }

    /// Adds the cause, for code that prints a chain of causes.
    #[must_use]
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

impl std::fmt::Display for ToolError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ToolError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

fn changed_meanwhile(message: String) -> ToolError {
    ToolError::new(Code::Conflict, message).retry(Retry::Now).hint("check the current state, then try again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Failed(std::io::Error);

    impl std::fmt::Display for Failed {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("it failed")
        }
    }

    impl std::error::Error for Failed {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn what_somebody_else_has_changed_meanwhile_is_a_conflict() {
        let (stale, full) = (116, 28);
        let system = std::io::Error::from_raw_os_error;
        for (number, expected) in [(stale, Code::Conflict), (full, Code::Runtime)] {
            let made = ToolError::caused_by("nothing was done", Failed(system(number)));
            assert_eq!(made.code, expected, "{}", made.message);
            assert!(made.message.starts_with("nothing was done: "), "{}", made.message);
            assert_eq!(ToolError::io("read", std::path::Path::new("a"), system(number)).code, expected);
        }
    }
}
