//! The place of a browser: in a cell, or on the user's desktop.

use std::path::PathBuf;

use crate::browser::Browser;
use crate::cell::BrowserInCell;
use crate::error::BrowserError;
use crate::extension::UserBrowser;

/// A browser, with what ends its use when it is dropped.
pub(crate) enum BrowserPlace {
    /// Cell of its own.
    Cell(BrowserInCell),
    /// Desktop of the user, through the extension.
    User(UserBrowser),
}

impl BrowserPlace {
    pub(crate) fn browser(&self) -> &Browser {
        match self {
            Self::Cell(cell) => &cell.browser,
            Self::User(user) => &user.browser,
        }
    }

    /// Returns true if this is the user's own browser.
    pub(crate) fn is_users(&self) -> bool {
        matches!(self, Self::User(_))
    }

    /// Records that the browser is in use.
    pub(crate) fn touch(&self) {
        if let Self::Cell(cell) = self {
            cell.touch();
        }
    }

    /// Checks that the browser can be used now.
    pub(crate) async fn ready(&self) -> Result<(), BrowserError> {
        match self {
            Self::Cell(_) => Ok(()),
            Self::User(user) => user.ready().await,
        }
    }

    /// Returns the folder for the downloads of pages; `None` in the user's browser, which keeps its own.
    pub(crate) fn downloads(&self) -> Option<PathBuf> {
        match self {
            Self::Cell(cell) => Some(cell.downloads()),
            Self::User(_) => None,
        }
    }

    /// Returns the folder that the browser and this program share.
    pub(crate) fn folder(&self) -> Option<&std::path::Path> {
        match self {
            Self::Cell(cell) => Some(cell.folder()),
            Self::User(_) => None,
        }
    }

    /// Ends the browser in a cell, or the use of the user's, and waits for that. Blocks.
    pub(crate) fn end(&self) {
        match self {
            Self::Cell(cell) => cell.end(),
            Self::User(user) => user.end(),
        }
    }
}
