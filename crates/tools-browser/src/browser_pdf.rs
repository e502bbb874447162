//! `browser_pdf`: a page printed into a file of the workspace.

use std::io::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Spec, Timeout, Tool, ToolError};

use crate::errors::of_browser;
use crate::picture;
use crate::saved::save;
use crate::session::{self, open};

/// The `browser_pdf` tool.
pub struct BrowserPdf;

/// Arguments of `browser_pdf`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Tab, default the active one.
    tab_id: Option<u32>,
    /// Path of the file, relative to the workspace.
    save_path: String,
}

/// Result of `browser_pdf`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Path of the file.
    path: String,
    /// Size in bytes.
    size_bytes: usize,
}

impl Tool for BrowserPdf {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Print a page as PDF",
        example: Example {
            files: &[],
            arguments: r#"{"save_path": "page.pdf"}"#,
            result: r#"{"path": "page.pdf"}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: true, open_world: true },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        ..Spec::reading("browser_pdf", "Print a tab's page into a PDF file of the workspace.")
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        Ok(Plan::of(vec![Effect::Write { path: place.resolve("save_path", &args.save_path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = open(context)?;
        let _turn = running.turn().await;
        let page = session::page(&running, args.tab_id, None)?;
        page.tab().prepare().await.map_err(of_browser)?;
        picture::require_no_secret(&page).await?;
        let file = page.tab().pdf().await.map_err(of_browser)?;
        // The page may have changed meanwhile.
        picture::require_no_secret(&page).await?;
        save(context, &args.save_path, |to| {
            to.write_all(&file).map_err(|error| {
                ToolError::new(Code::Runtime, format!("the file cannot be written: {error}")).because(error)
            })
        })?;
        Ok(Output { path: args.save_path, size_bytes: file.len() })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserPdf), Place::at("/w".into()));
        for (arguments, field) in
            [(serde_json::json!({}), "save_path"), (serde_json::json!({"save_path": "a\u{0}b"}), "save_path")]
        {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
