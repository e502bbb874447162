//! `browser_tabs`: the tabs of the session's browser.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Effect, Example, Lane, Level, PageAccess, Place, Plan, PlanContext, Spec, Timeout, Tool,
    ToolError,
};

use crate::errors::of_browser;
use crate::origin;
use crate::session::{self, TabEntry, open, started, tabs};

/// Time for the page of a new tab to load.
const LOADING: Duration = Duration::from_secs(30);

/// The `browser_tabs` tool.
pub struct BrowserTabs;

/// Arguments of `browser_tabs`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Action.
    action: Action,
    /// Tab to close or to switch to.
    tab_id: Option<u32>,
    /// URL for a new tab, default about:blank.
    url: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Action {
    List,
    Create,
    Close,
    Switch,
}

/// Result of `browser_tabs`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Open tabs.
    tabs: Vec<TabEntry>,
    /// Number of the active tab.
    #[serde(skip_serializing_if = "Option::is_none")]
    active_tab: Option<u32>,
}

impl Args {
    fn tab(&self) -> Result<u32, ToolError> {
        self.tab_id
            .ok_or_else(|| ToolError::validation("tab_id", "is needed to close a tab or to switch to one"))
    }

    fn url(&self) -> &str {
        self.url.as_deref().unwrap_or(browser::address::BLANK)
    }
}

impl Tool for BrowserTabs {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "List, create, close or switch tabs",
        example: Example {
            files: &[],
            arguments: r#"{"action": "switch", "tab_id": 1}"#,
            result: r#"{"active_tab": 1}"#,
        },
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        level: Level::Destructive,
        ..Spec::reading("browser_tabs", "List, create, close or switch the tabs of the session's browser.")
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let (level, effect) = match args.action {
            Action::List => (Level::Safe, None),
            Action::Create => {
                let url = origin::checked(args.url())?;
                let effect = origin::effect(&url, PageAccess::Use, format!("open {url}"));
                // An empty tab reaches nobody.
                (if effect.is_some() { Level::Moderate } else { Level::Safe }, effect)
            }
            Action::Switch => (Level::Moderate, args.tab().map(|_| None)?),
            Action::Close => (Level::Destructive, args.tab().map(|_| None)?),
        };
        if args.url.is_some() && args.action != Action::Create {
            return Err(ToolError::validation("url", "is for the action create"));
        }
        Ok(Plan { level: Some(level), ..Plan::of(effect.into_iter().collect()) })
    }

    fn plans_now(&self, args: &Args) -> bool {
        matches!(args.action, Action::Close | Action::Switch)
    }

    async fn plan_now(&self, now: &PlanContext<'_>, args: &Args, plan: Plan) -> Result<Plan, ToolError> {
        let tab = args.tab()?;
        let page = session::planned(now)?.page(tab).map_err(of_browser)?;
        let verb = if args.action == Action::Close { "close" } else { "switch to" };
        let effect: Option<Effect> =
            origin::effect(&page.tab().url(), PageAccess::Use, format!("{verb} tab {tab}"));
        let level = if effect.is_some() { plan.level } else { Some(Level::Safe) };
        Ok(Plan { effects: effect.into_iter().collect(), level, ..plan })
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = if args.action == Action::Create { started(context).await? } else { open(context)? };
        let _turn = running.turn().await;
        let session = running.session();
        match args.action {
            Action::List => {}
            Action::Create => drop(session.create(args.url(), LOADING).await.map_err(of_browser)?),
            Action::Close => session.close(args.tab()?).await.map_err(of_browser)?,
            Action::Switch => session.switch(args.tab()?).await.map_err(of_browser)?,
        }
        Ok(Output { tabs: tabs(&running).await, active_tab: session.active() })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserTabs), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"action": "close"}), "tab_id"),
            (serde_json::json!({"action": "switch", "tab_id": 1, "url": "http://a"}), "url"),
            (serde_json::json!({"action": "create", "url": "data:text/html,x"}), "data"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
