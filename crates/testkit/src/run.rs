//! Running one tool without the engine.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::thread::Thread;

use checkpoint::{Outcome, Terms};
use roots::Roots;
use serde_json::Value;
use tool::{AnyTool, Code, Context, Data, RunResult, ToolError};

use crate::Workspace;

/// Runs one call as the engine would, but without decisions, audit and redaction.
///
/// # Errors
/// Returns the tool's error in planning or running.
pub fn run_tool(tool: &dyn AnyTool, workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
    run_in(tool, &workspace.context(), arguments)
}

/// Runs one call in a context that the test made. The tool's draft goes into the workspace when the
/// tool has succeeded, unless it was a dry run.
///
/// # Errors
/// Returns the tool's error in planning or running, or `ECONFLICT` if others changed the drafted
/// files.
pub fn run_in(tool: &dyn AnyTool, context: &Context, arguments: Value) -> Result<Value, ToolError> {
    let prepared = tool.prepare(arguments, &context.place)?;
    if prepared.plan.dry_run.is_some() {
        return value(block_on(prepared.run(&for_dry_run(context))).output?);
    }
    let RunResult { output, snapshot, .. } = block_on(prepared.run(context));
    let data = output?;
    if let Some(used) = snapshot {
        let call = context.service::<checkpoint::Call>()?;
        let workspace = checkpoint::Workspace::open(&context.place.workspace).expect("the workspace");
        let outcome = call.commit(&workspace, &Terms::since(used.taken_at.into())).expect("a commit");
        if !matches!(outcome, Outcome::Committed(_)) {
            return Err(ToolError::new(Code::Conflict, format!("{outcome:?}")));
        }
    }
    value(data)
}

fn value(data: Data) -> Result<Value, ToolError> {
    data.into_value().map_err(|error| ToolError::internal("the tool's output cannot be read").because(error))
}

/// Returns the same context with roots that change nothing.
fn for_dry_run(context: &Context) -> Context {
    let mut services = context.services.clone();
    if let Ok(roots) = context.service::<Roots>() {
        services.insert(Arc::new((*roots).clone().for_dry_run()));
    }
    let (call, session, place) = (context.call.clone(), context.session.clone(), context.place.clone());
    let mut other = Context::new(call, session, place, context.timeout, context.clock.clone(), services);
    other.stop = context.stop.clone();
    other
}

/// Runs a future to its end on this thread. Tools use no async runtime, so none is needed.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
