//! `handfast schedule`: the jobs of the workspace, by the user's own hand.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use dialects::Dialect;
use engine::{CallRequest, Door, Principal, by_hand};
use jobs::{BookError, FiringState, ScheduleBook, ScheduleFilter, ScheduleRow, ScheduleState};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tool::{Clock as _, Code, Data, Outcome};

use super::checkpoints::refused;
use super::{Failure, print, print_json, tokio_runtime};
use crate::cli::Global;
use crate::cli_schedule::{AddArgs, ScheduleCommand};
use crate::clock::SystemClock;
use crate::compose::{Composed, RuntimeOptions, compose};
use crate::host_environment::HostEnvironment;
use crate::moment::Present;
use crate::pager::print_listing;
use crate::report::{command, note, table};
use crate::run_options::RunOptions;
use crate::scheduler::{JobAsker, JobRunner};
use crate::signals::until_done;
use crate::terminal::{TerminalAsker, YesAsker};

/// Maximum number of characters of an outcome in a list.
const OUTCOME: usize = 80;

pub(super) fn run(global: &Global, command: Option<ScheduleCommand>) -> Result<ExitCode, Failure> {
    // The user's own jobs name tools canonically, whatever the dialect of the agents is.
    let options = RunOptions { dialect: Some(Dialect::Handfast), ..global.run_options() };
    let composed = compose(RuntimeOptions::once(options))?;
    let book = &composed.jobs.book;
    match command.unwrap_or(ScheduleCommand::List { all: false, json: false }) {
        ScheduleCommand::List { all, json } => list(book, all, json)?,
        ScheduleCommand::Add(arguments) => add(&composed, global, &arguments)?,
        ScheduleCommand::Run { name, json } => return run_now(&composed, global, &name, json),
        ScheduleCommand::Pause { name } => {
            record_change(&composed, "schedule pause", &name, |row| book.pause(row))?;
        }
        ScheduleCommand::Resume { name } => {
            record_change(&composed, "schedule resume", &name, |row| book.resume(row, SystemClock.now()))?;
        }
        ScheduleCommand::Remove { name } => {
            record_change(&composed, "schedule remove", &name, |row| book.remove(row))?;
        }
        ScheduleCommand::History { name, limit, json } => history(book, &name, limit, json)?,
        ScheduleCommand::Install { out } => install(&composed, global, out)?,
    }
    composed.store.close()?;
    Ok(ExitCode::SUCCESS)
}

fn found(book: &ScheduleBook, name: &str) -> Result<ScheduleRow, Failure> {
    book.find(name).map_err(failure)
}

fn failure(error: BookError) -> Failure {
    match error {
        BookError::Missing(name) => {
            Failure::usage(format!("there is no schedule {name}; `handfast schedule list --all` lists them"))
        }
        error => Failure::from(error.to_string()),
    }
}

fn list(book: &ScheduleBook, all: bool, json: bool) -> Result<(), Failure> {
    let filter = if all { ScheduleFilter::All } else { ScheduleFilter::Open };
    let rows = book.list(filter).map_err(failure)?;
    if json {
        return print_json(&rows);
    }
    if rows.is_empty() {
        note(
            "there are no schedules in this workspace; `handfast schedule add --help` shows how to make one",
        );
        return Ok(());
    }
    let present = Present::by(&SystemClock);
    let cells = rows.iter().map(|row| {
        let next = row.next_at.filter(|_| row.state == ScheduleState::Active);
        let status = match (&row.disabled, row.state) {
            (Some(reason), ScheduleState::Paused) => format!("paused: {reason}"),
            (_, state) => state.as_str().to_owned(),
        };
        let last = row.last_status.map_or("", FiringState::as_str);
        vec![
            tool::visible(&row.name),
            tool::visible(&row.canonical),
            next.map(|at| present.local(at)).unwrap_or_default(),
            row.last_at.map(|at| format!("{} {last}", present.local(at))).unwrap_or_default(),
            tool::visible(&status).chars().take(OUTCOME).collect(),
        ]
    });
    print_listing(&table(&["name", "times", "next run", "last run", "status"], cells))?;
    Ok(())
}

