//! Forms of an MCP client: the approvals that one may grant, and the calls for which none is sent.

use serde_json::json;

use crate::functional::screen::Terminal;
use crate::harness::Fixture;
use crate::server::Server;
use crate::shown::error_of;

fn forms_sent(server: &Server) -> usize {
    server.notifications.iter().filter(|told| told["method"] == "elicitation/create").count()
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
            // The control: a form grants the write of an ordinary file.
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
fn the_first_line_of_a_form_is_what_would_happen_and_why_it_is_asked() {
    let fixture = Fixture::with_files(&[("docs/a.txt", "one\n")]).asking();
    let mut server = Server::with_forms(&fixture, &[]);
    let edits = json!([{"old_text": "one", "new_text": "two"}]);
    for (tool, arguments, begins) in [
        ("shell_execute", json!({"command": "rm -r\ndocs"}), "run in .: rm -r\\ndocs? Asked because "),
        ("file_edit", json!({"path": "docs/a.txt", "edits": edits}), "write docs/a.txt? Asked because "),
        ("shell_execute", json!({"command": format!("rm {} z", "x".repeat(500))}), "run in .: rm xxx"),
    ] {
        let (question, _) = server.asked(tool, arguments.clone(), "deny");
        let first = question.lines().next().unwrap();
        assert!(first.starts_with(begins), "{arguments}: {question}");
        assert!(first.contains("? Asked because in mode smart_auto"), "{arguments}: {question}");
        assert!(first.chars().count() < 400, "{question}");
    }
    let (long, _) =
        server.asked("shell_execute", json!({"command": format!("rm {} z", "x".repeat(500))}), "deny");
    assert!(long.lines().next().unwrap().contains("x z? Asked"), "its end is seen: {long}");
    assert!(long.contains(&"x".repeat(500)), "and all of it below: {long}");
    server.end();
}

#[test]
fn a_form_that_is_accepted_empty_ends_the_call_also_where_the_screen_is_open() {
    let fixture = Fixture::new().asking();
    let mut screen = Terminal::start(&fixture, (24, 80), &["approvals"]);
    screen.shows("Nothing waits for an approval");
    let mut server = Server::with_forms(&fixture, &[]);
    for answer in [
        json!({"action": "accept", "content": {}}),
        json!({"action": "accept"}),
        json!({"action": "accept", "content": null}),
        json!({"action": "cancel"}),
        json!({}),
    ] {
        let result = server.answered("file_write", json!({"path": "a", "content": "x"}), &answer);
        assert_eq!(error_of(&result)["code"], "EAPPROVAL", "{answer}: {result:#}");
        assert!(error_of(&result)["approval_id"].is_string(), "{answer}: {result:#}");
        let error = error_of(&result);
        let hint = error["hint"].as_str().unwrap();
        assert!(hint.contains("the question stays open"), "{answer}: {hint}");
    }
    server.end();
    screen.press("q");
    assert_eq!(screen.ends(), 0);
}

#[test]
fn a_yes_given_elsewhere_counts_for_the_same_call_and_so_does_one_in_a_form_that_is_trusted() {
    let arguments = json!({"command": "cat plain > .envrc"});
    for mode in ["ask_always", "smart_auto"] {
        let fixture = Fixture::with_files(&[("plain", "x\n")]).asking();
        let mut server = Server::with_forms(&fixture, &["--mode", mode]);
        let asked = server.call("shell_execute", arguments.clone());
        let error = error_of(&asked);
        let id = error["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
        assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
        let done = server.call("shell_execute", arguments.clone());
        assert_ne!(done["isError"], true, "{mode}: {done:#}");
        assert_eq!((fixture.read(".envrc").as_str(), forms_sent(&server)), ("x\n", 0), "{mode}");
        server.end();

        let fixture = Fixture::with_files(&[("plain", "x\n")]).asking();
        let folder = fixture.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.yaml"), "elicitation: trusted\n").unwrap();
        let mut server = Server::with_forms(&fixture, &["--mode", mode]);
        let (question, done) = server.asked("shell_execute", arguments.clone(), "allow once");
        assert!(question.contains("direnv runs it"), "{mode}: {question}");
        assert_ne!(done["isError"], true, "{mode}: {done:#}");
        assert_eq!(fixture.read(".envrc"), "x\n", "{mode}");
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
    // The control: without the option, the same client is asked.
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
        assert_eq!(
            question.contains("The programs that run cannot be determined"),
            unnamed,
            "{line}: {question}"
        );
        assert_eq!(question.contains("\"allow for this session\" covers"), !unnamed, "{line}: {question}");
        assert_ne!(result["isError"], true, "{line}: {result:#}");
        if unnamed {
            // A choice that the form did not offer does not approve the call.
            let (_, result) = server.asked("shell_execute", command, "allow for this session");
            assert_eq!(error_of(&result)["code"], "EAPPROVAL", "{line}: {result:#}");
        }
    }
    assert_eq!(fixture.read("log").lines().count(), 8);
    server.end();
}
