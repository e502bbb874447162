//! Output that a model sees: necessary facts besides the data, long outputs, files and pictures,
//! and no more.

use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::server::Server;
use crate::shown::data_of;

/// Returns the text that a model sees if its host shows every text block.
fn all_text(result: &Value) -> String {
    let blocks = result["content"].as_array().unwrap();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Returns the only line that begins with this text.
#[track_caller]
fn line<'a>(text: &'a str, begin: &str) -> &'a str {
    let mut found = text.lines().filter(|line| line.starts_with(begin));
    let line = found.next().unwrap_or_else(|| panic!("no line begins with {begin:?}: {text:.2000}"));
    assert!(found.next().is_none(), "more than one line begins with {begin:?}: {text:.2000}");
    line
}

#[test]
fn a_model_reads_the_checkpoint_and_undoes_its_call_with_it() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n"), ("b.txt", "one\n")]);
    let mut server = Server::start(&fixture, &[]);
    let edits = json!([{"old_text": "one", "new_text": "two"}]);
    for (tool, arguments) in [
        ("file_write", json!({"path": "a.txt", "content": "two\n"})),
        ("file_edit", json!({"path": "a.txt", "edits": edits})),
        ("file_move", json!({"source": "a.txt", "destination": "c.txt"})),
        ("file_delete", json!({"path": "a.txt"})),
        ("shell_execute", json!({"command": "rm a.txt; echo x > b.txt"})),
    ] {
        let text = all_text(&server.call(tool, arguments));
        let told = line(&text, "[checkpoint ");
        let id = told.strip_suffix(": checkpoint_restore undoes this call]").unwrap();
        server.data("checkpoint_restore", json!({"id": id.strip_prefix("[checkpoint ").unwrap()}));
        assert_eq!(
            (fixture.read("a.txt"), fixture.read("b.txt")),
            ("one\n".into(), "one\n".into()),
            "{tool}"
        );
    }
    let read = all_text(&server.call("shell_execute", json!({"command": "cat a.txt"})));
    assert_eq!(read, "one\n", "what changes nothing has no notes");
    server.end();
}

#[test]
fn a_model_reads_what_undoing_does_not_bring_back_and_where_changes_lie_aside() {
    let fixture = Fixture::with_files(&[("package.json", "{}"), ("node_modules/a/index.js", "1\n")]);
    let mut server = Server::start(&fixture, &[]);
    let removed =
        all_text(&server.call("shell_execute", json!({"command": "rm -r node_modules; echo 1 > kept"})));
    assert_eq!(line(&removed, "[not saved"), "[not saved, so undo does not restore it: node_modules]");
    let tried = all_text(&server.call("shell_execute", json!({"command": "echo 2 > kept", "dry_run": true})));
    let aside = line(&tried, "[kept aside as ");
    let id = aside.strip_suffix(": 1 changed path; the workspace is unchanged]").unwrap();
    let id = id.strip_prefix("[kept aside as ").unwrap();
    server.call("shell_execute", json!({"command": "true", "apply": id}));
    assert_eq!(fixture.read("kept"), "2\n", "{tried}");
    server.end();
}

#[test]
fn what_the_sandbox_enforced_is_in_the_audit_and_before_no_model() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let mut server = Server::start(&fixture, &[]);
    for (tool, arguments) in [
        ("shell_execute", json!({"command": "echo hello"})),
        ("shell_execute", json!({"command": "exec sleep 100", "timeout": 0.1})),
        ("file_read", json!({"path": "nowhere"})),
    ] {
        let result = server.call(tool, arguments);
        assert!(result["_meta"].to_string().len() < 250, "{result:#}");
        assert!(!result.to_string().contains("seccomp"), "{result:#}");
        let call = result["_meta"]["handfast/meta"]["call_id"].as_str().unwrap();
        let recorded = fixture.run(&["audit", "show", call]).stdout;
        assert_eq!(recorded.contains("seccomp"), tool == "shell_execute", "{recorded}");
    }
    server.end();
}

