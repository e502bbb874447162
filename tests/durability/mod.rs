//! Calls that are killed or interrupted, and processes that share one state.

mod agents_killed;
mod databases;
mod every_point;
mod full_disk;
mod journals;
mod killed;
mod patches;
mod plugins_killed;
mod pruning;
mod scheduled;
mod vault;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::server::Server;

/// Returns true if the command line of a process on this machine contains this text.
fn runs(marker: &str) -> bool {
    // The program carries the marker in its arguments, too. The sleeper does not carry the tool's name.
    runs_as(|shown| shown.contains(marker) && !shown.contains("shell_execute"))
}

/// Returns true if the command line of a process on this machine satisfies `is_meant`. Spaces
/// separate its words.
fn runs_as(is_meant: impl Fn(&str) -> bool) -> bool {
    std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        is_meant(&String::from_utf8_lossy(&line).replace('\0', " "))
    })
}

/// Starts a command in the background of this test that sleeps under its own process name.
fn sleeper(fixture: &Fixture, marker: &str) -> Child {
    let command = format!("echo begun > begun; exec -a {marker} sleep 1000");
    let child = fixture
        .command()
        .args(["call", "--yes", "shell_execute", &json!({"command": command, "timeout": 900}).to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The shell that runs before the sleep carries the marker too, but not as its name.
    eventually("the sleep", || runs_as(|shown| shown.starts_with(marker)));
    child
}

fn audit(fixture: &Fixture) -> Vec<Value> {
    let listed = fixture.run(&["audit", "list", "--json"]).stdout;
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn signal(child: &Child, signal: &str) {
    let sent = std::process::Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn kill_9_leaves_the_intent_in_a_clean_chain_and_no_process() {
    let fixture = Fixture::new();
    let mut child = sleeper(&fixture, "handfast-test-killed");
    signal(&child, "-KILL");
    child.wait().unwrap();
    eventually("the end of the cell", || !runs("handfast-test-killed"));
    let calls = audit(&fixture);
    assert_eq!(calls.len(), 1, "{calls:#?}");
    assert_eq!(calls[0]["outcome"], "unfinished");
    assert!(calls[0]["plan"].to_string().contains("handfast-test-killed"));
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn kill_9_in_the_middle_of_a_command_leaves_the_workspace_as_it_was() {
    let fixture = Fixture::with_files(&[("a", "a"), ("d/x", "x")]);
    let marker = "handfast-test-half-way";
    let command = format!("echo half > a; rm -r d; echo new > new; exec -a {marker} sleep 1000");
    let mut child = fixture
        .command()
        .args(["call", "--yes", "shell_execute", &json!({"command": command, "timeout": 900}).to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    eventually("the command's start", || runs(marker));
    // The control: the command has made its changes, in its own folder.
    let folders = || -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(fixture.state().join("changes")).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    };
    let has_changed = |folder: &std::path::PathBuf| folder.join("upper/new").exists();
    eventually("the command's last change", || folders().iter().any(has_changed));
    let [folder] = folders().try_into().unwrap();
    assert_eq!(std::fs::read_to_string(folder.join("upper/a")).unwrap(), "half\n");
    signal(&child, "-KILL");
    child.wait().unwrap();
    eventually("the end of the cell", || !runs(marker));
    assert_eq!((fixture.read("a"), fixture.read("d/x")), ("a".to_owned(), "x".to_owned()));
    assert!(!fixture.workspace().join("new").exists());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(fixture.state().to_str().unwrap()), "{mounts}");
    // The next start removes the leftovers of the killed call.
    let next = fixture.run(&["call", "file_list", r#"{"path": "."}"#]);
    assert_eq!((next.code, next.stderr.as_str()), (0, ""));
    assert!(folders().is_empty());
}

#[test]
fn kill_9_leaves_a_change_with_its_checkpoint_or_neither() {
    // Signs for the moment to kill: the journal of the commit, the first new file, the last changed
    // file, and the end of the commit.
    let signs: [fn(&Fixture) -> bool; 4] = [
        |fixture| in_calls(fixture, "journal"),
        |fixture| fixture.workspace().join("new/0").exists(),
        |fixture| std::fs::read_to_string(fixture.workspace().join("z")).unwrap() == "changed\n",
        |fixture| in_calls(fixture, "journal.committed"),
    ];
    let (mut kept, mut taken_back) = (0, 0);
    for (turn, sign) in signs.iter().cycle().take(12).enumerate() {
        let fixture = Fixture::with_files(&[("a", "a"), ("d/x", "x"), ("z", "z")]);
        let command = "for n in $(seq 200); do mkdir -p m$n; echo $n >m$n/f; done; mkdir new; echo 0 >new/0; rm -r d; \
                       echo changed >a; echo changed >z";
        let mut child = fixture
            .command()
            .args(["call", "--yes", "shell_execute", &json!({"command": command}).to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ended = false;
        // A pause between two looks would miss a sign that is there for a moment.
        while !ended && !sign(&fixture) {
            ended = child.try_wait().unwrap().is_some();
        }
        // Wait a little longer in each round.
        (0..turn * 50).for_each(|_| std::thread::yield_now());
        if !ended {
            signal(&child, "-KILL");
        }
        child.wait().unwrap();
        let listed = fixture.run(&["checkpoints", "list", "--json"]).json();
        let checkpoints = listed.as_array().unwrap();
        let paths = || {
            let mut names: Vec<_> = std::fs::read_dir(fixture.workspace()).unwrap().flatten().collect();
            names.sort_by_key(std::fs::DirEntry::file_name);
            names.len()
        };
        let state = (fixture.read("a"), fixture.read("z"), paths());
        let (before, after) =
            (("a".to_owned(), "z".to_owned(), 3), ("changed\n".to_owned(), "changed\n".to_owned(), 203));
        if checkpoints.is_empty() {
            assert_eq!(state, before, "turn {turn}");
            taken_back += 1;
        } else {
            assert_eq!(state, after, "turn {turn}");
            let undone = fixture.run(&["undo", checkpoints[0]["id"].as_str().unwrap()]);
            assert_eq!(undone.code, 0, "{}", undone.stderr);
            assert_eq!((fixture.read("a"), fixture.read("z"), paths()), before, "turn {turn}");
            kept += 1;
        }
        assert_eq!(fixture.read("d/x"), "x");
    }
    println!("{kept} changes were there with their checkpoints, {taken_back} were not there");
}

/// Returns true if the folder of any call contains a file of this name.
fn in_calls(fixture: &Fixture, name: &str) -> bool {
    let calls = std::fs::read_dir(fixture.state().join("changes")).into_iter().flatten().flatten();
    calls.map(|call| call.path().join(name)).any(|path| path.exists())
}

#[test]
fn ctrl_c_ends_the_command_and_records_it() {
    let fixture = Fixture::new();
    let child = sleeper(&fixture, "handfast-test-interrupted");
    signal(&child, "-INT");
    let output = child.wait_with_output().unwrap();
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["error"]["code"], "ECANCELLED", "{result:#}");
    // The changes made so far are in the workspace, and the result reports them.
    assert_eq!(result["error"]["effect"], "done");
    assert_eq!(result["meta"]["changes"]["state"], "committed");
    assert_eq!(fixture.read("begun"), "begun\n");
    assert_eq!(output.status.code(), Some(130));
    assert!(!runs("handfast-test-interrupted"));
    assert_eq!(audit(&fixture)[0]["outcome"], "ECANCELLED");
}

#[test]
fn a_polite_kill_ends_an_mcp_server_with_its_commands_and_records_them() {
    let fixture = Fixture::new();
    let mut server = serve(&fixture, "handfast-test-terminated");
    signal(&server.process, "-TERM");
    assert_eq!(server.process.wait().unwrap().code(), Some(128 + 15));
    assert!(!runs("handfast-test-terminated"));
    assert_eq!(audit(&fixture)[0]["outcome"], "ECANCELLED");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn several_processes_share_one_state_and_one_chain() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let fixture = &fixture;
            scope.spawn(move || {
                for turn in 0..5 {
                    fixture.data("file_read", json!({"path": "a.txt"}));
                    fixture
                        .data("file_write", json!({"path": format!("{worker}-{turn}.txt"), "content": "x"}));
                }
            });
        }
    });
    let verified = fixture.run(&["audit", "verify", "--json"]).json();
    assert_eq!(
        (verified["ok"].as_bool(), verified["rows"].as_i64()),
        (Some(true), Some(4 * 5 * 3)),
        "{verified:#}"
    );
}

/// An MCP server that runs a command, and the client's ends of its streams.
struct Serving {
    process: Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

fn serve(fixture: &Fixture, marker: &str) -> Serving {
    let mut process = fixture
        .command()
        .args(["--mode", "full_auto", "mcp"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut send = |message: Value| writeln!(input, "{message}").unwrap();
    send(json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
    let mut answer = String::new();
    output.read_line(&mut answer).unwrap();
    assert!(answer.contains("protocolVersion"), "{answer}");
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let command = format!("exec -a {marker} sleep 1000");
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "shell_execute", "arguments": {"command": command, "timeout": 900}}}));
    eventually("the command's start", || runs(marker));
    Serving { process, input, output }
}

#[test]
fn closing_the_input_of_an_mcp_server_ends_its_commands_and_the_server() {
    let fixture = Fixture::new();
    let mut server = serve(&fixture, "handfast-test-orphan");
    drop(server.input);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    assert!(!runs("handfast-test-orphan"));
    assert_eq!(audit(&fixture)[0]["outcome"], "ECANCELLED");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn kill_9_leaves_no_process_of_a_session_and_the_output_of_those_that_had_ended() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let ended = server.background("echo kept; exit 4", false);
    server.expect(&ended, 0, "^kept$");
    eventually("the end of the session", || {
        let listed = server.data("shell_session", json!({"action": "list"}));
        listed["sessions"][0]["output_ref"].is_string()
    });
    for pty in [false, true] {
        server.background("setsid bash -c 'exec -a handfast-test-session sleep 1000' & exec sleep 1000", pty);
    }
    eventually("the start of the sessions", || runs("handfast-test-session"));
    signal(server.process(), "-KILL");
    server.process().wait().unwrap();
    eventually("the end of the cells", || !runs("handfast-test-session"));
    let read = fixture.data("shell_session", json!({"action": "read", "session_id": ended}));
    assert_eq!(read["content"], "kept\n");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn kill_9_leaves_the_output_of_a_running_session_up_to_there_and_says_that_it_was_cut_off() {
    let fixture = Fixture::new();
    let mut command = fixture.command();
    command.args(["--mode", "full_auto"]).env("DEPLOY_TOKEN", "cut-off-secret-value");
    let mut server = Server::of(command);
    let line = "echo first; echo cut-off-secret-value; seq 1 100000; echo last; exec sleep 1000";
    let small = server.background("echo small; exec sleep 1000", true);
    let large = server.background(line, false);
    server.expect(&large, 0, "^last$");
    server.expect(&small, 0, "^small");
    // While the server runs, no other process takes its commands for abandoned ones.
    fixture.data("file_list", json!({"path": "."}));
    let running = fixture.call("shell_session", json!({"action": "read", "session_id": large}));
    assert_eq!(running["error"]["code"], "ENOTFOUND", "{running:#}");
    signal(server.process(), "-KILL");
    server.process().wait().unwrap();

    let mut next = fixture.command();
    next.args(["--mode", "full_auto"]).env("DEPLOY_TOKEN", "cut-off-secret-value");
    let mut next = Server::of(next);
    let read = next.data("shell_session", json!({"action": "read", "session_id": large}));
    let content = read["content"].as_str().unwrap();
    assert!(content.starts_with("first\n") && !content.contains("cut-off-secret-value"), "{content}");
    next.expect(&large, 0, "^last$");
    next.expect(&large, 0, "was killed while this command ran");
    let whole = next.data("output_read", json!({"output_ref": format!("{small}.output")}));
    assert!(whole["content"].as_str().unwrap().starts_with("small\r\n"), "{whole:#}");
    // A command that ended normally leaves nothing to recover.
    let ended = next.background("echo ended", false);
    eventually("the end of the session", || {
        let listed = next.data("shell_session", json!({"action": "list"}));
        listed["sessions"][0]["output_ref"].is_string()
    });
    let kept = next.data("output_read", json!({"output_ref": format!("{ended}.output")}));
    assert_eq!(kept["content"], "ended\n", "{kept:#}");
    next.end();
    let left = std::fs::read_dir(fixture.state().join("sessions")).unwrap();
    assert_eq!(left.count(), 0);
}

#[test]
fn a_cancelled_request_ends_its_command_and_nothing_else() {
    let fixture = Fixture::new();
    let mut server = serve(&fixture, "handfast-test-cancelled");
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}});
    writeln!(server.input, "{cancelled}").unwrap();
    eventually("the end of the command", || !runs("handfast-test-cancelled"));
    writeln!(server.input, "{}", json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).unwrap();
    let mut answer = String::new();
    server.output.read_line(&mut answer).unwrap();
    // No response to the cancelled request comes before this one.
    assert!(answer.contains("\"id\":3"), "{answer}");
    drop(server.input);
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
    assert_eq!(audit(&fixture)[0]["outcome"], "ECANCELLED");
}

#[test]
fn a_write_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let fixture = Fixture::with_files(&[("a.txt", "old")]);
    let content = "new\n".repeat(500_000);
    let arguments = json!({"path": "a.txt", "content": content, "backup": false}).to_string();
    for delay in 0..12_u32 {
        fixture.write("a.txt", "old");
        let mut child = fixture
            .command()
            .args(["call", "--yes", "file_write", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // The reader may have been killed meanwhile, which is the subject of this test.
        let _ = input.write_all(arguments.as_bytes());
        drop(input);
        // Kill a little later in each round. The assertions do not depend on the moment of the kill.
        for _ in 0..delay * 20 {
            std::hint::black_box(std::fs::metadata(fixture.workspace()).unwrap());
        }
        let _ = child.kill();
        child.wait().unwrap();
        let left = fixture.read("a.txt");
        assert!(left == "old" || left == content, "{} bytes: neither old nor new", left.len());
    }
}

#[test]
fn a_question_survives_kill_9_and_its_call_passes_once_after_the_answer() {
    let fixture = Fixture::new().asking();
    let write = || json!({"path": "a.txt", "content": "one", "backup": false});
    let needs_approval = |result: &Value| result.to_string().contains("EAPPROVAL");
    let mut server = Server::start(&fixture, &[]);
    assert!(needs_approval(&server.call("file_write", write())));
    server.process().kill().unwrap();
    server.process().wait().unwrap();
    let listed = fixture.run(&["approvals", "list", "--json"]).json();
    assert_eq!(listed[0]["state"], "waiting");
    assert_eq!(fixture.run(&["approvals", "approve", listed[0]["id"].as_str().unwrap()]).code, 0);

    let mut server = Server::start(&fixture, &[]);
    server.process().kill().unwrap();
    server.process().wait().unwrap();
    let mut server = Server::start(&fixture, &[]);
    assert_eq!(server.data("file_write", write())["size_bytes"], 3);
    assert!(needs_approval(&server.call("file_write", write())), "once was once");
    server.end();
    assert_eq!(fixture.read("a.txt"), "one");
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}
