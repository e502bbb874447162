//! The table about the gateway.

use crate::bench::gateway::Measured;
use crate::bench::report::{milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let (through, bare) = (measured.through.median(), measured.bare.median());
    let (with_lists, without) = (measured.with_lists.median(), measured.without.median());
    [
        "| another MCP server (server-everything) | through handfast | bare | difference | target |"
            .to_owned(),
        "|---|---:|---:|---:|---|".to_owned(),
        format!(
            "| call of echo, median of {} | {} | {} | {} | 0.4 ms |",
            measured.through.count(),
            milliseconds(through),
            milliseconds(bare),
            milliseconds(through.saturating_sub(bare))
        ),
        format!(
            "| start to the list, with {} foreign tools and without | {} | {} | {} | 5 ms |",
            measured.tools,
            milliseconds(with_lists),
            milliseconds(without),
            milliseconds(with_lists.saturating_sub(without))
        ),
    ]
    .join("\n")
        + "\n"
}
