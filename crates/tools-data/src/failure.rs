//! Conversion of database errors into tool errors.

use database::{Database, DatabaseError, Databases, StopCheck};
use std::sync::Arc;
use tool::{Code, Context, Retry, StopReason, ToolError};

/// Returns the database that a call names, or the default one.
pub(crate) fn named<'a>(databases: &'a Databases, name: Option<&str>) -> Result<&'a Database, ToolError> {
    databases.named(name.unwrap_or(database::DEFAULT_NAME)).map_err(failed).map_err(|error| {
        let names: Vec<&str> = databases.names().collect();
        error.hint(format!("the databases are {}", names.join(", ")))
    })
}

/// Returns a callback that reports whether the call was stopped. The database polls it.
pub(crate) fn stopped(context: &Context) -> StopCheck {
    let stop = context.stop.clone();
    Arc::new(move || stop.requested().is_some())
}

/// Returns the error of a call that ran.
pub(crate) fn failed_in(context: &Context, error: DatabaseError) -> ToolError {
    match (&error, context.stop.check()) {
        // The call waited for a lock until its timeout. The error that names the lock helps the
        // caller more than the timeout does.
        (DatabaseError::Locked, Err(_)) if context.stop.requested() == Some(StopReason::Deadline) => {
            failed(error)
        }
        (DatabaseError::Stopped | DatabaseError::Locked | DatabaseError::Unkept(_), Err(stopped)) => stopped,
        _ => failed(error),
    }
}

/// Returns the error of a statement. The transaction of a failed statement has changed nothing.
pub(crate) fn failed(error: DatabaseError) -> ToolError {
    let with = |code, hint: &str| ToolError::new(code, error.to_string()).hint(hint);
    let wrong = |hint: &str| ToolError::validation("sql", &error).hint(hint);
    let made = match &error {
        DatabaseError::Unknown(_) => ToolError::new(Code::NotFound, error.to_string()),
        DatabaseError::Syntax(_) => wrong("db_schema shows the tables and columns; pass values in `params`"),
        DatabaseError::Empty => wrong("write one statement"),
        DatabaseError::Several => wrong("make one call per statement"),
        DatabaseError::Writes => wrong("db_write changes data; db_query only reads"),
        DatabaseError::OnlyReads => wrong("db_query reads data; db_write only changes it"),
        DatabaseError::Parameters { .. } => ToolError::validation("params", &error)
            .hint("give one value for each `?` and each distinct name, in order of appearance"),
        DatabaseError::Denied(_) => with(
            Code::Permission,
            "no setting allows it; use statements about rows, tables, indexes, views and triggers",
        ),
        DatabaseError::Drifted => with(Code::Conflict, "repeat the call").retry(Retry::Now),
        DatabaseError::Constraint(_) => {
            with(Code::Conflict, "nothing was changed; db_schema shows the constraints")
        }
        DatabaseError::Conflict { .. } => with(Code::Conflict, "nothing was changed"),
        DatabaseError::TooLarge(_) => {
            with(Code::Quota, "select fewer or shorter values, as with substr(), or raise `max_bytes`")
        }
        DatabaseError::Locked => {
            with(Code::Unavailable, "another program holds a transaction or a lock, which may end soon")
                .retry(Retry::AfterMs(1_000))
        }
        DatabaseError::Damaged { .. } => with(
            Code::Runtime,
            "the user can repair the file outside Handfast with `sqlite3 FILE .recover`, or move it away for a new one",
        ),
        DatabaseError::Refused { .. } => {
            with(Code::Permission, "the user must check the file outside Handfast")
        }
        DatabaseError::Full => with(Code::Runtime, "free some space, then repeat the call"),
        DatabaseError::Stopped => ToolError::new(Code::Cancelled, error.to_string()),
        DatabaseError::Unkept(_)
        | DatabaseError::Engine(_)
        | DatabaseError::SavedDamaged
        | DatabaseError::SavedGone(_)
        | DatabaseError::Io { .. } => ToolError::new(Code::Runtime, error.to_string()),
    };
    made.because(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_of_somebody_else_is_named_also_where_all_the_time_of_the_call_went_by() {
        for (reason, code) in [
            (None, Code::Unavailable),
            (Some(StopReason::Deadline), Code::Unavailable),
            (Some(StopReason::Cancelled), Code::Cancelled),
        ] {
            let context = testkit::Workspace::new().context();
            if let Some(reason) = reason {
                context.stop.request(reason);
            }
            let error = failed_in(&context, DatabaseError::Locked);
            assert_eq!(error.code, code);
            if code == Code::Unavailable {
                assert!(error.message.contains("locked by another program"), "{}", error.message);
                assert_eq!(error.retry, Retry::AfterMs(1_000));
            }
        }
    }
}
