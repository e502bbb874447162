//! What a form of an MCP client may grant, and when none is sent.

use serde_json::json;

use crate::harness::Fixture;
use crate::server::Server;
use crate::shown::error_of;

fn forms_sent(server: &Server) -> usize {
    server.told.iter().filter(|told| told["method"] == "elicitation/create").count()
}

#[test]
fn in_no_mode_can_a_form_grant_what_needs_a_terminal() {
    for mode in ["ask_always", "smart_auto", "full_auto"] {
        let fixture =
            Fixture::with_files(&[("plain", "x\n"), (".git/HEAD", "ref: refs/heads/main\n")]).asking();
        let mut server = Server::with_forms(&fixture, &["--mode", mode]);
        for (tool, arguments) in [
            (
                "file_write",
                json!({"path": ".git/hooks/pre-commit", "content": "x", "create_directories": true}),
            ),
            ("file_write", json!({"path": ".envrc", "content": "x"})),
            ("file_move", json!({"source": "plain", "destination": ".envrc"})),
            ("shell_execute", json!({"command": "cat plain > .envrc"})),
            ("shell_execute", json!({"command": "cat /etc/hostname /home/x > .mcp.json"})),
        ] {
            let result = server.call(tool, arguments.clone());
            let error = error_of(&result);
            assert_eq!(error["code"], "EAPPROVAL", "{mode} {tool} {arguments}: {result:#}");
            let hint = error["hint"].as_str().unwrap();
            assert!(hint.contains("only be approved on a terminal"), "{mode} {arguments}: {hint}");
            assert_eq!(forms_sent(&server), 0, "{mode} {tool} {arguments}");
        }
        for path in [".git/hooks/pre-commit", ".envrc", ".mcp.json"] {
            assert!(!fixture.workspace().join(path).exists(), "{mode} {path}");
        }
        if mode == "ask_always" {
            // The control: a form grants what any other file may get.
            let write = json!({"path": "envrc", "content": "x"});
            let (question, result) = server.asked("file_write", write, "allow for this session");
            assert!(question.contains("write envrc"), "{question}");
            assert_ne!(result["isError"], true, "{result:#}");
            assert_eq!(fixture.read("envrc"), "x");
        }
        server.end();
    }
}

#[test]
fn with_no_input_no_form_is_sent() {
    let fixture = Fixture::new().asking();
    let mut command = fixture.asking_command();
    command.arg("--no-input");
    let mut server = Server::that_shows_forms(command);
    let result = server.call("file_write", json!({"path": "a", "content": "x"}));
    assert_eq!(error_of(&result)["code"], "EAPPROVAL", "{result:#}");
    assert!(error_of(&result)["approval_id"].is_string(), "{result:#}");
    assert_eq!(forms_sent(&server), 0);
    server.end();
    // The control: without it the same client is asked.
    let mut server = Server::with_forms(&fixture, &[]);
    server.asked("file_write", json!({"path": "a", "content": "x"}), "allow once");
    server.end();
    assert_eq!(fixture.read("a"), "x");
}

#[test]
fn a_yes_to_code_that_cannot_be_named_is_for_this_once_and_the_question_says_so() {
    let fixture = Fixture::with_files(&[("x", "echo ran >> log\n")]).asking();
    let mut server = Server::with_forms(&fixture, &[]);
    for (line, unnamed) in [
        ("cat x | sh", true),
        ("bash -c \"$(cat x)\"", true),
        ("echo x | xargs sh", true),
        ("PYTHONPATH=. sh x", true),
        ("sh *x", true),
        ("sh x", false),
        ("sh < x", false),
        (". ./x", false),
    ] {
        let command = json!({"command": line});
        let (question, result) = server.asked("shell_execute", command.clone(), "allow once");
        assert_eq!(question.contains("What runs cannot be named beforehand"), unnamed, "{line}: {question}");
        assert_eq!(question.contains("\"allow for this session\" covers"), !unnamed, "{line}: {question}");
        assert_ne!(result["isError"], true, "{line}: {result:#}");
        if unnamed {
            // A choice that was not offered is no yes.
            let (_, result) = server.asked("shell_execute", command, "allow for this session");
            assert_eq!(error_of(&result)["code"], "EAPPROVAL", "{line}: {result:#}");
        }
    }
    assert_eq!(fixture.read("log").lines().count(), 8);
    server.end();
}
