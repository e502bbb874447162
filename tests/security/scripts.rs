//! Hostile scripts of `run_code`.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::security::ordinary_user::Ordinary;

fn run(fixture: &Fixture, code: &str) -> Value {
    fixture.data("run_code", json!({ "code": code }))
}

fn output(fixture: &Fixture, code: &str) -> String {
    run(fixture, code)["output"].as_str().unwrap().to_owned()
}

#[test]
fn a_script_reaches_nothing_but_its_tools() {
    let fixture = Fixture::with_files(&[("a.txt", "CANARY-a\n")]).with_vault();
    fixture.store("KEY", "CANARY-secret-value-1");
    fixture.configure("sandbox_config: {normal: {allowed_hosts: [localhost, 127.0.0.1]}}\n");
    std::fs::write(fixture.home().join("notes"), "CANARY-home\n").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let code = format!(
        "\
        import os, socket, sys\n\
        def tried(what, run):\n    \
            try: print(what, run())\n    \
            except Exception as error: print(what, 'failed')\n\
        tried('workspace', lambda: open('{workspace}/a.txt').read())\n\
        tried('home', lambda: open('{home}/notes').read())\n\
        tried('write', lambda: open('{workspace}/new', 'w').write('x'))\n\
        tried('state', lambda: os.listdir('{state}/vault'))\n\
        tried('host', lambda: socket.create_connection(('127.0.0.1', {port}), 2))\n\
        tried('proxy', lambda: [socket.create_connection(('127.0.0.1', other), 2) for other in (3128, 8080)])\n\
        print('environment', sorted(os.environ.items()))\n\
        print('processes', [entry for entry in os.listdir('/proc') if entry.isdigit()])\n\
        print('tool', tools.file_read(path='a.txt')['content'])\n",
        workspace = fixture.workspace().display(),
        home = fixture.home().display(),
        state = fixture.state().display(),
    );
    let text = output(&fixture, &code);
    for what in ["workspace", "home", "write", "state", "host", "proxy"] {
        assert!(text.contains(&format!("{what} failed\n")), "{what}: {text}");
    }
    assert!(text.contains("tool CANARY-a"), "the control: {text}");
    assert_eq!(text.matches("CANARY").count(), 1, "{text}");
    assert!(!text.contains("HANDFAST") && !text.contains("hf_secret"), "no placeholder: {text}");
    assert!(listener.accept().is_err(), "nobody has connected");
    assert!(!fixture.workspace().join("new").exists());
    // Control: this process reaches the listener.
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
}

#[test]
fn a_script_runs_no_script_and_makes_a_bounded_number_of_calls() {
    let fixture = Fixture::with_files(&[("a.txt", "x\n")]);
    let code = "\
        import json, os\n\
        def raw(message):\n    \
            os.write(4, json.dumps(message).encode() + b'\\n')\n    \
            return tools._channel.answers.readline().decode()\n\
        print(raw({'tool': 'run_code', 'arguments': {'code': 'print(1)'}}))\n\
        print(raw({'tool': 'tool_call', 'arguments': {'name': 'run_code', 'arguments': {'code': 'print(1)'}}}))\n\
        print(raw({'tool': 'file_read', 'arguments': {'path': 'a.txt'}}))\n\
        for line in [b'garbage\\n', b'{}\\n', b'[1]\\n', b'\\xff\\xfe\\n', b'\\n']:\n    \
            os.write(4, line)\n    \
            print(tools._channel.answers.readline().decode())\n";
    let text = output(&fixture, code);
    assert_eq!(text.matches("a script cannot run another script").count(), 2, "{text}");
    assert_eq!(text.matches("EVALIDATION").count(), 5, "{text}");
    assert_eq!(text.matches("\"content\":\"x").count(), 1, "the control: {text}");
    let code = "\
        for number in range(10_000):\n    \
            try: tools.tool_search(query='x')\n    \
            except ToolError as error: assert error.code == 'EQUOTA'\n";
    let result = fixture.call("run_code", json!({ "code": code }));
    assert_eq!(result["error"]["code"], "EQUOTA", "{result:#}");
    assert_eq!(
        (&result["data"]["calls"], &result["data"]["failed_calls"]),
        (&json!(1_100), &json!(100)),
        "{result:#}"
    );
    let rows = fixture.recorded().iter().filter(|row| row["tool"] == "tool_search").count();
    assert_eq!(rows, 1_000, "calls beyond the maximum are not made");
}

