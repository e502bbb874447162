//! Navigation of a tab, with the wait for the document and for an element in it.

use std::time::Duration;

use cdp::protocol::page::{Navigate, StopLoading};
use cdp::{CdpError, LoaderId};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use crate::address;
use crate::error::BrowserError;
use crate::frame::World;
use crate::limits::{self, cut};
use crate::report::{ActionMark, Report};
use crate::tab::Tab;
use crate::tab_state::TabState;

/// Outcome of a navigation.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Navigated {
    /// Number of the tab.
    pub tab: u32,
    /// Title of the document.
    pub title: String,
    /// URL of the document, after redirects.
    pub url: String,
    /// True if the document was loaded in time, and the element that was waited for was there. If
    /// not, what is there can be read.
    pub loaded: bool,
    /// Status of HTTP, if a server has answered.
    pub status: Option<u16>,
    /// Everything else that came of it.
    pub report: Report,
}

/// Number of further attempts if the page that is left navigates by itself meanwhile.
const ATTEMPTS: usize = 10;

/// Reason of the browser for a navigation that ends without a document of its own.
const ABORTED: &str = "net::ERR_ABORTED";

/// Outcome of the begin of a navigation.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Beginning {
    /// The document is there. Its load is given unless only the fragment has changed.
    Document(Option<LoaderId>),
    /// The page that was to be left has opened another document instead.
    Replaced,
    /// There is no document: a download, an answer without content, or no answer in time.
    Nothing,
}

/// Function that waits for an element, and returns whether it is there.
const WAIT_FOR: &str = "(kind, selector, milliseconds) => {
    const find = () => kind === 'xpath'
        ? document.evaluate(selector, document, null, XPathResult.FIRST_ORDERED_NODE_TYPE, null).singleNodeValue
        : document.querySelector(selector);
    if (find()) return true;
    return new Promise((done, failed) => {
        const observer = new MutationObserver(() => { if (find()) end(); });
        const end = () => { observer.disconnect(); done(Boolean(find())); };
        observer.observe(document, { childList: true, subtree: true, attributes: true, characterData: true });
        setTimeout(end, milliseconds);
    });
}";

impl Tab {
    /// Opens a URL in the tab. Waits until the document is loaded and its requests have ended, the
    /// latter at most [`limits::QUIET_AFTER_LOAD`]; then for an element if `wait_for` names one by a
    /// CSS selector, `css:...` or `xpath:...`. All together takes at most `limit`.
    ///
    /// # Errors
    /// [`BrowserError::Address`] for a scheme that is refused, [`BrowserError::Navigation`] if the
    /// document cannot be loaded, [`BrowserError::Script`] if the selector is invalid, and the errors
    /// of [`Tab::prepare`].
    pub async fn navigate(
        &self,
        url: &str,
        wait_for: Option<&str>,
        limit: Duration,
    ) -> Result<Navigated, BrowserError> {
        let deadline = Instant::now() + limit;
        let url = address::parse(url)?;
        // A script that runs without end would keep its page; the page is left anyway.
        self.change(|state| state.is_doubtful = state.documents > 0);
        self.prepare().await?;
        self.caught_up().await;
        let mut is_restless = self.read(TabState::is_restless);
        let action = self.begin_report();
        let mut opened;
        let mut loaded;
        let mut attempt = 0;
        loop {
            opened = self.open(url.as_str(), &action, is_restless, deadline).await?;
            let own_load = match &opened {
                Beginning::Document(Some(load)) if is_restless => Some(load),
                _ => None,
            };
            loaded = matches!(opened, Beginning::Document(_)) && self.load(&action, own_load, deadline).await;
            if own_load.is_some_and(|load| self.read(|state| state.loader() != Some(load))) {
                opened = Beginning::Replaced;
            }
            attempt += 1;
            if opened != Beginning::Replaced || attempt > ATTEMPTS || Instant::now() >= deadline {
                break;
            }
            // The page does not let itself be left, so its process is ended first.
            self.end_page().await;
            is_restless = false;
        }
        let has_document = opened != Beginning::Nothing;
        if let Some(selector) = wait_for.filter(|_| has_document) {
            let found = self.wait_for(selector, deadline).await?;
            if !found {
                let sentence = format!("nothing matched `{}` within {limit:?}", cut(selector, limits::NAME));
                self.change(|state| state.refusal(sentence));
            }
            loaded = loaded && found;
        }
        self.change(|state| state.is_doubtful |= has_document && !loaded);
        self.caught_up().await;
        Ok(Navigated {
            tab: self.number(),
            title: self.title().await.unwrap_or_default(),
            url: self.url(),
            loaded,
            status: self.read(TabState::status),
            report: self.report(&action),
        })
    }

