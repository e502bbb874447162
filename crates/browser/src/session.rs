//! A session: the tabs of one agent, in a browser context of its own.

mod arrivals;
mod download;
mod stored_state;
mod tabs;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use cdp::protocol::browser::{
    CancelDownload, DownloadBehavior, DownloadProgress, DownloadWillBegin, SetDownloadBehavior,
};
use cdp::protocol::storage::{Cookie, GetCookies};
use cdp::protocol::target::{ActivateTarget, CreateBrowserContext, DisposeBrowserContext};
use cdp::{BrowserContextId, Connection, Progress};
use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::address;
use crate::arguments::Settings;
use crate::dialogs::DialogPolicy;
use crate::downloads::Downloads;
use crate::error::BrowserError;
use crate::lifeline::Lifeline;
use crate::limits;
use crate::navigate::Navigated;
use crate::report::Happening;
use crate::tab::{Neighbours, Tab};
use tabs::Tabs;

pub use download::Download;
pub use stored_state::{OriginStorage, StoredState};

/// Handle of a session. Clones share it. When the last one is dropped, its tabs are closed and its
/// cookies forgotten.
#[derive(Debug, Clone)]
pub struct Session {
    inner: Arc<SessionInner>,
}

/// A session, as the browser finds it for its events.
#[derive(Debug)]
pub(crate) struct SessionInner {
    connection: Connection,
    lifeline: Arc<Lifeline>,
    settings: Arc<Settings>,
    context: Mutex<BrowserContextId>,
    downloads: Arc<Downloads>,
    tabs: Mutex<Tabs>,
    changed: watch::Sender<()>,
    /// Progress of the task that takes the events of the browser.
    progress: Progress,
}

/// An open tab.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TabSummary {
    /// Number of the tab.
    pub tab: u32,
    /// Title of the document, cut.
    pub title: String,
    /// URL, cut.
    pub url: String,
    /// True if this is the active tab.
    pub active: bool,
}

