//! Log of a tab: its console, its errors and its requests, the newest thousand entries.

use std::collections::VecDeque;

use serde::Serialize;

use crate::limits;

/// Entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogEntry {
    /// Number of the entry, from 1, unique in its tab.
    pub number: u64,
    /// Milliseconds since 1970, by the clock of the browser.
    pub time_ms: f64,
    /// The event.
    #[serde(flatten)]
    pub event: LogEvent,
}

/// Maximum number of characters of an entry as a line.
const LINE: usize = 400;

impl LogEntry {
    /// Returns the entry as one line, cut.
    pub fn line(&self) -> String {
        let text = match &self.event {
            LogEvent::Console { level, text } => format!("console {level}: {text}"),
            LogEvent::PageError { text } => format!("error: {text}"),
            LogEvent::Request(request) => request.line(),
        };
        let one_line = text.replace(['\n', '\r'], " | ");
        match one_line.char_indices().nth(LINE) {
            Some((end, _)) => format!("{} {}...", self.number, one_line.get(..end).unwrap_or_default()),
            None => format!("{} {one_line}", self.number),
        }
    }
}

/// Event of a log. Texts and URLs are cut to [`limits::TEXT`] and [`limits::URL`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum LogEvent {
    /// The page, or the browser about the page, wrote to the console.
    Console {
        /// Weight: `log`, `debug`, `info`, `warning`, `error`, ...
        level: String,
        /// Text.
        text: String,
    },
    /// An exception that nothing caught.
    PageError {
        /// Message and stack.
        text: String,
    },
    /// A request. Headers and bodies are never kept.
    Request(RequestEntry),
}

/// A request in the log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RequestEntry {
    /// Method.
    pub method: String,
    /// URL without a user's name and password.
    pub url: String,
    /// Kind of what was requested: `Document`, `Image`, `Fetch`, ...
    pub resource: String,
    /// Status of HTTP; `None` while there is none.
    pub status: Option<u16>,
    /// Number of bytes that came over the network.
    pub bytes: u64,
    /// Duration in milliseconds; `None` while the request is in flight.
    pub duration_ms: Option<f64>,
    /// Error of the network, if the request has failed.
    pub failure: Option<String>,
}

impl RequestEntry {
    fn line(&self) -> String {
        let outcome = match (&self.failure, self.status) {
            (Some(failure), _) => format!("failed: {failure}"),
            (None, Some(status)) => status.to_string(),
            (None, None) => "no response yet".to_owned(),
        };
        let time = self.duration_ms.map(|duration| format!(", {duration:.0} ms")).unwrap_or_default();
        format!("{} {} {outcome} ({}, {} bytes{time})", self.method, self.url, self.resource, self.bytes)
    }
}

/// Choice of entries.
#[derive(Debug, Clone, Default)]
pub struct LogFilter {
    /// True if console entries are wanted. If no kind is wanted, all are.
    pub console: bool,
    /// True if errors of the page are wanted.
    pub page_errors: bool,
    /// True if requests are wanted.
    pub requests: bool,
    /// True if only failures are wanted: errors, and requests that failed or have a status from 400.
    pub only_failures: bool,
    /// Text that the entry must contain, in any case of letters.
    pub contains: Option<String>,
    /// Number behind which entries are wanted.
    pub after: u64,
    /// Maximum number of entries, the newest; 0 for all.
    pub limit: usize,
}

/// Part of a log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LogPage {
    /// Entries, the oldest first.
    pub entries: Vec<LogEntry>,
    /// Number of entries that match the filter.
    pub matching: usize,
    /// Number of entries that made room for newer ones.
    pub forgotten: u64,
}

/// The newest entries of a tab.
#[derive(Debug, Default)]
pub(crate) struct EventLog {
    entries: VecDeque<LogEntry>,
    last: u64,
}

impl EventLog {
    /// Adds an entry and returns its number.
    pub(crate) fn push(&mut self, time_ms: f64, event: LogEvent) -> u64 {
        self.last += 1;
        if self.entries.len() == limits::LOG_ENTRIES {
            self.entries.pop_front();
        }
        self.entries.push_back(LogEntry { number: self.last, time_ms, event });
        self.last
    }

    /// Returns the time of the newest entry; 0 if there is none.
    pub(crate) fn last_time(&self) -> f64 {
        self.entries.back().map_or(0.0, |entry| entry.time_ms)
    }

    /// Sets the time of an entry, unless it has made room.
    pub(crate) fn set_time(&mut self, number: u64, time_ms: f64) {
        if let Some(entry) = self.entry(number) {
            entry.time_ms = time_ms;
        }
    }

