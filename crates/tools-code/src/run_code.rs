//! `run_code`: runs a script that calls tools as functions.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tool::{
    Class, Context, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::language::Language;
use crate::running::{self, ScriptOutcome};

/// Maximum number of bytes of a script.
const LONGEST_SCRIPT: usize = 1024 * 1024;

/// Default and maximum time of a script.
const TIMEOUT: Timeout = Timeout { default: Duration::from_mins(2), max: Duration::from_mins(10) };

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

impl Tool for RunCode {
    type Args = Args;
    type Output = ScriptOutcome;

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

    async fn run(&self, context: &Context, args: Args) -> Result<ScriptOutcome, ToolError> {
        running::run(context, args.language, args.code).await
    }
}

#[cfg(test)]
mod tests {
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn a_script_that_is_empty_or_too_long_is_refused_as_refuses_the_schema() {
        let tool = ErasedTool::tool(RunCode);
        let place = testkit::Workspace::new().place();
        for code in [" \n".to_owned(), "x".repeat(LONGEST_SCRIPT + 1)] {
            let refused = tool.prepare(serde_json::json!({ "code": code }), &place).err().unwrap();
            assert_eq!(refused.code, Code::Validation, "{refused}");
        }
        assert!(tool.prepare(serde_json::json!({"code": "print(1)"}), &place).is_ok());
    }
}
