//! `browser_download`: a file that the session's browser downloads into the workspace.

use std::io::{self, Read as _};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, Context, Effect, Example, Lane, Level, PageAccess, Place, Plan, Spec, Timeout, Tool,
    ToolError,
};

use crate::errors::of_browser;
use crate::origin;
use crate::saved::save;
use crate::session::{started, time};
use crate::traced::traced;

/// Time of a download, in seconds, unless the caller names another.
const DOWNLOADING: Duration = Duration::from_mins(2);
/// Largest file in bytes.
const LARGEST: u64 = 100 * 1024 * 1024;

/// The `browser_download` tool.
pub struct BrowserDownload;

/// Arguments of `browser_download`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// URL of the file.
    url: String,
    /// Path to save it to, relative to the workspace.
    save_path: String,
    /// Seconds, default 120.
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<f64>,
}

/// Result of `browser_download`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Path of the file.
    path: String,
    /// Size in bytes.
    size_bytes: u64,
    /// Media type that the server states.
    mime_type: String,
}

impl Tool for BrowserDownload {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Download a file",
        example: Example {
            files: &[],
            arguments: r#"{"url": "https://example.com/report.pdf", "save_path": "report.pdf"}"#,
            result: r#"{"path": "report.pdf"}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: Timeout { default: Duration::from_secs(130), max: Duration::from_secs(610) },
        lane: Lane::Browser,
        ..Spec::reading(
            "browser_download",
            "Download a file into the workspace with the browser's cookies. Use fetch_url for files that need no login.",
        )
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let url = origin::checked(&args.url)?;
        let effect = origin::effect(&url, PageAccess::Submit, format!("download {url}"));
        let effect = effect.ok_or_else(|| ToolError::validation("url", "has no server"))?;
        Ok(Plan::of(vec![effect, Effect::Write { path: place.resolve("save_path", &args.save_path)? }]))
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        // Starting the browser is not part of the download's time.
        args.timeout.map(|seconds| Duration::from_secs_f64(seconds + 10.0))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        // A stop ends every wait for the page at once.
        let began = AtomicBool::new(true);
        let title = format!("download {}", args.url);
        let downloading = tool_support::unless_stopped(&context.stop, &began, download(context, args));
        traced(context, title, downloading, |_| None).await
    }
}

/// Downloads the file and saves it.
async fn download(context: &Context, args: Args) -> Result<Output, ToolError> {
    let running = started(context).await?;
    let _turn = running.turn().await;
    let limit = time(args.timeout, DOWNLOADING);
    let folder = running.downloads().map_err(of_browser)?;
    let download =
        running.session().download(&args.url, &folder, LARGEST, limit).await.map_err(of_browser)?;
    let read = |error: io::Error| {
        ToolError::new(Code::Runtime, format!("the downloaded file cannot be copied: {error}")).because(error)
    };
    let saved = save(context, &args.save_path, |file| {
        let original = browser::open_download(&download.path).map_err(read)?;
        io::copy(&mut original.take(LARGEST), file).map(drop).map_err(read)
    });
    // The original lies in the browser's own folder, which is removed with it at the latest.
    let _gone = browser::remove_download(&download.path);
    saved?;
    Ok(Output { path: args.save_path, size_bytes: download.bytes, mime_type: download.mime })
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserDownload), Place::at("/w".into()));
        for (arguments, field) in [
            (serde_json::json!({"url": "about:blank", "save_path": "a"}), "url"),
            (serde_json::json!({"url": "ftp://a/b", "save_path": "a"}), "ftp"),
        ] {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
