//! `browser_connect`: the browser of the session, started, or the user's own in its place.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Class, Context, Example, Lane, Level, Place, Plan, Spec, Timeout, Tool, ToolError};

use crate::session::{TabEntry, give_back, lent, started, tabs};

/// The `browser_connect` tool.
pub struct BrowserConnect;

/// Arguments of `browser_connect`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Port of the extension in the user's own browser, mostly 7600; default: a browser of the session.
    #[schemars(range(min = 1, max = 65535))]
    port: Option<u16>,
}

/// Result of `browser_connect`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Always true: an error is reported otherwise.
    connected: bool,
    /// Open tabs.
    tabs: Vec<TabEntry>,
    /// Name and version of the browser.
    browser_version: String,
}

impl Tool for BrowserConnect {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Choose the browser",
        example: Example { files: &[], arguments: "{}", result: r#"{"connected": true}"# },
        class: Class { open_world: true, ..Class::READ },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        level: Level::Safe,
        ..Spec::reading(
            "browser_connect",
            "Start the session's browser and list its tabs. browser_navigate starts it too. With `port`, the user's own browser with the tabs that they share.",
        )
    };

    fn plan(&self, _args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(Vec::new()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = match args.port {
            Some(port) => lent(context, port).await?,
            None => {
                give_back(context).await?;
                started(context).await?
            }
        };
        let browser_version = running.version().to_owned();
        Ok(Output { connected: true, tabs: tabs(&running).await, browser_version })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserConnect), Place::at("/w".into()));
        for (arguments, field) in
            [(serde_json::json!({"port": "x"}), "port"), (serde_json::json!({"ports": 1}), "ports")]
        {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
