//! Audit rows about approvals.

use std::path::Path;

use serde_json::json;
use store_api::{ApprovalAnswer, AuditRow};

/// Fills the audit row of an approval: the question, its call and workspace, and the answer if the row
/// is about one.
pub(super) fn fill(
    row: &mut AuditRow,
    (id, call, workspace): (&str, &str, &Path),
    answer: Option<&ApprovalAnswer>,
) {
    let lease = answer.and_then(|answer| answer.lease.as_ref());
    let said = answer.map(|answer| if answer.approved { "yes" } else { "no" });
    let plan = json!({
        "arguments": {
            "id": id,
            "call": call,
            "answer": said,
            "scope": answer.and_then(|answer| answer.scope.clone()),
            "lease": lease.map(|lease| lease.id.clone()),
            "covers": lease.map(|lease| lease.covers.clone()),
        },
        "effects": [],
        "workspace": tool::path_text(workspace),
    });
    row.plan = Some(plan.to_string());
    row.approved_by = answer.map(|answer| answer.by.clone());
    row.outcome = Some("ok".to_owned());
    row.effect = Some("none".to_owned());
}
