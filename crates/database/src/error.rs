//! Errors of statements and of database files.

use std::path::PathBuf;

use rusqlite::ErrorCode;

/// The reason why a statement failed. `Display` names facts of the statement and the file, never a
/// value of a row.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// Unknown name of a database.
    #[error("unknown database `{0}`")]
    Unknown(String),
    /// Syntax error.
    #[error("{0}")]
    Syntax(String),
    /// Text without a statement.
    #[error("has no statement")]
    Empty,
    /// Text with more than one statement.
    #[error("has several statements, but a call runs only one")]
    Several,
    /// Wrong number of parameters.
    #[error("the statement has {wanted} parameters, but {given} were given")]
    Parameters {
        /// Number of parameters in the statement.
        wanted: usize,
        /// Number of given parameters.
        given: usize,
    },
    /// Writing statement, but the call permits only reading.
    #[error("the statement is not read-only")]
    Writes,
    /// Reading statement, but the call expects a change.
    #[error("the statement changes nothing")]
    OnlyReads,
    /// Action that no statement may perform.
    #[error("{0} is not allowed in any statement")]
    Denied(String),
    /// The statement would act differently than planned, because the schema has changed.
    #[error("the schema changed after the call was planned, so the statement would do something else")]
    Drifted,
    /// Violated constraint of the schema.
    #[error("{0}")]
    Constraint(String),
    /// The data to restore has changed since the change.
    #[error("{what} has changed since the call")]
    Conflict {
        /// The rows or the database in question.
        what: String,
    },
    /// Value, row or result beyond its limit.
    #[error("{0}")]
    TooLarge(String),
    /// The file is locked by another connection.
    #[error("the database is locked by another program")]
    Locked,
    /// The file is damaged, or not a database.
    #[error("{} is damaged, or not a SQLite database: {because}", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Message of the engine.
        because: String,
    },
    /// The file was not opened.
    #[error("{} cannot be opened: {because}", path.display())]
    Refused {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the refusal.
        because: String,
    },
    /// The disk is full.
    #[error("the disk is full, or its quota is used up")]
    Full,
    /// The call was stopped.
    #[error("the call was stopped")]
    Stopped,
    /// The undo record could not be stored.
    #[error("the undo data could not be stored, so nothing was changed")]
    Unkept(#[source] crate::KeepError),
    /// The engine failed.
    #[error("the database engine failed: {0}")]
    Engine(#[source] rusqlite::Error),
    /// The stored change is unreadable.
    #[error("the undo data is damaged")]
    SavedDamaged,
    /// The stored data of the change is unavailable.
    #[error("the undo data cannot be read: {0}")]
    SavedGone(#[source] crate::KeepError),
    /// Reading or writing the file failed.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: std::io::Error,
    },
}

impl DatabaseError {
    /// Returns true if another connection holds a lock, so that waiting may help.
    pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
        let code = error.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Classifies an error of the engine by its code.
    pub(crate) fn of(path: &std::path::Path, error: rusqlite::Error) -> Self {
        let said = message_of(&error);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), because: said }
            }
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::OperationInterrupted) => Self::Stopped,
            Some(ErrorCode::ConstraintViolation) => Self::Constraint(said),
            Some(ErrorCode::TooBig) => Self::TooLarge(said),
            Some(ErrorCode::OutOfMemory) => Self::TooLarge(format!(
                "the statements that run need more memory than the {} MiB that they have together",
                crate::memory::LARGEST_HEAP >> 20
            )),
            Some(ErrorCode::AuthorizationForStatementDenied) => Self::Denied("this action".to_owned()),
            Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                Self::Refused { path: path.to_owned(), because: said }
            }
            Some(ErrorCode::Unknown | ErrorCode::TypeMismatch) => Self::Syntax(said),
            _ => match error {
                rusqlite::Error::MultipleStatement => Self::Several,
                rusqlite::Error::SqlInputError { msg, offset, .. } => {
                    let at = u32::try_from(offset).map(|at| format!(" (at byte {at})")).unwrap_or_default();
                    Self::Syntax(format!("{msg}{at}"))
                }
                rusqlite::Error::InvalidParameterCount(given, wanted) => Self::Parameters { wanted, given },
                rusqlite::Error::NulError(_) => Self::Syntax("the statement has a NUL byte".to_owned()),
                other => Self::Engine(other),
            },
        }
    }
}

/// Returns the message of the engine, without its error code.
fn message_of(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
