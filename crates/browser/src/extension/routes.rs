//! State of the bridge: the tabs that the extension shows, and the calls that wait for it. This module
//! sends nothing.

use std::collections::{BTreeMap, HashMap};

use cdp::protocol::storage::Cookie;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::extension::messages::{Hello, SharedTab};

/// Id of the one context of the user's browser.
pub(super) const CONTEXT: &str = "user";

/// Place that a session of the protocol stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    pub(super) tab: i64,
    /// Session of a frame in another process; `None` for the tab itself.
    pub(super) frame: Option<String>,
}

/// A call that waits for the extension.
#[derive(Debug, Clone)]
pub(super) enum Pending {
    /// Call whose answer is passed on.
    Forward { id: u64 },
    /// A new tab.
    Create { id: u64 },
    /// State of a tab.
    Get { id: u64, target: String },
    /// The events of a page, after which its frames are announced.
    PageEvents { id: u64, session: String },
    /// The frames of a page.
    Frames { id: u64, session: String, answer: String },
    /// The cookies of a tab.
    Cookies { id: u64, collection: u64 },
}

impl Pending {
    /// Returns the id of the call that it is for.
    pub(super) fn id(&self) -> u64 {
        match self {
            Self::Forward { id }
            | Self::Create { id }
            | Self::Get { id, .. }
            | Self::PageEvents { id, .. }
            | Self::Frames { id, .. }
            | Self::Cookies { id, .. } => *id,
        }
    }
}

/// A call that is held back.
#[derive(Debug)]
pub(super) struct HeldCall {
    pub(super) id: u64,
    pub(super) session: String,
    pub(super) method: &'static str,
    pub(super) params: Option<Box<RawValue>>,
}

/// Cookies of the tabs, while they are collected.
#[derive(Debug, Default)]
pub(super) struct Collection {
    pub(super) left: usize,
    pub(super) cookies: Vec<Cookie>,
}

/// The present connection of the extension.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) number: u64,
    pub(super) out: UnboundedSender<String>,
    pub(super) hello: Hello,
}

/// State of the bridge.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) socket: Option<Socket>,
    /// Time until which calls wait for an extension whose connection broke.
    pub(super) back_by: Option<Instant>,
    /// True once the browser is given back: no further connection is taken.
    pub(super) has_left: bool,
    /// True once the tabs were announced to the protocol's side.
    pub(super) is_announced: bool,
    pub(super) tabs: BTreeMap<i64, SharedTab>,
    pub(super) routes: HashMap<String, Route>,
    pub(super) pending: HashMap<u64, Pending>,
    /// Calls that wait until the documents of their session were announced.
    pub(super) held: Vec<HeldCall>,
    pub(super) collections: HashMap<u64, Collection>,
    last: u64,
}

impl State {
    /// Returns a number that no other call to the extension has.
    pub(super) fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Returns true if the documents of a session are about to be announced.
    pub(super) fn announces(&self, session: &str) -> bool {
        self.pending.values().any(|pending| match pending {
            Pending::PageEvents { session: own, .. } | Pending::Frames { session: own, .. } => own == session,
            _ => false,
        })
    }

    /// Returns the tab with this target.
    pub(super) fn by_target(&self, target: &str) -> Option<i64> {
        self.tabs.values().find(|shown| shown.target == target).map(|shown| shown.tab)
    }
}

/// Returns the id of the session that stands for a tab.
pub(super) fn session_of(shown: &SharedTab) -> String {
    format!("user-{}-{}", shown.tab, shown.attachment)
}

/// Returns the description of a tab, as the protocol has it.
pub(super) fn target_info(shown: &SharedTab, opener: Option<&str>) -> Value {
    let mut info = json!({
        "targetId": shown.target,
        "type": "page",
        "title": shown.title,
        "url": shown.url,
        "attached": true,
        "browserContextId": CONTEXT,
    });
    if let (Some(opener), Some(fields)) = (opener, info.as_object_mut()) {
        fields.insert("openerId".to_owned(), json!(opener));
    }
    info
}
