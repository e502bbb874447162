//! The table about plugins.

use crate::bench::measure::Durations;
use crate::bench::plugins::Measured;
use crate::bench::report::{milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let line = |what: &str, times: &Durations, target: &str| {
        let (median, tenth) = (milliseconds(times.median()), milliseconds(times.tenth()));
        format!("| {what} | {median} | {tenth} | {target} |")
    };
    [
        "| plugins | median | 10th percentile | target |".to_owned(),
        "|---|---:|---:|---|".to_owned(),
        line("call of a process that waits", &measured.waiting, "1 ms"),
        line("call of a process that starts", &measured.starting, "1 ms beside the command"),
        line("command that does the same", &measured.command, ""),
    ]
    .join("\n")
        + "\n"
}
