//! The table about agents.

use crate::bench::agents::Measured;
use crate::bench::report::{mebibytes, milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print(measured: &Measured) -> Result<()> {
    print_table(&table(measured))
}

fn table(measured: &Measured) -> String {
    let (ask, model) = (measured.ask.median(), measured.model.median());
    let ratio = measured.turn.as_secs_f64() / measured.bare.as_secs_f64().max(f64::EPSILON);
    [
        "| agents, over a scripted model on this machine | handfast | bare client | ratio | target |"
            .to_owned(),
        "|---|---:|---:|---:|---|".to_owned(),
        format!(
            "| a turn of {} beside model and calls; a bare request | {} | {} | {ratio:.1} | 2 ms |",
            measured.turns,
            milliseconds(measured.turn),
            milliseconds(measured.bare)
        ),
        format!("| question to an idle agent, median | {} | | | |", milliseconds(ask)),
        format!("| the same beside the model | {} | | | 5 ms |", milliseconds(ask.saturating_sub(model))),
        format!(
            "| memory of {} idle agents | {} | | | 8 MiB for 100 |",
            measured.agents,
            mebibytes(measured.memory_kib)
        ),
    ]
    .join("\n")
        + "\n"
}
