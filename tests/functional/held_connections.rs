//! Connections of commands to hosts on no list: held, asked about, and then made or refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::{Answer, Approval, Asker};
use handfast::Runtime;
use serde_json::{Value, json};
use tool::BoxFuture;

use crate::functional::egress::{connections, plain};
use crate::harness::{Fixture, Library, unread};
use crate::security::reading;
use crate::server::Server;

/// Address of the tests' servers, which programs reach through the proxy.
const ADDRESS: &str = "127.0.0.2";

fn fetch(port: u16) -> Value {
    json!({"command": format!("curl -sS http://{ADDRESS}:{port}/"), "timeout": 60})
}

/// Makes a call that nobody can be asked about.
fn call(fixture: &Fixture, arguments: &Value) -> Value {
    fixture.run(&["call", "shell_execute", &arguments.to_string()]).json()
}

fn configure(fixture: &Fixture, normal: &str) {
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), format!("sandbox_config:\n  normal:\n{normal}")).unwrap();
}

fn questions(fixture: &Fixture) -> Vec<Value> {
    fixture.run(&["approvals", "list", "--all", "--json"]).json().as_array().unwrap().clone()
}

#[track_caller]
fn works(fixture: &Fixture, arguments: &[&str]) {
    let run = fixture.run(arguments);
    assert_eq!(run.code, 0, "{arguments:?}: {}{}", run.stdout, run.stderr);
}

/// Returns the id of the approval that the result names, and that the program printed as well.
#[track_caller]
fn id_of(result: &Value) -> String {
    let warnings = result["meta"]["warnings"].to_string();
    let (_, rest) = warnings.split_once(" approvals approve ").unwrap_or_else(|| panic!("{result:#}"));
    let id: String = rest.chars().take_while(char::is_ascii_alphanumeric).collect();
    assert!(result["data"]["stdout"].as_str().unwrap().contains(&id), "{result:#}");
    id
}

#[test]
fn with_nobody_to_ask_it_is_refused_at_once_and_the_same_call_passes_once_after_a_yes() {
    let fixture = Fixture::new();
    let (one, two) = (plain(ADDRESS), plain(ADDRESS));
    let line = format!("curl -sS http://{ADDRESS}:{one}/; sleep 0.3; curl -sS http://{ADDRESS}:{two}/");
    let arguments = json!({"command": line});
    let refused = call(&fixture, &arguments);
    assert_eq!(refused["meta"]["decision"], "pass", "{refused:#}");
    assert!(!refused["data"]["stdout"].as_str().unwrap().contains("hello"), "{refused:#}");
    assert!(refused["meta"]["reached"].is_null(), "{refused:#}");
    let id = id_of(&refused);
    let asked = questions(&fixture);
    assert_eq!(asked.len(), 1, "one question about both: {asked:#?}");
    assert_eq!(asked[0]["id"], json!(id));
    let effects = asked[0]["effects"].to_string();
    for port in [one, two] {
        assert!(effects.contains(&format!("connect to {ADDRESS}:{port}, from ")), "{effects}");
    }
    assert!(effects.contains("curl"), "{effects}");

    works(&fixture, &["approvals", "approve", &id]);
    let passed = call(&fixture, &arguments);
    assert_eq!(passed["data"]["stdout"], "hello\nhello\n", "{passed:#}");
    assert_eq!(passed["meta"]["reached"].as_array().unwrap().len(), 2, "{passed:#}");
    let other = call(&fixture, &fetch(one));
    assert!(other["data"]["stdout"].as_str().unwrap().contains("is not listed"), "another call: {other:#}");
    let again = call(&fixture, &arguments);
    assert_ne!(id_of(&again), id, "once was once");
    let pass = |port: u16| ("pass".to_owned(), format!("{ADDRESS}:{port}"));
    let passed: Vec<_> =
        connections(&fixture).into_iter().filter(|(decision, _)| decision == "pass").collect();
    assert_eq!(passed, [pass(one), pass(two)]);
    works(&fixture, &["audit", "verify"]);
}

#[test]
fn a_yes_for_the_project_covers_the_program_and_the_port_until_it_is_revoked() {
    let fixture = Fixture::new();
    let (port, other) = (plain(ADDRESS), plain(ADDRESS));
    let id = id_of(&call(&fixture, &fetch(port)));
    works(&fixture, &["approvals", "approve", &id, "--scope", "project"]);
    for _ in 0..2 {
        assert_eq!(call(&fixture, &fetch(port))["data"]["stdout"], "hello\n");
    }
    let longer = json!({"command": format!("echo x; curl -sS http://{ADDRESS}:{port}/")});
    assert_eq!(call(&fixture, &longer)["data"]["stdout"], "x\nhello\n", "another line, the same connection");
    let elsewhere = call(&fixture, &fetch(other));
    assert!(elsewhere["data"]["stdout"].as_str().unwrap().contains("is not listed"), "{elsewhere:#}");
    let python = format!(
        "python3 -c \"import urllib.request as u; print(u.urlopen('http://{ADDRESS}:{port}/').read())\""
    );
    let by_python = call(&fixture, &json!({"command": python}));
    assert!(by_python["data"]["stderr"].as_str().unwrap().contains("403"), "{by_python:#}");
    let leases = fixture.run(&["approvals", "leases", "--json"]).json();
    assert_eq!(leases[0]["kind"], "connection", "{leases:#}");
    works(&fixture, &["approvals", "revoke", leases[0]["id"].as_str().unwrap()]);
    let revoked = call(&fixture, &fetch(port));
    assert!(revoked["data"]["stdout"].as_str().unwrap().contains("is not listed"), "{revoked:#}");
}

