//! Consequences of an action: the happenings in a tab, and the report about those since a mark.

use std::collections::VecDeque;

use serde::Serialize;

use crate::dialogs::{DialogAnswer, DialogKind};
use crate::downloads::DownloadReport;
use crate::limits;

/// Begin of an action, for its report and for settling.
#[derive(Debug, Clone)]
pub struct ActionMark {
    /// Number of the last happening before.
    pub(crate) happening: u64,
    /// Number of the last request before.
    pub(crate) request: u64,
    /// Number of documents that the main frame had before.
    pub(crate) documents: u64,
    /// URL before.
    pub(crate) url: String,
}

/// Everything that came of an action. Texts are cut, and `left_out` counts what has no room.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Change of the URL, or a new document with the same one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub navigation: Option<UrlChange>,
    /// Dialogs with their answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dialogs: Vec<DialogReport>,
    /// Downloads that the page has begun, in their present state.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub downloads: Vec<DownloadReport>,
    /// Errors in the console.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub console_errors: Vec<String>,
    /// Exceptions that nothing caught.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub page_errors: Vec<String>,
    /// Tabs that the page has opened.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub opened_tabs: Vec<OpenedTab>,
    /// Numbers of the tabs that were closed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub closed_tabs: Vec<u32>,
    /// Sentences about what was refused or stopped.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refusals: Vec<String>,
    /// Number of files that a chooser of the page got.
    #[serde(skip_serializing_if = "is_zero")]
    pub files_chosen: usize,
    /// True if the process of the page has crashed.
    #[serde(skip_serializing_if = "is_false")]
    pub has_crashed: bool,
    /// Number of happenings that had no room.
    #[serde(skip_serializing_if = "is_none_left")]
    pub left_out: u64,
}

impl Report {
    /// Returns true if there is nothing to report.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Change of the URL of a tab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UrlChange {
    /// URL before.
    pub from: String,
    /// URL now.
    pub to: String,
    /// True if the tab has a new document, and not only a new URL.
    pub new_document: bool,
}

/// A dialog and its answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DialogReport {
    /// Kind.
    pub kind: DialogKind,
    /// Text of the dialog.
    pub message: String,
    /// Answer that it got.
    #[serde(flatten)]
    pub answer: DialogAnswer,
}

/// A tab that a page has opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OpenedTab {
    /// Number of the tab.
    pub tab: u32,
    /// URL that it shows now.
    pub url: String,
}

/// Something that happened in a tab.
#[derive(Debug, Clone)]
pub(crate) enum Happening {
    Dialog(DialogReport),
    /// Id of a download.
    Download(String),
    ConsoleError(String),
    PageError(String),
    TabOpened(u32),
    TabClosed(u32),
    Refusal(String),
    FilesChosen(usize),
    Crash,
}

/// The newest happenings of a tab, numbered from 1.
#[derive(Debug, Default)]
pub(crate) struct Happenings {
    newest: VecDeque<Happening>,
    last: u64,
}

impl Happenings {
    pub(crate) fn push(&mut self, happening: Happening) {
        self.last += 1;
        if self.newest.len() == limits::HAPPENINGS {
            self.newest.pop_front();
        }
        self.newest.push_back(happening);
    }

    /// Returns the number of the newest happening.
    pub(crate) fn mark(&self) -> u64 {
        self.last
    }

    /// Returns the happenings after the mark, and the number of those that had no room.
    pub(crate) fn since(&self, mark: u64) -> (Vec<Happening>, u64) {
        let all = self.last.saturating_sub(mark);
        let kept = usize::try_from(all).unwrap_or(usize::MAX).min(self.newest.len());
        let found = self.newest.iter().skip(self.newest.len() - kept).cloned().collect();
        (found, all.saturating_sub(u64::try_from(kept).unwrap_or(u64::MAX)))
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_left(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn happenings_since_a_mark_are_bounded_and_counted() {
        let mut happenings = Happenings::default();
        happenings.push(Happening::Crash);
        let mark = happenings.mark();
        assert!(happenings.since(mark).0.is_empty());
        for number in 0..10 {
            happenings.push(Happening::TabClosed(number));
        }
        assert_eq!((happenings.since(mark).0.len(), happenings.since(mark).1), (10, 0));
        for number in 0..1000 {
            happenings.push(Happening::TabClosed(number));
        }
        let (found, left_out) = happenings.since(mark);
        assert_eq!((found.len(), left_out), (limits::HAPPENINGS, 1010 - limits::HAPPENINGS as u64));
    }
}