#[test]
fn a_command_without_a_network_is_told_which_host_is_not_listed() {
    let fixture = Fixture::new().without_hosts();
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    for command in [
        "curl https://pypi.example/simple",
        "curl -s https://pypi.example/simple",
        "curl -s https://pypi.example/simple | head -1",
        "git clone -q https://pypi.example/a.git",
        "git clone https://pypi.example/a.git 2>&1 | tail -3",
        "python3 -c 'import urllib.request as r; r.urlopen(\"http://pypi.example/a\")'",
        "python3 -c 'import urllib.request as r\ntry: r.urlopen(\"http://pypi.example/a\")\nexcept OSError as e: print(e)'",
        "getent hosts pypi.example || { echo 'ping: pypi.example: Temporary failure in name resolution' >&2; exit 2; }",
    ] {
        let text = all_text(&server.call("shell_execute", json!({"command": command})));
        let told = line(&text, "[warning: no network here: ");
        assert!(told.contains("pypi.example is not listed in `allowed_hosts`"), "{command}: {text}");
    }
    let unnamed = "python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80))'";
    let text = all_text(&server.call("shell_execute", json!({"command": unnamed})));
    assert!(line(&text, "[warning: no network here: ").contains("`allowed_hosts`"), "{text}");
    // The controls: other failures, words that only mention one, and servers of the session itself.
    for command in [
        "ls missing",
        "echo curl https://pypi.example",
        "echo handles ENOTFOUND errors",
        "curl -s http://localhost:1/",
        "curl -s http://127.0.0.1:1/ | cat",
    ] {
        let text = all_text(&server.call("shell_execute", json!({"command": command})));
        assert!(!text.contains("no network"), "{command}: {text}");
    }
    let session = server.background("curl https://pypi.example/simple", false);
    let arguments = json!({"action": "read", "session_id": session, "wait": 60, "regex": "resolve"});
    let text = all_text(&server.call("shell_session", arguments));
    assert!(text.contains("pypi.example is not listed in `allowed_hosts`"), "{text}");
    server.end();
}

#[test]
fn a_long_output_is_cut_between_lines_and_read_to_its_end_by_what_the_text_names() {
    let fixture = Fixture::new();
    let mut server = Server::start(&fixture, &[]);
    let whole: String = (1..=6_000).map(|number| format!("line {number} äöü\n")).collect();
    let command = "seq 1 6000 | sed 's/.*/line & äöü/'";
    let result = server.call("shell_execute", json!({"command": command}));
    let text = all_text(&result);
    assert_eq!(result["content"].as_array().unwrap().len(), 1, "no block but the text");
    assert!(result.get("structuredContent").is_none());
    for shown in text.lines().filter(|line| !line.starts_with('[')) {
        assert!(whole.contains(&format!("{shown}\n")), "a line was cut: {shown}");
    }
    let marker = line(&text, "[... ");
    let (_, named) = marker.split_once("output_read ").unwrap();
    let (arguments, _) = named.split_once(" has").unwrap();
    let reference: Value = serde_json::from_str(arguments).unwrap();
    assert!(line(&text, "[the whole stdout: ").contains(arguments), "{marker}");
    assert_eq!(result["_meta"]["handfast/meta"]["output_ref"], reference["output_ref"]);
    let id = reference["output_ref"].as_str().unwrap();
    for named in [id.to_owned(), format!("handfast://output/{id}")] {
        let (mut read, mut next) = (String::new(), Some(0));
        while let Some(offset) = next {
            let part = server.data("output_read", json!({"output_ref": named, "offset": offset}));
            let content = part["content"].as_str().unwrap();
            assert!(content.ends_with('\n'), "a part ends with a line");
            read.push_str(content);
            next = part["next_offset"].as_u64();
        }
        assert!(read == whole, "{named}: {} of {} bytes", read.len(), whole.len());
    }
    server.end();
}

