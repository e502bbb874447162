//! Sessions side by side: the resources that each uses, and their release.

use std::fs;
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::functional::mcp_over_http::{call, open, post};
use crate::harness::Fixture;
use crate::http::{Up, bearer};
use crate::shown::data_of;

const FREE: [&str; 2] = ["--mode", "full_auto"];
const REVISION: &str = "2025-06-18";

/// Longest wait of these tests, far longer than any step takes.
const PATIENCE: Duration = Duration::from_mins(2);

#[track_caller]
fn data(up: &Up, session: &str, tool: &str, arguments: Value) -> Value {
    let answer = post(up, &[session, "mcp-protocol-version: 2025-06-18"], &call(7, tool, arguments)).json();
    data_of(tool, &answer["result"])
}

#[track_caller]
fn stdout(up: &Up, session: &str, command: &str) -> String {
    let data = data(up, session, "shell_execute", json!({ "command": command }));
    data["stdout"].as_str().unwrap_or_else(|| panic!("{data}")).to_owned()
}

fn end(up: &Up, session: &str) {
    let token = bearer(&up.agent);
    assert_eq!(up.request("DELETE", "/mcp", &[&token, session], b"").status, 200);
}

/// Lists the child processes of a process, of all its threads.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // A thread may have ended since.
    let listed = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let listed: Vec<String> = listed.collect();
    listed.iter().flat_map(|pids| pids.split_whitespace().map(|pid| pid.parse().unwrap())).collect()
}

fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

fn descriptors(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count()
}

