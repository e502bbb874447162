//! Schedules through the real program: stored, fired by `up`, run by hand, in the shapes of the sources.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::http::Up;
use crate::specialist::Specialist;

const FREE: [&str; 2] = ["--mode", "full_auto"];

/// Returns the runs of a schedule, the latest first.
fn history(fixture: &Fixture, name: &str) -> Vec<Value> {
    let run = fixture.run(&["schedule", "history", name, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    if run.stdout.is_empty() { Vec::new() } else { run.json().as_array().unwrap().clone() }
}

/// Waits until a schedule has a run in this state, and returns the run.
fn until(fixture: &Fixture, name: &str, state: &str) -> Value {
    let mut found = Value::Null;
    eventually(&format!("a run of {name} that is {state}"), || {
        let runs = history(fixture, name);
        found = runs.into_iter().find(|run| run["state"] == state).unwrap_or_default();
        !found.is_null()
    });
    found
}

#[test]
fn the_user_stores_runs_pauses_and_removes_a_job() {
    let fixture = Fixture::new();
    let added = fixture.run(&["schedule", "add", "tests", "every monday at 2pm", "--", "echo", "a b"]);
    assert_eq!(added.code, 0, "{}", added.stderr);
    assert!(added.stdout.starts_with("tests: every Monday at 14:00 (0 14 * * 1), "), "{}", added.stdout);
    assert_eq!(added.stdout.matches("T14:00:00").count(), 3, "three runs are told: {}", added.stdout);
    assert!(added.stderr.contains("while `handfast up` serves"), "{}", added.stderr);

    let ran = fixture.run(&["schedule", "run", "tests"]);
    assert_eq!((ran.code, ran.stdout.contains("a b")), (0, true), "{}{}", ran.stdout, ran.stderr);
    let failing = ["schedule", "add", "failing", "every day at 3am", "--", "exit 3"];
    assert_eq!(fixture.run(&failing).code, 0);
    let ran = fixture.run(&["schedule", "run", "failing"]);
    assert_eq!((ran.code, ran.stdout.starts_with("failed: ")), (1, true), "{}", ran.stdout);
    assert_eq!(history(&fixture, "failing")[0]["state"], "failed");

    let list = |all: &[&str]| fixture.run(&[&["schedule", "list", "--json"], all].concat()).json();
    assert_eq!(list(&[])[1]["last_status"], "failed");
    assert_eq!(fixture.run(&["schedule", "pause", "tests"]).code, 0);
    assert_eq!(list(&[])[0]["state"], "paused");
    let status = fixture.run(&["status"]).stdout;
    assert!(status.contains("schedules  1 active, 1 paused; "), "{status}");
    assert_eq!(fixture.run(&["schedule", "resume", "tests"]).code, 0);
    assert_eq!(list(&[])[0]["state"], "active");
    assert_eq!(fixture.run(&["schedule", "remove", "tests"]).code, 0);
    assert_eq!(list(&[]).as_array().unwrap().len(), 1);
    let changes: Vec<Value> = fixture
        .recorded()
        .into_iter()
        .filter(|row| row["kind"] == "outcome" && row["door"] == "cli")
        .collect();
    for what in ["schedule pause", "schedule resume", "schedule remove"] {
        assert!(changes.iter().any(|row| row["tool"] == what), "{what} is in the audit");
    }

    for (arguments, code, told) in [
        (&["schedule", "run", "tests"][..], 2, "no schedule tests"),
        (&["schedule", "pause", "nobody"], 2, "no schedule nobody"),
        (&["schedule", "add", "failing", "every hour", "--", "true"], 1, "named failing already"),
        (&["schedule", "add", "x", "jede Stunde", "--", "true"], 2, "`every"),
        (&["schedule", "add", "x", "0 0 30 2 *", "--", "true"], 2, "never"),
        (&["schedule", "add", "x", "0 0 9 * * *", "--", "true"], 2, "seconds"),
        (&["schedule", "add", "x", "every hour"], 2, "required"),
        (&["schedule", "add", "x", "every hour", "--tool", "file_fly"], 2, "file_fly"),
        (&["schedule", "add", "x", "every hour", "--tool", "file_read", "--arguments", "{"], 2, "JSON"),
    ] {
        let run = fixture.run(arguments);
        assert_eq!((run.code, run.stderr.contains(told)), (code, true), "{arguments:?}: {}", run.stderr);
    }
    let dry = fixture.run(&["--dry-run", "schedule", "add", "dry", "every hour", "--", "true"]);
    assert_eq!((dry.code, dry.stdout.starts_with("dry: every hour")), (0, true), "{}", dry.stderr);
    assert_eq!(list(&["--all"]).as_array().unwrap().len(), 1, "a dry run stores nothing");
}

#[test]
fn up_fires_a_job_once_on_behalf_of_its_creator() {
    let fixture = Fixture::new();
    let up = Up::start(&fixture, &FREE);
    let made = up.call(
        "schedule_task",
        json!({"name": "once", "command": "echo ran >> ran.txt", "schedule": "after 1 second"}),
    );
    assert_eq!(made["ok"], true, "{made}");
    assert_eq!(made["data"]["type"], "one_time");
    let run = until(&fixture, "once", "done");
    assert_eq!(fixture.read("ran.txt"), "ran\n");
    let listed = up.call("schedule_list", json!({}));
    assert_eq!(listed["data"]["tasks"], json!([]), "a one-time task goes after it ran");
    let told = up.call("schedule_history", json!({"name": "once"}));
    assert_eq!(
        (&told["data"]["runs"][0]["status"], &told["data"]["runs"][0]["attempt"]),
        (&json!("done"), &json!(1))
    );
    let rows = fixture.recorded();
    let fired: Vec<&Value> = rows.iter().filter(|row| row["call"] == run["output"]).collect();
    assert!(!fired.is_empty(), "the run names its call");
    for row in fired {
        assert_eq!((&row["door"], &row["tool"]), (&json!("schedule"), &json!("shell_execute")));
    }
    let intent = rows.iter().find(|row| row["call"] == run["output"] && row["kind"] == "intent").unwrap();
    assert_eq!(intent["plan"]["parent"], made["meta"]["call_id"], "{intent}");
    assert_eq!(up.end(), Some(143));
}

#[test]
fn a_job_can_do_no_more_than_its_creator_could() {
    let fixture = Fixture::new();
    let with = |options: &[&str], arguments: Value| {
        let call = arguments.to_string();
        fixture.run(&[options, &["call", "--yes", "schedule_task", &call]].concat()).json()
    };
    let soon =
        |name: &str, command: &str| json!({"name": name, "command": command, "schedule": "after 1 second"});
    // A caller who may not run programs cannot let a job run them.
    let refused = with(&["--permission", "read", "--permission", "schedule"], soon("run", "true"));
    assert_eq!(refused["error"]["code"], "EPERMISSION", "{refused}");
    let refused = with(&["--permission", "read"], soon("plain", "true"));
    assert_eq!(refused["error"]["code"], "EPERMISSION", "{refused}");
    // Arguments are stored as they are, so they may have no secret.
    let secret = json!({"key": "k", "value": "hidden-value-4711", "hosts": ["a.example"]});
    for (tool, arguments) in
        [("vault_set", secret.clone()), ("tool_call", json!({"name": "vault_set", "arguments": secret}))]
    {
        let job = json!({"name": "secret", "tool": tool, "arguments": arguments, "schedule": "every hour"});
        let refused = with(&FREE, job);
        assert_eq!(refused["error"]["code"], "EPERMISSION", "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains("vault_set"), "{refused}");
    }
    // A job of a caller who is asked about everything asks, whatever the mode of the server is.
    let made = with(&["--mode", "ask_always"], soon("asks", "echo asked > asked.txt"));
    assert_eq!(made["ok"], true, "{made}");
    // A denial that came after its creation holds for a job.
    let made = with(&FREE, soon("later", "touch later.txt"));
    assert_eq!(made["ok"], true, "{made}");
    fixture.configure("sandbox_config: {normal: {deny_exec_command: [touch]}}\n");
    let up = Up::start(&fixture, &FREE);
    let denied = until(&fixture, "later", "failed");
    assert!(denied["outcome"].as_str().unwrap().contains("denied"), "{denied}");
    assert!(!fixture.workspace().join("later.txt").exists());
    let mut question = Value::Null;
    eventually("the question of the job", || {
        let asked = fixture.run(&["approvals", "list", "--json"]).json();
        question = asked[0]["id"].clone();
        question.is_string()
    });
    assert!(!fixture.workspace().join("asked.txt").exists(), "nothing happens before the answer");
    assert_eq!(history(&fixture, "asks")[0]["state"], "claimed");
    let answered = fixture.run(&["approvals", "approve", question.as_str().unwrap()]);
    assert_eq!(answered.code, 0, "{}", answered.stderr);
    until(&fixture, "asks", "done");
    assert_eq!(fixture.read("asked.txt"), "asked\n");
    assert_eq!(up.end(), Some(143));
}

#[test]
fn two_servers_of_one_state_fire_each_job_once() {
    let fixture = Fixture::new();
    let servers = [Up::start(&fixture, &FREE), Up::start(&fixture, &FREE)];
    let names: Vec<String> = (0..12).map(|number| format!("job{number}")).collect();
    for (number, name) in names.iter().enumerate() {
        let arguments = json!({"name": name, "command": format!("echo ran >> {name}.txt"), "schedule": "after 2 seconds"});
        let made = servers[number % 2].call("schedule_task", arguments);
        assert_eq!(made["ok"], true, "{made}");
    }
    for name in &names {
        until(&fixture, name, "done");
        assert_eq!(fixture.read(&format!("{name}.txt")), "ran\n");
        assert_eq!(history(&fixture, name).len(), 1);
    }
    for server in servers {
        assert_eq!(server.end(), Some(143));
    }
}

#[test]
fn a_server_that_ends_stops_its_jobs_and_records_that() {
    let fixture = Fixture::new();
    let up = Up::with(&fixture, &FREE, &["--drain", "1s"]);
    let made = up
        .call("schedule_task", json!({"name": "long", "command": "sleep 100", "schedule": "after 1 second"}));
    assert_eq!(made["ok"], true, "{made}");
    until(&fixture, "long", "claimed");
    assert_eq!(up.end(), Some(143));
    let run = until(&fixture, "long", "failed");
    assert!(run["outcome"].as_str().is_some_and(|outcome| !outcome.is_empty()), "{run}");
}

#[test]
fn the_scheduling_tools_of_elophanto_have_the_fields_of_their_source() {
    let fixture = Fixture::new();
    let call = |tool: &str, arguments: Value| {
        let run = fixture.run(&["--dialect", "elophanto", "call", "--yes", tool, &arguments.to_string()]);
        run.json()["data"].clone()
    };
    let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let recurring = call(
        "schedule_task",
        json!({"name": "report", "task_goal": "Write the report", "schedule": "every morning at 9am",
            "description": "d", "max_retries": 2}),
    );
    assert_eq!(keys(&recurring), set(&["cron_expression", "name", "schedule_id", "type"]), "{recurring}");
    assert_eq!(
        (&recurring["type"], &recurring["cron_expression"]),
        (&json!("recurring"), &json!("0 9 * * *"))
    );
    let once = call("schedule_task", json!({"name": "once", "task_goal": "Sweep", "schedule": "in 2 days"}));
    assert_eq!(keys(&once), set(&["name", "run_at", "schedule_id", "type"]), "{once}");
    let listed = call("schedule_list", json!({"filter": "active"}));
    assert_eq!(keys(&listed), set(&["tasks"]));
    assert_eq!(keys(&listed["tasks"][0]), set(&["id", "name", "next_run", "schedule", "status"]), "{listed}");
    assert_eq!(call("schedule_list", json!({"filter": "paused"})), json!({"tasks": []}));
}

#[test]
fn cron_of_csp1_answers_with_the_lines_of_its_source() {
    let fixture = Fixture::new();
    let mut specialist = Specialist::start(&fixture, &FREE);
    let mut ask = |lines: &str| {
        specialist.send(format!("TASK REQ:cron IN:TOOL OUT:CRON_RESULT\n{lines}\n").as_bytes());
        specialist.answer_text().unwrap()
    };
    let added = ask(
        "ACTION add\nJOB_ID memory-daily-sweep\nSCHEDULE \"0 3 * * *\"\nTASK_DESCRIPTION \"Memory maintenance\"\n",
    );
    let beginning =
        "STATUS OK\nSCOPE [cron]\nDATA jobs:1,active:1,disabled:0\nJOB_ADDED memory-daily-sweep\n";
    assert!(added.starts_with(beginning), "{added}");
    let disabled = ask("ACTION disable\nJOB_ID memory-daily-sweep\n");
    assert!(
        disabled.contains("DATA jobs:1,active:0,disabled:1\nJOB_DISABLED memory-daily-sweep"),
        "{disabled}"
    );
    let enabled = ask("ACTION enable\nJOB_ID memory-daily-sweep\n");
    assert!(enabled.contains("DATA jobs:1,active:1,disabled:0\nJOB_ENABLED memory-daily-sweep"), "{enabled}");
    let listed = ask("ACTION list\n");
    assert!(listed.starts_with("STATUS OK\nSCOPE [cron]\nDATA jobs:1,active:1,disabled:0\n"), "{listed}");
    assert!(listed.contains("memory-daily-sweep: 0 3 * * *, active"), "{listed}");
    let removed = ask("ACTION remove\nJOB_ID memory-daily-sweep\n");
    assert!(removed.contains("DATA jobs:0,active:0,disabled:0\nJOB_REMOVED memory-daily-sweep"), "{removed}");
    for (lines, error) in [
        ("ACTION remove\nJOB_ID nobody\n", "cron_failed:there is no schedule nobody"),
        ("ACTION add\nJOB_ID x\nSCHEDULE \"every blue moon\"\nTASK_DESCRIPTION \"t\"\n", "invalid_request:"),
        ("ACTION add\nJOB_ID x\n", "invalid_request:"),
        ("ACTION dance\n", "invalid_request:"),
    ] {
        let refused = ask(lines);
        let first = "STATUS FAIL\nSCOPE [cron]\nDATA none\nERROR ";
        assert!(refused.starts_with(&format!("{first}{error}")), "{lines}: {refused}");
    }
    specialist.end();
}
