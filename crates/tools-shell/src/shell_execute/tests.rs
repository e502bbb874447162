//! Tests of `shell_execute`.

use std::io::Read;
use std::sync::Arc;

use sandbox::{Session, SessionLimits, Sessions};
use serde_json::{Value, json};
use testkit::{Workspace, block_on, run_in, run_tool};
use tool::{ErasedTool, StopReason};

use super::*;

/// Creates a workspace whose commands run in a real cell.
pub(crate) fn workspace() -> Workspace {
    let workspace = Workspace::new();
    let cell = CellSpec {
        workspace: workspace.path().to_owned(),
        spool_directory: workspace.at("../outside"),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    let kept = |_: &str, id: &str, _: &Session| Ok(format!("{id}.output"));
    let sessions = Sessions::new(SessionLimits::default(), Arc::new(kept));
    let workspace = workspace.with_service(Arc::new(cell)).with_service(Arc::new(CellHost::default()));
    workspace.with_service(Arc::new(sessions.of("session-1")))
}

fn run(workspace: &Workspace, arguments: Value) -> Result<Value, ToolError> {
    run_tool(ErasedTool::tool(ShellExecute).as_ref(), workspace, arguments)
}

#[test]
fn a_command_starts_where_it_is_told_and_a_signal_shows_in_its_exit_code() {
    let workspace = workspace();
    workspace.folder("sub");
    let output = run(&workspace, json!({"command": "pwd; kill -9 $$", "working_directory": "sub"})).unwrap();
    assert_eq!(output["stdout"], format!("{}\n", workspace.at("sub").display()));
    assert_eq!(output["exit_code"], 128 + 9);
}

#[test]
fn the_plan_names_the_line_and_the_directory_and_refuses_what_is_no_command() {
    let place = workspace().place();
    let plan =
        |arguments: Value| ErasedTool::tool(ShellExecute).prepare(arguments, &place).map(|made| made.plan);
    let effect =
        Effect::Run { command: CommandLine::Shell("ls".into()), directory: place.workspace.join("a") };
    assert_eq!(plan(json!({"command": "ls", "working_directory": "a"})).unwrap().effects, [effect]);
    let argv = plan(json!({"command": "echo", "argv": ["a b", "$HOME;"]})).unwrap();
    let words = ["echo", "a b", "$HOME;"].map(str::to_owned).to_vec();
    let directory = place.workspace.clone();
    assert_eq!(argv.effects, [Effect::Run { command: CommandLine::Argv(words), directory }]);
    let error = plan(json!({"command": "echo", "argv": ["a", "b\0"]})).unwrap_err();
    assert!(error.message.contains("`argv[1]`"), "{}", error.message);
    for bad in ["", " \n", "ls\0", &"x".repeat(LONGEST_COMMAND + 1)] {
        let error = plan(json!({ "command": bad })).unwrap_err();
        assert_eq!(error.code, Code::Validation);
        assert!(error.message.contains("`command`"), "{}", error.message);
    }
}

#[test]
fn a_program_with_its_arguments_meets_no_shell() {
    let output = run(&workspace(), json!({"command": "printf", "argv": ["%s|", "a b", "$HOME; false"]}));
    assert_eq!(output.unwrap()["stdout"], "a b|$HOME; false|");
    let missing = run(&workspace(), json!({"command": "echo a", "argv": ["b"]})).unwrap_err();
    assert_eq!(missing.code, Code::NotFound, "{}", missing.message);
    let line = run(&workspace(), json!({"command": "echo a; echo b", "argv": []})).unwrap();
    assert_eq!(line["stdout"], "a\nb\n");
}

#[test]
fn a_command_on_a_terminal_that_waits_for_an_answer_says_so_at_its_end() {
    let workspace = workspace();
    for (command, waits) in [("echo begun; read answer", true), ("echo begun; sleep 1000", false)] {
        let context = workspace.context();
        let stop = context.stop.clone();
        let tool = ErasedTool::tool(ShellExecute);
        // Long enough for the shell to get from its output to its wait.
        std::thread::spawn(move || {
            std::thread::park_timeout(Duration::from_secs(2));
            stop.request(StopReason::Deadline);
        });
        let error = run_in(tool.as_ref(), &context, json!({"command": command, "pty": true})).unwrap_err();
        let data = error.data.unwrap();
        assert_eq!(data["waiting_for_input"] == true, waits, "{data}");
        assert_eq!(data["stdout"], "begun\r\n");
        assert_eq!(error.message.contains("waited for input"), waits);
    }
}

#[test]
fn a_background_command_is_refused_where_nothing_outlives_the_call() {
    let workspace = Workspace::new()
        .with_service(Arc::new(CellSpec::default()))
        .with_service(Arc::new(CellHost::default()));
    let error = run(&workspace, json!({"command": "true", "background": true})).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.hint.unwrap().contains("a connection that stays"));
}

