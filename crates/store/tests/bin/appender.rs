//! A process that appends audit rows, for the tests that need several processes or one that is killed:
//! `store-appender FOLDER NAME ROWS DURABILITY` prints the call id of each row once its receipt is there, or
//! the error, then closes the store.
//!
//! Rows are appended in groups of four, so that a kill meets rows in every state.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use store::{AuditRow, Durability, Kind, Store, StoreError};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, name, rows, durability] = arguments.as_slice() else {
        return ExitCode::from(2);
    };
    let durability = match durability.as_str() {
        "flushed" => Durability::Flushed,
        "committed" => Durability::Committed,
        _ => Durability::Behind,
    };
    let Ok(rows) = rows.parse() else { return ExitCode::from(2) };
    match append(Path::new(folder), name, rows, durability) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            ExitCode::FAILURE
        }
    }
}

fn append(folder: &Path, name: &str, rows: u32, durability: Durability) -> Result<(), StoreError> {
    let store = Store::open(folder)?;
    let mut output = io::stdout().lock();
    let calls: Vec<String> = (0..rows).map(|number| format!("{name}-{number}")).collect();
    for group in calls.chunks(4) {
        let receipts: Vec<_> = group
            .iter()
            .map(|call| {
                let mut row = AuditRow::new(
                    Kind::Intent,
                    Timestamp::UNIX_EPOCH,
                    call,
                    "cli",
                    "handfast",
                    "shell_execute",
                );
                row.session = Some(name.to_owned());
                row.plan = Some(format!("{{\"effects\":[\"run {}\"]}}", "x".repeat(400)));
                store.audit().append(row, durability)
            })
            .collect();
        for (call, receipt) in group.iter().zip(receipts) {
            receipt.wait()?;
            // The reader may be gone: then the rows alone count.
            let _ = writeln!(output, "{call}").and_then(|()| output.flush());
        }
    }
    store.close()
}
