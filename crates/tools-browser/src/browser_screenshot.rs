//! `browser_screenshot`: a picture of a tab.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::errors::of_browser;
use crate::picture;
use crate::session::{self, open};

/// The `browser_screenshot` tool.
pub struct BrowserScreenshot;

/// Arguments of `browser_screenshot`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Tab, default the active one.
    tab_id: Option<u32>,
    /// Element to show: CSS, `xpath:...`, or a reference such as e12.
    selector: Option<String>,
    /// Show the whole page instead of the visible part.
    #[serde(default)]
    full_page: bool,
    /// URL that the tab must show. Only dialects set it.
    #[schemars(skip)]
    url: Option<String>,
}

/// Result of `browser_screenshot`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Picture in Base64.
    image_base64: String,
    /// Media type of the picture.
    mime_type: String,
    /// Width in pixels.
    width: usize,
    /// Height in pixels.
    height: usize,
}

impl Tool for BrowserScreenshot {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Take a picture of a page",
        example: Example {
            files: &[],
            arguments: r#"{"tab_id": 1}"#,
            result: r#"{"mime_type": "image/png", "width": 1280}"#,
        },
        class: Class { open_world: true, ..Class::READ },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "image_base64" },
        ..Spec::reading("browser_screenshot", "Take a picture of a tab, or of one element of its page.")
    };

    fn answer_bytes(&self, _args: &Args) -> u64 {
        picture::ANSWER_BYTES
    }

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.full_page && args.selector.is_some() {
            return Err(ToolError::validation("full_page", "cannot be combined with `selector`"));
        }
        Ok(Plan::of(Vec::new()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = open(context)?;
        let _turn = running.turn().await;
        let page = session::page(&running, args.tab_id, args.url.as_deref())?;
        page.tab().prepare().await.map_err(of_browser)?;
        let shot = picture::taken(&page, args.selector.as_deref(), args.full_page).await?;
        Ok(Output {
            image_base64: shot.base64,
            mime_type: shot.mime_type.to_owned(),
            width: shot.width,
            height: shot.height,
        })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserScreenshot), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"tab_id": 1, "selector": "a", "full_page": true}), "full_page"),
            (serde_json::json!({"tab_id": -1}), "tab_id"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
