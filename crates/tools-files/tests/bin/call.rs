//! Runs file tools in a separate process, for tests.
//!
//! `call WORKSPACE TOOL JSON` prints the data or the error of one call. `overwrite WORKSPACE PATH
//! BYTES` writes the file with `file_write` repeatedly, each time with another letter, and prints a
//! dot for each write. `overwrite-in-place` writes it as a careless program would.
#![expect(clippy::print_stdout, reason = "this is how it answers")]
#![expect(
    clippy::disallowed_methods,
    reason = "the careless writer is there to show what the tests would find"
)]

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use jiff::Timestamp;
use roots::{Guard, Refusal, Right, Root, Roots};
use serde_json::{Value, json};
use tool::{CallId, Clock, Context, Place, Services, SessionId, ToolError};

struct Permissive;

impl Guard for Permissive {
    fn may_read(&self, _real: &std::path::Path) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_write(&self, _real: &std::path::Path) -> Result<(), Refusal> {
        Ok(())
    }
}

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["call", workspace, tool, json] => {
            let outcome = call(&context(workspace)?, tool, serde_json::from_str(json)?);
            let code = if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
            println!("{}", outcome.unwrap_or_else(|error| error.to_wire()));
            Ok(code)
        }
        [how, workspace, path, bytes] => {
            let context = context(workspace)?;
            for letter in ('a'..='z').cycle() {
                let content = String::from(letter).repeat(bytes.parse()?);
                if *how == "overwrite" {
                    let arguments = json!({"path": path, "content": content, "backup": false});
                    call(&context, "file_write", arguments)?;
                } else {
                    std::fs::write(PathBuf::from(workspace).join(path), content)?;
                }
                print!(".");
                std::io::stdout().flush()?;
            }
            Ok(ExitCode::SUCCESS)
        }
        _ => Err("usage: call WORKSPACE TOOL JSON | overwrite WORKSPACE PATH BYTES".into()),
    }
}

fn context(workspace: &str) -> Result<Context, Box<dyn Error>> {
    let workspace = PathBuf::from(workspace);
    let mut services = Services::default();
    let root = Root::open(&workspace, Right::Write)?;
    services.insert(Arc::new(Roots::new(vec![root], Arc::new(Permissive))));
    let (call, session) = (CallId("call".to_owned()), SessionId("session".to_owned()));
    let place = Place::at(workspace);
    Ok(Context::new(call, session, place, Duration::from_mins(1), Arc::new(Epoch), services))
}

fn call(context: &Context, name: &str, arguments: Value) -> Result<Value, ToolError> {
    let tools = tools_files::tools();
    let tool = tools.iter().find(|tool| tool.spec().name == name);
    let tool = tool.ok_or_else(|| ToolError::internal(format!("no tool {name}")))?;
    let mut running = pin!(tool.prepare(arguments, &context.place)?.run(context));
    loop {
        // File tools block, and never return a pending future.
        if let Poll::Ready(done) = running.as_mut().poll(&mut std::task::Context::from_waker(Waker::noop())) {
            return done.output?.into_value().map_err(|error| ToolError::internal("no JSON").because(error));
        }
    }
}
