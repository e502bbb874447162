//! Tools that use a browser: one for each session of a caller, in a cell of its own. Each tool is one
//! file; this file is only the list.

mod browser_connect;
mod browser_cookies;
mod browser_download;
mod browser_events;
mod browser_interact;
mod browser_navigate;
mod browser_pdf;
mod browser_read_page;
mod browser_screenshot;
mod browser_state;
mod browser_tabs;
mod browser_trace;
mod errors;
mod origin;
mod picture;
mod planned;
mod saved;
mod secret;
mod session;
mod traced;
mod untrusted;
mod upload;

use std::sync::Arc;

use tool::{AnyTool, ErasedTool};

pub use browser_connect::BrowserConnect;
pub use browser_cookies::BrowserCookies;
pub use browser_download::BrowserDownload;
pub use browser_events::BrowserEvents;
pub use browser_interact::BrowserInteract;
pub use browser_navigate::BrowserNavigate;
pub use browser_pdf::BrowserPdf;
pub use browser_read_page::BrowserReadPage;
pub use browser_screenshot::BrowserScreenshot;
pub use browser_state::BrowserState;
pub use browser_tabs::BrowserTabs;
pub use browser_trace::BrowserTrace;

/// Returns the tools of this family, in listing order.
pub fn tools() -> Vec<Arc<dyn AnyTool>> {
    vec![
        ErasedTool::tool(BrowserConnect),
        ErasedTool::tool(BrowserNavigate),
        ErasedTool::tool(BrowserReadPage),
        ErasedTool::tool(BrowserInteract),
        ErasedTool::tool(BrowserTabs),
        ErasedTool::tool(BrowserCookies),
        ErasedTool::tool(BrowserDownload),
        ErasedTool::tool(BrowserScreenshot),
        ErasedTool::tool(BrowserPdf),
        ErasedTool::tool(BrowserEvents),
        ErasedTool::tool(BrowserState),
        ErasedTool::tool(BrowserTrace),
    ]
}