#[test]
fn a_no_reaches_the_same_call_with_its_message() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let id = id_of(&call(&fixture, &fetch(port)));
    works(&fixture, &["approvals", "deny", &id]);
    let denied = call(&fixture, &fetch(port));
    assert!(denied["data"]["stdout"].as_str().unwrap().contains("said no"), "{denied:#}");
    assert!(connections(&fixture).iter().all(|(decision, _)| decision == "deny"));
}

#[test]
fn what_was_sent_stays_sent_and_undoing_says_so() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let result =
        fixture.call("shell_execute", json!({"command": format!("curl -sS http://{ADDRESS}:{port}/ > got")}));
    assert_eq!(fixture.read("got"), "hello\n", "{result:#}");
    assert_eq!(result["meta"]["reached"], json!([format!("{ADDRESS}:{port}")]), "{result:#}");
    let undone = fixture.run(&["undo", result["meta"]["checkpoint"].as_str().unwrap()]);
    let told = format!("what the call sent to {ADDRESS}:{port} stays sent");
    assert!((undone.stdout.clone() + &undone.stderr).contains(&told), "{}{}", undone.stdout, undone.stderr);
    assert!(!fixture.workspace().join("got").exists());
}

#[test]
fn nothing_is_asked_where_the_profile_denies_unlisted_hosts_or_the_host() {
    let port = plain(ADDRESS);
    for normal in ["    unlisted_hosts: deny\n".to_owned(), format!("    deny_hosts: ['{ADDRESS}']\n")] {
        let fixture = Fixture::new();
        configure(&fixture, &normal);
        let result = fixture.call("shell_execute", fetch(port));
        assert!(!result["data"]["stdout"].as_str().unwrap().contains("hello"), "{normal}: {result:#}");
        assert!(result["meta"]["reached"].is_null(), "{normal}: {result:#}");
        assert!(questions(&fixture).is_empty(), "{normal}");
    }
}

#[test]
fn a_name_gets_an_address_without_a_question_and_without_a_query_to_anybody() {
    let fixture = Fixture::new();
    let line = "import socket; print(socket.gethostbyname('never-registered.example'))";
    let result = call(&fixture, &json!({"command": format!("python3 -c \"{line}\"")}));
    assert_eq!(result["data"]["stdout"], "198.18.0.1\n", "{result:#}");
    assert!(result["meta"]["warnings"].is_null(), "{result:#}");
    assert!(questions(&fixture).is_empty());
}

/// An asker that takes its time, and counts the questions.
struct Slow {
    takes: Duration,
    questions: Arc<AtomicUsize>,
    answer: fn(&Approval) -> Answer,
}

impl Asker for Slow {
    fn ask<'a>(&'a self, approval: &'a Approval) -> BoxFuture<'a, Answer> {
        Box::pin(async move {
            self.questions.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(self.takes).await;
            (self.answer)(approval)
        })
    }
}

fn once(_approval: &Approval) -> Answer {
    Answer::Once { by: "ann".to_owned() }
}

fn library(
    fixture: &Fixture,
    takes: Duration,
    answer: fn(&Approval) -> Answer,
) -> (Library, Arc<AtomicUsize>) {
    let questions = Arc::new(AtomicUsize::new(0));
    let builder = Runtime::builder().workspace(fixture.workspace()).state(fixture.state());
    let asker = Slow { takes, questions: questions.clone(), answer };
    let builder = builder.configuration(fixture.home().join(".config/handfast")).asker(asker);
    (Library::of(builder), questions)
}

#[test]
fn a_held_connection_goes_on_after_the_answer_and_the_deadline_rests_meanwhile() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let (library, questions) = library(&fixture, Duration::from_secs(4), once);
    let line = format!("curl -sS http://{ADDRESS}:{port}/; curl -sS http://{ADDRESS}:{port}/");
    let result = library.call("shell_execute", json!({"command": line, "timeout": 2}));
    assert_eq!(result["data"]["stdout"], "hello\nhello\n", "{result:#}");
    assert_eq!(questions.load(Ordering::Relaxed), 1);
    // The control: a command that runs for as long is stopped.
    let late = library.call("shell_execute", json!({"command": "sleep 4", "timeout": 2}));
    assert_eq!(late["error"]["code"], "ETIMEOUT", "{late:#}");
}