impl Session {
    pub(crate) async fn new(
        lifeline: &Arc<Lifeline>,
        settings: &Arc<Settings>,
        progress: Progress,
    ) -> Result<Self, BrowserError> {
        let connection = lifeline.0.clone();
        let context = create_context(&connection).await?;
        let inner = SessionInner {
            connection,
            lifeline: Arc::clone(lifeline),
            settings: Arc::clone(settings),
            context: Mutex::new(context),
            downloads: Arc::new(Downloads::new(settings.download_limit)),
            tabs: Mutex::new(Tabs::default()),
            changed: watch::Sender::new(()),
            progress,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    pub(crate) fn weak(&self) -> Weak<SessionInner> {
        Arc::downgrade(&self.inner)
    }

    /// Returns the open tabs in the order of their numbers.
    pub async fn tabs(&self) -> Vec<TabSummary> {
        let (tabs, active) = self.inner.read(|tabs| (tabs.all(), tabs.active));
        let mut summaries = Vec::with_capacity(tabs.len());
        for tab in tabs {
            let title = tab.title().await.unwrap_or_default();
            let (number, url) = (tab.number(), tab.url());
            summaries.push(TabSummary { tab: number, title, url, active: active == Some(number) });
        }
        summaries
    }

    /// Returns the number of the active tab: the one that was created or switched to last.
    pub fn active(&self) -> Option<u32> {
        self.inner.read(|tabs| tabs.active)
    }

    /// Returns a tab by its number.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`].
    pub fn tab(&self, number: u32) -> Result<Tab, BrowserError> {
        self.inner.read(|tabs| {
            let open = || tabs.all().iter().map(Tab::number).collect();
            tabs.get(number).ok_or_else(|| BrowserError::NoTab { tab: number, open: open() })
        })
    }

    /// Opens a new tab, makes it the active one, and opens the URL in it.
    ///
    /// # Errors
    /// [`BrowserError::TooManyTabs`], and the errors of [`Tab::navigate`]. The tab stays open then.
    pub async fn create(&self, url: &str, limit: Duration) -> Result<Navigated, BrowserError> {
        self.navigate(None, url, None, limit).await
    }

    /// Opens a URL in a tab, or in a new one if no tab is named. See [`Tab::navigate`].
    ///
    /// # Errors
    /// [`BrowserError::NoTab`], [`BrowserError::TooManyTabs`], and the errors of [`Tab::navigate`].
    pub async fn navigate(
        &self,
        tab: Option<u32>,
        url: &str,
        wait_for: Option<&str>,
        limit: Duration,
    ) -> Result<Navigated, BrowserError> {
        let deadline = Instant::now() + limit;
        // A URL that is refused opens no tab.
        address::parse(url)?;
        let tab = match tab {
            Some(number) => self.tab(number)?,
            None => self.inner.new_tab().await?,
        };
        let left = deadline.saturating_duration_since(Instant::now());
        tab.navigate(url, wait_for, left).await
    }

    /// Makes a tab the active one, and brings it to the front.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`].
    pub async fn switch(&self, number: u32) -> Result<(), BrowserError> {
        let tab = self.tab(number)?;
        self.inner.connection.run(None, ActivateTarget { target_id: tab.target().clone() }).await?;
        self.inner.change(|tabs| tabs.active = Some(number));
        Ok(())
    }

    /// Closes a tab. Its page is not asked.
    ///
    /// # Errors
    /// [`BrowserError::NoTab`], or [`BrowserError::NotResponding`] if it does not close in time.
    pub async fn close(&self, number: u32) -> Result<(), BrowserError> {
        let tab = self.tab(number)?;
        if tab.close().await? {
            Ok(())
        } else {
            Err(BrowserError::NotResponding { tab: number, waited: limits::CLOSING })
        }
    }

    /// Sets the answers to dialogs in all tabs, and in those to come.
    pub fn set_dialog_policy(&self, policy: &DialogPolicy) {
        let tabs = self.inner.change(|tabs| {
            tabs.dialog_policy = policy.clone();
            tabs.all()
        });
        for tab in tabs {
            tab.set_dialog_policy(policy.clone());
        }
    }

    /// Returns the cookies that are sent to a host, or all of the session if `domain` is empty.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn cookies(&self, domain: &str) -> Result<Vec<Cookie>, BrowserError> {
        let command = GetCookies { browser_context_id: self.inner.context() };
        let cookies = self.inner.connection.run(None, command).await?.cookies;
        let wanted = domain.trim_start_matches('.').to_lowercase();
        Ok(cookies.into_iter().filter(|cookie| is_sent_to(&cookie.domain, &wanted)).collect())
    }

    /// Closes all tabs and forgets the cookies, the storage and the cache of the session. Numbers of
    /// tabs are not used again.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn clear(&self) -> Result<(), BrowserError> {
        let new = create_context(&self.inner.connection).await?;
        let old = std::mem::replace(&mut *self.inner.context.lock(), new);
        let tabs = self.inner.read(Tabs::all);
        self.inner.connection.run(None, DisposeBrowserContext { browser_context_id: old }).await?;
        let deadline = Instant::now() + limits::CLOSING;
        for tab in tabs {
            let _ = tab.wait(deadline, |_| None::<()>).await;
        }
        match self.inner.downloads.folder() {
            Some(folder) => self.inner.allow_downloads(&folder).await,
            None => Ok(()),
        }
    }

    /// Sets the folder for what pages download by themselves, and the maximum size of a file in
    /// bytes. Without a folder such downloads are refused and reported. The browser must be able to
    /// write there; files are named by ids, never by what a server suggests.
    ///
    /// # Errors
    /// [`BrowserError::Gone`], or the refusal of the browser.
    pub async fn set_download_folder(&self, folder: &Path, limit: u64) -> Result<(), BrowserError> {
        self.inner.downloads.set_folder(folder, limit);
        self.inner.allow_downloads(folder).await
    }
}

