//! The vault's secrets, and the secrets that an agent adds: none leaves through a door, and none
//! lies in a file.

use std::fs;
use std::path::Path;

use base64::Engine as _;
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::Up;
use crate::server::Server;
use crate::specialist::Specialist;

/// A secret with characters that JSON, shells and URLs escape.
const SECRET: &str = "sk-Live/0123'4567 \"89\\ab\u{e4}+cdef==";

/// Returns every form in which the secret, or a half of it, could have leaked.
fn needles(secret: &str) -> Vec<Vec<u8>> {
    let half: String = secret.chars().take(14).collect();
    let mut needles = Vec::new();
    for text in [secret, &half] {
        for spelling in [text.to_owned(), text.replace('\'', "'\\''")] {
            let quoted = Value::from(spelling.as_str()).to_string();
            needles.push(quoted.as_bytes()[1..quoted.len() - 1].to_vec());
            needles.push(spelling.into_bytes());
        }
        needles.push(text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>().into_bytes());
        for offset in 0..3 {
            let bytes = [&vec![0; offset][..], text.as_bytes()].concat();
            let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
            needles.push(encoded.as_bytes()[(offset * 8).div_ceil(6)..bytes.len() * 8 / 6].to_vec());
        }
    }
    needles
}

/// Returns the form of the secret that these bytes contain.
pub(crate) fn leaked(bytes: &[u8], secret: &str) -> Option<String> {
    let needles = needles(secret);
    let found =
        needles.iter().find(|needle| bytes.windows(needle.len()).any(|part| part == needle.as_slice()))?;
    Some(String::from_utf8_lossy(found).into_owned())
}

/// Reads every byte of every file below a folder.
pub(crate) fn everything_below(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend_from_slice(path.as_os_str().as_encoded_bytes());
        if path.is_dir() && !path.is_symlink() {
            bytes.extend(everything_below(&path));
        } else if path.is_file() {
            bytes.extend(fs::read(&path).unwrap());
        }
    }
    bytes
}

/// Commands that print the secret, which lies in a file of the workspace, in one form each.
const PRINTING: [&str; 7] = [
    "cat planted",
    "base64 planted; base64 -w0 planted",
    "(printf x; cat planted) | base64 -w0; (printf xy; cat planted) | base64 -w0",
    "od -An -v -tx1 planted | tr -d ' \\n'",
    "cat planted >&2; exit 3",
    "for i in $(seq 2000); do cat planted; echo; done",
    "cat \"$(cat planted)\"",
];

