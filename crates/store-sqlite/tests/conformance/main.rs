//! The conformance suite on this store, and on copies of it that have one fault each.

#![expect(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

mod broken;

use std::sync::Arc;

use store_api::{Store, StoreError};
use store_conformance::{Implementation, Violation, violations};
use store_sqlite::SqliteStore;

use broken::{BrokenStore, Fault};

/// Stores in folders below one folder, with the fault, if there is one.
struct Folders {
    folder: tempfile::TempDir,
    fault: Option<Fault>,
}

impl Implementation for Folders {
    fn open(&self, state: &str) -> Result<Arc<dyn Store>, StoreError> {
        let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&self.folder.path().join(state))?);
        Ok(match self.fault {
            Some(fault) => Arc::new(BrokenStore::new(store, fault)),
            None => store,
        })
    }
}

fn violations_with(fault: Option<Fault>, select: impl Fn(&str) -> bool) -> Vec<Violation> {
    violations(&Folders { folder: tempfile::tempdir().unwrap(), fault }, select)
}

#[test]
fn this_store_keeps_every_promise() {
    assert_eq!(violations_with(None, |_| true), []);
}

#[test]
fn each_fault_breaks_its_promise_and_the_suite_reports_it() {
    for (fault, promise) in [
        (Fault::OutcomeFirst, "an intent is recorded before its outcome"),
        (Fault::RowsOfOneProcess, "rows of all processes form one chain, in the order of their receipts"),
        (Fault::SecondAnswerCounts, "the first answer to a question counts"),
        (Fault::UsedTwice, "an approval is used once, by its id or by its plan"),
        (Fault::ExpiredLease, "a lease ends at its expiry"),
        (
            Fault::PartOfAnyWorkspace,
            "checkpoints are found by the start or the end of their id within their workspace",
        ),
        (Fault::PathIgnored, "checkpoints are found by a path that they changed within their workspace"),
        (Fault::WorkspaceIgnored, "rows are found by their workspace, with those of no workspace"),
        (Fault::CallsWithoutEnd, "calls are found by the start or the end of their id"),
        (Fault::TimeIgnored, "checkpoints are found by time within their workspace"),
        (Fault::OutputWithoutSession, "an output comes back by its id, with its session and its content"),
        (Fault::EmptyContent, "saved content comes back by its hash, from another process"),
        (Fault::MemoryOfAnother, "an agent has its own memories and the shared ones, and nothing of another"),
        (Fault::StaleVectors, "vectors belong to one version, one model and what the agent sees"),
        (
            Fault::WatcherOfAnyWorkspace,
            "a watcher is seen by others while it lasts, in the workspaces that it can answer",
        ),
        (Fault::NobodyWaits, "a question is waited for while any call waits"),
        (Fault::AlwaysDue, "a chore is due after its time, for all processes together"),
        (Fault::TrustStays, "a file is trusted as it was until that is changed"),
        (Fault::SecretsInRows, "secrets in later rows are covered"),
        (
            Fault::ClaimWithoutFence,
            "a firing whose lease has ended is taken over, and its first owner is refused",
        ),
        (Fault::LeaseIgnored, "an instant is claimed once by all processes, and its schedule moves on"),
        (Fault::PauseIgnored, "a paused schedule fires nothing until it is resumed"),
        (Fault::AgentTaken, "of several that take an agent at once, one has it"),
        (
            Fault::AgentWithoutFence,
            "an agent is taken when the lease of its owner has ended, and its earlier owner is refused",
        ),
        (
            Fault::MailOutOfOrder,
            "a mail waits until the earlier ones of its sender and its priority are acknowledged",
        ),
        (Fault::MailAcknowledgedTwice, "a mail is acknowledged once"),
        (Fault::ReplyOfAnother, "a reply is taken by its receiver alone, while it is open"),
        (Fault::ReplyKept, "of several that take a reply at once, one has it"),
        (
            Fault::ReplyInOrder,
            "a reply is taken from whoever claimed it and died, and never handed out again",
        ),
        (Fault::ReservationForgotten, "a reservation whose lease has ended counts as spent"),
    ] {
        let broken = violations_with(Some(fault), |name| name == promise);
        assert_eq!(broken.len(), 1, "{fault:?} is not reported");
    }
}
