//! The browser of a call's session.

use std::sync::Arc;
use std::time::Duration;

use browser::extension::PairingFolder;
use browser::{Browsers, Page, Report, Running};
use sandbox::CellSource;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use tool::{Context, Owner, PlanContext, ToolError};
use url::Url;

use crate::errors::of_browser;

/// Returns the browser of the call's session, and starts it if it does not run.
pub(crate) async fn started(context: &Context) -> Result<Arc<Running>, ToolError> {
    let (browsers, source) = (context.service::<Browsers>()?, context.service::<CellSource>()?);
    let owner = (Owner::Session(context.session.clone()), context.clock.now());
    let (running, had_ended) = browsers.start(&source, owner).await.map_err(of_browser)?;
    if had_ended {
        context.warn("the browser had ended and was started again; its earlier tabs are lost".to_owned());
    }
    Ok(running)
}

/// Lends the user's own browser to the call's session, through its extension.
pub(crate) async fn lent(context: &Context, port: u16) -> Result<Arc<Running>, ToolError> {
    let (browsers, source) = (context.service::<Browsers>()?, context.service::<CellSource>()?);
    let folder = context.service::<PairingFolder>()?;
    let owner = (Owner::Session(context.session.clone()), context.clock.now());
    browsers.lend(&source, owner, (port, &folder.0)).await.map_err(of_browser)
}

/// Gives the user's browser back, if the call's session has it.
pub(crate) async fn give_back(context: &Context) -> Result<(), ToolError> {
    let (browsers, source) = (context.service::<Browsers>()?, context.service::<CellSource>()?);
    browsers.give_back(source.owner()).await;
    Ok(())
}

/// Returns the browser of the call's session.
///
/// # Errors
/// `ENOTFOUND` if it does not run.
pub(crate) fn open(context: &Context) -> Result<Arc<Running>, ToolError> {
    let (browsers, source) = (context.service::<Browsers>()?, context.service::<CellSource>()?);
    browsers.running(source.owner()).ok_or_else(no_page)
}

/// Returns the browser of the session of a planned call, under the same errors.
pub(crate) fn planned(now: &PlanContext<'_>) -> Result<Arc<Running>, ToolError> {
    now.services.get::<Browsers>()?.running(now.owner).ok_or_else(no_page)
}

/// Returns the page of a tab, or of the active tab if none is named.
///
/// # Errors
/// `ENOTFOUND` without the tab; `ECONFLICT` if the tab is to show `url` and shows another page.
pub(crate) fn page(running: &Running, tab: Option<u32>, url: Option<&str>) -> Result<Arc<Page>, ToolError> {
    let tab = tab.or_else(|| running.session().active()).ok_or_else(no_page)?;
    let page = running.page(tab).map_err(of_browser)?;
    if let Some(url) = url {
        let shown = page.tab().url();
        if !is_same_page(url, &shown) {
            let problem = format!("the tab shows {shown}, and not {url}");
            return Err(ToolError::new(tool::Code::Conflict, problem).hint("navigate to the page first"));
        }
    }
    Ok(page)
}

/// Returns true if both URLs lead to the same document. A fragment leads to a part of it.
fn is_same_page(one: &str, other: &str) -> bool {
    let parsed = |text: &str| {
        let mut url = Url::parse(text.trim()).ok()?;
        url.set_fragment(None);
        Some(url)
    };
    one == other || parsed(one).is_some_and(|one| Some(one) == parsed(other))
}

fn no_page() -> ToolError {
    ToolError::new(tool::Code::NotFound, "no page is open").hint("open one with browser_navigate")
}

/// Time that an action may take, from the seconds that a caller names.
pub(crate) fn time(seconds: Option<f64>, default: Duration) -> Duration {
    seconds.map_or(default, Duration::from_secs_f64)
}

/// A tab in a list.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TabEntry {
    /// Number of the tab.
    pub(crate) tab_id: u32,
    /// Title of its page.
    pub(crate) title: String,
    /// URL of its page.
    pub(crate) url: String,
}

/// Returns the open tabs.
pub(crate) async fn tabs(running: &Running) -> Vec<TabEntry> {
    let all = running.session().tabs().await;
    all.into_iter().map(|tab| TabEntry { tab_id: tab.tab, title: tab.title, url: tab.url }).collect()
}

/// Returns what came of an action, one line for each kind of event.
pub(crate) fn reported(report: &Report) -> Vec<String> {
    let Ok(Value::Object(fields)) = serde_json::to_value(report) else { return Vec::new() };
    fields.into_iter().map(|(kind, event)| format!("{}: {event}", kind.replace('_', " "))).collect()
}
