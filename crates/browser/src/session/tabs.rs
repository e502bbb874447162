//! The list of the tabs of a session.

use std::collections::{BTreeMap, VecDeque};

use cdp::protocol::target::TargetInfo;
use cdp::{SessionClient, Subscription, TargetId};

use crate::dialogs::DialogPolicy;
use crate::limits;
use crate::tab::Tab;

/// Number of targets whose ids are remembered after they were closed.
const REMEMBERED: usize = 200;

/// The tabs of a session, and the targets that are to become tabs.
#[derive(Debug, Default)]
pub(crate) struct Tabs {
    open: BTreeMap<u32, OpenTab>,
    last: u32,
    /// Number of the active tab.
    pub(crate) active: Option<u32>,
    /// Answers to dialogs for new tabs.
    pub(crate) dialog_policy: DialogPolicy,
    /// Number of targets that are being created here and have no place yet.
    pub(crate) creating: usize,
    /// Targets that are attached and have no place yet.
    pub(crate) arrivals: Vec<Arrival>,
    /// Targets that this session has had, for downloads that outlive their tab.
    known: VecDeque<TargetId>,
}

/// A target that is attached, and waits.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) target: TargetInfo,
    pub(crate) client: SessionClient,
    pub(crate) events: Subscription,
}

#[derive(Debug)]
struct OpenTab {
    tab: Tab,
    /// Number of the tab whose page has opened this one.
    opener: Option<u32>,
}

impl Tabs {
    /// Returns the open tabs in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Tab> {
        self.open.values().map(|open| open.tab.clone()).collect()
    }

    pub(crate) fn get(&self, number: u32) -> Option<Tab> {
        self.open.get(&number).map(|open| open.tab.clone())
    }

    pub(crate) fn by_target(&self, target: &TargetId) -> Option<Tab> {
        self.open.values().find(|open| open.tab.target() == target).map(|open| open.tab.clone())
    }

    /// Returns true if no further tab may be opened, those included that are being created.
    pub(crate) fn are_full(&self) -> bool {
        self.open.len() >= limits::TABS
    }

    /// Returns the number for a new tab.
    pub(crate) fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    pub(crate) fn add(&mut self, tab: Tab, opener: Option<u32>) {
        self.open.insert(tab.number(), OpenTab { tab, opener });
    }

    /// Removes a closed tab, and returns the tab that shall report it: the one whose page has opened
    /// it, if that is open.
    pub(crate) fn remove(&mut self, number: u32) -> Option<Tab> {
        let closed = self.open.remove(&number)?;
        if self.active == Some(number) {
            self.active = closed.opener.filter(|opener| self.open.contains_key(opener));
            self.active = self.active.or_else(|| self.open.keys().next_back().copied());
        }
        self.get(closed.opener?)
    }

    /// Remembers the id of a target.
    pub(crate) fn remember(&mut self, target: TargetId) {
        if self.known.len() == REMEMBERED {
            self.known.pop_front();
        }
        self.known.push_back(target);
    }

    /// Returns true if a target with this id belongs or belonged to the session.
    pub(crate) fn has_known(&self, target: &str) -> bool {
        self.known.iter().any(|known| known.as_str() == target)
    }
}
