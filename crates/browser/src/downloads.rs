//! The downloads of a session and their states.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use cdp::FrameId;
use cdp::protocol::browser::{DownloadProgress, DownloadState, DownloadWillBegin};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address;
use crate::download_file::{is_name, remove_download};
use crate::limits::{self, cut};

/// State of a download, as it is reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DownloadReport {
    /// File name that the server or the page suggests. It is text of a stranger, and no path.
    pub suggested_name: String,
    /// URL of the file.
    pub url: String,
    /// Number of bytes so far.
    pub bytes: u64,
    /// State.
    pub state: DownloadEnd,
    /// File with the content, once it is complete.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<PathBuf>,
}

/// State of a download.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DownloadEnd {
    /// Bytes are coming.
    InProgress,
    /// The file is complete.
    Completed,
    /// The download was cancelled, or has failed, or the session keeps no downloads.
    Cancelled,
    /// The file was larger than allowed, and was cancelled.
    TooLarge,
}

/// The downloads of a session.
#[derive(Debug)]
pub(crate) struct Downloads {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Debug)]
struct State {
    entries: VecDeque<Entry>,
    folder: Option<PathBuf>,
    limit: u64,
    /// Limits of downloads that are to begin in these frames.
    expected: Vec<(FrameId, u64)>,
}

#[derive(Debug)]
struct Entry {
    guid: String,
    frame: FrameId,
    limit: u64,
    report: DownloadReport,
}

impl Downloads {
    pub(crate) fn new(limit: u64) -> Self {
        let state = State { entries: VecDeque::new(), folder: None, limit, expected: Vec::new() };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()) }
    }

    /// Sets the folder for files. `limit` holds for downloads that begin from now on, in bytes.
    pub(crate) fn set_folder(&self, folder: &Path, limit: u64) {
        let mut state = self.state.lock();
        state.folder = Some(folder.to_owned());
        state.limit = limit;
    }

    pub(crate) fn folder(&self) -> Option<PathBuf> {
        self.state.lock().folder.clone()
    }

    /// Sets the limit of the download that is to begin in this frame, in bytes.
    pub(crate) fn expect(&self, frame: FrameId, limit: u64) {
        self.state.lock().expected.push((frame, limit));
    }

    /// Forgets what was expected in this frame.
    pub(crate) fn forget(&self, frame: &FrameId) {
        self.state.lock().expected.retain(|(expected, _)| expected != frame);
    }

    /// Records that a download begins. One whose name leads elsewhere is nobody's, and is cancelled.
    pub(crate) fn begin(&self, event: &DownloadWillBegin) {
        if !is_name(&event.guid) {
            return;
        }
        let mut state = self.state.lock();
        if state.entries.len() == limits::DOWNLOADS {
            state.entries.pop_front();
        }
        let report = DownloadReport {
            suggested_name: cut(&event.suggested_filename, limits::NAME),
            url: address::shown(&event.url),
            bytes: 0,
            state: DownloadEnd::InProgress,
            path: None,
        };
        let (guid, frame) = (event.guid.clone(), event.frame_id.clone());
        let expected = state.expected.iter().find(|(expected, _)| *expected == frame);
        let limit = expected.map_or(state.limit, |(_, limit)| *limit);
        state.entries.push_back(Entry { guid, frame, limit, report });
        drop(state);
        self.changed.send_replace(());
    }

    /// Records progress. Returns true if the download has just become too large.
    pub(crate) fn progress(&self, event: &DownloadProgress) -> bool {
        let mut state = self.state.lock();
        let folder = state.folder.clone();
        let Some(entry) = state.entries.iter_mut().find(|entry| entry.guid == event.guid) else {
            return false;
        };
        let (received, total) = (whole(event.received_bytes), whole(event.total_bytes));
        entry.report.bytes = received;
        let was_open = entry.report.state == DownloadEnd::InProgress;
        let is_too_large = was_open && received.max(total) > entry.limit;
        if is_too_large {
            entry.report.state = DownloadEnd::TooLarge;
        } else if was_open {
            entry.report.state = match event.state {
                DownloadState::InProgress => DownloadEnd::InProgress,
                DownloadState::Completed => DownloadEnd::Completed,
                DownloadState::Canceled => DownloadEnd::Cancelled,
            };
        }
        let path = folder.map(|folder| folder.join(&entry.guid));
        if entry.report.state == DownloadEnd::Completed {
            entry.report.path = path;
        } else if event.state == DownloadState::Completed
            && let Some(path) = path
        {
            // A small file can be complete before it is cancelled. If it is gone already, all is well.
            let _ = remove_download(&path);
        }
        drop(state);
        self.changed.send_replace(());
        is_too_large
    }

    pub(crate) fn knows(&self, guid: &str) -> bool {
        self.state.lock().entries.iter().any(|entry| entry.guid == guid)
    }

    pub(crate) fn report(&self, guid: &str) -> Option<DownloadReport> {
        let state = self.state.lock();
        state.entries.iter().find(|entry| entry.guid == guid).map(|entry| entry.report.clone())
    }

    /// Waits for a download of this frame, and returns its id; `None` after the deadline.
    pub(crate) async fn begun_in(&self, frame: &FrameId, deadline: Instant) -> Option<String> {
        let found = |downloads: &Self| {
            let state = downloads.state.lock();
            state.entries.iter().find(|entry| entry.frame == *frame).map(|entry| entry.guid.clone())
        };
        self.wait(deadline, found).await
    }

    /// Waits for the end of a download, and returns its report; `None` after the deadline.
    pub(crate) async fn ended(&self, guid: &str, deadline: Instant) -> Option<DownloadReport> {
        let ended = |downloads: &Self| {
            downloads.report(guid).filter(|report| report.state != DownloadEnd::InProgress)
        };
        self.wait(deadline, ended).await
    }

    async fn wait<T>(&self, deadline: Instant, look: impl Fn(&Self) -> Option<T>) -> Option<T> {
        let mut changed = self.changed.subscribe();
        let looking = async {
            loop {
                if let Some(found) = look(self) {
                    return Some(found);
                }
                changed.changed().await.ok()?;
            }
        };
        tokio::time::timeout_at(deadline, looking).await.ok().flatten()
    }
}

