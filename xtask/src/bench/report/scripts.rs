//! The table about scripts.

use crate::bench::report::{milliseconds, print_table};
use crate::bench::scripts::{CALLS, EDITS, Measured};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let (script, calls) = (measured.script.median(), measured.calls.median());
    let (by_script, one_by_one) = measured.bytes;
    [
        "| scripts | by run_code | one by one | difference | target |".to_owned(),
        "|---|---:|---:|---:|---|".to_owned(),
        format!(
            "| {CALLS} reads, median of {} | {} | {} | {} | 25 ms |",
            measured.script.count(),
            milliseconds(script),
            milliseconds(calls),
            milliseconds(script.saturating_sub(calls))
        ),
        format!("| no call | {} | | | |", milliseconds(measured.empty.median())),
        format!("| {EDITS} edits: turns | 1 | {EDITS} | | |"),
        format!("| {EDITS} edits: bytes that a model writes and reads | {by_script} | {one_by_one} | | |"),
    ]
    .join("\n")
        + "\n"
}