#[test]
fn a_script_that_does_not_end_is_ended_with_everything_that_it_started() {
    let fixture = Fixture::new();
    let mark = format!("{}", 70_000 + std::process::id());
    let daemon = format!(
        "import os, subprocess\nsubprocess.Popen(['sleep', '{mark}'], start_new_session=True)\nprint('left')\n"
    );
    let runs = || {
        let listed =
            std::process::Command::new("pgrep").args(["-f", &format!("sleep {mark}")]).output().unwrap();
        !listed.stdout.is_empty()
    };
    let begun = Instant::now();
    assert_eq!(output(&fixture, &daemon), "left\n");
    assert!(!runs(), "the process outlives its script");
    // The end without a word, while a process holds the pipes.
    let forked = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nos._exit(3)\n";
    assert_eq!(run(&fixture, forked)["exit_code"], 3);
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
    let endless = format!("{daemon}while True: pass\n");
    let result = fixture.call("run_code", json!({"code": endless, "timeout": 2}));
    assert_eq!(result["error"]["code"], "ETIMEOUT", "{result:#}");
    assert_eq!(result["data"]["output"], "left\n", "{result:#}");
    eventually("the end of the process", || !runs());
    let long =
        "import os\nos.write(4, b'{\"tool\": \"' + b'x' * 1024)\nwhile True: os.write(4, b'y' * 65536)\n";
    assert_eq!(fixture.error("run_code", json!({"code": long, "timeout": 60}))["code"], "EQUOTA");
    let loud = "import sys\nfor _ in range(3_000): sys.stdout.write('z' * 10_000)\n";
    let output = run(&fixture, loud);
    assert_eq!((&output["truncated"], &output["exit_code"]), (&json!(true), &json!(0)));
    assert!(output["output"].as_str().unwrap().len() < 100_000, "the text is bounded");
}

#[test]
fn a_script_that_is_ended_says_that_its_calls_may_have_changed_something() {
    let fixture = Fixture::new();
    let code = "tools.file_write(path='made', content='x')\nprint('made it')\nwhile True: pass\n";
    let result = fixture.call("run_code", json!({"code": code, "timeout": 2}));
    assert_eq!((&result["error"]["code"], &result["error"]["effect"]), (&json!("ETIMEOUT"), &json!("maybe")));
    assert_eq!(result["data"]["output"], "made it\n", "{result:#}");
    let idle = fixture.call("run_code", json!({"code": "while True: pass", "timeout": 2}));
    assert_eq!(idle["error"]["effect"], "none", "{idle:#}");
    fixture.configure("sandbox_config: {normal: {limits: {memory_bytes: \"200MiB\"}}}\n");
    let large = fixture.call("run_code", json!({"code": "x = b'x' * (1 << 30)\nprint(len(x))\n"}));
    assert!(
        large["error"]["code"] == "EQUOTA" || large["data"]["output"].to_string().contains("MemoryError"),
        "{large:#}"
    );
}

#[test]
fn no_folder_of_an_ordinary_users_script_is_left_whatever_its_modes() {
    let own = Ordinary::new(&[]);
    let code = "\
        import os\n\
        folder = os.path.dirname(__file__)\n\
        os.makedirs(folder + '/closed/inner')\n\
        open(folder + '/closed/inner/file', 'w').close()\n\
        for name in ['/closed/inner', '/closed', '']:\n    os.chmod(folder + name, 0)\n\
        try:\n    os.listdir(folder + '/closed')\n\
        except PermissionError:\n    print('closed')\n";
    let result = own.call("run_code", json!({ "code": code }));
    assert!(result["data"]["output"].as_str().unwrap().contains("closed"), "the control: {result:#}");
    let left = std::fs::read_dir(own.fixture.state().join("scripts")).unwrap();
    assert_eq!(left.count(), 0);
}
