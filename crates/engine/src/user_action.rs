//! Actions of the user on the command line outside any call, each recorded between two audit rows.

use std::path::Path;

use serde_json::{Value, json};
use store_api::{AuditRow, Durability, Kind, Store, StoreError};
use tool::{CallId, Clock, Code};

use crate::Door;

/// Audit rows of one action.
pub(crate) struct UserAction<'a> {
    pub(crate) id: CallId,
    what: &'a str,
    plan: String,
    clock: &'a dyn Clock,
}

impl<'a> UserAction<'a> {
    /// Creates an action that concerns no workspace, or only this one.
    pub(crate) fn new(
        clock: &'a dyn Clock,
        what: &'a str,
        arguments: &Value,
        workspace: Option<&Path>,
    ) -> Self {
        let mut plan = json!({"arguments": arguments, "effects": []});
        if let Some(workspace) = workspace {
            plan["workspace"] = tool::path_text(workspace).into();
        }
        Self { id: crate::new_call_id(clock), what, plan: plan.to_string(), clock }
    }

    /// Builds the row that is written before the action.
    pub(crate) fn intent(&self) -> AuditRow {
        self.row(Kind::Intent)
    }

    /// Builds the row that records how the action ended.
    pub(crate) fn outcome(&self, failed: Option<Code>) -> AuditRow {
        let mut row = self.row(Kind::Outcome);
        row.outcome = Some(failed.map_or("ok", |code| code.as_str()).to_owned());
        row.effect = Some(if failed.is_none() { "done" } else { "none" }.to_owned());
        row
    }

    fn row(&self, kind: Kind) -> AuditRow {
        let door = Door::CommandLine.as_str();
        let mut row = AuditRow::new(kind, self.clock.now(), &self.id.0, door, "handfast", self.what);
        row.plan = Some(self.plan.clone());
        row.approved_by = Some("the user, on the command line".to_owned());
        row
    }
}

/// Runs `work` for the user on the command line, between two audit rows. Blocks. `code` returns the
/// error code for the audit. `arguments` must contain no secret.
///
/// # Errors
/// Fails with the error of `work`, or if a row cannot be written. If the first row fails, `work`
/// has not run. If the second row fails, the outcome is not recorded.
pub fn by_hand<T, E: From<StoreError>>(
    (store, clock): (&dyn Store, &dyn Clock),
    what: &str,
    arguments: &Value,
    code: impl FnOnce(&E) -> Code,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    let deed = UserAction::new(clock, what, arguments, None);
    store.audit().append(deed.intent(), Durability::Committed).wait()?;
    let done = work();
    store.audit().append(deed.outcome(done.as_ref().err().map(code)), Durability::Committed).wait()?;
    done
}
