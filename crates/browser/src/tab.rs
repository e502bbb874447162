//! A tab: its handle, its state, and waiting for changes of it.

use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cdp::protocol::page::{BringToFront, Crash, Navigate, SetInterceptFileChooserDialog, StopLoading};
use cdp::protocol::runtime::{Evaluate, TerminateExecution};
use cdp::protocol::target::{CloseTarget, GetTargetInfo};
use cdp::{CdpError, Progress, SessionClient, TargetId};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address;
use crate::arguments::Settings;
use crate::dialogs::DialogPolicy;
use crate::downloads::Downloads;
use crate::error::BrowserError;
use crate::event_log::{LogFilter, LogPage};
use crate::limits::{self, cut};
use crate::report::{ActionMark, Happening, OpenedTab, Report, UrlChange};
use crate::tab_state::{Phase, TabState};

/// Handle of a tab. Clones share it.
#[derive(Debug, Clone)]
pub struct Tab {
    inner: Arc<TabInner>,
}

#[derive(Debug)]
struct TabInner {
    number: u32,
    target: TargetId,
    client: SessionClient,
    settings: Arc<Settings>,
    downloads: Arc<Downloads>,
    neighbours: Weak<dyn Neighbours>,
    state: Mutex<TabState>,
    changed: watch::Sender<()>,
    /// Progress of the tasks that take the events of the page, and those of the browser.
    progress: [Progress; 2],
}

/// The other tabs of the session, as a tab needs them.
pub(crate) trait Neighbours: std::fmt::Debug + Send + Sync {
    /// Returns the URL of a tab, if it is open.
    fn url_of(&self, tab: u32) -> Option<String>;

    /// Takes note that a tab is closed.
    fn has_closed(&self, tab: u32);
}

/// Parts that a tab stands on.
pub(crate) struct TabParts {
    pub(crate) number: u32,
    pub(crate) target: TargetId,
    pub(crate) client: SessionClient,
    pub(crate) settings: Arc<Settings>,
    pub(crate) downloads: Arc<Downloads>,
    pub(crate) neighbours: Weak<dyn Neighbours>,
    pub(crate) dialog_policy: DialogPolicy,
    pub(crate) progress: [Progress; 2],
}

