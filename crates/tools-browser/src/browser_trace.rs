//! `browser_trace`: a record of what is done in the session's browser, as a page that opens without a
//! network.

use std::io::{self, Write as _};

use browser::LogFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, Place, Plan, Redaction, Spec, Timeout, Tool,
    ToolError,
};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::saved::save;
use crate::session::{open, started};

/// The `browser_trace` tool.
pub struct BrowserTrace;

/// Arguments of `browser_trace`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Action.
    action: Action,
    /// Path of the trace in the workspace, .html or .zip; with stop.
    save_path: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Action {
    Start,
    Stop,
}

/// Result of `browser_trace`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// True if a trace is being recorded now.
    recording: bool,
    /// Number of steps in the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    steps: Option<usize>,
    /// Path of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl Args {
    /// Returns the path of the trace, for the action stop.
    fn path(&self) -> Result<Option<&str>, ToolError> {
        let extension = |path: &str| {
            let extension = std::path::Path::new(path).extension()?.to_str()?.to_lowercase();
            matches!(extension.as_str(), "html" | "zip").then_some(())
        };
        match (self.action, self.save_path.as_deref()) {
            (Action::Start, None) => Ok(None),
            (Action::Start, Some(_)) => Err(ToolError::validation("save_path", "is for the action stop")),
            (Action::Stop, Some(path)) if extension(path).is_some() => Ok(Some(path)),
            (Action::Stop, Some(_)) => Err(ToolError::validation("save_path", "ends in .html or .zip")),
            (Action::Stop, None) => Err(ToolError::validation("save_path", "is needed for the action stop")),
        }
    }
}

impl Tool for BrowserTrace {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Record what is done in the browser",
        example: Example {
            files: &[],
            arguments: r#"{"action": "start"}"#,
            result: r#"{"recording": true}"#,
        },
        level: Level::Moderate,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(60),
        lane: Lane::Browser,
        ..Spec::reading(
            "browser_trace",
            "Record what is done in the session's browser. Stop writes an offline page with a timeline, pictures, console and requests.",
        )
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let Some(path) = args.path()? else {
            return Ok(Plan { level: Some(Level::Safe), ..Plan::of(Vec::new()) });
        };
        Ok(Plan::of(vec![Effect::Write { path: place.resolve("save_path", path)? }]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let Some(path) = args.path()? else {
            let running = started(context).await?;
            if !running.begin_trace(context.clock.now()) {
                let problem = "a trace is being recorded already";
                return Err(ToolError::new(Code::Conflict, problem).hint("end it with the action stop"));
            }
            return Ok(Output { recording: true, ..Output::default() });
        };
        let running = open(context)?;
        let _turn = running.turn().await;
        let mut logs = Vec::new();
        for tab in running.session().tabs().await {
            if let Ok(page) = running.page(tab.tab) {
                let entries = page.tab().events(&LogFilter::default()).entries;
                logs.extend(entries.into_iter().map(|entry| (tab.tab, entry)));
            }
        }
        let Some(trace) = running.end_trace() else {
            let problem = "no trace is being recorded";
            return Err(ToolError::new(Code::NotFound, problem).hint("begin one with the action start"));
        };
        let redaction = context.service::<std::sync::Arc<dyn Redaction>>()?;
        let page = trace.page(&logs, &|text| redaction.text(text).unwrap_or_else(|| text.to_owned()));
        let is_zip = path.to_lowercase().ends_with("zip");
        let written = save(context, path, |file| {
            let written = if is_zip { packed(file, &page) } else { file.write_all(page.as_bytes()) };
            written.map_err(|error| {
                ToolError::new(Code::Runtime, format!("the trace cannot be written: {error}")).because(error)
            })
        });
        let steps = Some(trace.steps());
        if let Err(error) = written {
            // The trace goes on, so that it can be saved elsewhere.
            running.resume_trace(trace);
            return Err(error);
        }
        Ok(Output { recording: false, steps, path: Some(path.to_owned()) })
    }
}

/// Writes a zip file with the page as its only file.
fn packed(file: &mut std::fs::File, page: &str) -> io::Result<()> {
    let mut zip = ZipWriter::new(file);
    zip.start_file("index.html", SimpleFileOptions::default())?;
    zip.write_all(page.as_bytes())?;
    zip.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserTrace), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"action": "stop"}), "save_path"),
            (serde_json::json!({"action": "stop", "save_path": "trace.exe"}), "save_path"),
            (serde_json::json!({"action": "start", "save_path": "a.zip"}), "save_path"),
            (serde_json::json!({"action": "pause"}), "action"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