#[test]
fn a_planted_secret_leaves_through_no_door_and_lies_in_no_database_or_log() {
    for locked in [false, true] {
        let printing = if locked { &PRINTING[..2] } else { &PRINTING[..] };
        let fixture = Fixture::with_files(&[("planted", SECRET)]).asking().with_vault();
        fixture.store("planted", SECRET);
        if locked {
            // The control: a locked vault cannot redact, so the same search finds the secret
            // everywhere.
            fs::rename(fixture.key_file(), fixture.outside().join("key.away")).unwrap();
        }
        let before = everything_below(&fixture.state());
        assert_eq!(leaked(&before, SECRET), None);
        let mut out = Vec::new();
        let mut references = Vec::new();
        let mut said = |door: &str, text: String| {
            let found = leaked(text.as_bytes(), SECRET);
            assert_eq!(found.is_some(), locked, "{door}: {found:?} in {text}");
            out.extend(text.into_bytes());
        };
        for command in printing {
            let run =
                fixture.run(&["call", "--yes", "shell_execute", &json!({"command": command}).to_string()]);
            references.extend(run.json()["meta"]["output_ref"].as_str().map(str::to_owned));
            said("call", run.stdout + &run.stderr);
        }
        let read = fixture.run(&["call", "file_read", r#"{"path": "planted"}"#]);
        said("file_read", read.stdout);
        let named = json!({"path": SECRET});
        said("an error", fixture.run(&["call", "file_read", &named.to_string()]).stdout);
        let write = json!({"path": "other", "content": format!("a {SECRET} b")});
        let asked = fixture.run(&["call", "file_write", &write.to_string()]);
        let id = asked.json()["error"]["approval_id"].as_str().unwrap().to_owned();
        said("a question", fixture.run(&["approvals", "show", &id]).stdout);
        said("a question as JSON", fixture.run(&["approvals", "show", &id, "--json"]).stdout);
        let command = json!({"command": format!("echo '{SECRET}' > other")});
        said("check", fixture.run(&["check", "shell_execute", &command.to_string()]).stdout);

        let asks_nobody = ["--mode", "full_auto"];
        let up = {
            let mut command = fixture.command();
            command.args(asks_nobody).args(["up", "--listen", "127.0.0.1:0", "--json"]);
            Up::of(command)
        };
        let mut stdio = Server::start(&fixture, &asks_nobody);
        let mut specialist = Specialist::start(&fixture, &asks_nobody);
        for command in printing {
            let arguments = json!({"command": command});
            said("HTTP", up.call("shell_execute", arguments.clone()).to_string());
            let params =
                json!({"name": "shell_execute", "arguments": arguments, "_meta": {"progressToken": 1}});
            said(
                "MCP",
                stdio.answer("tools/call", params).to_string() + &format!("{:?}", stdio.notifications),
            );
            // The answer contains only a summary of the output, and the log all of it.
            let answer = specialist.run(command, "");
            assert!(locked || leaked(format!("{answer:?}").as_bytes(), SECRET).is_none(), "{answer:?}");
        }
        said("events", up.get(&up.user, "/v1/audit").body);
        drop((up, stdio, specialist));
        said(
            "the exec log",
            String::from_utf8_lossy(&everything_below(&fixture.workspace().join("memory"))).into_owned(),
        );
        said("the audit", fixture.run(&["audit", "export"]).stdout);
        assert!(locked || !references.is_empty());
        for reference in references {
            let arguments = json!({"output_ref": reference, "limit": 100_000});
            said("output_read", fixture.run(&["call", "output_read", &arguments.to_string()]).stdout);
        }
        assert_eq!(leaked(&everything_below(&fixture.state()), SECRET).is_some(), locked);
        let covered = String::from_utf8_lossy(&out).matches("[SECRET:planted]").count();
        assert_eq!(covered > 20, !locked, "{covered}");
    }
}

#[test]
fn what_an_agent_puts_into_the_vault_is_written_down_nowhere_however_the_call_ends() {
    let fixture = Fixture::new().with_vault();
    let arguments = json!({"key": "mine", "value": SECRET, "hosts": ["api.example.com"]});
    let mut said = Vec::new();
    let mut call = |options: &[&str], tool: &str, arguments: &Value| {
        let run = fixture
            .run_with_input(&[options, &["call", tool, "-"]].concat(), arguments.to_string().as_bytes());
        said.extend((run.stdout.clone() + &run.stderr).into_bytes());
        run.json()
    };
    // Calls that are asked about, wrong in every way, misspelt, and nested in another tool.
    let asked = call(&[], "vault_set", &arguments);
    let id = asked["error"]["approval_id"].as_str().unwrap().to_owned();
    for (tool, arguments) in [
        ("vault_set", json!({"key": "a b", "value": SECRET})),
        ("vault_set", json!({"key": "mine", "valeu": SECRET})),
        ("vault_set", json!({"key": "mine", "value": {"deep": [SECRET]}})),
        ("vault_set", json!({"key": "mine", "value": "v", SECRET: 1})),
        ("vault_set", json!([SECRET])),
        ("vault_set", json!(SECRET)),
        ("vault_sett", arguments.clone()),
        ("tool_call", json!({"name": "vault_set", "arguments": {"value": SECRET}})),
        ("tool_call", json!({"name": "vault_set", "arguments": SECRET})),
        ("tool_call", json!({"tool": "vault_set", "arguments": arguments})),
        ("tool_call", json!({"name": "vault_set", "arguments": arguments})),
    ] {
        assert_eq!(call(&[], tool, &arguments)["ok"], false, "{tool} {arguments}");
    }
    assert_eq!(
        call(&["--dialect", "elophanto"], "vault_set", &json!({"key": "mine", "value": SECRET}))["ok"],
        false
    );
    let shown = fixture.run(&["approvals", "show", &id]).stdout;
    assert!(shown.contains("vault set mine for api.example.com"), "{shown}");
    said.extend(shown.into_bytes());
    assert_eq!(leaked(&everything_below(&fixture.state()), SECRET), None);

    // The control: the approved call stores the secret.
    assert_eq!(fixture.run(&["approvals", "approve", &id]).code, 0);
    let stored = fixture.run_with_input(&["call", "vault_set", "-"], arguments.to_string().as_bytes());
    assert_eq!(stored.json()["ok"], true, "{}", stored.stdout);
    let listed = fixture.data("vault_list", json!({}));
    assert_eq!(listed["secrets"][0]["hosts"], json!(["api.example.com"]));
    said.extend((stored.stdout + &listed.to_string()).into_bytes());
    said.extend(fixture.run(&["audit", "export"]).stdout.into_bytes());
    assert_eq!(leaked(&said, SECRET), None);
    assert_eq!(leaked(&everything_below(&fixture.state()), SECRET), None);
    fixture.write("planted", SECRET);
    assert_eq!(fixture.data("file_read", json!({"path": "planted"}))["content"], "[SECRET:mine]");
    // The control: the audit contains a text that no tool takes for a secret, and this search finds it.
    let plain = json!({"path": "a", "content": "not-a-secret-0123"});
    fixture.call("file_write", plain);
    assert!(leaked(&everything_below(&fixture.state()), "not-a-secret-0123").is_some());
}

#[test]
fn no_tool_reaches_the_vault_or_its_key() {
    let fixture = Fixture::new().with_vault();
    fixture.store("mine", SECRET);
    let vault = fixture.state().canonicalize().unwrap().join("vault/vault.age");
    assert!(vault.exists());
    // Reading the encrypted vault needs the user's approval, like any other file outside the
    // workspace. No approval allows changing it.
    let read = fixture.run(&["call", "file_read", &json!({"path": vault}).to_string()]).json();
    assert_eq!(read["error"]["code"], "EAPPROVAL", "{read:#}");
    for (tool, arguments) in
        [("file_write", json!({"path": vault, "content": "x"})), ("file_delete", json!({"path": vault}))]
    {
        assert_eq!(fixture.error(tool, arguments)["code"], "EPERMISSION", "{tool}");
    }
    let command = format!(": $((0)); cat {} {}; env", vault.display(), fixture.key_file().display());
    let shown = fixture.data("shell_execute", json!({"command": command}));
    assert!(!shown.to_string().contains("age-encryption") && !shown.to_string().contains("VAULT"), "{shown}");

    // A key within reach is refused before anything runs.
    let inside = fixture.workspace().join("key");
    fs::copy(fixture.key_file(), &inside).unwrap();
    let mut command = fixture.command();
    let refused =
        command.env("HANDFAST_VAULT_KEY_FILE", &inside).args(["call", "vault_list"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("within reach of the tools"));
}
