//! Approvals: questions, the people who are asked, what an answer is bound to, and what it allows
//! beyond one call.
//!
//! A question is a row that outlives the program. The caller's client and everybody who watches the
//! rows are asked at the same time, and the first answer counts. If nobody answers, the call ends,
//! and an answer can still be given for the same call made again.

mod admin;
mod ask;
mod audit;
mod binding;
mod connections;
mod effective_policy;
mod flow;
mod foreseen;
mod host_connection;
mod leases;
mod offer;
mod past;
mod pictures;
mod preview;
mod question;
mod signals;
mod stored;

pub use admin::{ApprovalError, Approvals, Grant, GrantResult, StoredQuestion};
pub(crate) use binding::Binding;
pub(crate) use connections::{ConnectionAsker, MAX_LISTED};
pub(crate) use effective_policy::{EffectivePolicy, Leases};
pub(crate) use flow::{ApprovalOutcome, ReadyQuestion};
pub(crate) use foreseen::ForeseenWrites;
pub use host_connection::HostConnection;
pub(crate) use host_connection::place;
pub use past::RuleSuggestion;
pub(crate) use pictures::QuestionPictures;
pub(crate) use preview::{Preview, PreviewedCall};
pub use question::{Answer, Approval, Asker, BoundItem, NoAsker, Offer, PatternKind, Scope};
pub(crate) use signals::AnswerSignals;
pub use signals::QuestionListener;
pub(crate) use stored::stored;