fn add(composed: &Composed, global: &Global, arguments: &AddArgs) -> Result<(), Failure> {
    let mut call = Map::new();
    let mut set = |name: &str, value: Value| drop(call.insert(name.to_owned(), value));
    set("name", json!(arguments.name));
    set("schedule", json!(arguments.times));
    set("max_retries", json!(arguments.retries));
    set("missed", json!(arguments.missed.as_str()));
    set("overlap", json!(arguments.overlap.as_str()));
    set("jitter_seconds", json!(arguments.jitter));
    set("dry_run", json!(global.dry_run));
    if let Some(description) = &arguments.description {
        set("description", json!(description));
    }
    match &arguments.tool {
        Some(tool) => {
            set("tool", json!(tool));
            let given = arguments.arguments.as_deref().unwrap_or("{}");
            let given: Value = serde_json::from_str(given)
                .map_err(|error| Failure::usage(format!("--arguments is not JSON: {error}")))?;
            set("arguments", given);
        }
        None => set("command", json!(shell_line(&arguments.command))),
    }
    let dialect = composed.toolset.dialect.as_str();
    // The user types the command, which is the answer to every question about it.
    let principal = Principal::new(Door::CommandLine, composed.session.clone(), dialect, Arc::new(YesAsker));
    let request = CallRequest::new(principal, "schedule_task", Value::Object(call));
    let result = tokio_runtime()?.block_on(composed.engine.call(request));
    let data = match &result.outcome {
        Outcome::Err(error) => return Err(refused(error)),
        Outcome::Ok(Data::Value(data)) => data.clone(),
        Outcome::Ok(Data::Written(written)) => serde_json::from_str(written.as_str())?,
    };
    let text = |field: &str| data[field].as_str().unwrap_or_default().to_owned();
    let next: Vec<&str> =
        data["next_runs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let cron = data["cron_expression"].as_str().map(|line| format!(" ({line})")).unwrap_or_default();
    print(&format!(
        "{}: {}{cron}, {}\nnext runs: {}\n",
        text("name"),
        text("canonical"),
        text("zone"),
        next.join(", ")
    ))?;
    for warning in &result.meta.warnings {
        note(warning);
    }
    Ok(())
}

/// Returns the line for the shell: one word as it is, several quoted as words.
fn shell_line(words: &[String]) -> String {
    if let [line] = words {
        return line.clone();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    let quoted = |word: &String| {
        if !word.is_empty() && word.chars().all(is_plain) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', r"'\''"))
        }
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// Changes a schedule between two rows of the audit.
fn record_change(
    composed: &Composed,
    what: &str,
    name: &str,
    change: impl FnOnce(&ScheduleRow) -> Result<bool, BookError>,
) -> Result<(), Failure> {
    let row = found(&composed.jobs.book, name)?;
    let arguments = json!({"name": row.name, "id": row.id});
    let code = |_: &Failure| Code::Runtime;
    let clock = SystemClock;
    let changed =
        by_hand((composed.store.as_ref(), &clock), what, &arguments, code, || change(&row).map_err(failure))?;
    let done = if changed { "done" } else { "nothing changed, because it was so before" };
    note(&format!("{what} {}: {done}", row.name));
    Ok(())
}

fn history(book: &ScheduleBook, name: &str, limit: u32, json: bool) -> Result<(), Failure> {
    let row = found(book, name)?;
    let firings = book.history(&row, limit).map_err(failure)?;
    if json {
        return print_json(&firings);
    }
    if firings.is_empty() {
        note(&format!("the schedule {} has not run yet", row.name));
        return Ok(());
    }
    let present = Present::by(&SystemClock);
    let cells = firings.iter().map(|firing| {
        let outcome = firing.outcome.as_deref().unwrap_or_default();
        vec![
            present.local(firing.claim.instant),
            firing.state.as_str().to_owned(),
            (firing.attempt + 1).to_string(),
            firing.output.clone().unwrap_or_default(),
            tool::visible(outcome).chars().take(OUTCOME).collect(),
        ]
    });
    print_listing(&table(&["instant", "status", "attempt", "call", "outcome"], cells))?;
    Ok(())
}

fn run_now(composed: &Composed, global: &Global, name: &str, json: bool) -> Result<ExitCode, Failure> {
    let row = found(&composed.jobs.book, name)?;
    let runner = JobRunner::of(composed);
    let Some(firing) = runner.claim_now(&row)? else {
        return Err(Failure::from(format!("the schedule {name} was removed meanwhile")));
    };
    let (stop, stopped) = watch::channel(false);
    let (claim, instant) = (firing.claim.clone(), firing.claim.instant);
    let tokio = tokio_runtime()?;
    let fired: Result<(), Failure> = tokio.block_on(async {
        let asker: Arc<dyn engine::Asker> = match TerminalAsker::open(None).filter(|_| !global.no_input) {
            Some(terminal) => Arc::new(terminal),
            None => Arc::new(JobAsker::new(None)),
        };
        let running = runner.fire(&composed.engine, &row, firing, asker, stopped);
        until_done(running, || {
            stop.send_replace(true);
        })
        .await?;
        composed.engine.shutdown().await;
        Ok(())
    });
    fired?;
    let firings = composed.jobs.book.history(&row, 500).map_err(failure)?;
    composed.store.close()?;
    let Some(firing) = firings.into_iter().find(|firing| firing.claim.instant == instant) else {
        return Err(Failure::from(format!("the run {} of {name} left no record", claim.epoch)));
    };
    if json {
        print_json(&firing)?;
    } else {
        let outcome = firing.outcome.as_deref().unwrap_or_default();
        print(&format!("{}: {}\n", firing.state.as_str(), tool::visible(outcome)))?;
    }
    Ok(if firing.state == FiringState::Done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes the unit of systemd that runs `up`. A unit of the same name that Handfast did not write stays.
fn install(composed: &Composed, global: &Global, out: Option<PathBuf>) -> Result<(), Failure> {
    let home = HostEnvironment::of_this_process().home;
    let folder = match (out, home) {
        (Some(folder), _) => folder,
        (None, Some(home)) => home.join(".config/systemd/user"),
        (None, None) => return Err(Failure::usage("HOME is not set; name a folder with --out")),
    };
    let program = std::env::current_exe()?.canonicalize()?;
    let name = unit_name(&composed.workspace);
    let path = folder.join(&name);
    if fs::read_to_string(&path).is_ok_and(|text| !text.starts_with(WRITTEN)) {
        return Err(Failure::from(format!(
            "{} was not written by Handfast, so it stays as it is",
            path.display()
        )));
    }
    let mut line = vec![program, "up".into(), "--workspace".into(), composed.workspace.clone()];
    line.extend([PathBuf::from("--listen"), "127.0.0.1:0".into(), "--no-input".into()]);
    if let Some(state) = &global.state {
        line.extend([PathBuf::from("--state"), state.canonicalize()?]);
    }
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&path, unit(&composed.workspace, &line)))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    print(&format!("{}\n", path.display()))?;
    note(&format!(
        "start it with `systemctl --user daemon-reload` and `systemctl --user enable --now {name}`; `loginctl enable-linger` lets it run without a login. {} shows what fires",
        command("schedule list")
    ));
    Ok(())
}

/// First line of a unit that Handfast has written.
const WRITTEN: &str = "# Written by `handfast schedule install`.\n";

/// Returns the name of the unit of a workspace: readable, and its own for each path.
fn unit_name(workspace: &Path) -> String {
    let path = tool::path_text(workspace);
    let last = workspace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain: String =
        last.chars().filter(|c| c.is_ascii_alphanumeric() || "-_".contains(*c)).take(40).collect();
    // FNV-1a, a hash whose values are the same in every version (64 bits: offset and prime of its authors).
    let hash = path.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("handfast-{plain}-{:08x}.service", hash >> 32)
}

/// Returns the text of the unit. Each word is quoted as `systemd.service(5)` says.
fn unit(workspace: &Path, line: &[PathBuf]) -> String {
    let quoted = |word: &PathBuf| {
        let text = word.to_string_lossy();
        let escaped = text.replace('\\', r"\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
        format!("\"{escaped}\"")
    };
    let line: Vec<String> = line.iter().map(quoted).collect();
    let described: String =
        tool::path_text(workspace).replace('%', "%%").chars().filter(|c| !c.is_control()).collect();
    format!(
        "{WRITTEN}[Unit]\nDescription=Handfast in {described}\n\n[Service]\nExecStart={}\nRestart=on-failure\nRestartSec=5\n\n[Install]\nWantedBy=default.target\n",
        line.join(" ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_quotes_every_word_and_has_its_own_name() {
        let line = ["/usr/bin/hand fast", "up", "--workspace", "/w/50% \"x\"\\$y"].map(PathBuf::from);
        let text = unit(Path::new("/w/50%"), &line);
        let expected =
            "ExecStart=\"/usr/bin/hand fast\" \"up\" \"--workspace\" \"/w/50%% \\\"x\\\"\\\\$$y\"\n";
        assert!(text.contains(expected), "{text}");
        let [one, two] = ["/a/my project", "/b/my project"].map(|path| unit_name(Path::new(path)));
        assert!(
            one.starts_with("handfast-myproject-") && one.ends_with(".service") && one != two,
            "{one} {two}"
        );
    }

    #[test]
    fn several_words_become_one_line_of_the_shell_and_one_word_is_a_line() {
        let line =
            |words: &[&str]| shell_line(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert_eq!(line(&["cargo test && echo done"]), "cargo test && echo done");
        assert_eq!(line(&["echo", "a b", "it's", "", "x=1"]), r"echo 'a b' 'it'\''s' '' x=1");
    }
}
