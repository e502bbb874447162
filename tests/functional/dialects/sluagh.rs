use serde_json::{Value, json};
use testkit::web::{Reply, Server};

use super::{call, hold_to_the_contract, refuses};
use crate::harness::Fixture;

fn run(arguments: &Value) -> Value {
    call(&Fixture::new(), "sluagh", "run_command", arguments).json()
}

#[test]
fn every_schema_and_every_answer_is_that_of_the_contract() {
    hold_to_the_contract("sluagh", include_str!("../../../crates/dialects/contracts/sluagh.txt"));
}

#[test]
fn arguments_meet_no_shell_and_the_environment_is_set() {
    let answer = run(&json!({"command": "printf", "args": ["%s|", "a b", "$HOME;", "`id`"]}));
    assert_eq!(answer["data"]["stdout"], "a b|$HOME;|`id`|");
    let script = "echo \"$GREETING\"; pwd; echo oops >&2; exit 3";
    let fixture = Fixture::with_files(&[("sub/a", "")]);
    let arguments = json!({"command": "sh", "args": ["-c", script], "cwd": "sub", "env": {"GREETING": "good\nday = '$x'"}});
    let data = call(&fixture, "sluagh", "run_command", &arguments).json()["data"].clone();
    assert_eq!(data["stdout"], format!("good\nday = '$x'\n{}\n", fixture.workspace().join("sub").display()));
    assert_eq!((data["stderr"].clone(), data["exitCode"].clone()), (json!("oops\n"), json!(3)));
}

#[test]
fn a_timeout_is_in_milliseconds_and_keeps_what_there_is() {
    let answer = run(&json!({"command": "sh", "args": ["-c", "echo begun; sleep 60"], "timeout": 1500}));
    assert_eq!(answer["error"]["code"], "ETIMEOUT");
    assert_eq!(answer["error"]["message"], "the command was killed after its timeout of 1.5 s");
    assert_eq!(
        (answer["data"]["stdout"].clone(), answer["data"]["exitCode"].clone()),
        (json!("begun\n"), json!(137))
    );
    assert!(answer["data"]["duration"].as_u64().unwrap() >= 1_500, "{answer:#}");
    let null = run(&json!({"command": "true", "args": [], "timeout": null, "env": null, "cwd": null}));
    assert_eq!(null["data"]["exitCode"], 0, "{null:#}");
}

