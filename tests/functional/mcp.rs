//! The MCP door of the real program, fed line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::shown::data_of;

fn initialize(id: u32) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}})
    .to_string()
}

fn call(id: u32, tool: &str, arguments: Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}).to_string()
}

/// Returns all responses of the server to these lines before it ends, in the order of output.
fn answers(fixture: &Fixture, lines: &[Vec<u8>]) -> Vec<Value> {
    let input = lines.join(&b'\n');
    let run = fixture.run_with_input(&["--mode", "full_auto", "mcp"], &[&input[..], b"\n"].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Leaves the input open until `count` responses have arrived, because calls in flight at the end
/// of the input get only a moment.
fn answers_while_open(fixture: &Fixture, lines: &[Vec<u8>], count: usize) -> Vec<Value> {
    let mut command = fixture.command();
    command.args(["--mode", "full_auto", "mcp"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    let lines = [&lines.join(&b'\n')[..], b"\n"].concat();
    let writer = std::thread::spawn(move || {
        input.write_all(&lines).unwrap();
        input
    });
    let mut output = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut answer = || Some(serde_json::from_str(&output.next()?.unwrap()).unwrap());
    let mut answers: Vec<Value> = std::iter::from_fn(&mut answer).take(count).collect();
    drop(writer.join().unwrap());
    answers.extend(std::iter::from_fn(&mut answer));
    assert!(server.wait().unwrap().success());
    answers
}

fn by_id(answers: &[Value], id: u32) -> &Value {
    answers
        .iter()
        .find(|answer| answer["id"] == id)
        .unwrap_or_else(|| panic!("no answer to {id}: {answers:#?}"))
}

#[test]
fn messages_that_are_piped_in_at_once_are_all_answered() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let lines = [
        initialize(1),
        call(2, "shell_execute", json!({"command": "echo hello"})),
        call(3, "file_read", json!({"path": "a.txt"})),
    ];
    let answers = answers(&fixture, &lines.map(String::into_bytes));
    assert_eq!(by_id(&answers, 2)["result"]["content"][0]["text"], "hello\n", "{answers:#?}");
    assert_eq!(data_of("file_read", &by_id(&answers, 3)["result"])["content"], "a");
}

#[test]
fn bad_lines_are_answered_and_the_session_goes_on() {
    let fixture = Fixture::with_files(&[("a.txt", "a")]);
    let huge = call(4, "file_write", json!({"path": "b.txt", "content": "x".repeat(50_000_000)}));
    let large = call(5, "file_write", json!({"path": "c.txt", "content": "x".repeat(5_000_000)}));
    let lines = [
        initialize(1).into_bytes(),
        b"{\"jsonrpc\": \"2.0\", \"id\": 2, ".to_vec(),
        b"\xff\xfe\xfd".to_vec(),
        b"".to_vec(),
        b"[1, 2]".to_vec(),
        huge.into_bytes(),
        large.into_bytes(),
        call(6, "file_reed", json!({})).into_bytes(),
        call(7, "file_read", json!({"path": "a.txt", "colour": 1})).into_bytes(),
        call(8, "file_read", json!({"path": "../a.txt"})).into_bytes(),
        call(9, "file_read", json!({"path": "a.txt"})).into_bytes(),
    ];
    let answers = answers_while_open(&fixture, &lines, 10);
    let failures: Vec<i64> = answers
        .iter()
        .filter(|answer| answer["id"].is_null())
        .map(|answer| answer["error"]["code"].as_i64().unwrap())
        .collect();
    assert_eq!(failures, [-32700, -32700, -32600]);
    let huge = &by_id(&answers, 4)["result"];
    assert_eq!(huge["isError"], true);
    assert!(huge["content"][0]["text"].as_str().unwrap().starts_with("EVALIDATION"), "{huge}");
    assert!(!fixture.workspace().join("b.txt").exists());
    let large = &by_id(&answers, 5)["result"];
    assert_eq!(data_of("file_write", large)["size_bytes"], 5_000_000, "{large:#}");
    assert_eq!(by_id(&answers, 6)["error"]["code"], -32602);
    let wrong = by_id(&answers, 7)["result"]["content"][0]["text"].as_str().unwrap();
    assert!(wrong.starts_with("EVALIDATION") && wrong.contains("colour"), "{wrong}");
    let outside = by_id(&answers, 8)["result"]["content"][0]["text"].as_str().unwrap();
    assert!(outside.starts_with("EAPPROVAL"), "{outside}");
    assert_eq!(data_of("file_read", &by_id(&answers, 9)["result"])["content"], "a");
}

#[test]
fn the_list_of_tools_fits_a_small_context_and_says_what_each_tool_does_to_the_world() {
    let fixture = Fixture::new();
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
    let answers = answers(&fixture, &[initialize(1).into_bytes(), list.into_bytes()]);
    let tools = &by_id(&answers, 2)["result"]["tools"];
    // Characters divided by four, as the benchmark counts tokens.
    assert!(tools.to_string().len() / 4 <= 3_000, "{}", tools.to_string().len() / 4);
    for tool in tools.as_array().unwrap() {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool:#}");
        }
    }
}

/// JSON ids that no 64-bit integer or float preserves as written.
pub(crate) const IDS: [&str; 6] =
    ["18446744073709551616", "-9223372036854775809", "12345678901234567890123", "1e400", "-0", "1.0"];

#[test]
fn an_id_comes_back_as_it_was_written_also_beside_a_secret() {
    const SECRET: &str = "sk-of-the-test-1234567890";
    let fixture = Fixture::new().with_vault();
    let input = format!("{SECRET}\n");
    let stored = fixture.run_with_input(&["vault", "set", "KEY"], input.as_bytes());
    assert_eq!(stored.code, 0, "{}", stored.stderr);
    let mut lines = vec![initialize(1)];
    for id in IDS {
        for params in ["{}".to_owned(), format!(r#"{{"uri":"{SECRET}"}}"#)] {
            lines.push(format!(
                r#"{{"jsonrpc":"2.0","method":"resources/read","params":{params},"id":{id}}}"#
            ));
        }
    }
    let run = fixture.run_with_input(&["mcp"], (lines.join("\n") + "\n").as_bytes());
    assert_eq!(run.code, 0, "{}", run.stderr);
    for id in IDS {
        let named = format!(r#""id":{id},"#);
        let answers: Vec<_> = run.stdout.lines().filter(|line| line.contains(&named)).collect();
        assert_eq!(answers.len(), 2, "{id}: {}", run.stdout);
        assert!(answers.iter().any(|answer| answer.contains("[SECRET:KEY]")), "{answers:?}");
    }
    assert!(!run.stdout.contains(SECRET) && !run.stdout.contains("\n\n"), "{}", run.stdout);
}

/// Starts `handfast mcp` through `env` with these options, waits for a response, and sends a
/// signal. Returns the exit status as a shell reports it, or `None` if the server still answers.
fn signalled(fixture: &Fixture, options: &[&str], signal: nix::sys::signal::Signal) -> Option<i32> {
    let plain = fixture.command();
    let mut command = std::process::Command::new("env");
    // Whoever runs the tests may ignore a signal, as `nohup` does, which children inherit.
    command.arg("--default-signal").args(options).arg(plain.get_program()).args(plain.get_args()).arg("mcp");
    command.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(fixture.workspace()).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let (mut input, output) = (server.stdin.take().unwrap(), server.stdout.take().unwrap());
    let mut output = BufReader::new(output).lines();
    writeln!(input, "{}", initialize(1)).unwrap();
    assert!(output.next().unwrap().unwrap().contains("\"id\":1"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(i32::try_from(server.id()).unwrap()), signal).unwrap();
    // A server that the signal ends may answer some requests before its end.
    let still_answers = (0..2_000).all(|_| {
        writeln!(input, "{}", json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).is_ok()
            && output.next().is_some_and(|line| line.unwrap().contains("\"id\":2"))
    });
    drop(input);
    let status = server.wait().unwrap().code().unwrap();
    (!still_answers || status != 0).then_some(status)
}

#[test]
fn a_signal_that_whoever_started_the_server_blocked_ends_it_and_an_ignored_hang_up_does_not() {
    use nix::sys::signal::Signal;

    let fixture = Fixture::new();
    for (options, signal, status) in [
        (&["--block-signal"][..], Signal::SIGTERM, Some(143)),
        (&["--block-signal"], Signal::SIGINT, Some(130)),
        (&["--block-signal"], Signal::SIGHUP, Some(129)),
        (&["--ignore-signal=HUP"], Signal::SIGTERM, Some(143)),
        (&["--ignore-signal=HUP"], Signal::SIGHUP, None),
        (&["--ignore-signal=INT"], Signal::SIGINT, None),
        (&[], Signal::SIGHUP, Some(129)),
    ] {
        assert_eq!(signalled(&fixture, options, signal), status, "{options:?} {signal}");
    }
}
