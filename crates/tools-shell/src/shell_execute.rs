//! `shell_execute`: a line for the shell, in a cell.

use std::time::Duration;

use sandbox::{
    CellHost, CellSpec, ChangeSource, Command, EndReason, Exit, Outcome, Program, SandboxError, Stopper,
    Stream, TerminalSize,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    ChangeTreatment, Class, Code, CommandLine, Context, Effect, EffectState, Example, Lane, Level, Place,
    Plan, Presentation, RunResult, SnapshotUse, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::wording::{
    CROSS_DEVICE_LINK, NO_COPY, ended_early, exit_code, failed, how_to_raise, json, killed,
    names_cross_device_link, no_dry_run, not_undoable, text,
};
use crate::{background, missing_programs, network, plain};

/// The `shell_execute` tool.
pub struct ShellExecute;

/// Arguments of `shell_execute`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Command line for the shell.
    command: String,
    /// Arguments of the program `command`, which then runs without a shell.
    argv: Option<Vec<String>>,
    /// Working directory; default the workspace.
    working_directory: Option<String>,
    /// Seconds, default 30; with `background` the lifetime of the session.
    #[schemars(range(min = 0.001, max = 3600))]
    timeout: Option<f64>,
    /// Start it as a session and return at once.
    #[serde(default)]
    background: bool,
    /// Let a background command outlive this connection.
    #[serde(default)]
    keep: bool,
    /// Give the command a terminal.
    #[serde(default)]
    pty: bool,
    /// Keep or discard the changes of a killed command.
    #[serde(default)]
    on_timeout: OnTimeout,
    /// Return the changes as a diff without making them.
    #[serde(default)]
    dry_run: bool,
    /// Id of a dry run whose changes to apply, instead of running `command`.
    apply: Option<String>,
}

impl Args {
    /// Returns the arguments of a program that runs without a shell. Models that must fill every
    /// field give an empty list for none, so that list counts as absent.
    fn argv(&self) -> Option<&[String]> {
        self.argv.as_deref().filter(|argv| !argv.is_empty())
    }
}

/// A treatment of the changes of a killed command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum OnTimeout {
    #[default]
    Keep,
    Discard,
}

/// Result of `shell_execute`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Standard output.
    stdout: String,
    /// Standard error.
    stderr: String,
    /// Exit code; 128 + N if signal N ended the command.
    exit_code: Option<i32>,
    /// True if the command was killed at its timeout.
    timed_out: bool,
    /// True if the command was killed while it waited for input on its terminal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    waiting_for_input: bool,
    /// Id for `shell_session`.
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    /// Changes of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    diff: Option<String>,
}

impl Output {
    /// Returns the output of a call that runs no command.
    fn applied() -> Self {
        Self { session_id: None, ..Self::begun(String::new()) }
    }

    /// Returns the output of a command that continues as this session.
    pub(crate) fn begun(session_id: String) -> Self {
        Self {
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
            timed_out: false,
            waiting_for_input: false,
            session_id: Some(session_id),
            diff: None,
        }
    }
}

/// Maximum bytes of one argument for the kernel (`MAX_ARG_STRLEN`, binfmts.h), without the final NUL.
const LONGEST_COMMAND: usize = 131_071;

