//! A browser as an agent uses it: tabs, navigation, pages as text with references to their
//! elements, actions on elements, and everything that comes of an action.
//!
//! The crate drives Chromium through the crate `cdp`. It knows no tools and no policy. A [`Browser`]
//! stands on a pair of streams that its caller has connected. [`Browsers`] starts browsers in cells that
//! its caller supplies, and nowhere else.

mod actionability;
mod actions;
pub mod address;
mod arguments;
mod browser;
mod cell;
mod dialogs;
mod download_file;
mod downloads;
mod elements;
mod error;
mod event_log;
pub mod extension;
mod frame;
mod frame_tree;
mod keys;
mod lifeline;
pub mod limits;
mod locate;
mod marked_picture;
mod masks;
mod navigate;
mod page;
mod page_error;
mod page_script;
mod picture;
mod place;
mod pool;
mod read_page;
mod report;
mod requests;
mod selector;
mod session;
mod settle;
mod snapshot;
mod tab;
mod tab_events;
mod tab_setup;
mod tab_state;
mod target;
mod trace;
mod upload_file;

pub use actionability::ACTION_TIME;
pub use actions::{
    ActionOutcome, ClickOptions, Condition, Modifiers, MouseButton, ScrollPosition, ScrollTo, Typing,
    TypingMode,
};
pub use arguments::Settings;
pub use browser::Browser;
pub use cdp::protocol::page::Rectangle;
pub use cdp::protocol::storage::Cookie;
pub use cell::BrowserProgram;
pub use dialogs::{DialogAnswer, DialogKind, DialogPolicy};
pub use download_file::{open_download, remove_download};
pub use downloads::{DownloadEnd, DownloadReport};
pub use elements::{NotReference, Reference};
pub use error::BrowserError;
pub use event_log::{LogEntry, LogEvent, LogFilter, LogPage, RequestEntry};
pub use frame::{FrameHandle, World};
pub use keys::{KeyPress, UnknownKey};
pub use masks::Masks;
pub use navigate::Navigated;
pub use page::Page;
pub use page_error::PageError;
pub use picture::{Clip, Format, Picture};
pub use pool::{Browsers, Running};
pub use read_page::{LONGEST_PART, PART, PagePart, ReadOptions};
pub use report::{ActionMark, DialogReport, OpenedTab, Report, UrlChange};
pub use selector::Selector;
pub use session::{Download, OriginStorage, Session, StoredState, TabSummary};
pub use snapshot::budget::{TOKEN_BUDGET, tokens};
pub use snapshot::{Snapshot, SnapshotKind, SnapshotOptions};
pub use tab::Tab;
pub use target::{Area, PlannedAction, Target, TargetFacts};
pub use trace::{Step, Trace};
