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
        _ => (Code::Runtime, None),
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
