//! How much memory the values of a running statement may take in all.
//!
//! SQLite bounds each value and nothing else: three hundred columns of the largest value are in memory at once before anybody can look
//! at the first. How many values a statement can hold is in its program, which SQLite explains: each is what one instruction made. So
//! the more of these there are, the smaller a value may be.

use std::cell::RefCell;
use std::collections::HashMap;

use rusqlite::Connection;
use rusqlite::limits::Limit;

/// Bytes of one value, and of one row: what an answer can hold at most.
pub(crate) const LARGEST_VALUE: i32 = 32 * 1024 * 1024;

/// Bytes of all values that a statement holds at a time, at most.
const MOST_AT_A_TIME: i32 = 256 * 1024 * 1024;

/// Bytes of one value that every statement may have.
const LEAST_VALUE: i32 = 1024;

/// Statements whose counts are known at a time, and bytes of the longest of them.
const MOST_KNOWN: usize = 64;
const LONGEST_KNOWN: usize = 4 * 1024;

/// Instructions of SQLite's machine that move, compare or count, and make no value that could be large. What is not known here counts.
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

/// A connection whose values are bounded for one statement.
pub(crate) struct Limited<'a>(&'a Connection);

impl<'a> Limited<'a> {
    /// Bounds the values of this statement, whose count may be known. An authorizer has to let it pass that the statement is explained.
    ///
    /// # Errors
    /// Where the limit cannot be set.
    pub(crate) fn of(connection: &'a Connection, sql: &str, known: &Counts) -> rusqlite::Result<Self> {
        let values = known.of(connection, sql)?.max(1);
        let largest = (MOST_AT_A_TIME / values).clamp(LEAST_VALUE, LARGEST_VALUE);
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, largest)?;
        Ok(Self(connection))
    }

    /// Lets values be as large as before.
    ///
    /// # Errors
    /// Where the limit cannot be set.
    pub(crate) fn end(self) -> rusqlite::Result<()> {
        self.0.set_limit(Limit::SQLITE_LIMIT_LENGTH, LARGEST_VALUE).map(drop)
    }
}

/// The counts of statements that a connection has run, with the version of the schema that each is for.
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
            if counts.len() >= MOST_KNOWN {
                counts.clear();
            }
            counts.insert(sql.to_owned(), (version, count));
        }
        Ok(count)
    }
}

/// Counts the instructions of the statement that make a value which could be large.
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
    // What cannot be explained is an explanation, whose values are names of instructions, or fails when it runs.
    explained().unwrap_or(1)
}
