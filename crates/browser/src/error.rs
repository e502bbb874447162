//! Errors of a browser and its tabs.

use std::time::Duration;

use cdp::CdpError;

use crate::extension::{NOT_ALLOWED, NOT_CONNECTED, PAUSED, PORT};

/// Reason why something in the browser did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BrowserError {
    /// The browser has ended.
    #[error("the browser has ended: {reason}")]
    Gone {
        /// Reason of the end of its streams.
        reason: String,
    },
    /// The browser could not be started.
    #[error("the browser could not be started: {reason}")]
    Start {
        /// Failed step, and its error.
        reason: String,
    },
    /// No browser of this machine can be started.
    #[error("there is no browser: {why}")]
    Missing {
        /// Places that were searched.
        why: String,
    },
    /// No extension of the user's browser is paired.
    #[error("no browser of the user is paired")]
    NotPaired,
    /// The extension of the user's browser is not connected.
    #[error("the extension in the user's browser is not connected to port {port}")]
    NoExtension {
        /// Port that it connects to.
        port: u16,
    },
    /// The user has paused the extension.
    #[error("the user has paused the extension in the browser")]
    Paused,
    /// The extension, or the user's setting in it, does not let this pass.
    #[error("{reason}")]
    NotShared {
        /// Refused thing, and the reason.
        reason: String,
    },
    /// The port of the extension is in use.
    #[error("port {port} cannot be listened on: {reason}")]
    PortInUse {
        /// The port.
        port: u16,
        /// Error of the system.
        reason: String,
    },
    /// Another session uses the user's browser.
    #[error("another session uses the user's browser")]
    Lent,
    /// Something that the user's browser is not used for.
    #[error("{what} in the user's browser is not possible")]
    NotInUserBrowser {
        /// Name of the thing.
        what: &'static str,
    },
    /// The runtime has the maximum number of browsers.
    #[error("{limit} browsers of other sessions run, which is the maximum")]
    TooManyBrowsers {
        /// Maximum number of browsers.
        limit: usize,
    },
    /// The browser refused a command, or did not answer it.
    #[error(transparent)]
    Protocol(CdpError),
    /// The URL is not one that may be opened.
    #[error("{url}: {reason}; only http, https and about:blank can be opened")]
    Address {
        /// The URL, cut.
        url: String,
        /// Reason of the refusal.
        reason: String,
    },
    /// The document could not be loaded.
    #[error("{url} cannot be opened: {reason}")]
    Navigation {
        /// The URL, cut.
        url: String,
        /// Error of the browser, for example `net::ERR_CONNECTION_REFUSED`.
        reason: String,
    },
    /// The session has no such tab.
    #[error("there is no tab {tab}; open tabs: {}", numbers(open))]
    NoTab {
        /// Number that was asked for.
        tab: u32,
        /// Numbers of the open tabs.
        open: Vec<u32>,
    },
    /// The session has as many tabs as it may have.
    #[error("{limit} tabs are open, which is the maximum: close one first")]
    TooManyTabs {
        /// Maximum number of tabs.
        limit: usize,
    },
    /// The tab was closed while something waited for it.
    #[error("tab {tab} was closed")]
    TabClosed {
        /// Number of the tab.
        tab: u32,
    },
    /// The process of the page crashed while something waited for it.
    #[error("the page in tab {tab} has crashed; it is loaded again when the tab is used next")]
    Crashed {
        /// Number of the tab.
        tab: u32,
    },
    /// The page does not answer, because a script of its own runs without end.
    #[error("the page in tab {tab} did not answer within {waited:?}; a script of the page may be running")]
    NotResponding {
        /// Number of the tab.
        tab: u32,
        /// Time that was waited.
        waited: Duration,
    },
    /// The frame was removed, or has another document now.
    #[error("the frame has gone, or shows another document now")]
    FrameGone,
    /// A script in the page failed.
    #[error("the script failed: {message}")]
    Script {
        /// Message of the exception, cut.
        message: String,
    },
    /// The answer of a script has another shape than expected.
    #[error("the answer of the script is not as expected: {reason}")]
    ScriptAnswer {
        /// Position and kind of the difference.
        reason: String,
    },
    /// No element matched the selector in time.
    #[error("nothing matched `{selector}` within {waited:?}")]
    NotFound {
        /// The selector, cut.
        selector: String,
        /// Time that was waited.
        waited: Duration,
    },
    /// The picture is empty or cannot be read.
    #[error("no picture: {reason}")]
    Picture {
        /// Reason.
        reason: String,
    },
    /// The server answered a download with an error.
    #[error("{url}: the server answered with status {status}")]
    DownloadStatus {
        /// The URL, cut.
        url: String,
        /// Status of HTTP.
        status: u16,
    },
    /// The file is larger than allowed. Nothing is kept of it.
    #[error("{url}: the file is larger than {limit} bytes")]
    DownloadTooLarge {
        /// The URL, cut.
        url: String,
        /// Maximum size in bytes.
        limit: u64,
    },
    /// The download did not end in time, or was cancelled.
    #[error("{url}: the download has failed: {reason}")]
    DownloadFailed {
        /// The URL, cut.
        url: String,
        /// Reason.
        reason: String,
    },
}

impl From<CdpError> for BrowserError {
    fn from(error: CdpError) -> Self {
        match error {
            CdpError::Closed { reason } => Self::Gone { reason },
            CdpError::Refused { code: NOT_CONNECTED, .. } => Self::NoExtension { port: PORT },
            CdpError::Refused { code: PAUSED, .. } => Self::Paused,
            CdpError::Refused { code: NOT_ALLOWED, message, .. } => Self::NotShared { reason: message },
            other => Self::Protocol(other),
        }
    }
}

fn numbers(open: &[u32]) -> String {
    if open.is_empty() {
        return "none".to_owned();
    }
    open.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")
}
