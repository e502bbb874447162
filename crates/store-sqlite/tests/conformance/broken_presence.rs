//! The part of the broken store that other processes notice: presence and chores.

use std::collections::HashSet;
use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use store_api::{Chore, Chores, Life, LifeMark, Presence, WaitingMark, Watch, WatcherMark};

use crate::broken::{BrokenStore, Fault, StoreResult};

impl Presence for BrokenStore {
    fn watch(&self) -> StoreResult<Watch> {
        self.inner.watch()
    }
    fn pay_attention(&self, workspace: Option<&Path>) -> StoreResult<WatcherMark> {
        let workspace = workspace.filter(|_| !self.has(Fault::WatcherOfAnyWorkspace));
        self.inner.pay_attention(workspace)
    }
    fn has_attention(&self, workspace: &Path) -> bool {
        self.inner.has_attention(workspace)
    }
    fn wait_for(&self, question: &str, call: &str) -> StoreResult<WaitingMark> {
        self.inner.wait_for(question, call)
    }
    fn waited_for(&self) -> HashSet<String> {
        if self.has(Fault::NobodyWaits) { HashSet::new() } else { self.inner.waited_for() }
    }
    fn show_life(&self, name: &str) -> StoreResult<LifeMark> {
        self.inner.show_life(name)
    }
    fn life_of(&self, name: &str) -> Life {
        if self.has(Fault::EverybodyDied) { Life::Died } else { self.inner.life_of(name) }
    }
}

impl Chores for BrokenStore {
    fn is_due(&self, chore: Chore, every: SignedDuration, now: Timestamp) -> StoreResult<bool> {
        Ok(self.inner.is_due(chore, every, now)? || self.has(Fault::AlwaysDue))
    }
    fn begin(&self, chore: Chore, now: Timestamp) -> StoreResult<()> {
        self.inner.begin(chore, now)
    }
}
