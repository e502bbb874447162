//! The tools that speak to other servers. One file each; this is only the list.

mod answer;
mod exchange;
mod fetch_url;
mod filling;
mod page;
mod placeholders;
mod resuming;
mod saving;

use std::sync::Arc;

use tool::{AnyTool, Erased};

pub use fetch_url::FetchUrl;

/// The family, in the order in which it is listed.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![Erased::tool(FetchUrl)]
}
