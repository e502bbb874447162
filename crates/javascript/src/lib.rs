//! A JavaScript engine for scripts of `run_code`, for machines without Node.
//!
//! The engine is QuickJS-NG, which is written in C. It runs in a process of its own inside of the script's cell, which
//! bounds its memory, time and rights as those of any other interpreter. It never runs in the process that makes calls.
//!
//! The crate knows no tool. A folder has everything: `run.js`, which gets the functions of the host and returns those
//! that drive the script; `script.mjs`; `tools.json`; and the two pipes `commands` and `answers`.

mod channel;
mod host;

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::process;
use std::thread;

use rquickjs::function::{Function, IntoJsFunc};
use rquickjs::{
    CatchResultExt, CaughtError, Context, Ctx, Module, Object, Persistent, Promise, Runtime, Value,
};

use channel::Channel;

/// Bytes of the stack of the thread that runs a script.
const STACK: usize = 16 * 1024 * 1024;

/// Bytes of the stack that a script may use. The rest is for functions of the host, which do not check it.
const STACK_OF_SCRIPT: usize = STACK - 1024 * 1024;

/// Exit code if the script cannot be started.
const NOT_STARTED: i32 = 125;

/// Name of the script in messages.
const SCRIPT: &str = "script.mjs";

/// Reason why a script was not started.
#[derive(Debug)]
enum Fault {
    File(&'static str, io::Error),
    Engine(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(name, error) => write!(formatter, "{name} of the script cannot be used: {error}"),
            Self::Engine(message) => write!(formatter, "the engine of the script failed: {message}"),
        }
    }
}

/// Runs the script in `folder` and ends this process with the script's exit code, or with 125 if it cannot be started.
pub fn run(folder: &Path) -> ! {
    let folder = folder.to_owned();
    // The stack of the first thread has a size that this program does not choose.
    let thread =
        thread::Builder::new().name("script".to_owned()).stack_size(STACK).spawn(move || start(&folder));
    let fault = match thread.map(thread::JoinHandle::join) {
        Ok(Ok(Err(fault))) => fault.to_string(),
        Ok(Ok(Ok(()))) => "the script ended without an exit code".to_owned(),
        Ok(Err(_)) => "the engine of the script panicked".to_owned(),
        Err(error) => format!("the script has no thread: {error}"),
    };
    // A message that cannot be written has no reader.
    let _unread = writeln!(io::stderr(), "{fault}");
    process::exit(NOT_STARTED)
}

/// Runs a script to its end, which ends the process. Returns only if that fails.
fn start(folder: &Path) -> Result<(), Fault> {
    let read =
        |name: &'static str| fs::read_to_string(folder.join(name)).map_err(|error| Fault::File(name, error));
    let (bootstrap, script, tools) = (read("run.js")?, read(SCRIPT)?, read("tools.json")?);
    let channel = Channel::open(folder).map_err(|(name, error)| Fault::File(name, error))?;
    let engine = |error: rquickjs::Error| Fault::Engine(error.to_string());
    let runtime = Runtime::new().map_err(engine)?;
    runtime.set_max_stack_size(STACK_OF_SCRIPT);
    let context = Context::full(&runtime).map_err(engine)?;
    let control = context.with(|ctx| {
        let begun = host::functions(&ctx, channel, tools).and_then(|host| begin(&ctx, &bootstrap, host));
        begun.catch(&ctx).map_err(|error| Fault::Engine(error.to_string()))
    })?;
    // The runtime cannot be changed while a context of it is in use.
    let note = control.note_rejection.clone();
    runtime.set_host_promise_rejection_tracker(Some(Box::new(move |ctx, promise, reason, is_handled| {
        // Fails only if the script has no memory left, and its next allocation then ends it.
        let _noted =
            note.clone().restore(&ctx).and_then(|note| note.call::<_, ()>((promise, reason, is_handled)));
    })));
    context.with(|ctx| {
        let driven = control.functions.restore(&ctx).and_then(|control| drive(&ctx, &control, script));
        driven.catch(&ctx).map_err(|error| Fault::Engine(error.to_string()))
    })
}

/// Functions of `run.js` that drive a script.
struct Control {
    functions: Persistent<Object<'static>>,
    note_rejection: Persistent<Function<'static>>,
}

/// Evaluates the bootstrap. Returns the functions that drive a script.
fn begin<'js>(ctx: &Ctx<'js>, bootstrap: &str, host: Object<'js>) -> rquickjs::Result<Control> {
    let mut options = rquickjs::context::EvalOptions::default();
    options.filename = Some("run.js".to_owned());
    let begin: Function<'js> = ctx.eval_with_options(bootstrap, options)?;
    let functions: Object<'js> = begin.call((host,))?;
    let note_rejection = functions.get::<_, Function<'js>>("noteRejection")?;
    let note_rejection = Persistent::save(ctx, note_rejection);
    Ok(Control { functions: Persistent::save(ctx, functions), note_rejection })
}

/// Runs the script, its jobs and its timers.
fn drive<'js>(ctx: &Ctx<'js>, control: &Object<'js>, script: String) -> rquickjs::Result<()> {
    let function = |name: &str| control.get::<_, Function<'js>>(name);
    let (follow, fail, turn, end) =
        (function("follow")?, function("fail")?, function("turn")?, function("end")?);
    let thrown = |error: rquickjs::Error| -> rquickjs::Result<()> {
        let value: Value<'js> = match CaughtError::from_error(ctx, error) {
            CaughtError::Exception(exception) => exception.into_value(),
            CaughtError::Value(value) => value,
            CaughtError::Error(error) => return Err(error),
        };
        fail.call((value,))
    };
    match Module::evaluate(ctx.clone(), SCRIPT, script) {
        Ok(promise) => follow.call::<(Promise<'js>,), ()>((promise,))?,
        Err(error) => return thrown(error),
    }
    loop {
        while ctx.execute_pending_job() {}
        match turn.call::<_, bool>(()) {
            Ok(true) => {}
            Ok(false) => return end.call(()),
            Err(error) => return thrown(error),
        }
    }
}

/// Sets a function of the host.
fn set<'js, P>(
    object: &Object<'js>,
    name: &str,
    function: impl IntoJsFunc<'js, P> + 'js,
) -> rquickjs::Result<()> {
    object.set(name, Function::new(object.ctx().clone(), function)?)
}
