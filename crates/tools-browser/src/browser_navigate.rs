//! `browser_navigate`: a URL in a tab.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, PageAccess, Place, Plan, Presentation, Spec, Timeout, Tool,
    ToolError,
};

use crate::errors::{of_browser, of_page};
use crate::origin;
use crate::session::{reported, started, time};
use crate::traced::traced;
use crate::untrusted::marked;

/// Time for a page to load, in seconds, unless the caller names another.
const LOADING: Duration = Duration::from_secs(30);

/// The `browser_navigate` tool.
pub struct BrowserNavigate;

/// Arguments of `browser_navigate`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// URL to open: http or https.
    url: String,
    /// Tab to use; default a new one.
    tab_id: Option<u32>,
    /// Selector of an element to wait for.
    wait_for: Option<String>,
    /// Seconds to wait, default 30.
    #[schemars(range(min = 0.1, max = 120))]
    timeout: Option<f64>,
    /// True to use the active tab if no tab is named. Only dialects set it.
    #[serde(default)]
    #[schemars(skip)]
    reuse: bool,
}

/// Result of `browser_navigate`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Number of the tab.
    tab_id: u32,
    /// Title of the page.
    title: String,
    /// URL of the page, after redirections.
    url: String,
    /// False if the page was still loading at the timeout.
    loaded: bool,
    /// HTTP status.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    /// Other events: dialogs, downloads, errors, new tabs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    events: Vec<String>,
    /// Elements of the page with references for `browser_interact`.
    page: String,
}

impl Tool for BrowserNavigate {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Open a page",
        example: Example {
            files: &[],
            arguments: r#"{"url": "about:blank"}"#,
            result: r#"{"url": "about:blank", "loaded": true}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: false, idempotent: false, open_world: true },
        timeout: Timeout { default: Duration::from_mins(3), max: Duration::from_mins(3) },
        lane: Lane::Browser,
        presentation: Presentation::Text { field: "page" },
        ..Spec::reading(
            "browser_navigate",
            "Open a URL in the session's browser. Returns the page's elements with references (e12) for browser_interact.",
        )
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let url = origin::checked(&args.url)?;
        let effect = origin::effect(&url, PageAccess::Use, format!("open {url}"));
        Ok(Plan::of(effect.into_iter().collect()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        // A stop ends every wait for the page at once.
        let began = AtomicBool::new(true);
        let (title, tab) = (format!("open {}", args.url), args.tab_id);
        let opening = tool_support::unless_stopped(&context.stop, &began, open_page(context, args));
        traced(context, title, opening, |opened| opened.map(|opened| opened.tab_id).or(tab)).await
    }
}

/// Opens the page and reads it.
async fn open_page(context: &Context, args: Args) -> Result<Output, ToolError> {
    let running = started(context).await?;
    let _turn = running.turn().await;
    let limit = time(args.timeout, LOADING);
    let active = running.session().active().filter(|_| args.reuse);
    let opening =
        running.session().navigate(args.tab_id.or(active), &args.url, args.wait_for.as_deref(), limit);
    let opened = opening.await.map_err(of_browser)?;
    let page = running.page(opened.tab).map_err(of_browser)?;
    let shown = page.snapshot(&browser::SnapshotOptions::default()).await.map_err(of_page)?;
    Ok(Output {
        tab_id: opened.tab,
        title: opened.title,
        url: opened.url,
        loaded: opened.loaded,
        status: opened.status,
        events: reported(&opened.report),
        page: marked(&shown.text, &context.call),
    })
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserNavigate), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"url": "file:///etc/passwd"}), "file"),
            (serde_json::json!({"url": "javascript:alert(1)"}), "javascript"),
            (serde_json::json!({"url": "shop"}), "no absolute URL"),
            (serde_json::json!({}), "url"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
