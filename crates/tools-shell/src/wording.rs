//! Texts for the outcomes of commands.

use sandbox::{CapturedStream, Exit, Limit, SandboxError};
use tool::{Code, Context, FullOutput, Retry, StopReason, ToolError};

/// Returns advice about a limit that was reached.
pub(crate) fn how_to_raise(limit: Limit) -> String {
    let key = match limit {
        Limit::Memory => "memory_bytes",
        Limit::ProcessMemory => "process_memory_bytes",
        Limit::Cpus => "cpus",
        Limit::Processes => "processes",
        Limit::ProcessCount => "process_count",
        Limit::OpenFiles => "open_files",
        Limit::FileSize => "file_size_bytes",
        Limit::Disk | Limit::DiskSpace => "disk_bytes",
    };
    format!("reduce the use, or raise `limits.{key}` of the profile in the configuration")
}

/// Returns the exit code as a shell reports it: 128 + N if signal N ended the command.
pub(crate) fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
    }
}

/// A limitation of overlays, and the alternative.
pub(crate) const CROSS_DEVICE_LINK: &str = "a command cannot rename a folder of the workspace in one step (EXDEV, \
    \"Invalid cross-device link\"): `mv` copies it instead, as does the tool file_move";

/// Returns true if a program reported this error, in the words of the C library.
pub(crate) fn names_cross_device_link(stderr: &CapturedStream) -> bool {
    tells(stderr, &["cross-device link"])
}

/// Warning for a command that writes to the workspace directly; the reason follows it.
pub(crate) const NO_COPY: &str =
    "the command ran on the workspace itself, not on a copy, so its changes there cannot be undone";

/// Returns true if the stored part of the stream contains one of these texts, which are in lower
/// case.
fn tells(stream: &CapturedStream, texts: &[&str]) -> bool {
    [&stream.head, &stream.tail].into_iter().any(|part| {
        let part = part.to_ascii_lowercase();
        texts.iter().any(|text| part.windows(text.len()).any(|window| window == text.as_bytes()))
    })
}

/// Returns the error of a cell that was killed by its guard of hidden files, or from outside this
/// runtime.
pub(crate) fn killed(uncovered: bool) -> ToolError {
    let message = if uncovered {
        "the command was killed: a file that must be hidden appeared while it ran and could not be covered"
    } else {
        "the sandbox was killed from outside, perhaps because memory ran out"
    };
    ToolError::new(Code::Runtime, message)
}

/// Returns the output as text. An output that exceeds the memory limit is shortened to its first
/// and last part, and the file with the whole is returned too.
pub(crate) fn text(
    context: &Context,
    field: &'static str,
    captured: CapturedStream,
) -> (String, Option<FullOutput>) {
    let CapturedStream { head, tail, bytes, lines, whole, whole_bytes, spool_error } = captured;
    if let Some(error) = spool_error {
        context.warn(format!("the whole {field} could not be kept: {error}"));
    }
    let left_out = bytes.saturating_sub((head.len() + tail.len()) as u64);
    let whole = whole.map(|file| FullOutput { field, file, bytes, lines, kept_bytes: whole_bytes });
    if left_out == 0 {
        let mut all = head;
        all.extend_from_slice(&tail);
        return (lossless_or_lossy(all), whole);
    }
    let note = format!("\n[... {left_out} of {bytes} bytes omitted, {lines} lines in all ...]\n");
    (lossless_or_lossy(head) + &note + &lossless_or_lossy(tail), whole)
}

fn lossless_or_lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

pub(crate) fn no_dry_run(why: &str) -> ToolError {
    let message = format!("a dry run must isolate the changes of the command: {why}");
    ToolError::new(Code::Unavailable, message).retry(Retry::Never)
}

/// Returns the error of a command that was to run on an overlay or not at all, and had none.
pub(crate) fn not_undoable(refused: SandboxError) -> ToolError {
    let message = format!("nothing was run: the command passed because it can be undone, but {refused}");
    ToolError::new(Code::Unavailable, message)
        .hint("repeat the call: commands are now decided on as ones that cannot be undone")
        .retry(Retry::Now)
        .because(refused)
}

/// Returns the error of a command that was stopped early.
pub(crate) fn ended_early(context: &Context, waited_for_input: bool) -> ToolError {
    match context.stop.requested() {
        None => ToolError::internal("the sandbox was stopped without a request"),
        Some(cancelled @ StopReason::Cancelled) => cancelled.into(),
        Some(StopReason::Deadline) => {
            let (state, advice) = if waited_for_input {
                (
                    ", while it waited for input",
                    "to answer it, use `background` with `pty`, then shell_session",
                )
            } else {
                ("", "a larger `timeout` may help")
            };
            let limit = context.timeout.as_secs_f64();
            ToolError::new(
                Code::Timeout,
                format!("the command was killed after its timeout of {limit} s{state}"),
            )
            .hint(format!("the output so far is in the result; {advice}"))
        }
    }
}

/// Converts the error of a cell that could not be created, or of a command that could not be
/// started.
pub(crate) fn failed(error: SandboxError) -> ToolError {
    let message = error.to_string();
    let made = match &error {
        SandboxError::Unavailable { hint, .. } => {
            ToolError::new(Code::Unavailable, message).hint(hint.clone()).retry(Retry::Never)
        }
        SandboxError::Overlay { .. } => ToolError::new(Code::Unavailable, message)
            .hint("the profile is `strict`; otherwise the command would run on the workspace itself, not on a copy")
            .retry(Retry::Never),
        SandboxError::WorkingDirectory { source, .. } => {
            ToolError::validation("working_directory", format!("{message}: {source}"))
        }
        SandboxError::ProgramNotFound { .. } => ToolError::new(Code::NotFound, message),
        _ => ToolError::new(Code::Runtime, message),
    };
    made.because(error)
}
/// Returns a tool's output as JSON, for the data of an error.
pub(crate) fn json(output: impl serde::Serialize) -> Result<serde_json::Value, ToolError> {
    serde_json::to_value(output).map_err(|error| ToolError::internal("the output is not JSON").because(error))
}
