//! A browser over an already connected pair of streams.

use std::sync::{Arc, Weak};
use std::time::Duration;

use cdp::protocol::browser::{
    CancelDownload, Close, DownloadProgress, DownloadWillBegin, GetVersion, Version,
};
use cdp::protocol::runtime::RunIfWaitingForDebugger;
use cdp::protocol::target::{AttachedToTarget, SetAutoAttach, TargetFilter};
use cdp::{Connection, Delivery, Event, Progress, Subscription};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};

use crate::arguments::Settings;
use crate::error::BrowserError;
use crate::lifeline::Lifeline;
use crate::limits;
use crate::session::{Session, SessionInner};

/// Time in which a browser must answer after its start.
const START: Duration = Duration::from_secs(30);

/// Handle of a browser. Clones share it. When the last one and the last of its sessions are dropped,
/// the streams are closed, and the browser ends.
#[derive(Debug, Clone)]
pub struct Browser {
    inner: Arc<BrowserInner>,
}

#[derive(Debug)]
struct BrowserInner {
    lifeline: Arc<Lifeline>,
    settings: Arc<Settings>,
    version: Version,
    sessions: Arc<Sessions>,
    /// Progress of the task that takes the events of the browser.
    progress: Progress,
}

/// The sessions of a browser, for its events.
type Sessions = Mutex<Vec<Weak<SessionInner>>>;

impl Browser {
    /// Connects to a browser that was started with [`Settings::arguments`]: `reader` is what it
    /// writes to its descriptor 4, `writer` leads to its descriptor 3. Called within a runtime of
    /// tokio.
    ///
    /// # Errors
    /// [`BrowserError::Gone`] if it ends, or the refusal of the browser.
    pub async fn connect(
        reader: impl AsyncRead + Unpin + Send + 'static,
        writer: impl AsyncWrite + Unpin + Send + 'static,
        settings: Settings,
    ) -> Result<Self, BrowserError> {
        Self::over(Connection::over_pipe(reader, writer), settings).await
    }

    /// Connects to a browser over a connection that carries its protocol.
    pub(crate) async fn over(connection: Connection, settings: Settings) -> Result<Self, BrowserError> {
        let lifeline = Arc::new(Lifeline(connection.clone()));
        let version = connection.run_within(None, GetVersion {}, START).await?;
        let sessions = Arc::new(Sessions::default());
        let events = connection.subscribe(None);
        let progress = events.progress();
        tokio::spawn(follow(connection.clone(), Arc::clone(&sessions), events));
        // New pages wait until they are set up, so nothing of them is missed.
        let pages = SetAutoAttach {
            auto_attach: true,
            wait_for_debugger_on_start: true,
            flatten: true,
            filter: Some(vec![
                TargetFilter { kind: Some("page"), exclude: false },
                TargetFilter { kind: None, exclude: true },
            ]),
        };
        connection.run(None, pages).await?;
        let inner = BrowserInner { lifeline, settings: Arc::new(settings), version, sessions, progress };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the name and version of the browser, for example `HeadlessChrome/156.0.8078.79`.
    pub fn version(&self) -> &str {
        &self.inner.version.product
    }

    /// Waits for the end of the browser, and returns the reason.
    pub async fn closed(&self) -> String {
        self.inner.lifeline.0.closed().await
    }

    /// Returns true if the browser has ended.
    pub fn is_closed(&self) -> bool {
        self.inner.lifeline.0.is_closed()
    }

    /// Ends the browser. It ends by itself; if it does not in time, its streams are closed.
    pub async fn close(&self) {
        let connection = &self.inner.lifeline.0;
        connection.post(None, Close {});
        let _ = tokio::time::timeout(limits::CLOSING, connection.closed()).await;
        connection.shut();
    }

    /// Closes the streams. What is at their other end goes on.
    pub(crate) fn shut(&self) {
        self.inner.lifeline.0.shut();
    }

    /// Waits until every event of the browser that was sent so far is handled.
    pub(crate) async fn caught_up(&self) -> Result<(), BrowserError> {
        // The answer comes behind these events.
        self.inner.lifeline.0.run(None, GetVersion {}).await?;
        self.inner.progress.caught_up().await;
        Ok(())
    }

    /// Creates a session: tabs, cookies and storage that no other session sees.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn new_session(&self) -> Result<Session, BrowserError> {
        let session =
            Session::new(&self.inner.lifeline, &self.inner.settings, self.inner.progress.clone()).await?;
        let mut sessions = self.inner.sessions.lock();
        sessions.retain(|session| session.strong_count() > 0);
        sessions.push(session.weak());
        Ok(session)
    }
}

/// Takes the events of the browser itself until it ends.
async fn follow(connection: Connection, sessions: Arc<Sessions>, mut events: Subscription) {
    while let Some(delivery) = events.next().await {
        // Missed events only concern downloads and new pages, which then stay as they are.
        let Delivery::Event(event) = delivery else { continue };
        let living: Vec<_> = sessions.lock().iter().filter_map(Weak::upgrade).collect();
        take(&connection, &living, &event);
    }
}

fn take(connection: &Connection, sessions: &[Arc<SessionInner>], event: &Event) {
    if let Some(attached) = event.get::<AttachedToTarget>() {
        let context = attached.target_info.browser_context_id.as_ref();
        match sessions.iter().find(|session| Some(&session.context()) == context) {
            Some(session) => session.arrive(attached),
            // A page of nobody, like the one that the browser starts with.
            None => connection.post(Some(&attached.session_id), RunIfWaitingForDebugger {}),
        }
    } else if let Some(begins) = event.get::<DownloadWillBegin>() {
        if !sessions.iter().any(|session| session.download_begins(&begins)) {
            connection.post(None, CancelDownload { guid: begins.guid, browser_context_id: None });
        }
    } else if let Some(moves) = event.get::<DownloadProgress>() {
        // Each session looks only at its own downloads.
        let _ = sessions.iter().any(|session| session.download_moves(&moves));
    }
}