/// Returns a count that the protocol gives as a floating-point number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast saturates, and NaN gives 0"
)]
pub(crate) fn whole(number: f64) -> u64 {
    number as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(downloads: &Downloads) {
        downloads.begin(&DownloadWillBegin {
            frame_id: FrameId::from("F"),
            guid: "g".to_owned(),
            url: "http://a.test/".to_owned(),
            suggested_filename: "../../x".repeat(100),
        });
    }

    fn progress(received: f64, total: f64, state: DownloadState) -> DownloadProgress {
        DownloadProgress { guid: "g".to_owned(), total_bytes: total, received_bytes: received, state }
    }

    #[test]
    fn a_file_is_named_once_it_is_complete() {
        let downloads = Downloads::new(100);
        downloads.set_folder(Path::new("/files"), 100);
        begun(&downloads);
        assert!(!downloads.progress(&progress(50.0, 0.0, DownloadState::InProgress)));
        let report = downloads.report("g").unwrap();
        assert_eq!((report.bytes, report.path), (50, None));
        assert!(report.suggested_name.len() <= limits::NAME);
        assert!(!downloads.progress(&progress(60.0, 60.0, DownloadState::Completed)));
        assert_eq!(downloads.report("g").unwrap().path, Some(PathBuf::from("/files/g")));
    }

    #[test]
    fn a_file_above_the_limit_is_refused_once_by_what_came_or_was_announced() {
        for (received, total) in [(101.0, 0.0), (1.0, 1e12)] {
            let downloads = Downloads::new(100);
            begun(&downloads);
            assert!(downloads.progress(&progress(received, total, DownloadState::InProgress)));
            assert!(!downloads.progress(&progress(received, total, DownloadState::Canceled)));
            assert_eq!(downloads.report("g").unwrap().state, DownloadEnd::TooLarge);
        }
        let downloads = Downloads::new(100);
        downloads.expect(FrameId::from("F"), 10);
        begun(&downloads);
        assert!(downloads.progress(&progress(11.0, 0.0, DownloadState::InProgress)));
    }

    #[test]
    fn a_file_that_was_complete_before_it_was_cancelled_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let downloads = Downloads::new(100);
        downloads.set_folder(folder.path(), 100);
        begun(&downloads);
        std::fs::write(folder.path().join("g"), "x").unwrap();
        assert!(downloads.progress(&progress(101.0, 101.0, DownloadState::InProgress)));
        assert!(!downloads.progress(&progress(101.0, 101.0, DownloadState::Completed)));
        assert!(!folder.path().join("g").exists());
        assert!(downloads.report("g").unwrap().path.is_none());
    }
}