#[test]
fn a_link_to_a_long_output_is_sent_to_a_client_that_says_it_follows_links_and_to_no_other() {
    let fixture = Fixture::new();
    for (capabilities, links) in [
        (json!({}), 0),
        (json!({"experimental": {"handfast/resource_links": {}}}), 1),
        (json!({"extensions": {"handfast/resource_links": {}}}), 1),
    ] {
        let mut server = Server::for_client(fixture.command(), capabilities);
        let result = server.call("shell_execute", json!({"command": "seq 1 20000"}));
        let blocks = result["content"].as_array().unwrap();
        assert_eq!(blocks.iter().filter(|block| block["type"] == "resource_link").count(), links);
        server.end();
    }
}

#[test]
fn a_long_file_says_first_how_to_read_on_and_is_read_to_its_end() {
    let whole: String =
        (1..=2_000).map(|number| format!("{number}: some text of a line with an ä in it\n")).collect();
    let fixture = Fixture::with_files(&[("long.txt", &whole), ("short.txt", "one\ntwo\n"), ("empty", "")]);
    let mut server = Server::start(&fixture, &[]);
    let first = all_text(&server.call("file_read", json!({"path": "long.txt"})));
    assert!(first.starts_with("[about {\"next_offset\":"), "{first:.200}");
    assert!(first.chars().count() < 25_500);
    let (mut read, mut next) = (String::new(), Some(0));
    while let Some(offset) = next {
        let part = server.data("file_read", json!({"path": "long.txt", "offset": offset}));
        read.push_str(part["content"].as_str().unwrap());
        next = part["next_offset"].as_u64();
        assert_eq!(next.is_some(), part["note"].is_string());
    }
    assert!(read == whole, "{} of {} bytes", read.len(), whole.len());
    let short = server.data("file_read", json!({"path": "short.txt"}));
    assert_eq!((&short["content"], &short["line_count"]), (&json!("one\ntwo\n"), &json!(2)));
    assert_eq!(server.data("file_read", json!({"path": "empty"}))["size_bytes"], 0);
    server.end();
}

