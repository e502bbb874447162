//! `shell_session`: control of commands that run in the background.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use regex::bytes::{Regex, RegexBuilder};
use sandbox::{EndReason, Ending, ListedSession, OwnedSessions, Phase, Session, SessionError, TerminalSize};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{
    Class, Code, CommandLine, Context, Effect, Example, Lane, Level, Outputs, Place, Plan, Presentation,
    Retry, RunResult, Spec, TextCap, Timeout, Tool, ToolError,
};

use crate::reading::{self, Live, RequestedPart, Source, SpoolFile};
use crate::wording::exit_code;
use crate::{keys, network};

/// The `shell_session` tool.
pub struct ShellSession;

/// Arguments of `shell_session`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Operation.
    action: Action,
    /// Id of the session; required except for `list`.
    session_id: Option<String>,
    /// First byte to read: 0, or `next_offset` of an earlier result.
    offset: Option<u64>,
    /// Maximum bytes, default 20000.
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: Option<u64>,
    /// Return only matching lines.
    regex: Option<String>,
    /// Seconds to wait for new output.
    #[schemars(range(max = 300))]
    wait: Option<u64>,
    /// Keep control sequences.
    #[serde(default)]
    raw: bool,
    /// Text to write, newline included.
    text: Option<String>,
    /// Keys to send after the text, such as enter, ctrl-c.
    keys: Option<Vec<String>>,
    /// Signal to send, such as INT.
    signal: Option<String>,
    /// Size of the terminal, such as 80x24.
    size: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Read,
    Write,
    Signal,
    Resize,
    Close,
}

/// Result of `shell_session`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct Output {
    /// Sessions: for `list` all of the caller, else the named one.
    sessions: Vec<Summary>,
    /// Output that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// First byte of `content`, if earlier output is no longer stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    /// `offset` for the next read.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

/// A session.
#[derive(Debug, Serialize, JsonSchema)]
struct Summary {
    /// Id of the session.
    session_id: String,
    /// Command line.
    command: String,
    /// `running`, `left_running` (the command has ended, but processes that it started still run) or `ended`.
    state: &'static str,
    /// Exit code of the command after its end; 128 + N if signal N ended it.
    exit_code: Option<i32>,
    /// Reason for the end: `finished`, `closed`, `timeout`, `idle` or `killed`.
    ended_by: Option<&'static str>,
    /// Limit at which a process of the session was killed.
    limit_reached: Option<String>,
    /// True if the session has a terminal.
    pty: bool,
    /// True if the foreground program waits for input on the terminal.
    waiting_for_input: bool,
    /// Bytes of output so far.
    output_bytes: u64,
    /// True if started with `keep` or by a call without a session; the session belongs to the token.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    keep: bool,
    /// Seconds from the start to the end, or until now.
    seconds: u64,
    /// Reference for `output_read`, after the end.
    output_ref: Option<String>,
}

/// Bytes in an answer by default: below the text limit of an answer.
const DEFAULT_LIMIT: u64 = 20_000;
const MAX_LIMIT: u64 = 1_000_000;
/// Maximum number of seconds that a call waits for output.
const LONGEST_WAIT: u64 = 300;
/// Maximum bytes of text and keys per call: half of the input that a session buffers for a program
/// that does not read.
const LONGEST_INPUT: usize = 512 * 1024;

impl Tool for ShellSession {
    type Args = Args;
    type Output = RunResult<Output>;

