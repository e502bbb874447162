//! Limit on the total memory of the values of a running statement.
//!
//! SQLite limits the size of each value, but not their sum: 300 columns of the largest size are in
//! memory before the first is read. The number of values follows from the statement's program,
//! which `EXPLAIN` shows: each value is the result of one instruction. The more of these there are,
//! the smaller the limit per value.
//!
//! The memory that a statement gathers over rows does not follow from its program. A limit on the memory of
//! SQLite in the whole process bounds it ([`LARGEST_HEAP`]).

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::limits::Limit;

/// Maximum size of one value, and of one row, in bytes: the capacity of a result.
pub(crate) const LARGEST_VALUE: i32 = 32 * 1024 * 1024;

/// Maximum size of all values that a statement holds at a time, in bytes.
const MAX_AT_A_TIME: i32 = 256 * 1024 * 1024;

/// Maximum memory of SQLite in this process, in bytes: what aggregates of JSON gather, and what a sort
/// merges, has no limit per value. SQLite refuses the allocation that would exceed it.
pub(crate) const LARGEST_HEAP: i64 = 768 * 1024 * 1024;

/// Size that the limit per value never goes below, in bytes.
const LEAST_VALUE: i32 = 1024;

/// Maximum number of statements in the cache of counts, and maximum length of each in bytes.
const MAX_KNOWN: usize = 64;
const LONGEST_KNOWN: usize = 4 * 1024;

/// Instructions of SQLite's virtual machine that move, compare or count, and produce no value of
/// large size. Unlisted instructions count as producers of large values.
const SMALL: [&str; 77] = [
    "Abortable",
    "Add",
    "AddImm",
    "And",
    "BitAnd",
    "BitNot",
    "BitOr",
    "Close",
    "CollSeq",
    "Compare",
    "CursorHint",
    "DecrJumpZero",
    "Delete",
    "Divide",
    "ElseEq",
    "EndCoroutine",
    "Eq",
    "Expire",
    "Explain",
    "FkCheck",
    "FkCounter",
    "FkIfZero",
    "Found",
    "Ge",
    "Gosub",
    "Goto",
    "Gt",
    "Halt",
    "HaltIfNull",
    "IdxDelete",
    "IdxGE",
    "IdxGT",
    "IdxInsert",
    "IdxLE",
    "IdxLT",
    "IdxRowid",
    "If",
    "IfNot",
    "IfNotZero",
    "IfNullRow",
    "IfPos",
    "Init",
    "InitCoroutine",
    "Insert",
    "Int64",
    "Integer",
    "IsNull",
    "IsTrue",
    "Jump",
    "Last",
    "Le",
    "Lt",
    "Multiply",
    "MustBeInt",
    "Ne",
    "NewRowid",
    "Next",
    "NoConflict",
    "Noop",
    "Not",
    "NotExists",
    "NotFound",
    "NotNull",
    "Null",
    "OffsetLimit",
    "Once",
    "OpenEphemeral",
    "OpenRead",
    "OpenWrite",
    "Or",
    "Prev",
    "ReadCookie",
    "Real",
    "ResultRow",
    "Return",
    "Rewind",
    "Rowid",
];
const MORE_SMALL: [&str; 24] = [
    "SCopy",
    "SeekGE",
    "SeekGT",
    "SeekLE",
    "SeekLT",
    "SeekRowid",
    "Sequence",
    "SequenceTest",
    "ShiftLeft",
    "ShiftRight",
    "SoftNull",
    "Sort",
    "SorterInsert",
    "SorterNext",
    "SorterOpen",
    "SorterSort",
    "Subtract",
    "TableLock",
    "Transaction",
    "VBegin",
    "VFilter",
    "VNext",
    "VOpen",
    "Yield",
];

/// A connection with a limit per value for one statement.
pub(crate) struct LimitedConnection<'a>(&'a Connection);

impl<'a> LimitedConnection<'a> {
    /// Sets the limit for this statement, from a cached count if available. The authorizer must
    /// allow `EXPLAIN` of the statement.
    ///
    /// # Errors
    /// An error if the limit cannot be set.
    pub(crate) fn of(connection: &'a Connection, sql: &str, known: &Counts) -> rusqlite::Result<Self> {
        let values = known.of(connection, sql)?.max(1);
        let largest = (MAX_AT_A_TIME / values).clamp(LEAST_VALUE, LARGEST_VALUE);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, largest)?;
        Ok(Self(connection))
    }

    /// Restores the default limit.
    ///
    /// # Errors
    /// An error if the limit cannot be set.
    pub(crate) fn end(self) -> rusqlite::Result<()> {
        self.0.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE).map(drop)
    }
}

/// Cached counts of a connection's statements, each with the schema version that it is valid for.
#[derive(Default)]
pub(crate) struct Counts(RefCell<HashMap<String, (i64, i32)>>);

impl Counts {
    fn of(&self, connection: &Connection, sql: &str) -> rusqlite::Result<i32> {
        let mut version = connection.prepare_cached("PRAGMA schema_version")?;
        let version = version.query_row([], |row| row.get(0))?;
        let mut counts = self.0.borrow_mut();
        if let Some((at, count)) = counts.get(sql)
            && *at == version
        {
            return Ok(*count);
        }
        let count = values_of(connection, sql);
        if sql.len() <= LONGEST_KNOWN {
            if counts.len() >= MAX_KNOWN {
                counts.clear();
            }
            counts.insert(sql.to_owned(), (version, count));
        }
        Ok(count)
    }
}

/// Counts the statement's instructions that may produce a large value.
fn values_of(connection: &Connection, sql: &str) -> i32 {
    let explained = || {
        let mut statement = connection.prepare(&format!("EXPLAIN {sql}"))?;
        let mut instructions = statement.raw_query();
        let mut count = 0_i32;
        while let Some(instruction) = instructions.next()? {
            let name = instruction.get_ref(1)?.as_str().unwrap_or_default();
            count = count.saturating_add(i32::from(!SMALL.contains(&name) && !MORE_SMALL.contains(&name)));
        }
        Ok::<_, rusqlite::Error>(count)
    };
    // `EXPLAIN` fails for a statement that is itself an `EXPLAIN`, whose values are small, and for
    // one that fails to run anyway.
    explained().unwrap_or(1)
}
