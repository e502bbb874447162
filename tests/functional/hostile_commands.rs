//! Hostile commands: too large, unable to start, endless output, or deaf to signals. Each gets the
//! right response with the output so far, in bounded memory, and leaves nothing behind.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, program};
use crate::shown::data_of;

/// An MCP server and the client's ends of its streams.
struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(fixture: &Fixture) -> Self {
        let mut process = fixture
            .command()
            .args(["--mode", "full_auto", "mcp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut server = Self { process, input, output };
        server.send(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}));
        server.answer();
        server.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        server
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input, "{message}").unwrap();
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, id: u32, command: &str, timeout: u32) {
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "shell_execute", "arguments": {"command": command, "timeout": timeout}}}));
    }

    /// Returns the peak memory of the server in KiB.
    fn peak(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
    }

    fn end(mut self) {
        drop(self.input);
        assert_eq!(self.process.wait().unwrap().code(), Some(0));
    }
}

/// Counts the processes of this machine whose name is this text.
fn named(marker: &str) -> usize {
    let is = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).next() == Some(marker.as_bytes())
    };
    std::fs::read_dir("/proc").unwrap().flatten().filter(is).count()
}

#[test]
fn a_command_of_a_megabyte_is_refused_and_one_of_ten_thousand_arguments_runs() {
    let fixture = Fixture::new();
    let arguments = json!({"command": format!("touch made; : {}", "x".repeat(1_000_000))}).to_string();
    let run = fixture.run_with_input(&["call", "--yes", "shell_execute", "-"], arguments.as_bytes());
    let error = &run.json()["error"];
    assert_eq!((run.code, &error["code"], &error["effect"]), (2, &json!("EVALIDATION"), &json!("none")));
    assert!(error["message"].as_str().unwrap().contains("131071 bytes"), "{error:#}");
    assert!(error["hint"].as_str().unwrap().contains("file_write"), "{error:#}");
    assert!(!fixture.workspace().join("made").exists());

    let many: Vec<String> = (1..=10_000).map(|number| number.to_string()).collect();
    let command = format!("printf '%s\\n' {} | tail -1", many.join(" "));
    assert_eq!(fixture.data("shell_execute", json!({ "command": command }))["stdout"], "10000\n");
}

#[test]
fn what_cannot_start_is_said() {
    let fixture = Fixture::with_files(&[("plain", "no program"), ("script", "#!/no/such/interpreter\n")]);
    for (command, code, said) in [
        ("./missing", 127, "No such file or directory"),
        ("./plain", 126, "Permission denied"),
        // The exit code is bash's. The message differs between its versions.
        ("chmod +x script && ./script", 127, "./script"),
        ("no-such-program", 127, "command not found"),
    ] {
        let data = fixture.data("shell_execute", json!({ "command": command }));
        assert_eq!(data["exit_code"].as_i64(), Some(code), "{command}: {data:#}");
        assert!(data["stderr"].as_str().unwrap().contains(said), "{command}: {data:#}");
    }
    for directory in ["missing", "plain"] {
        let error =
            fixture.error("shell_execute", json!({"command": "true", "working_directory": directory}));
        assert_eq!(error["code"], "EVALIDATION", "{error:#}");
        assert!(error["message"].as_str().unwrap().contains(directory), "{error:#}");
    }
    // The call is approved, but a cell shows only the roots.
    let outside = fixture.home();
    let error =
        fixture.error("shell_execute", json!({"command": "touch made", "working_directory": outside}));
    assert_eq!((&error["code"], &error["effect"]), (&json!("EVALIDATION"), &json!("none")), "{error:#}");
    assert!(!outside.join("made").exists());
}

