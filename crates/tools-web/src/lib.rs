//! Tools that connect to other servers. Each tool is one file; this file is only the list.

mod answer;
mod fetch_url;
mod page;
mod placeholders;
mod range_resume;
mod request;
mod saving;
mod secret_template;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use fetch_url::FetchUrl;

/// Returns the tools of this family, in listing order.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![ErasedTool::tool(FetchUrl)]
}
