//! The `OpenAPI` document of the HTTP door, checked against the standard.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{Fixture, python_with_mcp, repository};

fn checked(document: &str) -> Output {
    let mut child = Command::new(python_with_mcp())
        .arg(repository().join("tests/functional/openapi.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn the_document_is_valid_and_each_example_fits_its_schema() {
    let document = Fixture::new().run(&["openapi"]).stdout;
    let output = checked(&document);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(!String::from_utf8_lossy(&output.stderr).starts_with("0 examples"));
    // The control: the check finds faults in a document.
    let parsed: Value = serde_json::from_str(&document).unwrap();
    let spoiled: [fn(&mut Value); 3] = [
        |document| document["paths"]["/v1/call"]["post"]["responses"]["200"]["content"]["a/b"] = "x".into(),
        |document| {
            document["paths"]["/v1/check"]["post"]["requestBody"]["content"]["application/json"]["example"]
                ["tool"] = 1.into();
        },
        |document| document["components"]["schemas"]["Error"]["type"] = 7.into(),
    ];
    for spoil in spoiled {
        let mut wrong = parsed.clone();
        spoil(&mut wrong);
        assert!(!checked(&wrong.to_string()).status.success());
    }
}

#[test]
fn the_document_names_every_field_of_a_decision() {
    let fixture = Fixture::new();
    let config = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&config).unwrap();
    let rules = "sandbox_config:\n  normal:\n    mode: ask_always\n    deny_exec_command: [shutdown]\n";
    std::fs::write(config.join("config.yaml"), rules).unwrap();
    let document = fixture.run(&["openapi"]).json();
    let schema = &document["components"]["schemas"]["Decision"];
    let mut seen = std::collections::BTreeSet::new();
    for (tool, arguments) in [
        ("shell_execute", r#"{"command": "touch a"}"#),
        ("shell_execute", r#"{"command": "shutdown now"}"#),
        ("file_write", r#"{"path": "a", "content": "x"}"#),
        ("file_list", r#"{"path": "."}"#),
    ] {
        let decision = fixture.run(&["check", tool, arguments]).json();
        let named = schema["properties"].as_object().unwrap();
        let fields = decision.as_object().unwrap();
        for field in fields.keys() {
            assert!(named.contains_key(field), "{field}: {decision:#}");
        }
        for required in schema["required"].as_array().unwrap() {
            assert!(fields.contains_key(required.as_str().unwrap()), "{required}: {decision:#}");
        }
        seen.extend(fields.keys().cloned());
    }
    // The control: the decisions contained fields that only some decisions have.
    assert!(["denied_commands", "part", "preview"].iter().all(|field| seen.contains(*field)), "{seen:?}");
}