#[test]
fn the_longest_command_runs() {
    let command = format!("echo ok #{}", "x".repeat(LONGEST_COMMAND - 9));
    assert_eq!(command.len(), LONGEST_COMMAND);
    assert_eq!(run(&workspace(), json!({ "command": command })).unwrap()["stdout"], "ok\n");
}

#[test]
fn a_directory_that_is_not_there_or_not_shown_is_refused_by_name() {
    for directory in ["missing", "../outside", "/root"] {
        let error = run(&workspace(), json!({"command": "ls", "working_directory": directory})).unwrap_err();
        assert_eq!(error.code, Code::Validation, "{directory}: {}", error.message);
        assert!(error.message.contains("`working_directory`"), "{}", error.message);
    }
}

#[test]
fn a_stop_keeps_the_partial_output_and_says_that_something_may_have_changed() {
    let workspace = workspace();
    for (reason, code) in [(StopReason::Deadline, Code::Timeout), (StopReason::Cancelled, Code::Cancelled)] {
        let mut context = workspace.context();
        // The first line of the command's output requests the stop.
        let stop = context.stop.clone();
        context.progress = Arc::new(StopAtOutput(stop, reason));
        let tool = ErasedTool::tool(ShellExecute);
        let error =
            run_in(tool.as_ref(), &context, json!({"command": "echo begun; sleep 1000"})).unwrap_err();
        assert_eq!((error.code, error.effect), (code, EffectState::Maybe));
        let data = error.data.unwrap();
        assert_eq!(data["stdout"], "begun\n");
        assert_eq!(data["timed_out"], reason == StopReason::Deadline);
    }
}

struct StopAtOutput(tool::Stop, StopReason);

impl tool::Progress for StopAtOutput {
    fn report(&self, _done: u64, _total: Option<u64>, message: &str) {
        assert_eq!(message, "begun");
        self.0.request(self.1);
    }
}

#[test]
fn output_that_outgrows_memory_is_kept_whole_aside() {
    let workspace = workspace();
    let context = workspace.context();
    let tool = ErasedTool::tool(ShellExecute);
    let prepared = tool.prepare(json!({"command": "seq 1 100000"}), &context.place).unwrap();
    let RunResult { output, full_outputs: wholes, .. } = block_on(prepared.run(&context));
    let output = output.unwrap().into_value().unwrap();
    let shown = output["stdout"].as_str().unwrap();
    assert!(shown.starts_with("1\n2\n") && shown.ends_with("99999\n100000\n"), "{} bytes", shown.len());
    assert!(shown.contains("bytes omitted, 100000 lines in all"));
    let [whole] = wholes.as_slice() else { panic!("{} outputs are kept whole", wholes.len()) };
    assert_eq!((whole.field, whole.bytes), ("stdout", 588_895));
    let mut text = String::new();
    (&whole.file).read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 100_000);
}

#[test]
fn a_command_that_may_run_only_on_an_overlay_does_nothing_without_one() {
    let run = |overlay_only| {
        let workspace = Workspace::new();
        let missing = workspace.at("../missing");
        let cell = CellSpec {
            workspace: workspace.path().to_owned(),
            spool_directory: workspace.at("../outside"),
            overlay: Some(sandbox::Overlay { upper: missing.join("upper"), work: missing.join("work") }),
            overlay_only,
            ..CellSpec::default()
        };
        let workspace = workspace.with_service(Arc::new(cell)).with_service(Arc::new(CellHost::default()));
        let ran = run(&workspace, json!({"command": "echo made > made"}));
        (ran.map(drop), workspace.at("made").exists())
    };
    let (refused, is_made) = run(true);
    let error = refused.unwrap_err();
    assert_eq!((error.code, error.effect), (Code::Unavailable, EffectState::None));
    assert!(error.message.contains("nothing was run"), "{}", error.message);
    assert!(error.hint.unwrap().contains("repeat the call"));
    assert!(!is_made);
    // The control: another command runs on the workspace itself.
    let (ran, is_made) = run(false);
    ran.unwrap();
    assert!(is_made);
}

#[test]
fn output_that_is_no_text_is_shown_with_replacement_characters() {
    let output = run(&workspace(), json!({"command": r"printf 'a\377b'"})).unwrap();
    assert_eq!(output["stdout"], "a\u{fffd}b");
}

#[test]
fn without_a_cell_nothing_runs() {
    let error = run(&Workspace::new(), json!({"command": "true"})).unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
}
