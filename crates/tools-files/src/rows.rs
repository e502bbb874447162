//! The rows of a listing: thousands of them, so they lie in one piece of memory and are written straight into the answer.

use std::ffi::OsStr;
use std::thread;

use jiff::Timestamp;
use roots::{EntryKind, Folder, Metadata, RootsError};
use schemars::JsonSchema;
use serde::ser::SerializeSeq;
use serde::{Serialize, Serializer};
use tool::Stop;

/// Threads that look entries up at once, at most: more wait for each other in the kernel.
const MOST_THREADS: usize = 4;
/// Entries that are worth a thread of their own, about a millisecond's work.
const LEAST_SHARE: usize = 1_000;

/// One entry, as the answer shows it.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Listed<'a> {
    /// Name.
    name: &'a str,
    /// For other tools.
    path: &'a str,
    /// Kind.
    r#type: Kind,
    /// Size.
    size_bytes: u64,
    /// Last change, RFC 3339.
    modified_at: &'a str,
    /// Not UTF-8: no tool takes it.
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

/// Entries with all that is known about them.
#[derive(Default)]
pub(crate) struct Rows {
    paths: String,
    rows: Vec<Row>,
}

struct Row {
    /// Where the path ends; it begins where the one before ends.
    end: usize,
    /// How much of its end is the name.
    name: usize,
    lossy: bool,
    /// None where it was not looked up yet, or had vanished by then.
    metadata: Option<Metadata>,
}

/// Names alone.
#[derive(Default)]
pub(crate) struct Names {
    names: String,
    ends: Vec<usize>,
}

impl Rows {
    /// Adds an entry with its path, which is `around` and `relative` behind each other. Where nothing is known about it yet, it is
    /// looked up with the others.
    pub(crate) fn push(&mut self, around: &str, relative: &str, lossy: bool, metadata: Option<Metadata>) {
        self.paths.push_str(around);
        self.paths.push_str(relative);
        let name = relative.rsplit('/').next().unwrap_or(relative).len();
        self.rows.push(Row { end: self.paths.len(), name, lossy, metadata });
    }
}

impl Rows {
    /// Finds out what is not known yet about entries of one folder. What vanished since its name was read is left out.
    ///
    /// Where there are many, several threads share the work: nearly all the time is the system's.
    pub(crate) fn look_up(&mut self, folder: &Folder, stop: &Stop) -> roots::Result<()> {
        // How many processors there are takes some system calls to find out, so it is asked only where it matters.
        let shared = self.rows.len() > LEAST_SHARE;
        let processors = if shared { thread::available_parallelism().map_or(1, usize::from) } else { 1 };
        let share = self.rows.len().div_ceil(processors.min(MOST_THREADS)).max(LEAST_SHARE);
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
                    // The system gives no more threads.
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
    /// Adds an entry by its path, with a mark where it is a folder or a link.
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
            list.serialize_element(&Listed {
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
/// Where the time of day stands in `2026-11-22T01:44:29Z`.
const HOURS: usize = 11;

/// Times as text, to the second: the rest of the digits tell a caller nothing. Many files of a folder are of one day, so the date of
/// the last one is kept.
#[derive(Default)]
struct Times {
    /// The last time of day that was asked for: its day since 1970, and its text.
    last: Option<i64>,
    text: String,
}

impl Times {
    fn text(&mut self, seconds: i64) -> &str {
        let day = seconds.div_euclid(DAY);
        if self.last != Some(day) {
            // A file system may hold a time beyond the year 9999.
            self.text = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX).to_string();
            // Other lengths are those of years that have other than four digits.
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
        let metadata =
            Metadata { kind: EntryKind::File, size_bytes: 3, modified_seconds: 0, modified_nanoseconds: 0 };
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
