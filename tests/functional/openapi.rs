//! The document of the HTTP door, held by what the standard says.

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
    // The control: what is wrong with a document is found.
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
