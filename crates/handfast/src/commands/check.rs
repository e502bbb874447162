//! `handfast check`: shows what the policy would decide, and why.

mod line;

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tool::ToolError;

use super::{Failure, call, print, print_json};
use crate::cli::Global;
use crate::cli_config::CheckArgs;
use crate::compose::{Composed, RuntimeOptions, compose};
pub(in crate::commands) use line::quoted;

pub(super) fn run(global: &Global, arguments: &CheckArgs) -> Result<ExitCode, Failure> {
    let composed = compose(RuntimeOptions::once(global))?;
    let Some(tool) = &arguments.tool else {
        return line::run(&composed, &arguments.line, arguments.json);
    };
    if arguments.json {
        return Err(Failure::usage(
            "`--json` belongs to `check -- COMMAND`; a call is always answered in JSON",
        ));
    }
    if arguments.arguments.as_deref() == Some("-") {
        return check_lines(&composed, tool);
    }
    let checked = call::read(arguments.arguments.as_deref()).and_then(|text| check(&composed, tool, &text));
    match checked {
        Ok(answer) => {
            print_json(&answer)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            print_json(&refused(&error))?;
            Ok(ExitCode::from(2))
        }
    }
}

/// Prints one answer per line, so that a policy can be tried on a history of calls. A value may
/// also span several lines.
fn check_lines(composed: &Composed, tool: &str) -> Result<ExitCode, Failure> {
    let mut failed = false;
    let mut answer = |value: &[u8]| -> Result<(), Failure> {
        let checked = call::utf8(value.to_vec()).and_then(|text| check(composed, tool, &text));
        let line = match checked {
            Ok(answer) => answer,
            Err(error) => {
                failed = true;
                refused(&error)
            }
        };
        print(&format!("{line}\n"))
    };
    let mut values = Values::of(io::stdin().lock());
    if io::stdin().is_terminal() {
        eprint("reading one JSON value per line from the terminal; Ctrl-D ends the input");
    }
    while let Some(value) = values.next()? {
        answer(&value)?;
    }
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// Reader of the JSON values in a stream: one per line, or spread over several lines.
struct Values<R> {
    input: R,
    /// Bytes of a value that is still incomplete.
    pending: Vec<u8>,
    /// A complete value that followed an incomplete one and is returned next.
    next: Option<Vec<u8>>,
}

impl<R: BufRead> Values<R> {
    fn of(input: R) -> Self {
        Self { input, pending: Vec::new(), next: None }
    }

    fn next(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        if let Some(value) = self.next.take() {
            return Ok(Some(value));
        }
        loop {
            let Some(line) = self.line()? else {
                let rest = std::mem::take(&mut self.pending);
                return Ok(Some(rest).filter(|rest| !rest.trim_ascii().is_empty()));
            };
            if self.pending.is_empty() && line.trim_ascii().is_empty() {
                continue;
            }
            let begun = self.pending.len();
            self.pending.extend_from_slice(&line);
            if self.pending.len() as u64 > call::LARGEST_MESSAGE {
                return Err(Failure::usage("a value of standard input is larger than the limit of 32 MiB"));
            }
            // Try to parse only after a closing bracket, so that a long value is not parsed again
            // for each of its lines.
            let may_end =
                begun == 0 || line.trim_ascii().ends_with(b"}") || line.trim_ascii().ends_with(b"]");
            if may_end && !is_unfinished(&self.pending) {
                let all = std::mem::take(&mut self.pending);
                let before = all.get(..begun).unwrap_or_default();
                // A truncated value must not swallow the next line.
                if !before.is_empty() && is_value(&line) && !is_value(&all) {
                    self.next = Some(line);
                    return Ok(Some(before.to_vec()));
                }
                return Ok(Some(all));
            }
        }
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let mut line = Vec::new();
        let read = io::Read::take(&mut self.input, call::LARGEST_MESSAGE + 1).read_until(b'\n', &mut line)?;
        if read as u64 > call::LARGEST_MESSAGE {
            return Err(Failure::usage("a line of standard input is larger than the limit of 32 MiB"));
        }
        Ok((read > 0).then_some(line))
    }
}

fn is_unfinished(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_err_and(|error| error.is_eof())
}

fn is_value(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

fn check(composed: &Composed, tool: &str, text: &str) -> Result<Value, ToolError> {
    let checked = composed.engine.check_for_user(tool, call::parse(text)?)?;
    serde_json::to_value(checked)
        .map_err(|error| ToolError::internal("the answer is not JSON").because(error))
}

fn refused(error: &ToolError) -> Value {
    json!({ "error": error.to_wire() })
}

fn eprint(text: &str) {
    crate::report::note(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_may_stand_one_a_line_or_span_lines() {
        let read = |input: &str| {
            let mut values = Values::of(input.as_bytes());
            let mut all = Vec::new();
            while let Ok(Some(value)) = values.next() {
                all.push(String::from_utf8(value).unwrap().split_whitespace().collect::<String>());
            }
            all
        };
        assert_eq!(
            read("{\"a\":1}\n\n{\n\"b\": 2\n}\n{bad\n{\"c\":3}"),
            ["{\"a\":1}", "{\"b\":2}", "{bad", "{\"c\":3}"]
        );
        assert_eq!(read("{\"a\":1\n{\"b\":2}\n{\"c\":3}"), ["{\"a\":1", "{\"b\":2}", "{\"c\":3}"]);
        assert_eq!(read("{\"a\":\n{}\n}\n{\"c\": \"x"), ["{\"a\":{}}", "{\"c\":\"x"]);
    }
}
