//! `run_code`: runs a script that calls tools as functions.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::running;

/// Maximum number of bytes of a script.
const LONGEST_SCRIPT: usize = 1024 * 1024;

/// Default and maximum time of a script.
const TIMEOUT: Timeout = Timeout { default: Duration::from_secs(120), max: Duration::from_secs(600) };

/// The `run_code` tool.
pub struct RunCode;

/// Arguments of `run_code`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Script. `tools.NAME(argument=value)` (JavaScript: `tools.NAME({argument: value})`) calls a tool and returns
    /// its data, or throws a `ToolError` with `code`, `message` and `hint`.
    code: String,
    /// Language of the script.
    #[serde(default)]
    language: Language,
    /// Seconds that the script and its calls may take.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600))]
    timeout: Option<u32>,
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Language of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Language {
    #[default]
    Python,
    JavaScript,
}

/// Result of `run_code`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Text that the script printed, on both outputs.
    pub(crate) output: String,
    /// Exit code of the script; 128 and more if a signal ended it.
    pub(crate) exit_code: i64,
    /// Number of calls that the script made.
    pub(crate) calls: u32,
    /// Number of these calls that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) failed_calls: u32,
    /// True if the script printed more than is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde demands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Tool for RunCode {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "run_code",
        title: "Run a script that calls tools",
        description: "Run a script that calls many tools and print only what you need: loops, filters and joins without a turn for each call. It reaches files, commands and hosts by tools alone, and each of its calls is decided and recorded like yours. At most 1,000 calls.",
        example: Example {
            files: &[],
            arguments: r#"{"code": "print(sum(range(5)))"}"#,
            result: r#"{"output": "10\n", "exit_code": 0, "calls": 0}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: TIMEOUT,
        lane: Lane::Script,
        text: TextCap::Default,
        presentation: Presentation::Text { field: "output" },
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        if args.code.trim().is_empty() {
            return Err(ToolError::validation("code", "is empty"));
        }
        if args.code.len() > LONGEST_SCRIPT {
            let problem = format!("has {} bytes; at most {LONGEST_SCRIPT} are run", args.code.len());
            return Err(ToolError::validation("code", problem)
                .hint("write data into a file, and read it by file_read"));
        }
        // The cell shows nothing of the user, and each call of the script has a plan of its own.
        Ok(Plan::of(Vec::new()))
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.map(|seconds| Duration::from_secs(u64::from(seconds)))
    }

    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        Some(args.code.clone())
    }

    fn only_waits(&self, _args: &Args) -> bool {
        true
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        running::run(context, args.language, args.code).await
    }
}
