//! `handfast call`: makes one call and prints its result on standard output.

use std::io::{self, Read};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use engine::{Asker, CallRequest, Door, Principal};
use serde_json::Value;
use tool::{CallResult, Code, Stop, StopReason, ToolError};

use super::{Failure, print_json, tokio_runtime};
use crate::cli::{CallArgs, Global};
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::report::warn;
use crate::signals::until_done;
use crate::terminal::{NoTerminalAsker, ProgressLine, TerminalAsker, YesAsker};

/// Maximum size of one message to a door in bytes (design section 4).
pub(super) const LARGEST_MESSAGE: u64 = 32 * 1024 * 1024;
pub(super) fn run(global: &Global, call: &CallArgs, yes: bool) -> Result<ExitCode, Failure> {
    let composed = compose(RuntimeOptions::once(global))?;
    if call.arguments.as_deref().is_some_and(|given| given != "-")
        && composed.engine.tools().iter().any(|tool| tool.name() == call.tool && tool.takes_secrets())
    {
        warn(&format!(
            "other programs can read the arguments of a command, and shells keep them: pass the \
             arguments of {} on standard input, with `-` in their place",
            call.tool
        ));
    }
    let arguments = read(call.arguments.as_deref()).and_then(|text| parse(&text));
    let line = ProgressLine::new();
    let stop = Stop::default();
    let (session, dialect) = (composed.session.clone(), composed.toolset.dialect.as_str());
    let principal = Principal::new(Door::CommandLine, session, dialect, asker(global, yes, line.clone()));
    let mut request = CallRequest::new(principal, &call.tool, Value::Null);
    request.stop = stop.clone();
    if let Some(line) = &line {
        request.progress = line.clone();
    }
    let runtime = tokio_runtime()?;
    let (result, signal) = runtime.block_on(live(&composed, request, arguments, &stop, line.as_deref()))?;
    // A question at the terminal blocks its thread until a line is typed. The process does not wait
    // for that thread.
    runtime.shutdown_timeout(Duration::ZERO);
    composed.store.close()?;
    match composed.toolset.dialect.answer(&result) {
        Some(answer) => print_json(&answer)?,
        None => print_json(&result)?,
    }
    // Pruning comes after the answer. A later call removes what cannot be removed now.
    if let Err(error) = composed.engine.prune_briefly() {
        warn(&format!("cannot remove old checkpoints and outputs: {error}"));
    }
    composed.close_traces();
    Ok(signal.map_or_else(|| exit_code(&composed, &call.tool, &result), ExitCode::from))
}

/// Makes the only call of a runtime, and ends the runtime.
async fn live(
    composed: &Composed,
    mut request: CallRequest,
    arguments: Result<Value, ToolError>,
    stop: &Stop,
    line: Option<&ProgressLine>,
) -> io::Result<(CallResult, Option<u8>)> {
    match arguments {
        Ok(arguments) => request.arguments = arguments,
        Err(error) => return Ok((composed.engine.refuse(request, error).await, None)),
    }
    let answered = answered(composed, request, stop, line).await?;
    composed.engine.shutdown().await;
    Ok(answered)
}

/// Makes a call. Returns the result and, if a signal ended the call, the exit code for that signal.
pub(super) async fn answered(
    composed: &Composed,
    request: CallRequest,
    stop: &Stop,
    line: Option<&ProgressLine>,
) -> io::Result<(CallResult, Option<u8>)> {
    // The value of a call is large, and moves into each of the futures around it.
    let call = Box::pin(composed.engine.call(request));
    let answered = until_done(with_ticks(call, line), || stop.request(StopReason::Cancelled)).await?;
    if let Some(line) = line {
        line.clear();
    }
    Ok(answered)
}

/// Waits for a call, and moves its line meanwhile.
async fn with_ticks<T>(call: impl Future<Output = T>, line: Option<&ProgressLine>) -> T {
    let Some(line) = line else { return call.await };
    tokio::pin!(call);
    let mut ticks = tokio::time::interval(Duration::from_millis(250));
    loop {
        tokio::select! {
            result = &mut call => return result,
            _ = ticks.tick() => line.tick(),
        }
    }
}

pub(super) fn asker(global: &Global, yes: bool, line: Option<Arc<ProgressLine>>) -> Arc<dyn Asker> {
    if yes {
        return Arc::new(YesAsker);
    }
    match TerminalAsker::open(line).filter(|_| !global.no_input) {
        Some(terminal) => Arc::new(terminal),
        None => Arc::new(NoTerminalAsker),
    }
}

/// Returns the text of the arguments: the given text, standard input for `-`, or an empty object.
pub(super) fn read(given: Option<&str>) -> Result<String, ToolError> {
    match given {
        None => Ok("{}".to_owned()),
        Some("-") => {
            let mut bytes = Vec::new();
            io::stdin().lock().take(LARGEST_MESSAGE + 1).read_to_end(&mut bytes).map_err(|error| {
                ToolError::new(Code::Runtime, "cannot read standard input").because(error)
            })?;
            if bytes.len() as u64 > LARGEST_MESSAGE {
                return Err(too_large());
            }
            utf8(bytes)
        }
        Some(text) if text.len() as u64 > LARGEST_MESSAGE => Err(too_large()),
        Some(text) => Ok(text.to_owned()),
    }
}

/// Returns a text that is given on the command line, or on standard input for `-`.
pub(super) fn read_text(given: &str) -> Result<String, Failure> {
    read(Some(given)).map_err(|error| Failure::usage(error.message))
}

pub(super) fn utf8(bytes: Vec<u8>) -> Result<String, ToolError> {
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::validation("arguments", format!("not valid UTF-8 at byte {at}"))
    })
}

fn too_large() -> ToolError {
    ToolError::validation("arguments", "larger than the limit of 32 MiB for one message")
        .hint("send less in one call, for example a large file or patch in parts")
}

pub(super) fn parse(text: &str) -> Result<Value, ToolError> {
    // Some editors and shells put a byte order mark before UTF-8. RFC 8259, section 8.1, permits a
    // reader to ignore it.
    serde_json::from_str(text.strip_prefix('\u{feff}').unwrap_or(text))
        .map_err(|error| ToolError::validation("arguments", format!("not valid JSON: {error}")))
}

fn exit_code(composed: &Composed, tool: &str, result: &CallResult) -> ExitCode {
    let known = composed.engine.tools().iter().any(|known| known.name() == tool);
    ExitCode::from(match result.error().map(|error| error.code) {
        None => 0,
        Some(Code::Validation) => 2,
        Some(Code::NotFound) if !known => 2,
        Some(Code::Permission) => 3,
        Some(Code::Approval) => 4,
        Some(_) => 1,
    })
}
