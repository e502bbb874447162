//! Rows of a listing. A listing has thousands of rows, so they share one buffer and are serialized
//! directly.

use std::ffi::OsStr;
use std::thread;

use jiff::Timestamp;
use roots::{EntryKind, Folder, Metadata, RootsError};
use schemars::JsonSchema;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use tool::Stop;

/// Maximum number of threads for lookups: more would wait for each other in the kernel.
const MAX_THREADS: usize = 4;
/// Minimum number of entries per thread, about one millisecond of work.
const LEAST_SHARE: usize = 1_000;

/// An entry.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ListedEntry<'a> {
    /// File name.
    name: &'a str,
    /// Path for other tools.
    path: &'a str,
    /// Kind of entry.
    r#type: Kind,
    /// Size in bytes.
    size_bytes: u64,
    /// Last change, RFC 3339.
    modified_at: &'a str,
    /// True if the name is not UTF-8; tools refuse it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    lossy: bool,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Kind {
    File,
    Directory,
    Symlink,
    Other,
}

/// Entries with their metadata.
#[derive(Default)]
pub(crate) struct Rows {
    paths: String,
    rows: Vec<Row>,
}

struct Row {
    /// End of the path in `paths`; the path begins at the end of the previous one.
    end: usize,
    /// Length of the name at the end of the path.
    name: usize,
    lossy: bool,
    /// Metadata; `None` before the lookup, and for an entry that was deleted meanwhile.
    metadata: Option<Metadata>,
}

/// Paths without metadata.
#[derive(Default)]
pub(crate) struct Names {
    names: String,
    ends: Vec<usize>,
}

impl Rows {
    /// Adds an entry with its path, which is `around` followed by `relative`. Without metadata, the
    /// entry is looked up with the others.
    pub(crate) fn push(&mut self, around: &str, relative: &str, lossy: bool, metadata: Option<Metadata>) {
        self.paths.push_str(around);
        self.paths.push_str(relative);
        let name = relative.rsplit('/').next().unwrap_or(relative).len();
        self.rows.push(Row { end: self.paths.len(), name, lossy, metadata });
    }
}

