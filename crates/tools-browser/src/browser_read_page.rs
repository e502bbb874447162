//! `browser_read_page`: the content of a page, in one of four forms.

use browser::{PagePart, ReadOptions, Selector, SnapshotOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::errors::{of_browser, of_page};
use crate::picture;
use crate::session::{self, open};
use crate::untrusted::marked;

/// Characters of a part, by default. Together with the marks they stay below the general bound.
const PART: usize = 24_000;

/// The `browser_read_page` tool.
pub struct BrowserReadPage;

/// Arguments of `browser_read_page`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Tab, default the active one.
    tab_id: Option<u32>,
    /// Form of the content.
    mode: Mode,
    /// Element to read: CSS, `xpath:...`, or a reference such as e12; default the page.
    selector: Option<String>,
    /// Words that shown lines must all contain, with `accessibility_tree`.
    query: Option<String>,
    /// Restriction to changes since the page was last read, with `accessibility_tree`.
    #[serde(default)]
    diff: bool,
    /// Offset to continue at, from `next_offset`.
    #[schemars(range(max = 1_000_000_000))]
    offset: Option<usize>,
    /// URL that the tab must show. Only dialects set it.
    #[schemars(skip)]
    url: Option<String>,
}

/// Form of the content of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Mode {
    Text,
    Html,
    Screenshot,
    AccessibilityTree,
}

/// Result of `browser_read_page`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Title of the page.
    title: String,
    /// URL of the page.
    url: String,
    /// Text, HTML, or elements with references.
    #[serde(skip_serializing_if = "String::is_empty")]
    content: String,
    /// Offset of the next part, if more follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<usize>,
    /// Picture in Base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_base64: Option<String>,
    /// Media type of the picture.
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<String>,
    /// Width of the picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    width: Option<usize>,
    /// Height of the picture in pixels.
    #[serde(skip_serializing_if = "Option::is_none")]
    height: Option<usize>,
    /// Reason why the reading ended before the page did.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

impl Tool for BrowserReadPage {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Read a page",
        example: Example {
            files: &[],
            arguments: r#"{"tab_id": 1, "mode": "text"}"#,
            result: r#"{"url": "about:blank"}"#,
        },
        class: Class { open_world: true, ..Class::READ },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "content" },
        ..Spec::reading(
            "browser_read_page",
            "Read a tab's page as text, html, screenshot, or accessibility_tree (elements with references for browser_interact).",
        )
    };

    fn answer_bytes(&self, args: &Args) -> u64 {
        if args.mode == Mode::Screenshot { picture::ANSWER_BYTES } else { 256 * 1024 }
    }

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let is_tree = args.mode == Mode::AccessibilityTree;
        let misplaced = [("query", args.query.is_some()), ("diff", args.diff)];
        if let Some((field, _)) = misplaced.into_iter().find(|(_, named)| *named && !is_tree) {
            return Err(ToolError::validation(field, "is for the mode accessibility_tree"));
        }
        Ok(Plan::of(Vec::new()))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = open(context)?;
        let _turn = running.turn().await;
        let page = session::page(&running, args.tab_id, args.url.as_deref())?;
        page.tab().prepare().await.map_err(of_browser)?;
        let title = page.tab().title().await.map_err(of_browser)?;
        let about = Output { title, url: page.tab().url(), ..Output::default() };
        let scope = args.selector.as_deref().map(Selector::parse).transpose().map_err(of_page)?;
        let options =
            ReadOptions { scope: scope.clone(), links: true, offset: args.offset.unwrap_or(0), limit: PART };
        let part = match args.mode {
            Mode::Screenshot => {
                let shot = picture::taken(&page, args.selector.as_deref(), false).await?;
                return Ok(Output {
                    image_base64: Some(shot.base64),
                    mime_type: Some(shot.mime_type.to_owned()),
                    width: Some(shot.width),
                    height: Some(shot.height),
                    ..about
                });
            }
            Mode::Text => page.read_text(&options).await.map_err(of_page)?,
            Mode::Html => page.read_html(&options).await.map_err(of_page)?,
            Mode::AccessibilityTree => {
                let (query, diff, offset) = (args.query, args.diff, args.offset);
                let options = SnapshotOptions { query, scope, diff, offset, ..SnapshotOptions::default() };
                let shown = page.snapshot(&options).await.map_err(of_page)?;
                PagePart { text: shown.text, ..PagePart::default() }
            }
        };
        Ok(Output {
            content: marked(&part.text, &context.call),
            next_offset: part.next,
            note: Some(part.stopped).filter(|reason| !reason.is_empty()),
            ..about
        })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserReadPage), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"tab_id": 1, "mode": "text", "query": "a"}), "query"),
            (serde_json::json!({"tab_id": 1, "mode": "html", "diff": true}), "diff"),
            (serde_json::json!({"tab_id": 1, "mode": "pdf"}), "mode"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