#[test]
fn a_key_of_the_environment_goes_to_its_hosts_and_no_other_does() {
    let server = Server::http(|request| {
        let key = request.header("authorization");
        Reply::json(&json!({"got": key, "length": key.len()}).to_string())
    });
    let key = "LINEAR_API_KEY-0123456789";
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let listed = "environment_secrets:\n  LINEAR_API_KEY: [localhost]\n  ELSEWHERE_KEY: [api.example.com]\n";
    std::fs::write(folder.join("config.yaml"), listed).unwrap();
    // The workspace's own list does not count.
    fixture.write("handfast.yaml", "environment_secrets:\n  UNBOUND_KEY: [localhost]\n");
    let fetch = |header: &str| {
        let mut command = fixture.command();
        for name in ["LINEAR_API_KEY", "ELSEWHERE_KEY", "UNBOUND_KEY"] {
            command.env(name, format!("{name}-0123456789"));
        }
        let arguments = json!({"url": server.url("/"), "method": "GET", "headers": {"Authorization": header}, "timeout": 9000});
        let arguments = ["--dialect", "sluagh", "call", "--yes", "fetch_url", &arguments.to_string()];
        let output = command.args(arguments).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let sent = fetch("$LINEAR_API_KEY");
    assert_eq!(
        sent["data"]["data"],
        json!({"got": "[SECRET:LINEAR_API_KEY]", "length": key.len()}),
        "{sent:#}"
    );
    assert_eq!(server.seen()[0].header("authorization"), key);
    for header in ["$ELSEWHERE_KEY", "$UNBOUND_KEY", "$NO_SUCH_KEY", "$PATH"] {
        let error = fetch(header)["error"].clone();
        assert_eq!(error["code"], "EPERMISSION", "{header}: {error:#}");
    }
    assert_eq!(server.seen().len(), 1);
}

#[test]
fn what_the_blocklist_names_is_denied() {
    for arguments in [
        json!({"command": "rm", "args": ["-rf", "/"]}),
        json!({"command": "env", "args": ["A=b", "rm", "-rf", "/"]}),
        json!({"command": "rm", "args": ["-rf", "/"], "env": {"A": "b"}}),
        json!({"command": "mkfs", "args": ["/dev/sda"]}),
        json!({"command": "sh", "args": ["-c", ":(){ :|:& };:"]}),
    ] {
        assert_eq!(run(&arguments)["error"]["code"], "EPERMISSION", "{arguments}");
    }
}

#[test]
fn keys_that_are_critical_to_the_system_cannot_be_set() {
    for key in [
        "WORKER_API_KEY",
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "HOME",
        "BASH_ENV",
        "IFS",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "GIT_SSH_COMMAND",
    ] {
        let answer = run(&json!({"command": "env", "args": [], "env": {"FINE": "1", key: "x"}}));
        assert_eq!(answer["error"]["code"], "EVALIDATION", "{answer:#}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(&format!("`env.{key}`")), "{message}");
    }
}

#[test]
fn bad_input_is_refused_by_name() {
    refuses(
        "sluagh",
        &[
            ("run_command", json!({"command": "ls"}), "\"args\" is a required property"),
            ("run_command", json!({"command": "ls", "args": null}), "`args`"),
            ("run_command", json!({"command": "ls", "args": "-l"}), "`args`"),
            ("run_command", json!({"command": "ls", "args": [1]}), "`args.0`"),
            ("run_command", json!({"command": "", "args": []}), "`command`"),
            ("run_command", json!({"command": "ls", "args": ["a\u{0}b"]}), "`args[0]`"),
            ("run_command", json!({"command": "a\u{0}b", "args": []}), "`command`"),
            ("run_command", json!({"command": "a\u{0}b", "args": ["c"], "env": {"A": "x"}}), "`command`"),
            ("run_command", json!({"command": "ls", "args": [], "shell": true}), "'shell' was unexpected"),
            ("run_command", json!({"command": "ls", "args": [], "timeout": 0}), "`timeout`"),
            ("run_command", json!({"command": "ls", "args": [], "timeout": "30s"}), "`timeout`"),
            ("run_command", json!({"command": "ls", "args": [], "env": {"A": 1}}), "`env.A`"),
            ("run_command", json!({"command": "ls", "args": [], "env": {"A B": "x"}}), "`env.A B`"),
            ("run_command", json!({"command": "ls", "args": [], "env": {"": "x"}}), "`env.`"),
            ("run_command", json!({"command": "ls", "args": [], "env": {"A=B": "x"}}), "`env.A=B`"),
            ("run_command", json!({"command": "a=b", "args": [], "env": {"A": "x"}}), "`command`"),
            ("run_command", json!({"command": "ls", "args": [], "cwd": "missing"}), "`cwd`"),
        ],
    );
}

#[test]
fn credentials_of_the_host_cannot_be_set_and_keys_that_are_not_there_say_so() {
    for key in ["LINEAR_API_KEY", "WORKER_TOKEN", "OPENAI_API_KEY", "DB_PASSWORD"] {
        let answer = run(&json!({"command": "env", "args": [], "env": {"FINE": "1", key: "x"}}));
        assert!(answer["error"]["message"].as_str().unwrap().contains(&format!("`env.{key}`")), "{answer:#}");
    }
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(
        folder.join("config.yaml"),
        "environment_secrets:\n  UNSET_API_KEY: [localhost]\n  SHORT_API_KEY: [localhost]\nsandbox_config:\n  normal:\n    allowed_hosts: [localhost]\n",
    )
    .unwrap();
    let fetch = |name: &str| {
        let arguments = json!({"url": "http://localhost:9/", "method": "GET", "headers": {"Authorization": format!("${name}")}});
        let arguments = arguments.to_string();
        let call = ["--dialect", "sluagh", "call", "--yes", "fetch_url", &arguments];
        fixture.run_with(&[("SHORT_API_KEY", "")], &call).json()
    };
    let unset = fetch("UNSET_API_KEY");
    assert!(unset["error"]["message"].as_str().unwrap().contains("not set in the environment"), "{unset:#}");
    let short = fetch("SHORT_API_KEY");
    assert!(short["error"]["message"].as_str().unwrap().contains("no text of at least 12"), "{short:#}");
    let unnamed = fetch("OTHER_API_KEY");
    assert!(unnamed["error"]["message"].as_str().unwrap().contains("`environment_secrets`"), "{unnamed:#}");
}

#[test]
fn errors_of_linear_name_the_fields_of_the_source() {
    let fixture = Fixture::new();
    let linear = |action: &str, params: serde_json::Value| {
        let arguments = json!({"action": action, "params": params});
        call(&fixture, "sluagh", "linear_action", &arguments).json()["error"]["message"].to_string()
    };
    for (action, params, field) in [
        ("create_issue", json!({"title": "T"}), "`params.teamId`"),
        ("update_issue", json!({"stateId": "Done"}), "`params.id`"),
        ("create_comment", json!({"body": "b"}), "`params.issueId`"),
        ("create_issue", json!({"title": "T", "teamId": "E", "dueDate": "2026-02-30"}), "`params.dueDate`"),
        ("list_issues", json!({"updatedAfter": "yesterday"}), "`params.updatedAfter`"),
        ("list_issues", json!({"title": "T"}), "list_issues accepts `params.teamId`, `params.stateId`"),
        ("list_issues", json!({"title": "T"}), "`params.updatedAfter`"),
        ("update_issue", json!({"id": "E-1"}), "`params.id`"),
        ("update_issue", json!({"id": "E-1", "labels": ["a"], "addLabels": ["b"]}), "`params.addLabels`"),
    ] {
        let message = linear(action, params.clone());
        assert!(message.contains(field), "{action} {params}: {message}");
    }
}