/// Waits until `what` returns no reason to wait.
#[track_caller]
pub(crate) fn wait(what: impl Fn() -> Option<String>) {
    let until = Instant::now() + PATIENCE;
    while let Some(still) = what() {
        assert!(Instant::now() < until, "{still}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

#[test]
fn the_commands_of_every_session_run_in_cells_that_waited_and_none_is_a_copy_of_the_server() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let sessions: Vec<String> = (0..4).map(|_| open(&up, REVISION)).collect();
    let mut networks = Vec::new();
    for session in &sessions {
        let network = stdout(&up, session, "readlink /proc/self/ns/net");
        assert_eq!(
            stdout(&up, session, "readlink /proc/self/ns/net"),
            network,
            "one network for one session"
        );
        let arguments = json!({"command": "sleep 1000", "background": true});
        data(&up, session, "shell_execute", arguments);
        networks.push(network);
    }
    // The commands still run. The server has one child process, from which all cells descend.
    let started: Vec<String> = children(up.process()).into_iter().map(name).collect();
    assert_eq!(started, ["handfast-nurse"]);
    networks.sort_unstable();
    networks.dedup();
    assert_eq!(networks.len(), sessions.len(), "no two sessions share a network");
    // This server is reachable from its own session alone.
    let serve = "python3 -m http.server 8765 --bind 127.0.0.1";
    data(&up, &sessions[1], "shell_execute", json!({"command": serve, "background": true}));
    let reach = "for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/8765) 2>/dev/null && echo yes && break; sleep 0.05; done";
    assert_eq!(stdout(&up, &sessions[1], &format!("bash -c '{reach}'")), "yes\n", "the control");
    let once = "bash -c '(exec 3<>/dev/tcp/127.0.0.1/8765) 2>/dev/null && echo yes || echo no'";
    for other in [0, 2, 3] {
        assert_eq!(stdout(&up, &sessions[other], once), "no\n");
    }
}

#[test]
fn sessions_that_run_nothing_hold_less_than_one_descriptor_each_and_go_on_when_they_like() {
    const MANY: usize = 24;
    /// Descriptors of a running command: its output, its processes, its namespaces, the folder of
    /// its changes with a lock, the lock of its home, and a watch on the workspace.
    const OF_COMMAND: usize = 13;
    /// Descriptors of a network: its namespace, its spawner, five sockets that lead out of it, and
    /// a certificate file.
    const OF_NETWORK: usize = 8;
    /// Descriptors of the spare network, which has a namespace and a spawner alone.
    const OF_SPARE: usize = 3;
    let fixture = Fixture::new().with_vault();
    fixture.store("api_key", "a-secret-of-some-length");
    let profile = "sandbox_config:\n  normal:\n    allowed_hosts: [api.example.com]\n    allowed_secrets: [api_key at api.example.com]\n";
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("config.yaml"), profile).unwrap();
    let up = Up::start(&fixture, &FREE);
    // Commands that only read have no network, so these commands change something. Shared parts,
    // for example the thread for connections, come with the first command.
    let first = open(&up, REVISION);
    assert!(
        stdout(&up, &first, "touch made; echo $HTTPS_PROXY").len() > 1,
        "the control: there is a way out"
    );
    let before = descriptors(up.process());
    let sessions: Vec<String> = (0..MANY).map(|_| open(&up, REVISION)).collect();
    let mut most = 0;
    let mut given = Vec::new();
    for session in &sessions {
        // Print the placeholder of the secret, and the path of the certificate file that programs
        // trust.
        given.push(stdout(&up, session, "touch made; echo $api_key; echo $SSL_CERT_FILE"));
        most = most.max(descriptors(up.process()));
    }
    assert!(most > before, "the control: what runs has descriptors");
    assert!(given.iter().all(|given| given.lines().all(|line| line.len() > 10)), "{given:?}");
    let held = || descriptors(up.process()).saturating_sub(before);
    wait(|| (held() >= MANY).then(|| format!("{MANY} idle sessions hold {} descriptors", held())));
    let nursery = children(up.process())[0];
    wait(|| {
        let spawners = children(nursery).len();
        (spawners > 4).then(|| format!("{spawners} spawners are left"))
    });
    let files = || given.iter().filter(|given| fs::exists(given.lines().nth(1).unwrap()).unwrap()).count();
    wait(|| (files() > 1).then(|| format!("{} files of certificates are left", files())));
    let again = stdout(&up, &sessions[5], "touch made; echo $api_key; echo $SSL_CERT_FILE");
    assert_eq!(
        again.lines().next(),
        given[5].lines().next(),
        "a placeholder means the same for the whole session"
    );
    // While a command runs, its session retains its network.
    let background = json!({"command": "touch made; sleep 1000", "background": true});
    data(&up, &sessions[3], "shell_execute", background);
    let network = stdout(&up, &sessions[3], "touch made; readlink /proc/self/ns/net");
    assert_eq!(stdout(&up, &sessions[9], "echo y"), "y\n");
    assert_eq!(stdout(&up, &sessions[12], "echo z"), "z\n");
    // The running session and the one that ran a command last have a network each.
    let most = OF_COMMAND + 2 * OF_NETWORK + OF_SPARE;
    wait(|| (held() > most).then(|| format!("{} descriptors, and {most} are explained", held())));
    assert_eq!(stdout(&up, &sessions[3], "touch made; readlink /proc/self/ns/net"), network);
    for session in sessions.iter().chain([&first]) {
        end(&up, session);
    }
    wait(|| (descriptors(up.process()) > before + 8).then(|| format!("{} descriptors are left", held())));
}

#[test]
fn clients_that_take_large_answers_slowly_keep_nobody_from_small_ones() {
    const LARGE: usize = 10_000_000;
    let fixture = Fixture::with_files(&[("small", "small")]);
    fixture.write("large", &"x".repeat(LARGE));
    let up = Up::start(&fixture, &FREE);
    let request =
        json!({"tool": "file_read", "arguments": {"path": "large", "max_bytes": LARGE}}).to_string();
    let head = format!(
        "POST /v1/call HTTP/1.1\r\nhost: {}\r\n{}\r\nconnection: close\r\n",
        up.address,
        bearer(&up.agent)
    );
    let slow: Vec<_> = (0..7)
        .map(|_| {
            let mut stream = up.connect();
            stream
                .write_all(format!("{head}content-length: {}\r\n\r\n{request}", request.len()).as_bytes())
                .unwrap();
            stream
        })
        .collect();
    // The first response has begun, and no client reads it.
    let mut byte = [0];
    slow[0].peek(&mut byte).unwrap();
    let read = |path: &str, most: u32| up.call("file_read", json!({"path": path, "max_bytes": most}));
    for most in [1_000, 33_554_432] {
        assert_eq!(read("small", most)["data"]["content"], "small", "also where the call would take more");
    }
    // The small reads were answered while all slow clients still waited. Each of them gets its
    // whole response.
    for mut stream in slow {
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.len() > LARGE, "{} bytes came", answer.len());
    }
}

#[test]
fn a_process_that_holds_the_lock_of_the_changes_is_named_and_no_call_waits_for_longer_than_it_may() {
    let fixture = Fixture::new();
    let call = |seconds: u32| {
        let arguments = json!({"command": "touch x", "timeout": seconds}).to_string();
        fixture.run(&["--mode", "full_auto", "call", "shell_execute", &arguments])
    };
    assert_eq!(call(30).code, 0, "the control");
    let areas = walk(&fixture.state());
    let lock = areas.iter().find(|path| path.ends_with("changes/area.lock")).unwrap();
    let held = fs::File::open(lock).unwrap();
    held.lock().unwrap();
    let refused = call(2);
    let error = refused.json()["error"].clone();
    let holder = format!("process {}", std::process::id());
    assert_eq!(error["code"], "ETIMEOUT", "{error}");
    assert!(error["message"].as_str().unwrap().contains(&format!("{holder} holds")), "{error}");
    assert!(refused.stderr.contains(&format!("waiting for {holder}, which holds")), "{}", refused.stderr);
    // This timeout is longer than any wait for a lock.
    let error = call(60).json()["error"].clone();
    assert!(error["message"].as_str().unwrap().contains(&format!("{holder} has held the lock")), "{error}");
    held.unlock().unwrap();
    assert_eq!(call(30).code, 0);
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}