impl Tab {
    pub(crate) fn new(parts: TabParts) -> Self {
        let main = parts.target.as_str().into();
        let state = TabState::new(main, parts.client.id().clone(), parts.dialog_policy);
        let inner = TabInner {
            number: parts.number,
            target: parts.target,
            client: parts.client,
            settings: parts.settings,
            downloads: parts.downloads,
            neighbours: parts.neighbours,
            state: Mutex::new(state),
            changed: watch::Sender::new(()),
            progress: parts.progress,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Returns the number of the tab, unique in its session and never used again.
    pub fn number(&self) -> u32 {
        self.inner.number
    }

    /// Returns the URL that the tab shows, cut to [`limits::URL`]. A document that could not be
    /// loaded gives the URL that failed.
    pub fn url(&self) -> String {
        self.read(TabState::url)
    }

    /// Returns the title of the document, cut to [`limits::TITLE`]. The page itself is not asked, so
    /// this also works while a script of it runs without end.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn title(&self) -> Result<String, BrowserError> {
        let command = GetTargetInfo { target_id: self.inner.target.clone() };
        let answer = self.client().connection().run(None, command).await?;
        Ok(cut(&answer.target_info.title, limits::TITLE))
    }

    /// Returns true if the tab is closed.
    pub fn is_closed(&self) -> bool {
        self.read(|state| state.phase == Phase::Closed)
    }

    /// Returns the client of the session of the tab's main frame, for commands of the protocol that
    /// have no function here.
    pub fn client(&self) -> &SessionClient {
        &self.inner.client
    }

    pub(crate) fn target(&self) -> &TargetId {
        &self.inner.target
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.inner.settings
    }

    /// Sets the answers to dialogs from now on.
    pub fn set_dialog_policy(&self, policy: DialogPolicy) {
        self.change(|state| state.dialog_policy = policy);
    }

    /// Returns the entries of the log that the filter wants.
    pub fn events(&self, filter: &LogFilter) -> LogPage {
        self.read(|state| state.log.page(filter))
    }

    /// Begins an action of a user: makes the tab ready and brings it to the front, because a page
    /// behind another one handles no input.
    ///
    /// # Errors
    /// The errors of [`Tab::prepare`].
    pub async fn begin_action(&self) -> Result<ActionMark, BrowserError> {
        self.prepare().await?;
        self.guarded(limits::SCRIPT, self.client().run(BringToFront {})).await?;
        self.caught_up().await;
        Ok(self.begin_report())
    }

    /// Waits until the events that have arrived so far are in the state of the tab. An answer of the
    /// browser can reach its caller before they do.
    pub(crate) async fn caught_up(&self) {
        let [page, browser] = &self.inner.progress;
        let both = async { tokio::join!(page.caught_up(), browser.caught_up()) };
        let _ = tokio::time::timeout(limits::TWO_FRAMES, both).await;
    }

    /// Begins a report: [`Tab::settle`] and [`Tab::report`] are about what comes after.
    pub fn begin_report(&self) -> ActionMark {
        self.change(TabState::mark)
    }

    /// Returns everything that has come of an action so far.
    pub fn report(&self, action: &ActionMark) -> Report {
        let (url, documents, (happenings, left_out)) =
            self.read(|state| (state.url(), state.documents, state.happenings.since(action.happening)));
        let new_document = documents != action.documents;
        let navigation = (new_document || url != action.url).then(|| UrlChange {
            from: action.url.clone(),
            to: url,
            new_document,
        });
        let mut report = Report { navigation, left_out, ..Report::default() };
        let neighbours = self.inner.neighbours.upgrade();
        for happening in happenings {
            match happening {
                Happening::Dialog(dialog) => report.dialogs.push(dialog),
                Happening::Download(guid) => report.downloads.extend(self.inner.downloads.report(&guid)),
                Happening::ConsoleError(text) => report.console_errors.push(text),
                Happening::PageError(text) => report.page_errors.push(text),
                Happening::TabOpened(tab) => {
                    let url = neighbours.as_ref().and_then(|neighbours| neighbours.url_of(tab));
                    report.opened_tabs.push(OpenedTab { tab, url: url.unwrap_or_default() });
                }
                Happening::TabClosed(tab) => report.closed_tabs.push(tab),
                Happening::Refusal(sentence) => report.refusals.push(sentence),
                Happening::FilesChosen(files) => report.files_chosen += files,
                Happening::Crash => report.has_crashed = true,
            }
        }
        report
    }

    /// Gives files to the next chooser that the page opens. Without this, choosers are cancelled
    /// and reported. The paths are absolute, and the browser must see the files there.
    ///
    /// # Errors
    /// The errors of [`Tab::prepare`].
    pub async fn choose_files(&self, files: &[PathBuf]) -> Result<(), BrowserError> {
        self.prepare().await?;
        let files = files.iter().map(|file| file.to_string_lossy().into_owned()).collect();
        self.change(|state| state.files = Some(files));
        let command = SetInterceptFileChooserDialog { enabled: true, cancel: false };
        self.guarded(limits::SCRIPT, self.client().run(command)).await?;
        Ok(())
    }

    /// Takes back the files of [`Tab::choose_files`], if no chooser has got them.
    pub fn forget_files(&self) {
        if self.change(|state| state.files.take()).is_some() {
            self.client().post(SetInterceptFileChooserDialog { enabled: true, cancel: true });
        }
    }

    pub(crate) fn read<T>(&self, look: impl FnOnce(&TabState) -> T) -> T {
        look(&self.inner.state.lock())
    }

    /// Changes the state, and wakes everybody who waits for a change.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut TabState) -> T) -> T {
        let result = change(&mut self.inner.state.lock());
        self.inner.changed.send_replace(());
        result
    }

    pub(crate) fn note(&self, happening: Happening) {
        self.change(|state| state.happenings.push(happening));
    }

    /// Records the end of the tab.
    pub(crate) fn end(&self) {
        // The list comes first: whoever waits for the end of the tab finds it without the tab.
        if let Some(neighbours) = self.inner.neighbours.upgrade() {
            neighbours.has_closed(self.inner.number);
        }
        self.change(|state| state.phase = Phase::Closed);
    }

    /// Waits until the state is as wanted; `None` after the deadline, or once the tab is closed.
    pub(crate) async fn wait<T>(
        &self,
        deadline: Instant,
        look: impl Fn(&TabState) -> Option<T>,
    ) -> Option<T> {
        let mut changed = self.inner.changed.subscribe();
        let looking = async {
            loop {
                let (found, is_closed) = self.read(|state| (look(state), state.phase == Phase::Closed));
                if found.is_some() || is_closed {
                    return found;
                }
                changed.changed().await.ok()?;
            }
        };
        tokio::time::timeout_at(deadline, looking).await.ok().flatten()
    }

