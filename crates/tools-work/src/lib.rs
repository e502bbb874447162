//! Tools for issue trackers and mailboxes. Each tool is one file; this file is only the list.

mod failure;
mod gmail;
mod gmail_read;
mod gmail_search;
mod gmail_send;
mod linear;
mod linear_action;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use gmail::oauth;
pub use gmail::place::{Endpoints, Gmail};
pub use gmail_read::GmailRead;
pub use gmail_search::GmailSearch;
pub use gmail_send::GmailSend;
pub use linear::api::Linear;
pub use linear::queries;
pub use linear_action::LinearAction;

/// Returns the tools of this family, in listing order.
pub fn tools(linear: Linear, gmail: &Gmail) -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(LinearAction { linear }),
        ErasedTool::tool(GmailSearch { gmail: gmail.clone() }),
        ErasedTool::tool(GmailRead { gmail: gmail.clone() }),
        ErasedTool::tool(GmailSend { gmail: gmail.clone() }),
    ]
}
