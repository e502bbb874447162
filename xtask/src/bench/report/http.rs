//! The table about HTTP.

use crate::bench::http::Http;
use crate::bench::report::{mebibytes, milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(http: &Http) -> Result<()> {
    print_table(&table(http))
}

fn table(http: &Http) -> String {
    let more = http.resident_with_sessions.saturating_sub(http.resident_after_calls);
    [
        "| HTTP | handfast | target |".to_owned(),
        "|---|---:|---|".to_owned(),
        format!("| read of 1 KB, median | {} | 0.5 ms |", milliseconds(http.alone.median())),
        format!("| reads of 1 KB a second, 32 in flight | {:.0} | 5,000 |", http.each_second),
        format!("| resident after the first call | {} | |", mebibytes(http.resident_at_first)),
        format!(
            "| resident after {} calls | {} | 40 MiB |",
            http.calls,
            mebibytes(http.resident_after_calls)
        ),
        format!("| {} idle sessions | {} more | 100 MiB more for 5,000 |", http.sessions, mebibytes(more)),
    ]
    .join("\n")
        + "\n"
}