async fn create_context(connection: &Connection) -> Result<BrowserContextId, BrowserError> {
    let context = connection.run(None, CreateBrowserContext { dispose_on_detach: true }).await?;
    let context = context.browser_context_id;
    // Without a folder nothing is kept, and downloads are reported all the same.
    let refused = SetDownloadBehavior {
        behavior: DownloadBehavior::Deny,
        browser_context_id: Some(context.clone()),
        download_path: None,
        events_enabled: true,
    };
    connection.run(None, refused).await?;
    Ok(context)
}

/// Returns true if a cookie of this domain is sent to the host.
fn is_sent_to(cookie_domain: &str, host: &str) -> bool {
    let domain = cookie_domain.to_lowercase();
    match domain.strip_prefix('.') {
        _ if host.is_empty() => true,
        Some(parent) => host == parent || host.ends_with(&domain),
        None => host == domain,
    }
}

impl SessionInner {
    /// Returns the context of the session, which changes when it is cleared.
    pub(crate) fn context(&self) -> BrowserContextId {
        self.context.lock().clone()
    }

    fn read<T>(&self, look: impl FnOnce(&Tabs) -> T) -> T {
        look(&self.tabs.lock())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Tabs) -> T) -> T {
        let result = change(&mut self.tabs.lock());
        self.changed.send_replace(());
        result
    }

    async fn allow_downloads(&self, folder: &Path) -> Result<(), BrowserError> {
        let allowed = SetDownloadBehavior {
            behavior: DownloadBehavior::AllowAndName,
            browser_context_id: Some(self.context()),
            download_path: Some(folder.to_string_lossy().into_owned()),
            events_enabled: true,
        };
        self.connection.run(None, allowed).await?;
        Ok(())
    }

    /// Takes the begin of a download, and returns true if it belongs to this session.
    pub(crate) fn download_begins(&self, event: &DownloadWillBegin) -> bool {
        let tab = self.read(|tabs| {
            let mut all = tabs.all().into_iter();
            all.find(|tab| tab.read(|state| state.frames.get(&event.frame_id).is_some()))
        });
        let is_own = tab.is_some() || self.read(|tabs| tabs.has_known(event.frame_id.as_str()));
        if is_own {
            self.downloads.begin(event);
        }
        if let Some(tab) = tab {
            tab.note(Happening::Download(event.guid.clone()));
        }
        is_own
    }

    /// Takes the progress of a download, and returns true if it belongs to this session.
    pub(crate) fn download_moves(&self, event: &DownloadProgress) -> bool {
        if self.downloads.progress(event) {
            self.cancel_download(&event.guid);
        }
        self.downloads.knows(&event.guid)
    }

    fn cancel_download(&self, guid: &str) {
        let context = Some(self.context());
        self.connection.post(None, CancelDownload { guid: guid.to_owned(), browser_context_id: context });
    }
}

impl Neighbours for SessionInner {
    fn url_of(&self, tab: u32) -> Option<String> {
        self.read(|tabs| tabs.get(tab)).map(|tab| tab.url())
    }

    fn has_closed(&self, tab: u32) {
        let opener = self.change(|tabs| tabs.remove(tab));
        if let Some(opener) = opener {
            opener.note(Happening::TabClosed(tab));
        }
    }
}

impl Drop for SessionInner {
    fn drop(&mut self) {
        self.lifeline.0.post(None, DisposeBrowserContext { browser_context_id: self.context() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_chosen_by_the_host_that_they_are_sent_to() {
        assert!(is_sent_to("a.test", "a.test") && is_sent_to("A.test", "a.test"));
        assert!(is_sent_to(".a.test", "a.test") && is_sent_to(".a.test", "x.a.test"));
        assert!(!is_sent_to("a.test", "x.a.test") && !is_sent_to(".a.test", "bad-a.test"));
        assert!(is_sent_to("a.test", ""));
    }
}