    /// Runs something against the page, at most this long. It ends at once when the page crashes or
    /// the tab is closed, for which the browser gives no answer.
    pub(crate) async fn guarded<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, CdpError>>,
    ) -> Result<T, BrowserError> {
        let broken = async {
            let mut changed = self.inner.changed.subscribe();
            loop {
                match self.read(|state| state.phase.clone()) {
                    Phase::Closed => return BrowserError::TabClosed { tab: self.number() },
                    Phase::Crashed { .. } => return BrowserError::Crashed { tab: self.number() },
                    Phase::New | Phase::Open => {}
                }
                if changed.changed().await.is_err() {
                    return BrowserError::TabClosed { tab: self.number() };
                }
            }
        };
        tokio::select! {
            biased;
            error = broken => Err(error),
            done = tokio::time::timeout(limit, work) => match done {
                Ok(Ok(value)) => Ok(value),
                Ok(Err(CdpError::TimedOut { waited, .. })) => Err(self.not_responding(waited)),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err(self.not_responding(limit)),
            }
        }
    }

    fn not_responding(&self, waited: Duration) -> BrowserError {
        self.change(|state| state.is_doubtful = true);
        BrowserError::NotResponding { tab: self.number(), waited }
    }

    /// Makes the tab ready for use: waits until it is set up, loads a crashed page again, and ends a
    /// script that did not answer.
    ///
    /// # Errors
    /// [`BrowserError::TabClosed`], [`BrowserError::Gone`], or [`BrowserError::NotResponding`] if the
    /// page does not come back.
    pub async fn prepare(&self) -> Result<(), BrowserError> {
        let is_set_up = |state: &TabState| (state.phase != Phase::New).then_some(());
        if self.wait(Instant::now() + limits::SETUP, is_set_up).await.is_none() && !self.is_closed() {
            return Err(BrowserError::NotResponding { tab: self.number(), waited: limits::SETUP });
        }
        if self.change(|state| std::mem::take(&mut state.is_doubtful)) && self.hangs().await {
            self.stop_scripts().await;
        }
        let has_stopped = |state: &TabState| (!state.is_stopping).then_some(());
        let _ = self.wait(Instant::now() + limits::CLOSING, has_stopped).await;
        let crashed = self.change(|state| match &state.phase {
            Phase::Crashed { reopen } => {
                let reopen = reopen.clone();
                state.phase = Phase::Open;
                Some(reopen)
            }
            _ => None,
        });
        match crashed {
            Some(url) => self.reopen(url).await,
            None if self.is_closed() => Err(BrowserError::TabClosed { tab: self.number() }),
            None => Ok(()),
        }
    }

    /// Returns true if the page does not answer, because a script of it runs.
    async fn hangs(&self) -> bool {
        let look = Evaluate { expression: "0".to_owned(), ..Evaluate::default() };
        let looking = self.client().run_within(look, limits::TWO_FRAMES * 2);
        let answer = self.guarded(limits::TWO_FRAMES * 2, looking).await;
        self.change(|state| state.is_doubtful = false);
        matches!(answer, Err(BrowserError::NotResponding { .. }))
    }

    /// Ends the script that runs without end; if it cannot be ended, the process of the page.
    async fn stop_scripts(&self) {
        let ended = self.client().run_within(TerminateExecution {}, limits::TWO_FRAMES * 2).await;
        if matches!(ended, Err(CdpError::TimedOut { .. })) {
            self.crash().await;
        }
    }

    /// Ends the process of the page, which is about to be left.
    pub(crate) async fn end_page(&self) {
        self.crash().await;
        self.change(|state| {
            if matches!(state.phase, Phase::Crashed { .. }) {
                state.phase = Phase::Open;
            }
        });
    }

    /// Ends the process of the page. The browser refuses this while the page navigates, so the
    /// navigation is stopped first; a page that begins the next one in between is stopped again.
    async fn crash(&self) {
        let deadline = Instant::now() + limits::CLOSING;
        let has_crashed = |state: &TabState| matches!(state.phase, Phase::Crashed { .. }).then_some(());
        while !self.is_closed() && Instant::now() < deadline {
            self.client().post(StopLoading {});
            self.client().post(Crash {});
            let soon = deadline.min(Instant::now() + limits::CRASH);
            if self.wait(soon, has_crashed).await.is_some() {
                break;
            }
        }
    }

    /// Closes the tab, and returns whether it has closed. A page that navigates all the time can
    /// outlive the command, and is ended then.
    pub(crate) async fn close(&self) -> Result<bool, BrowserError> {
        let deadline = Instant::now() + limits::CLOSING;
        loop {
            let command = CloseTarget { target_id: self.inner.target.clone() };
            let closing = self.client().connection().run(None, command).await;
            let soon = deadline.min(Instant::now() + limits::UNLOADING);
            let _ = self.wait(soon, |_| None::<()>).await;
            if self.is_closed() {
                return Ok(true);
            }
            // The browser refuses to close a target that it no longer has.
            closing?;
            if Instant::now() >= deadline {
                return Ok(false);
            }
            self.end_page().await;
        }
    }

    /// Opens the URL of a page whose process has crashed.
    async fn reopen(&self, url: String) -> Result<(), BrowserError> {
        let before = self.read(|state| state.documents);
        let url = if address::parse(&url).is_ok() { url } else { address::BLANK.to_owned() };
        self.guarded(limits::SETUP, self.client().run(Navigate { url, frame_id: None })).await?;
        let is_back = |state: &TabState| (state.documents != before && state.has_loaded()).then_some(());
        // A page that loads for long can be used as far as it is there.
        let _ = self.wait(Instant::now() + limits::SCRIPT, is_back).await;
        Ok(())
    }
}
