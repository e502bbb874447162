//! One script in its cell, from its start to its end.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use sandbox::{
    CellHost, CellRequest, CellSource, CellSpec, Exit, Lifetime, LimitInForce, PipedAs, PipedProgram,
    ProgramFolder, ProgramPipes,
};
use schemars::JsonSchema;
use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tool::{Code, Context, EffectState, InnerCalls, Owner, StopReason, Threads, ToolError};

use crate::Scripts;
use crate::exchange::{self, LONGEST_LINE, Lines, Message};
use crate::language::{Interpreter, Language, missing};
use crate::real_programs;
use crate::signatures::signatures;

/// Maximum number of calls of one script.
const MOST_CALLS: u32 = 1_000;

/// Number of calls beyond [`MOST_CALLS`] that are answered with an error. The next one ends the script.
const MOST_REFUSALS: u32 = 100;

/// Bytes of a script's output that are returned. The layers cut the text further, and keep the whole.
const OUTPUT_LIMIT: usize = 1024 * 1024;

/// Interval in which a script is checked that has left processes behind.
const CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// Time after which a script ends in any case. The deadline of its call comes before.
const LIFETIME: Lifetime = Lifetime { idle: Duration::from_mins(15), absolute: Duration::from_mins(15) };

/// Signal that ends a process at a limit.
const SIGKILL: i32 = 9;

/// Signal for a file that becomes too large.
const SIGXFSZ: i32 = 25;

/// Exit code of a shell that does not find the program.
const NOT_FOUND: i64 = 127;

/// Result of `run_code`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ScriptOutcome {
    /// Text that the script printed, on both outputs.
    pub(crate) output: String,
    /// Exit code of the script; 128 and more if a signal ended it.
    pub(crate) exit_code: i64,
    /// Number of calls that the script made.
    pub(crate) calls: u32,
    /// Number of these calls that failed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) failed_calls: u32,
    /// True if the script printed more than is kept.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) truncated: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde demands a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// Reason why the loop of calls ended.
enum End {
    /// The script says that it has ended.
    Said(i64),
    /// The script has ended.
    Gone,
    Stopped(StopReason),
    Failed(ToolError),
}

/// Runs a script.
///
/// # Errors
/// `EUNAVAILABLE` without the language or a cell; `ETIMEOUT` and `ECANCELLED` with what the script printed;
/// `EQUOTA` if it does not end after its last call.
pub(crate) async fn run(
    context: &Context,
    language: Language,
    code: String,
) -> Result<ScriptOutcome, ToolError> {
    let scripts = context.service::<Scripts>()?;
    let calls = context.service::<Arc<dyn InnerCalls>>()?;
    let stopped = stop_of(context);
    let _permit = tokio::select! {
        permit = scripts.permits.acquire() => permit.map_err(|_| ToolError::internal("scripts have ended"))?,
        reason = stopped.clone().reason() => return Err(reason.into()),
    };
    let source = context.service::<CellSource>()?;
    let (place, known, owner) = (scripts.clone(), signatures(&calls.tools()), source.owner().to_owned());
    let started = tokio::task::spawn_blocking(move || start(&place, &source, language, &code, &known));
    let Started { program, pipes, ended, wrapper, cell } =
        started.await.map_err(|panic| ToolError::internal("the script was not started").because(panic))??;
    let programs = wrapper.map(|wrapper| (scripts.as_ref(), wrapper));
    let mut script = Script { context, calls: calls.as_ref().as_ref(), made: 0, failed: 0, programs };
    let end = script.serve(&program, pipes, ended, stopped).await;
    let (made, failed) = (script.made, script.failed);
    let closed = tokio::task::spawn_blocking(move || {
        let closed = close(&program);
        // Without a cell to prepare, the folder is removed here.
        (closed, cell.map(|cell| (program, cell)))
    });
    let (closed, after) =
        closed.await.map_err(|panic| ToolError::internal("the script was not ended").because(panic))?;
    if let Some((program, cell)) = after {
        prepare_next(context, scripts.clone(), owner, program, cell);
    }
    let (text, truncated, exit, exceeded) = closed.map_err(|error| {
        ToolError::new(Code::Runtime, "the output of the script cannot be read").because(error)
    })?;
    let exit_code = match (&end, exit) {
        (End::Said(code), _) => *code,
        (_, Some(Exit::Code(code))) => i64::from(code),
        (_, Some(Exit::Signal(signal))) => 128 + i64::from(signal),
        (_, None) => 128,
    };
    let output = ScriptOutcome { output: text, exit_code, calls: made, failed_calls: failed, truncated };
    // The calls of a script have effects of their own.
    let effect = if made > failed { EffectState::Maybe } else { EffectState::None };
    let with_output = |error: ToolError| match serde_json::to_value(&output) {
        Ok(data) => error.effect(effect).data(data),
        Err(_) => error.effect(effect),
    };
    let is_killed = matches!(exit, Some(Exit::Signal(SIGKILL | SIGXFSZ)));
    match end {
        End::Stopped(reason) => Err(with_output(reason.into())),
        End::Failed(error) => Err(with_output(error)),
        End::Gone if exit_code == NOT_FOUND && made == 0 => {
            Err(with_output(missing(language, scripts.engine.is_some())))
        }
        End::Gone if is_killed && exceeded.is_some() => {
            let limit = exceeded.map(|limit| limit.to_string()).unwrap_or_default();
            let error = ToolError::new(Code::Quota, format!("the script was killed at its {limit}"));
            Err(with_output(
                error.hint("use less, or raise the `limits` of the profile in the configuration"),
            ))
        }
        End::Said(_) | End::Gone => Ok(output),
    }
}