#[test]
fn output_without_end_costs_bounded_memory_and_is_counted_exactly() {
    let configuration = "sandbox_config:\n  normal:\n    limits:\n      output_bytes: 4000000\n";
    let fixture = Fixture::with_files(&[("handfast.yaml", configuration)]);
    let mut server = Server::start(&fixture);
    let run = |server: &mut Server, command: &str| {
        server.ask(1, command, 300);
        data_of("shell_execute", &server.answer()["result"])
    };
    // The first long output allocates the memory that every long output needs.
    run(&mut server, "head -c 1000000 /dev/zero; yes | head -c 1000000");
    let before = server.peak();
    let lines = run(&mut server, "yes 1234567 | head -c 400000000");
    let noted = lines["stdout"].as_str().unwrap();
    assert!(
        noted.contains("most of 400000000 bytes in 50000000 lines left out; output_read {\"output_ref\":\""),
        "{noted:.300}"
    );
    // One line of binary data, on standard error.
    let binary = run(&mut server, "echo begun; head -c 400000000 /dev/zero >&2; printf '\\377end' >&2");
    assert_eq!(binary["stdout"], "begun\n");
    let noted = binary["stderr"].as_str().unwrap();
    assert!(
        noted.contains("most of 400000004 bytes in 1 lines left out"),
        "{:.300}",
        noted.replace('\0', "")
    );
    assert!(noted.trim_end().ends_with("\u{fffd}end"));
    let grown = server.peak() - before;
    assert!(grown < 2048, "{grown} KiB more than before");
    server.end();
}

#[test]
fn a_command_that_does_not_want_to_end_ends_at_its_timeout() {
    let fixture = Fixture::new();
    let sleep = "exec -a handfast-test-stays sleep 500";
    for (command, exit) in [
        (format!("trap '' TERM; echo begun; ({sleep}) & while :; do wait; done"), "ETIMEOUT"),
        (format!("echo begun; ({sleep}) & kill -STOP $$"), "ETIMEOUT"),
        (format!("echo begun; (setsid setsid bash -c '{sleep}' > /dev/null 2>&1 &); sleep 500"), "ETIMEOUT"),
        // The command has ended. The call does not wait for a child process that holds its output open.
        (format!("echo begun; ({sleep}) &"), "ok"),
    ] {
        let result = fixture.call("shell_execute", json!({"command": command, "timeout": 1}));
        assert_eq!(result["data"]["stdout"], "begun\n", "{command}: {result:#}");
        match exit {
            "ok" => assert_eq!(result["ok"], true, "{command}: {result:#}"),
            code => assert_eq!(result["error"]["code"], code, "{command}: {result:#}"),
        }
        assert_eq!(named("handfast-test-stays"), 0, "{command}");
    }
}

#[test]
fn on_a_full_disk_a_command_is_told_and_its_output_counted() {
    let fixture = Fixture::new();
    // Mount a small file system for workspace and state.
    let script = r#"
        set -e
        mount -t tmpfs -o size=3m none "$1"
        mkdir "$1/workspace" "$1/state"
        shift
        exec "$@"
    "#;
    let line = "head -c 20000000 /dev/zero > big; echo $?; rm big; yes 1234567 | head -c 20000000 >&2";
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(fixture.outside())
        .arg(program())
        .arg("--workspace")
        .arg(fixture.workspace())
        .arg("--state")
        .arg(fixture.state())
        .args(["call", "--yes", "shell_execute", &json!({ "command": line }).to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let result: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(result["ok"], true, "{result:#}");
    assert_eq!(result["data"]["stdout"], "1\n");
    let said = result["data"]["stderr"].as_str().unwrap();
    assert!(said.contains("No space left on device"), "{said:.200}");
    assert!(said.contains("20000"), "{said:.200}");
    let warnings = result["meta"]["warnings"].to_string();
    assert!(warnings.contains("could not be kept"), "{:#}", result["meta"]);
}

#[test]
fn sixty_four_commands_at_once_all_get_an_answer_in_time() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture);
    for id in 1..=64 {
        server.ask(id, "echo begun; exec -a handfast-test-crowd sleep 500", 1);
    }
    let answers: Vec<Value> = (0..64).map(|_| server.answer()).collect();
    let codes = |code: &str| {
        let is = |answer: &&Value| answer["result"].to_string().contains(code);
        answers.iter().filter(is).count()
    };
    // Five commands run and ten wait (design section 5). A command that waits longer than its
    // timeout gets ETIMEOUT.
    assert!(codes("ETIMEOUT") >= 5, "{answers:#?}");
    assert_eq!(codes("ETIMEOUT") + codes("EQUOTA"), 64, "{answers:#?}");
    assert!(codes("EQUOTA") >= 49);
    assert_eq!(named("handfast-test-crowd"), 0);
    server.ask(65, "echo still here", 10);
    assert_eq!(server.answer()["result"]["content"][0]["text"], "still here\n");
    server.end();
}
