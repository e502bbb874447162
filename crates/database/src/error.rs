use std::path::PathBuf;

use rusqlite::ErrorCode;

/// Why a statement could not be run. `Display` names facts of the statement and the file, never a value of a row.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// there is no database of this name
    #[error("there is no database `{0}`")]
    Unknown(String),
    /// the text is no statement
    #[error("{0}")]
    Syntax(String),
    /// there is no statement in the text
    #[error("there is no statement in it")]
    Empty,
    /// there is more than one
    #[error("it holds several statements, and a call makes one")]
    Several,
    /// the number of parameters is another one
    #[error("the statement has {wanted} parameters, and {given} were given")]
    Parameters {
        /// How many the statement has.
        wanted: usize,
        /// How many there were.
        given: usize,
    },
    /// it does more than read
    #[error("the statement does more than read")]
    Writes,
    /// it only reads
    #[error("the statement changes nothing")]
    OnlyReads,
    /// no statement may do this
    #[error("{0} is not allowed in any statement")]
    Denied(String),
    /// the statement would do something else than when it was planned
    #[error(
        "the statement would do something else than when the call was planned, because the schema has changed"
    )]
    Drifted,
    /// a constraint of the schema stands against it
    #[error("{0}")]
    Constraint(String),
    /// what is to be undone is no longer as it was left
    #[error("{what} is not as the change left it")]
    Conflict {
        /// The rows or the database.
        what: String,
    },
    /// a value, a row or a result is larger than what is allowed
    #[error("{0}")]
    TooLarge(String),
    /// somebody else has locked the file
    #[error("the database is locked by another program")]
    Locked,
    /// the file is damaged, or no database
    #[error("{} is damaged, or no SQLite database: {because}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What the engine says.
        because: String,
    },
    /// the file is not opened
    #[error("{} is not opened: {because}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Why.
        because: String,
    },
    /// the disk is full
    #[error("the disk is full, or its quota is reached")]
    Full,
    /// the call was stopped
    #[error("the call was stopped")]
    Stopped,
    /// what undoes the change could not be kept
    #[error("what undoes the change could not be kept, so nothing was changed")]
    Unkept(#[source] crate::KeepError),
    /// the engine failed
    #[error("the database engine failed: {0}")]
    Engine(#[source] rusqlite::Error),
    /// the saved change cannot be read
    #[error("what was saved of the change is damaged")]
    SavedDamaged,
    /// what was saved of the change cannot be had
    #[error("what was saved of the change cannot be read: {0}")]
    SavedGone(#[source] crate::KeepError),
    /// reading or writing the file failed
    #[error("{}: {source}", path.display())]
    Io {
        /// What was acted on.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },
}

impl DatabaseError {
    /// Whether waiting may help.
    pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
        let code = error.sqlite_error_code();
        matches!(code, Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Sorts an error of the engine by its code.
    pub(crate) fn of(path: &std::path::Path, error: rusqlite::Error) -> Self {
        let said = said(&error);
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { path: path.to_owned(), because: said }
            }
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::OperationInterrupted) => Self::Stopped,
            Some(ErrorCode::ConstraintViolation) => Self::Constraint(said),
            Some(ErrorCode::TooBig) => Self::TooLarge(said),
            Some(ErrorCode::AuthorizationForStatementDenied) => Self::Denied("what it does".to_owned()),
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
                rusqlite::Error::NulError(_) => Self::Syntax("the statement holds a NUL byte".to_owned()),
                other => Self::Engine(other),
            },
        }
    }
}

/// What the engine says, without the code that stands before it.
fn said(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => message.clone(),
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}