/// Signal of a call as a channel.
fn stop_of(context: &Context) -> Stopped {
    let (sender, receiver) = watch::channel(None);
    context.stop.on_request(move |reason| {
        sender.send_replace(Some(reason));
    });
    Stopped(receiver)
}

#[derive(Clone)]
struct Stopped(watch::Receiver<Option<StopReason>>);

impl Stopped {
    /// Waits for the stop. A call that ends without one never returns from here.
    async fn reason(mut self) -> StopReason {
        let found = self.0.wait_for(Option::is_some).await.ok().and_then(|reason| *reason);
        match found {
            Some(reason) => reason,
            None => std::future::pending().await,
        }
    }
}

/// A running script.
struct Started {
    program: PipedProgram,
    pipes: ProgramPipes,
    ended: watch::Receiver<bool>,
    /// Wrapper that starts its program, if that is one.
    wrapper: Option<PathBuf>,
    /// Cell of the script, if a similar one can be prepared for the next script.
    cell: Option<(CellSpec, CellHost)>,
}

/// Removes the folder of a script that has ended, and prepares the next script of the owner. No answer waits for this.
fn prepare_next(
    context: &Context,
    scripts: Arc<Scripts>,
    owner: String,
    program: PipedProgram,
    (spec, host): (CellSpec, CellHost),
) {
    let Ok(threads) = context.service::<Threads>() else { return };
    // A runtime that ends needs no next script, and the folder goes with the program here.
    let _ended = threads.start("next-script", Owner::Session(context.session.clone()), move |stop| {
        drop(program);
        if stop.requested().is_some() {
            return;
        }
        scripts.next.prepare(&owner, &scripts.folder, (spec, &host));
        if let Some(spawner) = &host.spawner {
            spawner.look_after_the_ended();
        }
    });
}

/// Starts a script. Blocks for some milliseconds.
fn start(
    scripts: &Scripts,
    source: &CellSource,
    language: Language,
    code: &str,
    known: &str,
) -> Result<Started, ToolError> {
    let of_folder = |error: io::Error| {
        ToolError::new(Code::Runtime, "the folder of the script cannot be made").because(error)
    };
    let folder = match scripts.next.take(source.owner()) {
        Some(folder) => folder,
        None => ProgramFolder::make(&scripts.folder).map_err(of_folder)?,
    };
    let path = folder.path().to_owned();
    let mut cell = source.cell(CellRequest::apart(path.clone())).map_err(|error| {
        match error.downcast::<ToolError>() {
            Ok(error) => *error,
            Err(error) => {
                ToolError::new(Code::Unavailable, format!("there is no cell for the script: {error}"))
            }
        }
    })?;
    let interpreter = Interpreter::of(language, scripts.engine.as_ref(), &cell.0)?;
    if let Interpreter::BuiltIn(engine) = &interpreter
        && !sandbox::is_of_system(&engine.program)
    {
        cell.0.read_only.push(engine.program.clone());
    }
    let (runner, script) = interpreter.files();
    for (name, content) in [(runner, interpreter.bootstrap()), (script, code), ("tools.json", known)] {
        fs::write(path.join(name), content).map_err(of_folder)?;
    }
    let (ended, has_ended) = watch::channel(false);
    let wrapper = real_programs::wrapper(&cell.0.search_path, language.program());
    let real = wrapper.as_deref().and_then(|wrapper| scripts.programs.behind(wrapper));
    let words = interpreter.words(real.unwrap_or_else(|| language.program().into()), path.join(runner));
    let again = cell.1.spawner.is_some().then(|| cell.clone());
    let piped = PipedProgram::start(
        folder,
        cell,
        (words, PathBuf::from("/tmp")),
        PipedAs::ThreeAndFour,
        LIFETIME,
        move || {
            ended.send_replace(true);
        },
    );
    let (program, pipes) = piped.map_err(|error| {
        ToolError::new(Code::Unavailable, "the cell of the script cannot be made").because(error)
    })?;
    Ok(Started { program, pipes, ended: has_ended, wrapper, cell: again })
}