impl Rows {
    /// Looks up the missing metadata of entries in one folder. An entry that was deleted after its
    /// name was read is omitted.
    ///
    /// If there are many, several threads share the work, nearly all of which is system calls.
    pub(crate) fn look_up(&mut self, folder: &Folder, stop: &Stop) -> roots::Result<()> {
        // The number of processors costs some system calls, so it is read only if it matters.
        let shared = self.rows.len() > LEAST_SHARE;
        let processors = if shared { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
        let share = self.rows.len().div_ceil(processors.min(MAX_THREADS)).max(LEAST_SHARE);
        let paths = &self.paths;
        let mut left = false;
        thread::scope(|scope| {
            let mut shares = self.rows.chunks_mut(share);
            let own = shares.next();
            let mut others = Vec::new();
            for share in shares {
                let work = || look_up(share, paths, folder, stop);
                match thread::Builder::new().name("look-up".to_owned()).spawn_scoped(scope, work) {
                    Ok(thread) => others.push(thread),
                    // The system provides no more threads.
                    Err(_) => left = true,
                }
            }
            let done = own.map_or(Ok(()), |own| look_up(own, paths, folder, stop));
            others.into_iter().fold(done, |done, other| {
                done.and(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            })
        })?;
        if left { look_up(&mut self.rows, paths, folder, stop) } else { Ok(()) }
    }
}

fn look_up(rows: &mut [Row], paths: &str, folder: &Folder, stop: &Stop) -> roots::Result<()> {
    for row in rows.iter_mut().filter(|row| row.metadata.is_none()) {
        if stop.requested().is_some() {
            return Err(RootsError::Stopped);
        }
        let name = paths.get(row.end - row.name..row.end).unwrap_or_default();
        match folder.metadata(OsStr::new(name)) {
            Ok(metadata) => row.metadata = Some(metadata),
            Err(RootsError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Names {
    /// Adds an entry by its path, with a mark for a folder or a link.
    pub(crate) fn push(&mut self, path: &str, kind: EntryKind) {
        self.names.push_str(path);
        match kind {
            EntryKind::Folder => self.names.push('/'),
            EntryKind::Link => self.names.push('@'),
            _ => {}
        }
        self.ends.push(self.names.len());
    }
}

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let (mut start, mut times) = (0, Times::default());
        for row in &self.rows {
            let path = self.paths.get(start..row.end).unwrap_or_default();
            start = row.end;
            let Some(metadata) = &row.metadata else { continue };
            list.serialize_element(&ListedEntry {
                name: path.get(path.len().saturating_sub(row.name)..).unwrap_or_default(),
                path,
                r#type: shown_kind(metadata.kind),
                size_bytes: metadata.size_bytes,
                modified_at: times.text(metadata.modified_seconds),
                lossy: row.lossy,
            })?;
        }
        list.end()
    }
}

impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let starts = std::iter::once(&0).chain(&self.ends);
        serializer.collect_seq(
            starts.zip(&self.ends).map(|(start, end)| self.names.get(*start..*end).unwrap_or_default()),
        )
    }
}

fn shown_kind(kind: EntryKind) -> Kind {
    match kind {
        EntryKind::File => Kind::File,
        EntryKind::Folder => Kind::Directory,
        EntryKind::Link => Kind::Symlink,
        EntryKind::Fifo | EntryKind::Socket | EntryKind::Device | EntryKind::Unknown => Kind::Other,
    }
}

const DAY: i64 = 24 * 60 * 60;
/// Offset of the time of day in `2026-11-22T01:44:29Z`.
const HOURS: usize = 11;

/// A formatter of times as text, to the second: callers do not need more digits. Many files of a
/// folder have the same date, so the last date is cached.
#[derive(Default)]
struct Times {
    /// Day of the cached text, counted from 1970.
    last: Option<i64>,
    text: String,
}

impl Times {
    fn text(&mut self, seconds: i64) -> &str {
        let day = seconds.div_euclid(DAY);
        if self.last != Some(day) {
            // A file system may have a time beyond the year 9999.
            self.text = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string();
            // Another length means a year without four digits.
            self.last = (self.text.len() == "2026-11-22T01:44:29Z".len()).then_some(day);
            return &self.text;
        }
        let second = seconds.rem_euclid(DAY);
        self.text.truncate(HOURS);
        for (value, behind) in [(second / 3600, ':'), (second / 60 % 60, ':'), (second % 60, 'Z')] {
            for digit in [value / 10, value % 10] {
                self.text.push(char::from(b'0' + u8::try_from(digit).unwrap_or_default()));
            }
            self.text.push(behind);
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_jiff() {
        let mut times = Times::default();
        let day = 20_779 * DAY;
        let seconds = [0, 1, 59, 3_599, 3_600, DAY - 1, DAY, -1, -DAY, -DAY - 1, day, day + 6_269, day + 7];
        let years = [253_402_207_200, -62_167_219_200, -62_167_219_201, -62_167_219_300];
        for seconds in seconds.into_iter().chain(years).chain((0..300).map(|step| step * 1_007)) {
            let expected = Timestamp::from_second(seconds).unwrap().to_string();
            assert_eq!(times.text(seconds), expected);
            assert_eq!(times.text(seconds), expected, "again");
        }
        assert_eq!(times.text(i64::MAX), Timestamp::MAX.to_string());
        assert_eq!(times.text(i64::MIN), Timestamp::MAX.to_string());
        assert_eq!(times.text(0), "1970-01-01T00:00:00Z");
    }

    #[test]
    fn rows_and_names_are_told_apart_by_where_they_end() {
        let metadata = Metadata {
            kind: EntryKind::File,
            size_bytes: 3,
            modified_seconds: 0,
            modified_nanoseconds: 0,
            inode: 1,
            has_further_names: false,
        };
        let mut rows = Rows::default();
        rows.push("a/", "ä/b", false, Some(metadata));
        rows.push("a/", "vanished", false, None);
        rows.push("", "", true, Some(Metadata { kind: EntryKind::Fifo, ..metadata }));
        let modified_at = "1970-01-01T00:00:00Z";
        let file = serde_json::json!(
            {"name": "b", "path": "a/ä/b", "type": "file", "size_bytes": 3, "modified_at": modified_at});
        let odd = serde_json::json!(
            {"name": "", "path": "", "type": "other", "size_bytes": 3, "modified_at": modified_at, "lossy": true});
        assert_eq!(serde_json::to_value(&rows).unwrap(), serde_json::json!([file, odd]));
        let mut names = Names::default();
        for (path, kind) in [("a", EntryKind::File), ("ä", EntryKind::Folder), ("c", EntryKind::Link)] {
            names.push(path, kind);
        }
        assert_eq!(serde_json::to_value(&names).unwrap(), serde_json::json!(["a", "ä/", "c@"]));
    }
}
