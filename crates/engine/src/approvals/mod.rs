//! Approvals: questions, the people who are asked, what an answer is bound to, and what it allows
//! beyond one call.
//!
//! A question is a row that outlives the program. The caller's client and everybody who watches the
//! rows are asked at the same time, and the first answer counts. If nobody answers, the call ends,
//! and an answer can still be given for the same call made again.

mod ask;
mod binding;
mod foreseen;
mod effective_policy;
mod offer;
mod admin;
mod preview;
mod broadcast;
mod question;

pub(crate) use binding::Binding;
pub(crate) use foreseen::ForeseenWrites;
pub(crate) use effective_policy::{EffectivePolicy, Leases};
pub use admin::{ApprovalError, Approvals, GrantResult, StoredQuestion, Grant};
pub(crate) use preview::{PreviewedCall, Preview};
pub(crate) use broadcast::QuestionOutcome;
pub use question::{Answer, Approval, Asker, BoundItem, NoAsker, Offer, PatternKind, Scope};