    const SPEC: Spec = Spec {
        name: "shell_session",
        title: "Background commands",
        description: "Control background commands of shell_execute. They end with this connection.",
        example: Example { files: &[], arguments: r#"{"action": "list"}"#, result: r#"{"sessions": []}"# },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: false },
        timeout: Timeout::fixed(LONGEST_WAIT + 30),
        lane: Lane::Read,
        text: TextCap::ByArguments,
        presentation: Presentation::Text { field: "content" },
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        args.regex.as_deref().map(compile).transpose()?;
        if args.wait.is_some_and(|wait| wait > LONGEST_WAIT) {
            return Err(ToolError::validation("wait", format!("at most {LONGEST_WAIT} seconds")));
        }
        if args.action == Action::List {
            return Ok(Plan::of(Vec::new()));
        }
        let session = required("session_id", args.session_id.clone())?;
        match args.action {
            Action::Write => {
                let text = typed(args)?.replace('\r', "\n");
                let command = CommandLine::Typed { session, text };
                let effect = Effect::Run { command, directory: place.workspace.clone() };
                Ok(Plan { level: Some(Level::Destructive), background: true, ..Plan::of(vec![effect]) })
            }
            Action::Signal => signal(args).map(|_| Plan::of(Vec::new())),
            Action::Resize => size(args).map(|_| Plan::of(Vec::new())),
            Action::List | Action::Read | Action::Close => Ok(Plan::of(Vec::new())),
        }
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        limit(args)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<RunResult<Output>, ToolError> {
        let sessions = context.service::<OwnedSessions>();
        if args.action == Action::List {
            // A caller that cannot run background commands has none.
            let listed = sessions.map(|sessions| sessions.list()).unwrap_or_default();
            return Ok(Output { sessions: listed.iter().map(summary).collect(), ..Output::default() }.into());
        }
        let id = required("session_id", args.session_id.clone())?;
        let found = sessions.ok().and_then(|sessions| sessions.find(&id).ok());
        let Some(listed) = found else {
            if args.action == Action::Read
                && let Some(kept) = kept(context, &id)
            {
                return read(context, &args, &SpoolFile(kept), None);
            }
            return Err(ToolError::new(Code::NotFound, format!("there is no session `{}`", shortened(&id)))
                .hint("`list` shows the sessions of this connection and those started with `keep`"));
        };
        let session = &listed.session;
        session.take_notes().into_iter().for_each(|note| context.warn(note));
        let before = session.status().bytes;
        match args.action {
            Action::Read | Action::List => return read(context, &args, &Live(session), Some(&listed)),
            Action::Write => {
                write(session, &args)?;
                if args.wait.is_some() {
                    let args = Args { offset: Some(before), ..args };
                    return read(context, &args, &Live(session), Some(&listed));
                }
            }
            Action::Signal => session.signal(signal(&args)?).map_err(failed)?,
            Action::Resize => session.resize(size(&args)?).map_err(failed)?,
            Action::Close => session.close(),
        }
        let next_offset = (args.action == Action::Write).then_some(before);
        Ok(Output { sessions: vec![summary(&listed)], next_offset, ..Output::default() }.into())
    }
}

fn read(
    context: &Context,
    args: &Args,
    source: &dyn Source,
    listed: Option<&ListedSession>,
) -> Result<RunResult<Output>, ToolError> {
    let wanted = RequestedPart {
        offset: args.offset.unwrap_or(0),
        limit: usize::try_from(limit(args)).unwrap_or(usize::MAX),
        lines: if args.limit.is_some() { usize::MAX } else { TextCap::DEFAULT_LINES },
        regex: args.regex.as_deref().map(compile).transpose()?,
        raw: args.raw,
    };
    let until = Instant::now() + Duration::from_secs(args.wait.unwrap_or(0));
    if let Some(listed) = listed {
        let session = listed.session.clone();
        context.stop.on_request(move |_| session.wake());
    }
    let read = reading::read(context, source, &wanted, until)?
        .map_err(|error| ToolError::new(Code::Runtime, "the output cannot be read").because(error))?;
    let missed_hosts = network::missed_hosts(&[&read.text], listed.map_or("", |listed| &listed.command));
    let output = Output {
        sessions: listed.map(summary).into_iter().collect(),
        content: Some(String::from_utf8_lossy(&read.text).into_owned()),
        offset: (read.offset > wanted.offset).then_some(read.offset),
        next_offset: Some(read.next),
    };
    Ok(RunResult { missed_hosts, ..output.into() })
}

fn write(session: &Session, args: &Args) -> Result<(), ToolError> {
    if session.status().has_terminal {
        return session.write(typed(args)?.into_bytes()).map_err(failed);
    }
    let ends = match args.keys.as_deref().unwrap_or_default() {
        [] => false,
        [key] if key.trim().eq_ignore_ascii_case("ctrl-d") => true,
        _ => {
            return Err(ToolError::validation(
                "keys",
                "this session has no terminal, so it accepts only `ctrl-d`",
            )
            .hint("start the command with `pty`, or send a signal"));
        }
    };
    if let Some(text) = args.text.clone().filter(|text| !text.is_empty()) {
        session.write(text.into_bytes()).map_err(failed)?;
    }
    if ends { session.end_input().map_err(failed) } else { Ok(()) }
}

/// Returns the text, followed by the bytes of the keys.
fn typed(args: &Args) -> Result<String, ToolError> {
    let mut all = args.text.clone().unwrap_or_default();
    for key in args.keys.iter().flatten() {
        let sent = keys::sequence(key).ok_or_else(|| {
            ToolError::validation("keys", format!("unknown key `{}`", shortened(key)))
                .hint("enter, tab, escape, backspace, delete, up, down, left, right, home, end, page-up, page-down, f1 to f8, ctrl-X, alt-X")
        })?;
        all.push_str(&sent);
    }
    if all.is_empty() {
        return Err(ToolError::validation("text", "nothing to write: give `text` or `keys`"));
    }
    if all.len() > LONGEST_INPUT {
        return Err(ToolError::validation("text", format!("longer than the limit of {LONGEST_INPUT} bytes")));
    }
    Ok(all)
}

fn signal(args: &Args) -> Result<u8, ToolError> {
    let given = required("signal", args.signal.clone())?;
    keys::signal(&given).ok_or_else(|| {
        ToolError::validation("signal", format!("unknown signal `{}`", shortened(&given)))
            .hint("HUP, INT, QUIT, ABRT, KILL, USR1, USR2, ALRM, TERM, CONT, STOP, TSTP, WINCH, ...")
    })
}

fn size(args: &Args) -> Result<TerminalSize, ToolError> {
    let given = required("size", args.size.clone())?;
    let side = |text: &str| text.trim().parse().ok().filter(|side| (1..=1000).contains(side));
    let sides = given.split_once(['x', 'X']).and_then(|(columns, rows)| Some((side(columns)?, side(rows)?)));
    let (columns, rows) = sides
        .ok_or_else(|| ToolError::validation("size", "not of the form 80x24, with numbers from 1 to 1000"))?;
    Ok(TerminalSize { columns, rows })
}

fn limit(args: &Args) -> u64 {
    args.limit.unwrap_or(DEFAULT_LIMIT).clamp(1, MAX_LIMIT)
}

fn required(field: &'static str, given: Option<String>) -> Result<String, ToolError> {
    given.ok_or_else(|| missing(field))
}

fn missing(field: &'static str) -> ToolError {
    ToolError::validation(field, "this action requires it")
}

fn shortened(text: &str) -> String {
    text.chars().take(100).collect()
}

fn compile(pattern: &str) -> Result<Regex, ToolError> {
    RegexBuilder::new(pattern)
        .size_limit(1 << 20)
        .build()
        .map_err(|error| ToolError::validation("regex", "not a regular expression").hint(error.to_string()))
}

/// Opens the output of a session that ended with an earlier process.
fn kept(context: &Context, id: &str) -> Option<File> {
    let outputs = context.service::<Arc<dyn Outputs>>().ok()?;
    outputs.open(&format!("{id}.output")).ok()
}

/// Returns the current state of a session.
fn summary(listed: &ListedSession) -> Summary {
    let status = listed.session.status();
    let (state, exit_code, ended_by) = match status.phase {
        Phase::Starting | Phase::Running => ("running", None, None),
        Phase::Left(exit) => ("left_running", Some(exit_code(exit)), None),
        Phase::Ended(Ending { exit, ended }) => {
            let by = match ended {
                EndReason::Finished => "finished",
                EndReason::Stopped => "closed",
                EndReason::Deadline => "timeout",
                EndReason::Idle => "idle",
                EndReason::Killed => "killed",
            };
            ("ended", Some(exit_code(exit)), Some(by))
        }
    };
    Summary {
        session_id: listed.id.clone(),
        command: listed.command.clone(),
        state,
        exit_code,
        ended_by,
        limit_reached: status.exceeded.map(|limit| limit.to_string()),
        pty: status.has_terminal,
        waiting_for_input: listed.session.waits_for_input(),
        output_bytes: status.bytes,
        keep: listed.shared,
        seconds: status.runs_for.as_secs(),
        output_ref: status.kept.and_then(Result::ok),
    }
}

fn failed(error: SessionError) -> ToolError {
    let message = error.to_string();
    let made = match &error {
        SessionError::Unknown { .. } => ToolError::new(Code::NotFound, message),
        SessionError::TooMany { .. } | SessionError::InputFull { .. } => {
            ToolError::new(Code::Quota, message).retry(Retry::AfterMs(1_000))
        }
        SessionError::Ended | SessionError::InputClosed => ToolError::new(Code::Conflict, message),
        SessionError::NoTerminal => ToolError::validation("session_id", message)
            .hint("start the command with `pty` to give it a terminal"),
        _ => ToolError::new(Code::Runtime, message),
    };
    made.because(error)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use testkit::{Workspace, run_tool};
    use tool::ErasedTool;

    use super::*;
    use crate::ShellExecute;
    use crate::shell_execute::tests::workspace;

    fn act(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
        run_tool(ErasedTool::tool(ShellSession).as_ref(), workspace, arguments)
    }

    fn start(workspace: &Workspace, arguments: Value) -> String {
        let started = run_tool(ErasedTool::tool(ShellExecute).as_ref(), workspace, arguments).unwrap();
        started["session_id"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_session_is_started_read_written_to_and_closed() {
        let workspace = workspace();
        let id = start(&workspace, json!({"command": "echo begun; cat", "background": true}));
        let read =
            act(&workspace, json!({"action": "read", "session_id": id, "wait": 60, "regex": "^begun$"}))
                .unwrap();
        assert_eq!((&read["content"], &read["next_offset"]), (&json!("begun\n"), &json!(6)), "{read}");
        let listed = act(&workspace, json!({"action": "list"})).unwrap();
        assert_eq!(listed["sessions"][0]["command"], "echo begun; cat");
        assert_eq!(listed["sessions"][0]["state"], "running");
        let written = json!({"action": "write", "session_id": id, "text": "more\n", "wait": 60});
        assert_eq!(act(&workspace, written).unwrap()["content"], "more\n");
        let closed = act(&workspace, json!({"action": "close", "session_id": id})).unwrap();
        assert_eq!(closed["sessions"][0]["state"], "ended");
        assert_eq!(closed["sessions"][0]["ended_by"], "closed");
        // A closed session stays readable, but accepts no input.
        let again = act(&workspace, json!({"action": "read", "session_id": id, "offset": 6})).unwrap();
        assert_eq!(again["content"], "more\n");
        let refused = act(&workspace, json!({"action": "write", "session_id": id, "text": "x"})).unwrap_err();
        assert_eq!(refused.code, Code::Conflict);
    }

    #[test]
    fn a_terminal_takes_keys_and_shows_plain_text_unless_raw_is_asked_for() {
        let workspace = workspace();
        let command = "printf '\\033[31mred\\033[0m\\n'; stty size; exec cat -v";
        let id = start(&workspace, json!({"command": command, "background": true, "pty": true}));
        let size = json!({"action": "read", "session_id": id, "wait": 60, "regex": "^24 80$"});
        assert_eq!(act(&workspace, size).unwrap()["content"], "24 80\n");
        let plain = act(&workspace, json!({"action": "read", "session_id": id})).unwrap();
        assert_eq!(plain["content"], "red\n24 80\n");
        let raw = act(&workspace, json!({"action": "read", "session_id": id, "raw": true})).unwrap();
        assert_eq!(raw["content"], "\u{1b}[31mred\u{1b}[0m\r\n24 80\r\n");
        let keys =
            json!({"action": "write", "session_id": id, "text": "typed", "keys": ["up", "enter", "ctrl-d"]});
        act(&workspace, keys).unwrap();
        let ended =
            json!({"action": "read", "session_id": id, "wait": 60, "regex": "\\^\\[\\[A$", "offset": 30});
        assert_eq!(act(&workspace, ended).unwrap()["content"], "typed^[[A\n");
    }

    #[test]
    fn only_what_is_typed_counts_as_running_commands() {
        let place = workspace().place();
        let plan = |arguments: Value| ErasedTool::tool(ShellSession).prepare(arguments, &place).unwrap().plan;
        let typed = plan(json!({"action": "write", "session_id": "s", "text": "ls", "keys": ["enter"]}));
        let command = CommandLine::Typed { session: "s".into(), text: "ls\n".into() };
        assert_eq!(typed.effects, [Effect::Run { command, directory: place.workspace.clone() }]);
        assert_eq!((typed.level, typed.background), (Some(Level::Destructive), true));
        for harmless in [
            json!({"action": "list"}),
            json!({"action": "read", "session_id": "s"}),
            json!({"action": "signal", "session_id": "s", "signal": "SIGINT"}),
            json!({"action": "resize", "session_id": "s", "size": "100x30"}),
            json!({"action": "close", "session_id": "s"}),
        ] {
            assert!(plan(harmless.clone()).effects.is_empty(), "{harmless}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_field() {
        let place = workspace().place();
        for (arguments, field) in [
            (json!({"action": "read"}), "session_id"),
            (json!({"action": "write", "session_id": "s"}), "text"),
            (json!({"action": "write", "session_id": "s", "keys": ["any-key"]}), "keys"),
            (json!({"action": "write", "session_id": "s", "text": "x".repeat(LONGEST_INPUT + 1)}), "text"),
            (json!({"action": "signal", "session_id": "s", "signal": "SIGNAL"}), "signal"),
            (json!({"action": "resize", "session_id": "s", "size": "80"}), "size"),
            (json!({"action": "resize", "session_id": "s", "size": "0x1"}), "size"),
            (json!({"action": "read", "session_id": "s", "regex": "("}), "regex"),
        ] {
            let error =
                ErasedTool::tool(ShellSession).prepare(arguments.clone(), &place).map(|_| ()).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(&format!("`{field}`")), "{arguments}: {}", error.message);
        }
        let unknown = act(&workspace(), json!({"action": "read", "session_id": "nobody's"})).unwrap_err();
        assert_eq!(unknown.code, Code::NotFound);
    }

    #[test]
    fn without_a_terminal_other_keys_and_sizes_are_refused_and_ctrl_d_ends_the_input() {
        let workspace = workspace();
        let id = start(&workspace, json!({"command": "cat; echo over", "background": true}));
        for arguments in [
            json!({"action": "write", "session_id": id, "keys": ["ctrl-c"]}),
            json!({"action": "resize", "session_id": id, "size": "80x24"}),
        ] {
            assert_eq!(act(&workspace, arguments).unwrap_err().code, Code::Validation);
        }
        act(&workspace, json!({"action": "write", "session_id": id, "keys": ["ctrl-d"]})).unwrap();
        let read = json!({"action": "read", "session_id": id, "wait": 60, "regex": "over"});
        assert_eq!(act(&workspace, read).unwrap()["content"], "over\n");
    }

    #[test]
    fn a_stopped_call_waits_no_longer() {
        let workspace = workspace();
        let id = start(&workspace, json!({"command": "sleep 1000", "background": true}));
        let context = workspace.context();
        context.stop.request(tool::StopReason::Cancelled);
        let read = json!({"action": "read", "session_id": id, "wait": 300});
        let stopped = testkit::run_in(ErasedTool::tool(ShellSession).as_ref(), &context, read).unwrap_err();
        assert_eq!(stopped.code, Code::Cancelled);
    }
}
