//! The table about the code graph.

use crate::bench::graph::Measured;
use crate::bench::report::{mebibytes, milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let row = |what: &str, figure: String, target: &str| format!("| {what} | {figure} | {target} |");
    [
        format!(
            "| code graph of {} files of Rust with {} lines (no peer answers Cypher as an MCP server) | handfast | \
             target |",
            measured.files, measured.lines
        ),
        "|---|---:|---|".to_owned(),
        row("first query, which indexes", milliseconds(measured.first), ""),
        row(
            &format!("edited file visible in a query, median of {}", measured.edited.count()),
            milliseconds(measured.edited.median()),
            "50 ms",
        ),
        row("edited file visible in a query, best", milliseconds(measured.edited.min()), "50 ms"),
        row("query without an edit, median", milliseconds(measured.unedited.median()), ""),
        row(
            &format!("first query after a start, which opens the graph, median of {}", measured.opened.count()),
            milliseconds(measured.opened.median()),
            "100 ms",
        ),
        row("memory of the server with the graph", mebibytes(measured.resident), ""),
        row("grammars in a stripped program", mebibytes(measured.grammars / 1024), "12 MB (11.4 MiB)"),
    ]
    .join("\n")
        + "\n"
}
