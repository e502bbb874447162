//! Resources that the processes of a soak use and leave behind.

use std::path::Path;
use std::time::Duration;

use crate::command::{Failure, Result};

/// Figures of one quiet moment.
#[derive(Clone, Copy, Default)]
pub(super) struct Figures {
    /// Proportional set size of the server that is never killed, with every process it has started.
    pub(super) memory_kib: u64,
    /// Part of the memory that no file backs.
    pub(super) anonymous_kib: u64,
    pub(super) descriptors: u64,
    pub(super) threads: u64,
    /// Number of folders below the state, without the fixed fan-out of the saved files and without
    /// the content of held changes.
    pub(super) folders: u64,
    /// Median duration of a read over HTTP.
    pub(super) read: Duration,
}

/// A figure at the beginning and at the end, with its maximum at the end.
struct Row {
    name: &'static str,
    unit: &'static str,
    first: u64,
    last: u64,
    most: u64,
}

impl Figures {
    /// Measures the process with all its descendants, and the state folder.
    pub(super) fn of(process: u32, state: &Path, read: Duration) -> Self {
        let mut figures = Self { folders: folders(state), read, ..Self::default() };
        let mut waiting = vec![process];
        while let Some(process) = waiting.pop() {
            let of = |file: &str, field: &str| {
                let text = std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default();
                crate::bench::figure(&text, field).unwrap_or_default()
            };
            figures.memory_kib += of("smaps_rollup", "Pss");
            figures.anonymous_kib += of("smaps_rollup", "Pss_Anon");
            figures.threads += of("status", "Threads");
            figures.descriptors += count(&format!("/proc/{process}/fd"));
            for thread in std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
                let children = std::fs::read_to_string(thread.path().join("children")).unwrap_or_default();
                waiting.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
            }
        }
        figures
    }

    /// Prints both figures side by side, and fails if one has grown beyond its bound.
    pub(super) fn compare(first: Self, last: Self) -> Result<()> {
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let row = |name, unit, first: u64, last, more| Row { name, unit, first, last, most: first + more };
        let rows = [
            row("memory (PSS)", "KiB", first.memory_kib, last.memory_kib, 32 * 1024 + first.memory_kib / 4),
            row("descriptors", "", first.descriptors, last.descriptors, 32),
            row("threads", "", first.threads, last.threads, 8),
            row("folders in the state", "", first.folders, last.folders, 8),
            // At most three times as long, plus 2 ms for other load on the machine.
            row(
                "median of a read",
                "µs",
                micros(first.read),
                micros(last.read),
                2 * micros(first.read) + 2_000,
            ),
        ];
        eprintln!("{:<22} {:>12} {:>12} {:>12}", "", "beginning", "end", "at most");
        for row in &rows {
            eprintln!("{:<22} {:>12} {:>12} {:>12} {}", row.name, row.first, row.last, row.most, row.unit);
        }
        match rows.iter().find(|row| row.last > row.most) {
            None => Ok(()),
            Some(row) => Err(Failure(format!(
                "GROWTH: {} went from {} to {} {}, and {} is the most",
                row.name, row.first, row.last, row.unit, row.most
            ))),
        }
    }
}

/// Returns the command lines of processes on this machine that contain one of these texts.
pub(super) fn processes_with(texts: &[&str]) -> Vec<String> {
    let own = std::process::id().to_string();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let others = processes.filter(|entry| entry.file_name().to_string_lossy() != own);
    let lines = others.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    let shown = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    shown.filter(|line| texts.iter().any(|text| line.contains(text))).collect()
}

fn count(folder: &str) -> u64 {
    let entries = std::fs::read_dir(folder).map_or(0, Iterator::count);
    u64::try_from(entries).unwrap_or(u64::MAX)
}

fn folders(folder: &Path) -> u64 {
    let mut waiting = vec![folder.to_owned()];
    let mut number = 0;
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && entry.file_name() != "blobs" {
                number += 1;
                // The changes that a killed process left are one thing, whatever they contain.
                if !folder.ends_with("changes") {
                    waiting.push(entry.path());
                }
            }
        }
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_beyond_its_bound_fails_and_names_the_figure() {
        let first = Figures { memory_kib: 40_000, descriptors: 50, ..Figures::default() };
        Figures::compare(first, Figures { memory_kib: 82_768, descriptors: 82, ..first }).unwrap();
        let failure = Figures::compare(first, Figures { memory_kib: 82_769, ..first }).unwrap_err();
        assert!(failure.0.starts_with("GROWTH: memory (PSS) went from 40000 to 82769 KiB"), "{failure}");
        let failure = Figures::compare(first, Figures { descriptors: 83, ..first }).unwrap_err();
        assert!(failure.0.contains("descriptors"), "{failure}");
    }

    #[test]
    fn this_process_has_memory_descriptors_and_threads() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["a/b", "blobs/aa"] {
            std::fs::create_dir_all(folder.path().join(path)).unwrap();
        }
        let figures = Figures::of(std::process::id(), folder.path(), Duration::ZERO);
        assert!(figures.memory_kib > 0 && figures.descriptors > 2 && figures.threads > 0);
        assert_eq!(figures.folders, 2);
        std::fs::create_dir_all(folder.path().join("changes/id/upper/a")).unwrap();
        assert_eq!(Figures::of(std::process::id(), folder.path(), Duration::ZERO).folders, 4);
    }
}