impl Tool for ShellExecute {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "shell_execute",
        title: "Run a command",
        description: "Run a shell command in a sandbox: only the workspace is writable, only hosts that the profile lists are \
            reachable, and there is no standard input. Start servers with `background`, for shell_session. Read and write files with the file tools.",
        example: Example {
            files: &[("notes.txt", "one\ntwo\n")],
            arguments: r#"{"command": "wc -l < notes.txt && echo done"}"#,
            result: r#"{"stdout": "2\ndone\n", "stderr": "", "exit_code": 0, "timed_out": false}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        // Default: 30 seconds, from the EloPhanto source. Maximum: one hour, from design section 7.
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_hours(1) },
        lane: Lane::Command,
        text: TextCap::Default,
        presentation: Presentation::Command,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        if let Some(id) = &args.apply {
            if args.background || args.dry_run {
                return Err(ToolError::validation(
                    "apply",
                    "cannot be combined with `background` or `dry_run`",
                ));
            }
            // The plan of the dry run did not decide on these changes: the command may differ.
            let plan = Plan::of(vec![Effect::Write { path: place.workspace.clone() }]).on_snapshot();
            return Ok(Plan { applies: Some(id.clone()), ..plan });
        }
        if args.keep && !args.background {
            return Err(ToolError::validation(
                "keep",
                "needs `background`: only a background command can outlive a session",
            ));
        }
        if args.background && args.dry_run {
            let problem = "a background command changes the workspace directly";
            return Err(ToolError::validation("dry_run", problem));
        }
        if args.command.trim().is_empty() {
            return Err(ToolError::validation("command", "is empty"));
        }
        let others = args.argv().unwrap_or_default().iter().enumerate();
        let others = others.map(|(index, text)| (format!("argv[{index}]"), text));
        for (field, text) in [("command".to_owned(), &args.command)].into_iter().chain(others) {
            if text.contains('\0') {
                return Err(ToolError::validation(&field, "has a NUL byte"));
            }
            if text.len() > LONGEST_COMMAND {
                let problem = format!("is longer than the limit of {LONGEST_COMMAND} bytes");
                return Err(ToolError::validation(&field, problem)
                    .hint("write the command to a file with file_write, then run the file"));
            }
        }
        let directory = match &args.working_directory {
            Some(directory) => place.resolve("working_directory", directory)?,
            None => place.workspace.clone(),
        };
        let command = match args.argv() {
            None => CommandLine::Shell(args.command.clone()),
            Some(others) => CommandLine::Argv([std::slice::from_ref(&args.command), others].concat()),
        };
        let plan = Plan::of(vec![Effect::Run { command, directory }]);
        if !args.background {
            return Ok(plan.on_snapshot());
        }
        if args.on_timeout == OnTimeout::Discard {
            let problem =
                "`discard` needs a foreground command: a background command changes the workspace directly";
            return Err(ToolError::validation("on_timeout", problem));
        }
        Ok(Plan { background: true, outlives_session: args.keep, ..plan })
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        // The lifetime of a session does not limit its start.
        timeout(args).filter(|_| !args.background)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        if args.apply.is_some() {
            // The plan names the changes, and the engine commits them.
            return Ok(Output::applied().into());
        }
        let (cell, host) = (context.service::<CellSpec>()?, context.service::<CellHost>()?);
        let working_directory = match &args.working_directory {
            Some(directory) => context.place.resolve("working_directory", directory)?,
            None => context.place.workspace.clone(),
        };
        let cell = CellSpec {
            terminal: args.pty.then(TerminalSize::default),
            overlay_only: cell.overlay_only || args.dry_run,
            ..CellSpec::clone(&cell)
        };
        if args.dry_run && cell.overlay.is_none() {
            return Err(no_dry_run("this runtime does not isolate changes"));
        }
        let at_most = timeout(&args);
        let (program, line) = match args.argv() {
            None => (Program::Shell(args.command.clone()), args.command.clone()),
            Some(others) => {
                let words = [std::slice::from_ref(&args.command), others].concat();
                (Program::Argv(words.iter().map(Into::into).collect()), words.join(" "))
            }
        };
        let command = Command { program, working_directory };
        if args.background {
            let cell = (cell, CellHost::clone(&host));
            let (session_id, sandbox) = background::start(context, cell, &line, command, at_most)?;
            return Ok(RunResult { sandbox: Some(sandbox), ..Output::begun(session_id).into() });
        }
        let stopper = Stopper::new().map_err(failed)?;
        let at_request = stopper.clone();
        context.stop.on_request(move |_| at_request.stop());

        let mut seen = 0_u64;
        let mut begun = [false; 2];
        let mut report = |stream, bytes: &[u8]| {
            seen += bytes.len() as u64;
            let begun = &mut begun[usize::from(stream == Stream::Stderr)];
            context.progress.report(seen, None, plain::last_line(bytes, *begun));
            *begun = !bytes.ends_with(b"\n");
        };
        // The engine enforces the deadline: it requests the stop, so that all tools share one clock.
        let outcome = match sandbox::run(&cell, &host, &command, None, &stopper, &mut report) {
            // Not started yet: without a disposable overlay, a command that only reads gets read-only files.
            Err(SandboxError::Overlay { .. } | SandboxError::Unavailable { .. })
                if cell.reads_only && cell.overlay.is_some() && !args.dry_run =>
            {
                let read_only = CellSpec { overlay: None, overlay_only: false, ..CellSpec::clone(&cell) };
                sandbox::run(&read_only, &host, &command, None, &stopper, &mut report)
            }
            // Not started yet: an isolation that has no overlay here runs the command without one.
            Err(refused @ (SandboxError::Overlay { .. } | SandboxError::Unavailable { .. }))
                if cell.overlay.is_some() && !cell.strict =>
            {
                if args.dry_run {
                    return Err(no_dry_run(&refused.to_string()).because(refused));
                }
                // A call that passes because it can be undone runs on an overlay or not at all.
                if cell.overlay_only {
                    sandbox::distrust_overlay(&cell.workspace);
                    return Err(not_undoable(refused));
                }
                let direct = CellSpec { overlay: None, ..CellSpec::clone(&cell) };
                let outcome = sandbox::run(&direct, &host, &command, None, &stopper, &mut report);
                if outcome.is_ok() {
                    context.warn(format!("{NO_COPY}: {refused}"));
                }
                outcome
            }
            other => other,
        }
        .map_err(|error| missing_programs::failed(context, error))?;
        Ok(result(context, &args, &line, (&cell, &host), outcome))
    }
}