#[test]
fn many_hosts_at_once_are_one_question_with_a_bounded_list() {
    let fixture = Fixture::new();
    let port = plain("0.0.0.0");
    let (library, questions) = library(&fixture, Duration::from_millis(200), |approval| {
        assert!(approval.effects.len() <= 22, "{:#?}", approval.effects);
        // On a slow machine the first connections may become a question of their own.
        assert_eq!(approval.effects[0].contains("every host"), approval.effects.len() > 20);
        assert_eq!(approval.offers.is_empty(), approval.every_host);
        Answer::Once { by: "ann".to_owned() }
    });
    fixture.write(
        "many.py",
        "import sys, threading, urllib.request as u\nok = []\n\
         def get(host):\n    ok.append(u.urlopen(f'http://{host}:%PORT%/').read())\n\
         all = [threading.Thread(target=get, args=(f'127.0.1.{n}',)) for n in range(1, 101)]\n\
         [one.start() for one in all]; [one.join() for one in all]\nprint(len(ok))\n"
            .replace("%PORT%", &port.to_string())
            .as_str(),
    );
    let result = library.call("shell_execute", json!({"command": "python3 many.py", "timeout": 120}));
    assert_eq!(result["data"]["stdout"], "100\n", "{result:#}");
    assert!(questions.load(Ordering::Relaxed) <= 2, "{}", questions.load(Ordering::Relaxed));
}

#[test]
fn a_client_with_forms_is_asked_while_the_command_waits() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let mut server = Server::with_forms(&fixture, &[]);
    let (question, result) = server.asked("shell_execute", fetch(port), "allow once");
    assert!(question.contains(&format!("connect to {ADDRESS}:{port}, from ")), "{question}");
    assert!(result.to_string().contains("hello"), "{result:#}");
    let (_, result) = server.asked("shell_execute", fetch(port), "deny");
    assert!(result.to_string().contains("said no"), "{result:#}");
    server.end();
}

#[test]
fn a_command_that_passes_as_read_only_asks_for_nothing_and_reaches_nothing() {
    let port = plain(ADDRESS);
    let monitor = format!("curl -sS http://{ADDRESS}:{port}/ >&2; echo 'the monitor ran' >&2\n");
    let fixture = Fixture::with_files(&[("monitor", &monitor)]);
    reading::make_repository(&fixture);
    let (library, questions) = library(&fixture, Duration::ZERO, once);
    let result = library.call("shell_execute", json!({"command": reading::LINE}));
    reading::assert_ran_as_reader(&result);
    assert!(!result["data"]["stderr"].as_str().unwrap().contains("hello"), "{result:#}");
    assert_eq!(questions.load(Ordering::Relaxed), 0, "{result:#}");
    // The control: without the reading rule, the same line connects.
    let control = library.call("shell_execute", json!({"command": unread(reading::LINE)}));
    assert!(control["data"]["stderr"].as_str().unwrap().contains("hello"), "{control:#}");
    assert_eq!(questions.load(Ordering::Relaxed), 1);
}

#[test]
fn listed_hosts_and_folders_leave_the_quiet_default_in_force() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let beside = fixture.outside().join("beside");
    std::fs::create_dir(&beside).unwrap();
    let lists = format!(
        "    allowed_hosts: ['{ADDRESS}:{port}']\n    allowed_exec_command: ['make']\n    \
         allowed_write_paths: ['.', '{}']\n",
        beside.display()
    );
    configure(&fixture, &lists);
    let result = call(&fixture, &json!({"command": format!("touch a && curl -sS http://{ADDRESS}:{port}/")}));
    assert_eq!(result["data"]["stdout"], "hello\n", "{result:#}");
    assert_eq!(result["meta"]["decision"], "pass", "{result:#}");
    assert_eq!(result["meta"]["reached"], json!([format!("{ADDRESS}:{port}")]), "{result:#}");
    assert!(result["meta"]["checkpoint"].is_string(), "{result:#}");
    // The command passes for being undoable, so what cannot be undone stays out of its reach.
    let script = format!("import os; open(os.path.join('{}', 'x'), 'w')", beside.display());
    fixture.write("write.py", &script);
    let outside = call(&fixture, &json!({"command": "python3 write.py"}));
    assert_ne!(outside["data"]["exit_code"], 0, "{outside:#}");
    assert!(
        outside["meta"]["warnings"].to_string().contains("was read-only for this command"),
        "{outside:#}"
    );
    assert!(!beside.join("x").exists());
}

#[test]
fn a_background_command_is_asked_about_under_an_id_of_its_own() {
    let fixture = Fixture::new();
    let port = plain(ADDRESS);
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    let line = format!("sleep 1; curl -sS http://{ADDRESS}:{port}/; echo ended");
    let id = server.background(&line, false);
    server.expect(&id, 0, "ended");
    let told = server.data("shell_session", json!({"action": "read", "session_id": id}));
    assert!(told["content"].as_str().unwrap().contains(" approvals approve a"), "{told:#}");
    let asked = questions(&fixture);
    assert_eq!(asked.len(), 1, "{asked:#?}");
    server.end();
}
