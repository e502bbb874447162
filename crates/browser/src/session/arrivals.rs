//! New targets of a session: pages that it creates itself, and pages that its pages open.
//!
//! The browser reports both in the same way, and a target may arrive before or after the answer that
//! names it. So while a target is being created, arrivals without a place wait; they run nothing
//! before they are set up.

use std::sync::{Arc, Weak};

use cdp::SessionClient;
use cdp::protocol::runtime::RunIfWaitingForDebugger;
use cdp::protocol::target::{AttachedToTarget, CloseTarget, CreateTarget};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::address;
use crate::error::BrowserError;
use crate::limits;
use crate::report::Happening;
use crate::session::SessionInner;
use crate::session::tabs::{Arrival, Tabs};
use crate::tab::{Neighbours, Tab, TabParts};
use crate::tab_events::follow_page;
use crate::tab_setup::set_up;
use crate::tab_state::Phase;

/// A target that this session has created, and its arrival.
type Created = Result<Arrival, BrowserError>;

impl SessionInner {
    /// Takes a new target of this session.
    pub(crate) fn arrive(self: &Arc<Self>, attached: AttachedToTarget) {
        let client = SessionClient::new(self.connection.clone(), attached.session_id);
        let events = client.subscribe();
        let arrival = Arrival { target: attached.target_info, client, events };
        self.change(|tabs| {
            tabs.remember(arrival.target.target_id.clone());
            tabs.arrivals.push(arrival);
        });
        self.adopt();
    }

    /// Opens a new tab and makes it the active one.
    pub(crate) async fn new_tab(self: &Arc<Self>) -> Result<Tab, BrowserError> {
        if self.read(Tabs::are_full) {
            return Err(BrowserError::TooManyTabs { limit: limits::TABS });
        }
        let arrival = self.create().await?;
        if self.read(Tabs::are_full) {
            self.close_target(&arrival);
            return Err(BrowserError::TooManyTabs { limit: limits::TABS });
        }
        let tab = self.place(arrival, None);
        self.change(|tabs| tabs.active = Some(tab.number()));
        tab.prepare().await?;
        Ok(tab)
    }

    /// Creates an empty target. If the caller stops waiting, the target is closed again.
    pub(crate) async fn create(self: &Arc<Self>) -> Created {
        let (sender, receiver) = oneshot::channel();
        self.change(|tabs| tabs.creating += 1);
        let session = Arc::clone(self);
        tokio::spawn(async move {
            let created = session.create_now().await;
            session.change(|tabs| tabs.creating -= 1);
            if let Err(Ok(unwanted)) = sender.send(created) {
                session.close_target(&unwanted);
            }
            session.adopt();
        });
        receiver
            .await
            .unwrap_or_else(|_| Err(BrowserError::Gone { reason: "the runtime has ended".to_owned() }))
    }

    async fn create_now(&self) -> Created {
        let command = CreateTarget {
            url: address::BLANK.to_owned(),
            browser_context_id: Some(self.context()),
            background: false,
        };
        let target = self.connection.run_within(None, command, limits::SETUP).await?.target_id;
        let mut changed = self.changed.subscribe();
        let arriving = async {
            loop {
                let arrival = self.change_silently(|tabs| {
                    let place =
                        tabs.arrivals.iter().position(|arrival| arrival.target.target_id == target)?;
                    Some(tabs.arrivals.swap_remove(place))
                });
                if let Some(arrival) = arrival {
                    return Some(arrival);
                }
                changed.changed().await.ok()?;
            }
        };
        let arrival = tokio::time::timeout_at(Instant::now() + limits::SETUP, arriving).await.ok().flatten();
        arrival.ok_or(BrowserError::NotResponding { tab: 0, waited: limits::SETUP })
    }

    /// Changes the tabs without waking those who wait, for changes that nobody waits for.
    fn change_silently<T>(&self, change: impl FnOnce(&mut Tabs) -> T) -> T {
        change(&mut self.tabs.lock())
    }

    /// Gives a tab to each arrival that no call of this session waits for: pages have opened them.
    fn adopt(self: &Arc<Self>) {
        let arrivals = self.change_silently(|tabs| {
            if tabs.creating == 0 { std::mem::take(&mut tabs.arrivals) } else { Vec::new() }
        });
        for arrival in arrivals {
            let opener = arrival.target.opener_id.as_ref();
            let opener = opener.and_then(|opener| self.read(|tabs| tabs.by_target(opener)));
            if self.read(Tabs::are_full) {
                self.close_target(&arrival);
                if let Some(opener) = opener {
                    let most = limits::TABS;
                    let sentence = format!("a tab that the page opened was closed: {most} tabs are open");
                    opener.change(|state| state.refusal(sentence));
                }
                continue;
            }
            let tab = self.place(arrival, opener.as_ref().map(Tab::number));
            if let Some(opener) = opener {
                opener.note(Happening::TabOpened(tab.number()));
            }
        }
    }

    /// Makes a tab of an arrival, and sets it up.
    fn place(self: &Arc<Self>, arrival: Arrival, opener: Option<u32>) -> Tab {
        let neighbours: Weak<dyn Neighbours> = Arc::<Self>::downgrade(self) as Weak<dyn Neighbours>;
        let tab = self.change(|tabs| {
            let tab = Tab::new(TabParts {
                number: tabs.next_number(),
                target: arrival.target.target_id.clone(),
                client: arrival.client.clone(),
                settings: Arc::clone(&self.settings),
                downloads: Arc::clone(&self.downloads),
                neighbours,
                dialog_policy: tabs.dialog_policy.clone(),
                progress: [arrival.events.progress(), self.progress.clone()],
            });
            if self.settings.has_windows {
                // A tab of the user shows a page already, and its effects are planned by its URL.
                tab.change(|state| state.frames.begin_at(&arrival.target.url));
            }
            tabs.add(tab.clone(), opener);
            tab
        });
        tokio::spawn(follow_page(tab.clone(), arrival.events));
        let (new, settings) = (tab.clone(), Arc::clone(&self.settings));
        tokio::spawn(async move {
            // A tab that is gone meanwhile needs no setup.
            let _ = set_up(new.client(), &settings, true).await;
            new.change(|state| {
                if state.phase == Phase::New {
                    state.phase = Phase::Open;
                }
            });
        });
        tab
    }

    /// Closes a target that gets no tab. It is let go first: the page that has opened it stands still
    /// while it waits.
    pub(crate) fn close_target(&self, arrival: &Arrival) {
        arrival.client.post(RunIfWaitingForDebugger {});
        self.connection.post(None, CloseTarget { target_id: arrival.target.target_id.clone() });
    }
}