/// Converts the outcome of a command in the foreground.
fn result(
    context: &Context,
    args: &Args,
    line: &str,
    (cell, host): (&CellSpec, &CellHost),
    outcome: Outcome,
) -> RunResult<Output> {
    let sandbox = Some(outcome.enforcement.summary());
    let snapshot = matches!(outcome.changes, ChangeSource::UpperFolder(_)).then(|| SnapshotUse {
        taken_at: outcome.started_at,
        nothing_else: outcome.enforcement.direct.is_empty(),
        changes: match args.on_timeout {
            _ if args.dry_run => ChangeTreatment::Show,
            OnTimeout::Discard if outcome.ended != EndReason::Finished => ChangeTreatment::Discard,
            OnTimeout::Keep | OnTimeout::Discard => ChangeTreatment::Commit,
        },
    });
    if snapshot.is_some() && outcome.exit != Exit::Code(0) && names_cross_device_link(&outcome.stderr) {
        context.warn(CROSS_DEVICE_LINK.to_owned());
    }
    let missed_hosts = network::missed_by(&outcome, line, cell);
    missing_programs::warn(context, line, cell, &outcome);
    let (stdout, whole_stdout) = text(context, "stdout", outcome.stdout);
    let (stderr, whole_stderr) = text(context, "stderr", outcome.stderr);
    let output = Output {
        stdout,
        stderr,
        exit_code: Some(exit_code(outcome.exit)),
        timed_out: false,
        waiting_for_input: outcome.waited_for_input,
        session_id: None,
        diff: None,
    };
    let full_outputs = whole_stdout.into_iter().chain(whole_stderr).collect();
    let exceeded = outcome.exceeded.map(|limit| (limit.to_string(), limit.limit));
    // A limit fails the call only if the command itself was killed, and not one of its processes.
    let is_killed =
        outcome.ended == EndReason::Killed || matches!(outcome.exit, Exit::Signal(SIGKILL | SIGXFSZ));
    let output = match (exceeded, outcome.ended) {
        (Some((limit, which)), _) if is_killed => {
            let error = ToolError::new(Code::Quota, format!("the command was killed at its {limit}"));
            Err(with_output(error.hint(how_to_raise(which)), output))
        }
        (exceeded, ended) => {
            if let Some((limit, which)) = exceeded {
                let raise = how_to_raise(which);
                context.warn(format!("a process of the command was killed at its {limit}; {raise}"));
            }
            ended_with(context, host, ended, output)
        }
    };
    RunResult { output, sandbox, snapshot, full_outputs, missed_hosts }
}

/// Returns the output of a command that has finished, or the error of one that was ended.
fn ended_with(
    context: &Context,
    host: &CellHost,
    ended: EndReason,
    output: Output,
) -> Result<Output, ToolError> {
    match ended {
        EndReason::Finished => Ok(output),
        EndReason::Killed => {
            let uncovered = host.late_masks.as_ref().is_some_and(|masks| masks.have_failed());
            Err(with_output(killed(uncovered), output))
        }
        EndReason::Deadline | EndReason::Stopped | EndReason::Idle => {
            let timed_out = context.stop.requested() == Some(tool::StopReason::Deadline);
            let error = ended_early(context, output.waiting_for_input);
            Err(with_output(error, Output { timed_out, exit_code: None, ..output }))
        }
    }
}

/// Adds the output so far to the error of a command that was ended.
fn with_output(error: ToolError, output: Output) -> ToolError {
    match json(output) {
        Ok(output) => error.effect(EffectState::Maybe).data(output),
        Err(unreadable) => unreadable,
    }
}

/// Returns the timeout in the arguments. The schema has bounded it.
fn timeout(args: &Args) -> Option<Duration> {
    args.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Signals of asm-generic/signal.h, the same on all supported Linux architectures.
const SIGKILL: i32 = 9;
const SIGXFSZ: i32 = 25;

#[cfg(test)]
pub(crate) mod tests;