/// Remains of a script: its text, true if that is not all, its exit status, and the limit that ended a process.
type Remains = (String, bool, Option<Exit>, Option<LimitInForce>);

/// Ends every process of a script.
fn close(program: &PipedProgram) -> io::Result<Remains> {
    let (exit, _) = program.exit();
    program.end();
    let (bytes, whole) = program.printed(OUTPUT_LIMIT)?;
    let is_cut = (bytes.len() as u64) < whole;
    let (at_end, exceeded) = program.exit();
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_cut, exit.or(at_end), exceeded))
}

struct Script<'a> {
    context: &'a Context,
    calls: &'a dyn InnerCalls,
    made: u32,
    failed: u32,
    /// Place for the program behind this wrapper. It is taken with the first message, which precedes the script.
    programs: Option<(&'a Scripts, PathBuf)>,
}

impl Script<'_> {
    /// Answers the calls of a script until it ends.
    async fn serve(
        &mut self,
        program: &PipedProgram,
        pipes: ProgramPipes,
        mut ended: watch::Receiver<bool>,
        stopped: Stopped,
    ) -> End {
        let broken = |error: io::Error| {
            End::Failed(ToolError::new(Code::Runtime, "the pipes of the script are broken").because(error))
        };
        let (mut reader, mut writer) =
            match (pipe::Receiver::from_owned_fd(pipes.output), pipe::Sender::from_owned_fd(pipes.input)) {
                (Ok(reader), Ok(writer)) => (reader, writer),
                (Err(error), _) | (_, Err(error)) => return broken(error),
            };
        // A second writer keeps the pipe from looking ended before the end of the processes.
        let _until_end = pipes.until_connected;
        let mut lines = Lines::default();
        let mut chunk = vec![0; 64 * 1024];
        let mut check = tokio::time::interval(CHECK_INTERVAL);
        loop {
            while let Some(message) = lines.take() {
                let programs = self.programs.take();
                let answer = match message {
                    Message::Program(real) => {
                        if let Some((scripts, wrapper)) = programs {
                            scripts.programs.note(wrapper, real);
                        }
                        continue;
                    }
                    Message::End(code) => return End::Said(code),
                    Message::Garbage(reason) => exchange::refusal(&exchange::garbage(reason)),
                    Message::Call { tool, arguments } => {
                        if self.made >= MOST_CALLS + MOST_REFUSALS {
                            let message = format!("the script goes on after {MOST_CALLS} calls");
                            return End::Failed(
                                ToolError::new(Code::Quota, message)
                                    .hint("split the work over several scripts"),
                            );
                        }
                        self.call(tool, arguments).await
                    }
                };
                tokio::select! {
                    biased;
                    reason = stopped.clone().reason() => return End::Stopped(reason),
                    written = writer.write_all(&answer) => {
                        // A script that has ended reads no answer.
                        if written.is_err() {
                            return End::Gone;
                        }
                    }
                    _ = ended.wait_for(|ended| *ended) => return End::Gone,
                }
            }
            tokio::select! {
                biased;
                reason = stopped.clone().reason() => return End::Stopped(reason),
                read = reader.read(&mut chunk) => match read {
                    Ok(0) => return End::Gone,
                    Ok(count) if lines.add(&chunk[..count]) => {}
                    Ok(_) => {
                        let message = format!("the script sent a line of more than {LONGEST_LINE} bytes");
                        return End::Failed(ToolError::new(Code::Quota, message)
                            .hint("write large data by several calls"));
                    }
                    Err(error) => return broken(error),
                },
                _ = ended.wait_for(|ended| *ended) => return End::Gone,
                // Processes that the script has left behind end with it.
                _ = check.tick() => if program.exit().0.is_some() {
                    return End::Gone;
                },
            }
        }
    }

    /// Makes a call. Returns the line of its answer.
    async fn call(&mut self, tool: String, arguments: serde_json::Value) -> Vec<u8> {
        self.made += 1;
        if self.made > MOST_CALLS {
            self.failed += 1;
            let error = ToolError::new(
                Code::Quota,
                format!("the script has made {MOST_CALLS} calls, which is the maximum"),
            );
            return exchange::refusal(&error.hint("end the script, and go on with another one"));
        }
        self.context.progress.report(u64::from(self.made), None, &tool);
        // An inner call ends soon after the stop of the script, which it shares.
        let result = match self.calls.call(tool, arguments).await {
            Ok(result) => result,
            Err(error) => return exchange::refusal(&error),
        };
        self.failed += u32::from(result.error().is_some());
        exchange::answer(&result)
    }
}
