//! `handfast check`: what the policy would decide, and why.

use std::io::{self, BufRead, IsTerminal};
use std::process::ExitCode;

use serde_json::{Value, json};
use tool::ToolError;

use super::{Failure, call, print, print_json};
use crate::cli::{CallArgs, Global};
use crate::compose::{Composed, compose};

pub(super) fn run(global: &Global, call: &CallArgs) -> Result<ExitCode, Failure> {
    let composed = compose(global, None, None)?;
    if call.arguments.as_deref() == Some("-") {
        return check_lines(&composed, &call.tool);
    }
    let checked = call::read(call.arguments.as_deref()).and_then(|text| check(&composed, &call.tool, &text));
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

/// One answer a line, so that a policy can be tried on a history of calls. A value may also span lines when it is the only one.
fn check_lines(composed: &Composed, tool: &str) -> Result<ExitCode, Failure> {
    let mut failed = false;
    let mut answer = |text: &str| -> Result<(), Failure> {
        let line = match check(composed, tool, text) {
            Ok(answer) => answer,
            Err(error) => {
                failed = true;
                refused(&error)
            }
        };
        print(&format!("{line}\n"))
    };
    let mut values = Values { input: io::stdin().lock(), pending: String::new() };
    if io::stdin().is_terminal() {
        eprint("reading one JSON value a line from the terminal; Ctrl-D ends");
    }
    while let Some(value) = values.next()? {
        answer(&value)?;
    }
    Ok(if failed { ExitCode::from(2) } else { ExitCode::SUCCESS })
}

/// The JSON values of a stream: one a line, or spread over lines.
struct Values<R> {
    input: R,
    pending: String,
}

impl<R: BufRead> Values<R> {
    fn next(&mut self) -> Result<Option<String>, Failure> {
        loop {
            let mut line = String::new();
            let read = io::Read::take(&mut self.input, call::LARGEST_MESSAGE + 1).read_line(&mut line)?;
            if read as u64 > call::LARGEST_MESSAGE {
                return Err(Failure::usage("a line of standard input is larger than the limit of 32 MiB"));
            }
            if read == 0 {
                let rest = std::mem::take(&mut self.pending);
                return Ok(Some(rest).filter(|rest| !rest.trim().is_empty()));
            }
            self.pending.push_str(&line);
            if self.pending.trim().is_empty() {
                self.pending.clear();
                continue;
            }
            let unfinished = serde_json::from_str::<Value>(&self.pending).is_err_and(|error| error.is_eof());
            if !unfinished {
                return Ok(Some(std::mem::take(&mut self.pending)));
            }
        }
    }
}

fn check(composed: &Composed, tool: &str, text: &str) -> Result<Value, ToolError> {
    let checked = composed.engine.check(tool, call::parse(text)?)?;
    serde_json::to_value(checked).map_err(|error| ToolError::internal("the answer is no JSON").because(error))
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
        let mut values = Values {
            input: "{\"a\":1}\n\n{\n\"b\": 2\n}\n{bad\n{\"c\":3}".as_bytes(),
            pending: String::new(),
        };
        let mut all = Vec::new();
        while let Ok(Some(value)) = values.next() {
            all.push(value.split_whitespace().collect::<String>());
        }
        assert_eq!(all, ["{\"a\":1}", "{\"b\":2}", "{bad", "{\"c\":3}"]);
    }
}
