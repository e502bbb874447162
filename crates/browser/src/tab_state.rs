//! State of a tab, as the events of the browser leave it. This module sends nothing and waits for
//! nothing.

use std::collections::VecDeque;
use std::time::Instant;

use cdp::{FrameId, LoaderId, RequestId, SessionId};

use crate::dialogs::DialogPolicy;
use crate::event_log::{EventLog, LogEvent};
use crate::frame_tree::FrameTree;
use crate::limits::{self, cut};
use crate::report::{ActionMark, Happening, Happenings};
use crate::requests::Requests;

/// State of a tab.
#[derive(Debug)]
pub(crate) struct TabState {
    pub(crate) phase: Phase,
    pub(crate) frames: FrameTree,
    pub(crate) requests: Requests,
    pub(crate) log: EventLog,
    pub(crate) happenings: Happenings,
    /// Number of documents that the main frame has had.
    pub(crate) documents: u64,
    /// Number of these documents when the last action began.
    marked_documents: u64,
    /// Time of the newest of these documents.
    last_document: Option<Instant>,
    /// Loads of the newest of these documents.
    pub(crate) loads: VecDeque<LoaderId>,
    /// Request of the main document with its status of HTTP.
    pub(crate) status: Option<(RequestId, u16)>,
    pub(crate) dialog_policy: DialogPolicy,
    /// Number of dialogs since the begin of the action.
    pub(crate) dialogs: u32,
    /// Files for the next chooser, as paths that the browser sees.
    pub(crate) files: Option<Vec<String>>,
    /// True if the page may hang: a script did not answer in time, or a document did not load.
    pub(crate) is_doubtful: bool,
    /// True if the process of the page is being ended, because of its dialogs.
    pub(crate) is_stopping: bool,
}

/// Phase in the life of a tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The tab is being set up.
    New,
    /// The tab is in use.
    Open,
    /// The process of the page has crashed. The URL is opened when the tab is used next.
    Crashed { reopen: String },
    /// The tab is closed.
    Closed,
}

impl TabState {
    /// Creates the state of a new tab.
    pub(crate) fn new(main: FrameId, session: SessionId, dialog_policy: DialogPolicy) -> Self {
        Self {
            phase: Phase::New,
            frames: FrameTree::new(main, session),
            requests: Requests::default(),
            log: EventLog::default(),
            happenings: Happenings::default(),
            documents: 0,
            marked_documents: 0,
            last_document: None,
            loads: VecDeque::new(),
            status: None,
            dialog_policy,
            dialogs: 0,
            files: None,
            is_doubtful: false,
            is_stopping: false,
        }
    }

    /// Returns the URL of the main frame; that which failed, if it could not be loaded.
    pub(crate) fn url(&self) -> String {
        let main = self.frames.main_frame();
        main.map(|main| main.unreachable.clone().unwrap_or_else(|| main.url.clone())).unwrap_or_default()
    }

    /// Returns the load of the main frame's document.
    pub(crate) fn loader(&self) -> Option<&LoaderId> {
        self.frames.main_frame()?.loader.as_ref()
    }

    /// Records a new document of the main frame.
    pub(crate) fn add_document(&mut self, load: LoaderId) {
        self.documents += 1;
        self.last_document = Some(Instant::now());
        if self.loads.len() == limits::LOADS {
            self.loads.pop_front();
        }
        self.loads.push_back(load);
    }

    /// Returns the status of HTTP of the main document.
    pub(crate) fn status(&self) -> Option<u16> {
        let (request, status) = self.status.as_ref()?;
        (request.as_str() == self.loader()?.as_str()).then_some(*status)
    }

    /// Returns true if the main document is loaded and no other one is on its way.
    pub(crate) fn has_loaded(&self) -> bool {
        self.frames
            .main_frame()
            .is_some_and(|main| main.has_loaded && main.navigating.is_none() && !main.is_scheduled)
    }

    /// Returns true if the page may be about to open another document by itself: it does so now, or
    /// has done so just before.
    pub(crate) fn is_restless(&self) -> bool {
        let is_recent = self.last_document.is_some_and(|time| time.elapsed() < limits::RESTLESS);
        let is_navigating =
            self.frames.main_frame().is_some_and(|main| main.navigating.is_some() || main.is_scheduled);
        is_navigating || (is_recent && self.documents > self.marked_documents + 1)
    }

    /// Begins an action.
    pub(crate) fn mark(&mut self) -> ActionMark {
        self.dialogs = 0;
        self.marked_documents = self.documents;
        ActionMark {
            happening: self.happenings.mark(),
            request: self.requests.mark(),
            documents: self.documents,
            url: self.url(),
        }
    }

    /// Returns true if nothing is under way that began after the mark.
    pub(crate) fn is_quiet(&self, mark: &ActionMark) -> bool {
        let main = self.frames.main_frame();
        let is_navigating = main.is_none_or(|main| main.navigating.is_some() || main.is_scheduled);
        let is_loading = self.documents != mark.documents && !self.has_loaded();
        !self.is_stopping && !is_navigating && !is_loading && !self.requests.are_in_flight(mark.request)
    }

    /// Records a text of the console, and reports it if it is an error.
    pub(crate) fn console(&mut self, time_ms: f64, level: &str, text: &str) {
        let text = cut(text, limits::TEXT);
        if level == "error" || level == "assert" {
            self.happenings.push(Happening::ConsoleError(text.clone()));
        }
        self.log.push(time_ms, LogEvent::Console { level: cut(level, 20), text });
    }

    /// Records an exception of the page.
    pub(crate) fn page_error(&mut self, time_ms: f64, text: &str) {
        let text = cut(text, limits::TEXT);
        self.happenings.push(Happening::PageError(text.clone()));
        self.log.push(time_ms, LogEvent::PageError { text });
    }

    /// Records that something was refused or stopped.
    pub(crate) fn refusal(&mut self, sentence: impl Into<String>) {
        self.happenings.push(Happening::Refusal(sentence.into()));
    }
}