    /// Begins the navigation, and waits until its document is there. A page that is restless has
    /// less time, because it can keep the browser from answering.
    async fn open(
        &self,
        url: &str,
        action: &ActionMark,
        is_restless: bool,
        deadline: Instant,
    ) -> Result<Beginning, BrowserError> {
        let documents = self.read(|state| state.documents);
        let mut left = deadline.saturating_duration_since(Instant::now());
        if is_restless {
            left = left.min(limits::CLOSING);
        }
        let command = Navigate { url: url.to_owned(), frame_id: None };
        // The browser gives no answer if the page that is left navigates first, again and again.
        let restless = self.wait(deadline, |state| (state.documents > documents + 1).then_some(()));
        let answer = tokio::select! {
            biased;
            answer = self.client().run_within(command, left) => answer,
            Some(()) = restless => return Ok(Beginning::Replaced),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(CdpError::TimedOut { .. }) if is_restless => return Ok(Beginning::Replaced),
            Err(CdpError::TimedOut { .. }) => {
                // The server has not answered. What the tab showed before stays.
                self.client().post(StopLoading {});
                return Ok(Beginning::Nothing);
            }
            Err(error) => return Err(self.if_open(error)),
        };
        self.caught_up().await;
        if let Some(reason) = &answer.error_text {
            let is_replaced = self.read(|state| state.documents) != documents;
            if let Some(load) = answer.loader_id.as_ref().filter(|_| reason != ABORTED) {
                // The browser shows an error page, which must not come in the way of the next use.
                let soon = deadline.min(Instant::now() + limits::TWO_FRAMES);
                let is_there = |state: &TabState| state.loads.contains(load) && state.has_loaded();
                self.wait(soon, |state| is_there(state).then_some(())).await;
            }
            return self.without_document(url, reason, action, is_replaced);
        }
        match &answer.loader_id {
            Some(loader) => {
                let answered = self.read(|state| state.documents);
                let there = |state: &TabState| {
                    let is_there = state.loads.contains(loader);
                    // The page that was to be left may still overtake the document.
                    (is_there || state.documents > answered + 1).then_some(is_there)
                };
                if self.wait(deadline, there).await == Some(false) {
                    return Ok(Beginning::Replaced);
                }
            }
            // The document stayed, and only its fragment changes. The page may change it once more.
            None => {
                let wanted = address::shown(url);
                let soon = deadline.min(Instant::now() + limits::TWO_FRAMES);
                self.wait(soon, |state| (state.url() == wanted).then_some(())).await;
            }
        }
        Ok(Beginning::Document(answer.loader_id))
    }

    /// Judges a navigation that the browser reports as failed.
    fn without_document(
        &self,
        url: &str,
        reason: &str,
        action: &ActionMark,
        is_replaced: bool,
    ) -> Result<Beginning, BrowserError> {
        if reason == ABORTED && is_replaced {
            return Ok(Beginning::Replaced);
        }
        // A download, or an answer without content.
        if reason == ABORTED && self.report(action).refusals.is_empty() {
            return Ok(Beginning::Nothing);
        }
        let url = address::shown(url);
        let reason = if reason == "net::ERR_UNSAFE_REDIRECT" {
            format!("it leads to a scheme that is refused ({reason})")
        } else {
            cut(reason, limits::NAME)
        };
        Err(BrowserError::Navigation { url, reason })
    }

    /// Waits until the document is loaded and its requests have ended, and returns whether it is
    /// loaded. Stops waiting when another document takes the place of `own_load`, if that is given.
    async fn load(&self, action: &ActionMark, own_load: Option<&LoaderId>, deadline: Instant) -> bool {
        let is_over = |state: &TabState| {
            let is_replaced = own_load.is_some_and(|load| state.loader() != Some(load));
            (is_replaced || state.has_loaded()).then_some(())
        };
        let loaded = self.wait(deadline, is_over).await;
        if loaded.is_some() {
            let quiet_by = deadline.min(Instant::now() + limits::QUIET_AFTER_LOAD);
            let _ = self.wait(quiet_by, |state| state.is_quiet(action).then_some(())).await;
        }
        loaded.is_some() && self.read(TabState::has_loaded)
    }

    /// Waits for an element, also in the documents that follow, and returns whether it is there.
    async fn wait_for(&self, selector: &str, deadline: Instant) -> Result<bool, BrowserError> {
        let (kind, text) = match selector.split_once(':') {
            Some(("xpath", text)) => ("xpath", text),
            Some(("css", text)) => ("css", text),
            _ => ("css", selector),
        };
        loop {
            let documents = self.read(|state| state.documents);
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let milliseconds = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
            let arguments = [json!(kind), json!(text), json!(milliseconds)].map(Into::into).to_vec();
            let frame = self.main_frame();
            let found =
                frame.evaluate_within(World::Isolated, WAIT_FOR, arguments, left + limits::TWO_FRAMES);
            match found.await {
                Ok(found) => return Ok(found),
                Err(BrowserError::FrameGone) => {
                    let is_new = |state: &TabState| (state.documents != documents).then_some(());
                    let _ = self.wait(deadline, is_new).await;
                }
                Err(BrowserError::NotResponding { .. }) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the error of a command, or that the tab is closed if it is.
    fn if_open(&self, error: CdpError) -> BrowserError {
        if self.is_closed() { BrowserError::TabClosed { tab: self.number() } } else { error.into() }
    }
}