#[test]
fn a_picture_is_shown_as_a_picture_up_to_a_bound() {
    let fixture = Fixture::new();
    let png = |width: u32, rest: usize| {
        let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
        bytes.extend(width.to_be_bytes());
        bytes.extend(480_u32.to_be_bytes());
        bytes.resize(bytes.len() + rest, 7);
        bytes
    };
    let write = |path: &str, bytes: &[u8]| std::fs::write(fixture.workspace().join(path), bytes).unwrap();
    write("shown.png", &png(640, 200_000));
    write("named.txt.bin", &png(640, 0));
    write("huge.png", &png(640, 4 << 20));
    write("wide.png", &png(10_000, 0));
    write("no.png", b"\0\x01\x02");
    let mut server = Server::start(&fixture, &[]);
    for (path, bytes) in [("shown.png", 200_024), ("named.txt.bin", 24)] {
        let result = server.call("file_read", json!({"path": path}));
        let picture = result["content"].as_array().unwrap().iter().find(|block| block["type"] == "image");
        let picture = picture.unwrap_or_else(|| panic!("no picture: {:.2000}", result.to_string()));
        assert_eq!(picture["mimeType"], "image/png");
        assert_eq!(picture["data"].as_str().unwrap().len(), 4 * (bytes / 3 + usize::from(bytes % 3 > 0)));
        let about = all_text(&result);
        assert!(about.contains(r#""picture":{"width":640,"height":480}"#) && about.len() < 250, "{about}");
    }
    for (path, dimensions) in [("huge.png", "640 x 480 pixels"), ("wide.png", "10000 x 480 pixels")] {
        let result = server.call("file_read", json!({"path": path}));
        assert_eq!(result["content"].as_array().unwrap().len(), 1);
        assert!(all_text(&result).contains(dimensions) && result.to_string().len() < 1_500, "{result:.2000}");
    }
    let text = data_of("file_read", &server.call("file_read", json!({"path": "no.png"})));
    assert_eq!((&text["encoding"], &text["content"]), (&json!("base64"), &json!("AAEC")));
    // Other doors return the base64 content without a picture.
    let elsewhere = fixture.data("file_read", json!({"path": "named.txt.bin"}));
    assert_eq!((elsewhere.get("picture"), &elsewhere["encoding"]), (None, &json!("base64")));
    server.end();
}

/// Estimates tokens as bytes divided by four. Most tokenizers count up to a third more or fewer,
/// and the error is the same for each call.
fn tokens(text: &str) -> usize {
    text.len().div_ceil(4)
}

/// Token limits for the list and for each response: of the whole result, and of its text. The first
/// number is the cost when the result contained the data twice. The list contains the bounds of all
/// numbers since then.
const BUDGET: [(&str, usize, usize, usize); 11] = [
    ("the list", 2_768, 2_830, 2_830),
    ("ls", 352, 150, 115),
    ("a failing test", 369, 165, 125),
    ("a long output", 13_114, 6_500, 6_320),
    ("a file of 3 kB", 876, 840, 790),
    ("a file of 92 kB", 23_495, 6_480, 6_340),
    ("a write", 124, 95, 40),
    ("an edit", 131, 120, 65),
    ("a search", 11_972, 6_320, 5_700),
    ("wrong arguments", 161, 105, 50),
    ("a question", 269, 170, 110),
];

#[test]
fn the_list_of_tools_and_ten_typical_answers_stay_small() {
    let line = "    let value = compute(&input, 42); // a line of code\n";
    let large: String = (0..1_600).map(|number| format!("{number:05} {line}")).collect();
    let fixture =
        Fixture::with_files(&[("small.rs", &line.repeat(55)), ("large.rs", &large), ("a.txt", "one\n2\n")]);
    for number in 0..8 {
        fixture.write(&format!("src/m{number}.rs"), &line.repeat(20));
    }
    let mut server = Server::start(&fixture, &[]);
    let tests = "for i in 1 2 3 4 5 6 7 8 9; do echo \"test case_$i ... ok\"; done; echo 'test adds ... FAILED'; \
                 echo '  left: 3'; echo ' right: 4'; echo 'error: test failed' >&2; exit 101";
    let edits = json!([{"old_text": "one", "new_text": "1"}]);
    let calls = [
        ("shell_execute", json!({"command": "ls -la"})),
        ("shell_execute", json!({ "command": tests })),
        ("shell_execute", json!({"command": "cat large.rs"})),
        ("file_read", json!({"path": "small.rs"})),
        ("file_read", json!({"path": "large.rs"})),
        ("file_write", json!({"path": "new.txt", "content": "hello\n"})),
        ("file_edit", json!({"path": "a.txt", "edits": edits})),
        ("file_search", json!({"pattern": "compute"})),
        ("file_read", json!({"path": "a.txt", "colour": 1})),
        ("file_write", json!({"path": ".envrc", "content": "x"})),
    ];
    let list = server.tools().to_string();
    let mut measured = vec![(tokens(&list), tokens(&list))];
    for (tool, arguments) in calls {
        let result = server.call(tool, arguments);
        measured.push((tokens(&result.to_string()), tokens(&all_text(&result))));
    }
    server.end();
    for ((name, _, whole, text), measured) in BUDGET.iter().zip(&measured) {
        assert!(measured.0 <= *whole && measured.1 <= *text, "{name}: {measured:?}; {measured:?}");
    }
    let before: usize = BUDGET.iter().map(|(_, before, _, _)| before).sum();
    let after: usize = measured.iter().map(|(whole, _)| whole).sum();
    assert!(after * 5 <= before * 4, "{after} of {before}");
}
