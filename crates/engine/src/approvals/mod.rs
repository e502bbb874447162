//! Approvals: what is asked, who is asked, what an answer is bound to, and what it allows beyond one call.
//!
//! A question is a row that outlives the program. Whoever is there is asked at the same time as everybody who looks at the
//! rows, and the first answer counts; where nobody answers, the call ends and the answer can still be given, for the same
//! call made again.

mod ask;
mod binding;
mod foreseen;
mod leased;
mod offer;
mod people;
mod preview;
mod put;
mod question;

pub(crate) use binding::Binding;
pub(crate) use foreseen::Foreseen;
pub(crate) use leased::{Leased, Leases};
pub use people::{ApprovalError, Approvals, Approved, Asked, Grant};
pub(crate) use preview::{Asking, Preview};
pub(crate) use put::Said;
pub use question::{Answer, Approval, Asker, Bound, NoAsker, Offer, PatternKind, Scope};
