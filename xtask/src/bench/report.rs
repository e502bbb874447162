//! Tables of the figures, with the targets of the project.

pub(super) mod agents;
pub(super) mod browser;
pub(super) mod changes;
pub(super) mod gateway;
pub(super) mod graph;
pub(super) mod http;
pub(super) mod plugins;
pub(super) mod schedules;
pub(super) mod scripts;

use std::io::Write as _;
use std::time::Duration;

use crate::bench::commands::Commands;
use crate::bench::measure::{Durations, Figures};
use crate::command::{Failure, Result};

struct Row {
    what: &'static str,
    ours: String,
    theirs: String,
    /// Our figure divided by the peer's.
    ratio: Option<f64>,
    target: &'static str,
}

/// Prints the table to standard output.
pub(super) fn print(ours: &Figures, theirs: &Figures) -> Result<()> {
    print_table(&table(ours, theirs))
}

/// Prints the table about commands to standard output.
pub(super) fn print_commands(commands: &Commands) -> Result<()> {
    print_table(&commands_table(commands))
}

fn print_table(table: &str) -> Result<()> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().take(3).collect::<Vec<_>>().join(" ");
    let text = format!("{table}\nload average of this machine: {load}\n");
    let mut output = std::io::stdout().lock();
    output.write_all(text.as_bytes()).map_err(|error| Failure(format!("cannot print the table: {error}")))
}

fn table(ours: &Figures, theirs: &Figures) -> String {
    let mut lines = vec![
        format!("| measure | {} | {} | ratio | target |", ours.name, theirs.name),
        "|---|---:|---:|---:|---|".to_owned(),
    ];
    lines.extend(rows(ours, theirs).into_iter().map(|row| {
        let ratio = row.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
        format!("| {} | {} | {} | {ratio} | {} |", row.what, row.ours, row.theirs, row.target)
    }));
    lines.join("\n") + "\n"
}

fn commands_table(commands: &Commands) -> String {
    let mut lines = vec![
        "| command, p10 | bare | bubblewrap | handfast (MCP) | more than bare | ratio to bubblewrap | target |".to_owned(),
        "|---|---:|---:|---:|---:|---:|---|".to_owned(),
    ];
    for (what, ways, target) in [
        ("`true`", &commands.nothing, "bare + 1.5 ms, half of bubblewrap"),
        ("ten files of 100,000 changed", &commands.ten_files, "5 ms more than without an overlay"),
        ("15 that compute, at once", &commands.at_once, "as bare: they scale with the cores"),
    ] {
        let [bare, wrapped, ours] = [&ways.bare, &ways.bubblewrap, &ways.handfast].map(Durations::tenth);
        let ratio = quotient(ours.as_secs_f64(), wrapped.as_secs_f64());
        lines.push(format!(
            "| {what} | {} | {} | {} | {} | {} | {target} |",
            milliseconds(bare),
            if wrapped.is_zero() { String::new() } else { milliseconds(wrapped) },
            milliseconds(ours),
            milliseconds(ours.saturating_sub(bare)),
            ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
        ));
    }
    lines.join("\n") + "\n"
}

fn rows(ours: &Figures, theirs: &Figures) -> Vec<Row> {
    let time = |what, of: fn(&Figures) -> Duration, target| Row {
        what,
        ours: milliseconds(of(ours)),
        theirs: milliseconds(of(theirs)),
        ratio: quotient(of(ours).as_secs_f64(), of(theirs).as_secs_f64()),
        target,
    };
    let memory = |what, of: fn(&Figures) -> u64, target| Row {
        what,
        ours: mebibytes(of(ours)),
        theirs: mebibytes(of(theirs)),
        ratio: quotient(as_float(of(ours)), as_float(of(theirs))),
        target,
    };
    let number = |what, of: fn(&Figures) -> usize, target| Row {
        what,
        ours: of(ours).to_string(),
        theirs: of(theirs).to_string(),
        ratio: None,
        target,
    };
    let samples = |durations: fn(&Figures) -> &Durations| durations(ours).count();
    let mut rows = vec![
        time("start to first tools/list, min", |figures| figures.start.min(), "30 ms, 1/8 of the peer"),
        time("start to first tools/list, p50", |figures| figures.start.median(), "30 ms, 1/8 of the peer"),
        memory("resident after start", |figures| figures.resident_kib, "30 MiB"),
        Row {
            what: "threads after start",
            ours: ours.threads.to_string(),
            theirs: theirs.threads.to_string(),
            ratio: None,
            target: "none that is not needed",
        },
        number("tools", |figures| figures.tools, ""),
        number("tools/list, tokens (characters / 4)", |figures| figures.tokens, "3,000"),
        time("read 1 KB, p50", |figures| figures.small_read.median(), "the peer's"),
        time("read 10 MB, p50", |figures| figures.large_read.median(), "0.6 of the peer's"),
        time("list 10,000 names, p50", |figures| figures.names.median(), "0.6 of the peer's"),
        time(
            "list 10,000 entries with details, p50",
            |figures| figures.details.median(),
            "0.6 of the peer's",
        ),
        memory("peak, 32 answers of 10 MB in flight", |figures| figures.peak_kib, "bounded"),
    ];
    rows.push(Row {
        what: "samples: starts, 1 KB, 10 MB, listings",
        ours: [
            samples(|figures| &figures.start),
            samples(|figures| &figures.small_read),
            samples(|figures| &figures.large_read),
            samples(|figures| &figures.names),
        ]
        .map(|count| count.to_string())
        .join(", "),
        theirs: "the same".to_owned(),
        ratio: None,
        target: "",
    });
    rows
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.3} ms", duration.as_secs_f64() * 1_000.0)
}

fn mebibytes(kibibytes: u64) -> String {
    format!("{:.1} MiB", as_float(kibibytes) / 1_024.0)
}

fn quotient(ours: f64, theirs: f64) -> Option<f64> {
    (theirs > 0.0).then(|| ours / theirs)
}

/// Converts kibibytes to a float. Above 4 TiB the result is capped, so the conversion is always
/// exact (a float has 52 bits).
fn as_float(kibibytes: u64) -> f64 {
    u32::try_from(kibibytes).map_or(f64::from(u32::MAX), f64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_their_units() {
        assert_eq!(milliseconds(Duration::from_micros(93)), "0.093 ms");
        assert_eq!(mebibytes(30 * 1_024), "30.0 MiB");
        assert_eq!(quotient(1.0, 8.0), Some(0.125));
        assert_eq!(quotient(1.0, 0.0), None, "a ratio to nothing is left out");
    }
}
