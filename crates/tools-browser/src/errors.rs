//! Errors of the browser, in the one shape that callers see.

use browser::{BrowserError, PageError};
use tool::{Code, ToolError};

/// Converts an error of the browser.
pub(crate) fn of_browser(error: BrowserError) -> ToolError {
    let message = error.to_string();
    let (code, hint) = match &error {
        BrowserError::Gone { .. } => (
            Code::Unavailable,
            Some("call browser_navigate: it starts another browser; earlier tabs are lost"),
        ),
        BrowserError::Start { .. } => (Code::Unavailable, Some("the user can run `handfast doctor`")),
        BrowserError::Missing { .. } => (
            Code::Unavailable,
            Some("the user runs `handfast setup browser`, or on Debian or Ubuntu: sudo apt install chromium"),
        ),
        BrowserError::Address { .. } => (Code::Validation, None),
        BrowserError::NoTab { .. } | BrowserError::TabClosed { .. } => {
            (Code::NotFound, Some("browser_tabs lists the tabs; browser_navigate without `tab_id` opens one"))
        }
        BrowserError::TooManyBrowsers { .. } => {
            (Code::Quota, Some("try again when another session has ended"))
        }
        BrowserError::TooManyTabs { .. } => (Code::Quota, Some("close a tab with browser_tabs")),
        BrowserError::NotFound { .. } | BrowserError::NotResponding { .. } => (Code::Timeout, None),
        BrowserError::DownloadTooLarge { .. } => (Code::Quota, None),
        BrowserError::FrameGone => (Code::Conflict, Some("the page has changed: read it again")),
        other => of_users_browser(other),
    };
    let mut converted = ToolError::new(code, message);
    if code == Code::Validation {
        converted = ToolError::validation("url", error.to_string());
    }
    if let Some(hint) = hint {
        converted = converted.hint(hint);
    }
    converted.because(error)
}

/// Returns the code and the hint for an error of the user's own browser, or of any other kind.
fn of_users_browser(error: &BrowserError) -> (Code, Option<&'static str>) {
    match error {
        BrowserError::NotPaired => (
            Code::Unavailable,
            Some(
                "two steps for the user: 1. `handfast browser extension --out DIR`, and load DIR at chrome://extensions (developer mode); 2. `handfast browser pair`, and type the code into the options of the extension. Without `port`, browser_connect starts a browser of its own",
            ),
        ),
        BrowserError::NoExtension { .. } => (
            Code::Unavailable,
            Some(
                "two steps for the user: 1. open the browser in which the extension Handfast is paired and enabled; 2. share a tab in its popup, and repeat the call. Without `port`, browser_connect starts a browser of its own",
            ),
        ),
        BrowserError::Paused => {
            (Code::Unavailable, Some("only the user can let it go on, in the popup of the extension"))
        }
        BrowserError::NotShared { .. } => (Code::Permission, None),
        BrowserError::PortInUse { .. } => (
            Code::Unavailable,
            Some(
                "another agent may use the user's browser; without `port`, browser_connect starts a browser of its own",
            ),
        ),
        BrowserError::Lent => {
            (Code::Quota, Some("without `port`, browser_connect starts a browser of its own"))
        }
        BrowserError::NotInUserBrowser { .. } => (
            Code::Unavailable,
            Some("browser_connect without `port` gives the browser back and starts one of its own"),
        ),
        _ => (Code::Runtime, None),
    }
}

/// Converts an error of a page.
pub(crate) fn of_page(error: PageError) -> ToolError {
    let again =
        "read the page with browser_read_page and mode accessibility_tree; it shows references such as e12";
    let (code, hint) = match error {
        PageError::Browser(error) => return of_browser(error),
        PageError::Selector { .. } | PageError::Key(_) => {
            let field = if matches!(error, PageError::Key(_)) { "press" } else { "selector" };
            return ToolError::validation(field, error.to_string()).because(error);
        }
        PageError::NoMatch { .. } => (Code::NotFound, Some(again)),
        PageError::ManyMatches { .. } | PageError::Reference { .. } => (Code::Conflict, Some(again)),
        PageError::NotReady { .. } | PageError::Wait { .. } => (Code::Timeout, None),
        PageError::Unfit { .. } | PageError::InvalidForm { .. } => (Code::Validation, None),
        PageError::Script { .. } => (Code::Runtime, None),
    };
    let converted = match code {
        Code::Validation => ToolError::validation("selector", error.to_string()),
        code => ToolError::new(code, error.to_string()),
    };
    match hint {
        Some(hint) => converted.hint(hint).because(error),
        None => converted.because(error),
    }
}
