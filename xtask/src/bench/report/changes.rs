//! Tables of the figures about changes.

use std::time::Duration;

use super::{mebibytes, milliseconds, print_table, quotient};
use crate::bench::changes::{Changes, Comparison, Peaks};
use crate::bench::measure::Durations;
use crate::command::Result;

/// The target of a figure.
#[derive(Clone, Copy)]
enum Target {
    /// A maximum, as a multiple of the other program's time.
    Times(f64),
    /// A maximum duration.
    Within(Duration),
    /// A maximum excess over the other program's time.
    More(Duration),
    /// Figure for information, not compared with a target.
    None,
}

impl Target {
    fn told(self, ours: Duration, other: Duration) -> String {
        let (target, is_met) = match self {
            Self::Times(times) => (format!("{times} times"), ours <= other.mul_f64(times)),
            Self::Within(most) => (milliseconds(most), ours <= most),
            Self::More(more) => (format!("{} more", milliseconds(more)), ours <= other + more),
            Self::None => return String::new(),
        };
        format!("{target}: {}", if is_met { "met" } else { "missed" })
    }
}

/// Prints the tables to standard output.
pub(crate) fn print(changes: &Changes, peaks: &Peaks) -> Result<()> {
    print_table(&format!("{}\n{}", table(changes), memory(peaks)))
}

fn table(changes: &Changes) -> String {
    let mut lines = vec![
        "| change | beside | handfast (MCP), p10 | p50 | the other, p10 | p50 | ratio of p10 | of p50 | target, p10 |".to_owned(),
        "|---|---|---:|---:|---:|---:|---:|---:|---|".to_owned(),
    ];
    for (what, other, beside, target) in rows(changes) {
        let [ours, theirs] = [&beside.handfast, &beside.other];
        let ratio = |of: fn(&Durations) -> Duration| {
            let ratio = quotient(of(ours).as_secs_f64(), of(theirs).as_secs_f64());
            ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default()
        };
        let [ours_told, theirs_told] =
            [ours, theirs].map(|one| [one.tenth(), one.median()].map(milliseconds).join(" | "));
        lines.push(format!(
            "| {what} | {other} | {ours_told} | {theirs_told} | {} | {} | {} |",
            ratio(Durations::tenth),
            ratio(Durations::median),
            target.told(ours.tenth(), theirs.tenth()),
        ));
    }
    lines.join("\n") + "\n"
}

fn rows(changes: &Changes) -> [(&'static str, &'static str, &Comparison, Target); 6] {
    let within = |milliseconds| Duration::from_millis(milliseconds);
    [
        ("one text in 10 MB", "the peer's `edit_file`", &changes.edit, Target::Within(within(60))),
        ("a patch of 1,000 files, flushed", "`git apply`", &changes.patch, Target::Times(3.0)),
        ("checkpoint and commit of 5,000 files", "`cp -r` of them", &changes.checkpoint, Target::Times(2.0)),
        ("undo of it", "`cp -r` of them", &changes.undo, Target::Times(2.0)),
        ("the command that changes them", "the same, bare", &changes.command, Target::None),
        ("10 MB that the caller has", "1 KB of it", &changes.unchanged, Target::More(within(1))),
    ]
}

fn memory(peaks: &Peaks) -> String {
    let patch = format!("a patch of {} MB", peaks.patch_bytes / 1_000_000);
    let mut lines = vec!["| change | peak memory of all processes |".to_owned(), "|---|---:|".to_owned()];
    for (what, peak) in [
        (patch.as_str(), peaks.patch),
        ("one text in 100 MB", peaks.edit),
        ("checkpoint of 1 GiB that a command changed", peaks.command),
    ] {
        lines.push(format!("| {what} | {} |", mebibytes(peak)));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_says_whether_it_is_met() {
        let [one, two, three] = [1, 2, 3].map(Duration::from_millis);
        assert_eq!(Target::Times(2.0).told(two, one), "2 times: met");
        assert_eq!(Target::Times(2.0).told(three, one), "2 times: missed");
        assert_eq!(Target::Within(two).told(three, three), "2.000 ms: missed");
        assert_eq!(Target::More(two).told(three, one), "2.000 ms more: met");
    }
}
