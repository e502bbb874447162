//! The table about the browser.

use crate::bench::browser::Figures;
use crate::bench::measure::Durations;
use crate::bench::report::{mebibytes, milliseconds, print_table};
use crate::command::Result;

/// Prints the table to standard output.
pub(crate) fn print([ours, theirs]: &[Figures; 2]) -> Result<()> {
    print_table(&table(ours, theirs))
}

fn table(ours: &Figures, theirs: &Figures) -> String {
    let times = |what: &str, of: fn(&Figures) -> &Durations, target: &str| {
        let (own, peer) = (of(ours).median(), of(theirs).median());
        let ratio = own.as_secs_f64() / peer.as_secs_f64().max(f64::EPSILON);
        format!("| {what} | {} | {} | {ratio:.2} | {target} |", milliseconds(own), milliseconds(peer))
    };
    let tokens = |what: &str, of: fn(&Figures) -> usize, target: &str| {
        format!("| {what} | {} | {} | | {target} |", of(ours), of(theirs))
    };
    let more = |figures: &Figures| mebibytes(figures.after_kib.saturating_sub(figures.before_kib));
    [
        "| browser | handfast | @playwright/mcp | ratio | target |".to_owned(),
        "|---|---:|---:|---:|---|".to_owned(),
        times("start to the first page's elements, median", |figures| &figures.cold, "1,500 ms"),
        times("open a small page, with its elements", |figures| &figures.navigate, "120 ms"),
        times("click", |figures| &figures.click, "60 ms, a fifth"),
        times("elements of 1,000 rows", |figures| &figures.large, "100 ms"),
        tokens("tokens of that answer", |figures| figures.large_tokens, "8,000"),
        tokens("tokens of the schemas", |figures| figures.schema_tokens, "3,500"),
        format!(
            "| memory after use, without the browser | {} more | {} more | | 10 MiB |",
            more(ours),
            more(theirs)
        ),
    ]
    .join("\n")
        + "\n"
}