    /// Returns the request with this number, unless it has made room.
    pub(crate) fn request(&mut self, number: u64) -> Option<&mut RequestEntry> {
        match &mut self.entry(number)?.event {
            LogEvent::Request(request) => Some(request),
            _ => None,
        }
    }

    fn entry(&mut self, number: u64) -> Option<&mut LogEntry> {
        let first = self.entries.front()?.number;
        let index = usize::try_from(number.checked_sub(first)?).ok()?;
        self.entries.get_mut(index)
    }

    /// Returns the entries that the filter wants.
    pub(crate) fn page(&self, filter: &LogFilter) -> LogPage {
        let matching: Vec<&LogEntry> = self.entries.iter().filter(|entry| filter.wants(entry)).collect();
        let skipped = if filter.limit == 0 { 0 } else { matching.len().saturating_sub(filter.limit) };
        let kept = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        LogPage {
            entries: matching.iter().skip(skipped).map(|entry| (*entry).clone()).collect(),
            matching: matching.len(),
            forgotten: self.last.saturating_sub(kept),
        }
    }
}

impl LogFilter {
    fn wants(&self, entry: &LogEntry) -> bool {
        let all = !(self.console || self.page_errors || self.requests);
        let (kind, text, is_failure) = match &entry.event {
            LogEvent::Console { level, text } => (self.console, text, level == "error" || level == "assert"),
            LogEvent::PageError { text } => (self.page_errors, text, true),
            LogEvent::Request(request) => {
                let is_failure =
                    request.failure.is_some() || request.status.is_some_and(|status| status >= 400);
                (self.requests, &request.url, is_failure)
            }
        };
        let contains = |wanted: &String| text.to_lowercase().contains(&wanted.to_lowercase());
        entry.number > self.after
            && (all || kind)
            && (is_failure || !self.only_failures)
            && self.contains.as_ref().is_none_or(contains)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(level: &str, text: &str) -> LogEvent {
        LogEvent::Console { level: level.to_owned(), text: text.to_owned() }
    }

    fn request(status: u16) -> LogEvent {
        LogEvent::Request(RequestEntry {
            method: "GET".to_owned(),
            url: "http://a.test/Data".to_owned(),
            resource: "Fetch".to_owned(),
            status: Some(status),
            bytes: 0,
            duration_ms: None,
            failure: None,
        })
    }

    #[test]
    fn an_entry_is_one_bounded_line() {
        let shown = |event| LogEntry { number: 7, time_ms: 0.0, event }.line();
        let long = shown(console("log", &format!("a\nb{}", "x".repeat(1_000))));
        assert!(long.starts_with("7 console log: a | bxxx") && long.ends_with("x..."), "{long}");
        assert!(long.chars().count() < LINE + 10);
        assert_eq!(shown(request(404)), "7 GET http://a.test/Data 404 (Fetch, 0 bytes)");
    }

    #[test]
    fn the_oldest_entries_make_room_and_are_counted() {
        let mut log = EventLog::default();
        let first = log.push(0.0, request(200));
        for _ in 0..limits::LOG_ENTRIES + 4 {
            log.push(0.0, console("log", "x"));
        }
        let page = log.page(&LogFilter { limit: 2, ..LogFilter::default() });
        assert_eq!((page.entries.len(), page.matching, page.forgotten), (2, limits::LOG_ENTRIES, 5));
        assert!(log.request(first).is_none());
        let last = log.push(0.0, request(200));
        log.request(last).unwrap().bytes = 7;
        assert_eq!(log.request(last).unwrap().bytes, 7);
    }

    #[test]
    fn a_filter_chooses_by_kind_failure_text_and_number() {
        let mut log = EventLog::default();
        log.push(0.0, console("log", "Hello"));
        log.push(0.0, console("error", "broken"));
        log.push(0.0, request(200));
        log.push(0.0, request(404));
        log.push(0.0, LogEvent::PageError { text: "thrown".to_owned() });
        let numbers = |filter: LogFilter| -> Vec<u64> {
            log.page(&filter).entries.iter().map(|entry| entry.number).collect()
        };
        assert_eq!(numbers(LogFilter::default()), [1, 2, 3, 4, 5]);
        assert_eq!(numbers(LogFilter { console: true, ..LogFilter::default() }), [1, 2]);
        assert_eq!(numbers(LogFilter { only_failures: true, ..LogFilter::default() }), [2, 4, 5]);
        assert_eq!(numbers(LogFilter { contains: Some("data".into()), ..LogFilter::default() }), [3, 4]);
        assert_eq!(numbers(LogFilter { after: 3, requests: true, ..LogFilter::default() }), [4]);
    }
}
