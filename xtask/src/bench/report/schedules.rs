//! The table about schedules.

use crate::bench::measure::Durations;
use crate::bench::report::{milliseconds, print_table};
use crate::bench::schedules::Measured;
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let compared = |what: &str, ours: &Durations, peer: &Durations, target: &str| {
        let (own, theirs) = (ours.median(), peer.median());
        let ratio = own.as_secs_f64() / theirs.as_secs_f64().max(f64::EPSILON);
        format!("| {what} | {} | {} | {ratio:.2} | {target} |", milliseconds(own), milliseconds(theirs))
    };
    let own = |what: &str, times: &Durations, target: &str| {
        format!("| {what} | {} | | | {target} |", milliseconds(times.median()))
    };
    [
        format!("| schedules, among {} | handfast | APScheduler | ratio | target |", measured.jobs),
        "|---|---:|---:|---:|---|".to_owned(),
        compared("store a job, median", &measured.ours.add, &measured.peer.add, "10 ms"),
        compared("start after the instant, median", &measured.ours.late, &measured.peer.late, "50 ms"),
        own("pause or resume", &measured.change, "10 ms"),
        own("history of a job", &measured.history, "10 ms"),
    ]
    .join("\n")
        + "\n"
}
