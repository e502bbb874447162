//! The functions that the host gives to `run.js`.

use std::cell::RefCell;
use std::io::{self, Write};
use std::process;
use std::rc::Rc;
use std::thread;
use std::time::{Duration, Instant};

use rquickjs::promise::PromiseState;
use rquickjs::{Ctx, Exception, Object, Promise, Value};

use crate::channel::Channel;
use crate::set;

/// Makes the object of these functions:
///
/// - `tools`: text of `tools.json`
/// - `send(line)` and `receive()`, which returns a line, or nothing after the end of the call
/// - `print(isError, text)`, `now()` in milliseconds, `sleep(milliseconds)`, `exit(code)`
/// - `settled(promise)`: `{state, result}` with the state `pending`, `fulfilled` or `rejected`
pub(crate) fn functions<'js>(
    ctx: &Ctx<'js>,
    channel: Channel,
    tools: String,
) -> rquickjs::Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    host.set("tools", tools)?;
    let channel = Rc::new(RefCell::new(channel));
    let sending = channel.clone();
    set(&host, "send", move |ctx: Ctx<'js>, line: String| throw_io(&ctx, sending.borrow_mut().send(line)))?;
    set(&host, "receive", move |ctx: Ctx<'js>| throw_io(&ctx, channel.borrow_mut().receive()))?;
    set(&host, "print", |ctx: Ctx<'js>, is_error: bool, text: String| {
        let written = if is_error {
            io::stderr().write_all(text.as_bytes())
        } else {
            let mut output = io::stdout().lock();
            output.write_all(text.as_bytes()).and_then(|()| output.flush())
        };
        throw_io(&ctx, written)
    })?;
    let begun = Instant::now();
    set(&host, "now", move || begun.elapsed().as_secs_f64() * 1_000.0)?;
    set(&host, "sleep", |milliseconds: f64| {
        // Longer waits than a script may last, and what is no number, are none of the engine's own.
        let pause = Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or_default();
        thread::sleep(pause);
    })?;
    set(&host, "exit", exit)?;
    set(&host, "settled", |promise: Promise<'js>| settled(&promise))?;
    Ok(host)
}

/// Ends the process.
fn exit(code: i32) {
    process::exit(code)
}

/// Returns the state of a promise, and its result if it has one.
fn settled<'js>(promise: &Promise<'js>) -> rquickjs::Result<Object<'js>> {
    let ctx = promise.ctx().clone();
    let shown = Object::new(ctx.clone())?;
    let state = match promise.state() {
        PromiseState::Pending => "pending",
        PromiseState::Resolved => "fulfilled",
        PromiseState::Rejected => "rejected",
    };
    shown.set("state", state)?;
    if let Some(result) = promise.result::<Value<'js>>() {
        shown.set("result", result.unwrap_or_else(|_| ctx.catch()))?;
    }
    Ok(shown)
}

/// Converts an error of the system into one that the script sees.
fn throw_io<T>(ctx: &Ctx<'_>, result: io::Result<T>) -> rquickjs::Result<T> {
    result.map_err(|error| Exception::throw_message(ctx, &error.to_string()))
}
