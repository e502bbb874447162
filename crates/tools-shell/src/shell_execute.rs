//! `shell_execute`: a line for the shell, in a cell.

use std::time::Duration;

use sandbox::{Captured, CellSpec, Command, Ended, Exit, Program, SandboxError, Stopper};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, CommandLine, Context, Effect, EffectState, Example, Lane, Level, Place, Plan, Presentation,
    Retry, Spec, TextCap, Timeout, Tool, ToolError, Whole,
};

/// Runs a line of shell in a cell.
pub struct ShellExecute;

/// The arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// The line for the shell.
    command: String,
    /// Where it starts; the workspace unless given.
    working_directory: Option<String>,
    /// Seconds until it is killed, default 30, at most 3600.
    #[schemars(range(min = 1, max = 3600))]
    timeout: Option<u64>,
}

/// What came out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Standard output.
    stdout: String,
    /// Standard error.
    stderr: String,
    /// The exit code; 128 + N when signal N ended it.
    exit_code: Option<i32>,
    /// Whether it was killed at its timeout.
    timed_out: bool,
}

/// What the kernel takes as one argument of a program (`MAX_ARG_STRLEN`, binfmts.h), without its final NUL.
const LONGEST_COMMAND: usize = 131_071;

impl Tool for ShellExecute {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "shell_execute",
        title: "Run a command",
        description: "Runs a line of shell in a sandbox: the workspace is writable, the network and the rest of the \
            machine are absent. Standard input is closed. A command that fails is a result with its exit code. \
            Prefer the file tools for reading and writing files.",
        example: Example {
            files: &[("notes.txt", "one\ntwo\n")],
            arguments: r#"{"command": "wc -l < notes.txt && echo done"}"#,
            result: r#"{"stdout": "2\ndone\n", "stderr": "", "exit_code": 0, "timed_out": false}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        // The EloPhanto source: 30 seconds unless asked; design section 7: at most an hour.
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_hours(1) },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if args.command.trim().is_empty() {
            return Err(ToolError::validation("command", "the command is empty"));
        }
        if args.command.contains('\0') {
            return Err(ToolError::validation("command", "the command holds a NUL byte"));
        }
        if args.command.len() > LONGEST_COMMAND {
            let problem = format!("the command is longer than the limit of {LONGEST_COMMAND} bytes");
            return Err(ToolError::validation("command", problem)
                .hint("write it to a file with file_write, then run that file"));
        }
        let directory = match &args.working_directory {
            Some(directory) => place.resolve("working_directory", directory)?,
            None => place.workspace.clone(),
        };
        Ok(Plan::of(vec![Effect::Run { command: CommandLine::Shell(args.command.clone()), directory }]))
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.map(Duration::from_secs)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let cell = context.service::<CellSpec>()?;
        let working_directory = match &args.working_directory {
            Some(directory) => context.place.resolve("working_directory", directory)?,
            None => context.place.workspace.clone(),
        };
        let command = Command { program: Program::Shell(args.command), working_directory };
        let stopper = Stopper::new().map_err(failed)?;
        let at_request = stopper.clone();
        context.stop.on_request(move |_| at_request.stop());

        let mut seen = 0_u64;
        let mut report = |_stream, bytes: &[u8]| {
            seen += bytes.len() as u64;
            context.progress.report(seen, None, last_line(bytes));
        };
        // The deadline is the engine's: it requests the stop, so that there is one clock for every tool.
        let outcome = sandbox::run(&cell, &command, None, &stopper, &mut report).map_err(failed)?;

        context.report_enforced(outcome.enforcement.summary());
        let exit_code = match outcome.exit {
            Exit::Code(code) => Some(code),
            Exit::Signal(signal) => Some(128 + signal),
        };
        let mut output = Output {
            stdout: text(context, "stdout", outcome.stdout),
            stderr: text(context, "stderr", outcome.stderr),
            exit_code,
            timed_out: false,
        };
        match outcome.ended {
            Ended::Finished => return Ok(output),
            Ended::Killed => {
                let error = ToolError::new(
                    Code::Runtime,
                    "the cell was killed from outside, perhaps for want of memory",
                );
                return Err(error.effect(EffectState::Maybe).data(json(output)?));
            }
            Ended::Deadline | Ended::Stopped => {}
        }
        let early = context.stop.requested().map_or_else(
            || ToolError::internal("the cell was stopped, but nobody asked for it"),
            |reason| match reason {
                tool::StopReason::Deadline => {
                    output.timed_out = true;
                    let limit = context.timeout.as_secs();
                    ToolError::new(
                        Code::Timeout,
                        format!("the command was killed after its timeout of {limit} s"),
                    )
                    .hint("`data` has the output so far; a larger `timeout` (at most 3600) may help")
                }
                cancelled @ tool::StopReason::Cancelled => cancelled.into(),
            },
        );
        output.exit_code = None;
        Err(early.effect(EffectState::Maybe).data(json(output)?))
    }
}

fn json(output: Output) -> Result<serde_json::Value, ToolError> {
    serde_json::to_value(output).map_err(|error| ToolError::internal("the output is no JSON").because(error))
}

/// The output as text: whole where it fits into memory, otherwise its first and last part, the whole kept aside.
fn text(context: &Context, field: &'static str, captured: Captured) -> String {
    let Captured { head, tail, bytes, lines, whole, whole_bytes: _, spool_error } = captured;
    if let Some(error) = spool_error {
        context.warn(format!("the whole of {field} could not be kept: {error}"));
    }
    let left_out = bytes.saturating_sub((head.len() + tail.len()) as u64);
    if let Some(file) = whole {
        context.keep_whole(Whole { field, file, bytes });
    }
    if left_out == 0 {
        let mut all = head;
        all.extend_from_slice(&tail);
        return lossless_or_lossy(all);
    }
    let note = format!("\n[... {left_out} of {bytes} bytes left out, {lines} lines in all ...]\n");
    lossless_or_lossy(head) + &note + &lossless_or_lossy(tail)
}

fn lossless_or_lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// The last full line of a piece of output, for a progress line; at most 200 characters of it.
fn last_line(bytes: &[u8]) -> &str {
    let start = bytes.len().saturating_sub(200);
    let tail = bytes[start..].trim_ascii_end();
    let line = tail.iter().rposition(|byte| *byte == b'\n').map_or(tail, |at| &tail[at + 1..]);
    std::str::from_utf8(line).unwrap_or("")
}

fn failed(error: SandboxError) -> ToolError {
    let message = error.to_string();
    let made = match &error {
        SandboxError::Unavailable { hint, .. } => {
            ToolError::new(Code::Unavailable, message).hint(hint.clone()).retry(Retry::Never)
        }
        SandboxError::WorkingDirectory { .. } => ToolError::validation("working_directory", message),
        SandboxError::ProgramNotFound { .. } => ToolError::new(Code::NotFound, message),
        _ => ToolError::new(Code::Runtime, message),
    };
    made.because(error)
}
