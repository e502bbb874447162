//! MCP features besides tools: resources, prompts, completions, and messages about calls.

use serde_json::{Value, json};

use crate::functional::mcp_over_http::{modern_of, post};
use crate::harness::Fixture;
use crate::http::Up;
use crate::server::Server;

const FREE: [&str; 2] = ["--mode", "full_auto"];

fn fixture() -> Fixture {
    Fixture::with_files(&[
        ("src/a b.txt", "one\ntwo\n"),
        ("src/main.rs", "fn main() {}\n"),
        (".env", "TOKEN=the-secret\n"),
    ])
}

#[track_caller]
fn read(server: &mut Server, uri: &str) -> Value {
    let mut result = server.ask("resources/read", json!({"uri": uri}));
    assert!(result["contents"].is_array(), "{uri}: {result:#}");
    result["contents"][0].take()
}

/// Returns the audit rows of a tool, the newest first.
fn audited(fixture: &Fixture, tool: &str) -> Vec<Value> {
    let listed = fixture.run(&["audit", "list", "--tool", tool, "--json"]).stdout;
    listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn resources_are_read_by_calls_of_the_tools_and_recorded_like_them() {
    let fixture = fixture();
    let mut server = Server::start(&fixture, &FREE);
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&server.ask("resources/list", json!({}))["resources"]), ["checkpoints", "calls"]);
    let templates = server.ask("resources/templates/list", json!({}));
    assert_eq!(names(&templates["resourceTemplates"]), ["file", "checkpoint", "call", "output"]);
    let file = read(&mut server, "handfast://file/src/a%20b.txt?offset=4");
    assert_eq!((&file["text"], &file["mimeType"]), (&json!("two\n"), &json!("text/plain")));
    std::fs::write(fixture.workspace().join("x.bin"), [0_u8, 159, 146, 150]).unwrap();
    assert_eq!(read(&mut server, "handfast://file/x.bin")["blob"], "AJ+Slg==");

    let written = server.call("file_write", json!({"path": "new.txt", "content": "new\n"}));
    // The audit row of a read is written after its response, but before the row of a later change.
    assert_eq!(audited(&fixture, "file_read").iter().filter(|row| row["door"] == "mcp").count(), 2);
    let checkpoint = written["_meta"]["handfast/meta"]["checkpoint"].as_str().unwrap().to_owned();
    let listed: Value =
        serde_json::from_str(read(&mut server, "handfast://checkpoints")["text"].as_str().unwrap()).unwrap();
    assert_eq!(listed["checkpoints"][0]["id"], checkpoint.as_str());
    let diff = read(&mut server, &format!("handfast://checkpoint/{checkpoint}"));
    assert!(diff["text"].as_str().unwrap().contains("+new"), "{diff:#}");
    let call = read(&mut server, &format!("handfast://call/{checkpoint}"));
    assert!(call["text"].as_str().unwrap().contains("file_write"), "{call:#}");
    let calls = read(&mut server, "handfast://calls");
    assert!(calls["text"].as_str().unwrap().contains("file_write"), "{calls:#}");
    // No tool reads the audit, but a read is recorded like a tool call.
    let mut looked = audited(&fixture, "audit_read");
    looked.retain(|row| row["door"] != "cli");
    let of = |row: &Value| row["plan"]["arguments"]["call"].clone();
    assert_eq!(looked.iter().map(of).collect::<Vec<_>>(), [Value::Null, json!(checkpoint)], "{looked:#?}");
    for row in &looked {
        let as_a_read = [&row["door"], &row["dialect"], &row["outcome"], &row["effect"]];
        assert_eq!(as_a_read, ["mcp", "handfast", "ok", "none"], "{row:#}");
        assert_eq!(row["session"], audited(&fixture, "file_write")[0]["session"]);
    }
    server.end();
    assert_eq!(fixture.run(&["audit", "verify"]).code, 0);
}

#[test]
fn a_resource_that_may_not_be_read_or_is_not_there_is_an_error_that_says_so_and_nothing_else() {
    let fixture = fixture();
    let outside = fixture.home().join("outside.txt");
    std::fs::write(&outside, "the-secret").unwrap();
    let mut server = Server::start(&fixture, &FREE);
    let other = fixture.run(&["--mode", "full_auto", "call", "file_read", r#"{"path": "src/main.rs"}"#]);
    let other = other.json()["meta"]["call_id"].as_str().unwrap().to_owned();
    for (uri, code) in [
        ("handfast://file/.env", -32000),
        ("handfast://file/%2eenv", -32000),
        ("handfast://file/src/../.env", -32000),
        ("handfast://file/../home/outside.txt", -32000),
        ("handfast://file/%2e%2e/home/outside.txt", -32000),
        (&format!("handfast://file/{}", outside.display()), -32000),
        ("handfast://file/absent.txt", -32002),
        ("handfast://file/src/main.rs?offset=x", -32602),
        ("handfast://file/src/main.rs?version=1", -32002),
        ("handfast://output/../../state/handfast.db", -32002),
        ("handfast://checkpoint/absent", -32002),
        (&format!("handfast://call/{other}"), -32002),
        ("file:///etc/passwd", -32002),
        ("", -32002),
    ] {
        let answer = server.answer("resources/read", json!({"uri": uri}));
        assert_eq!(answer["error"]["code"], code, "{uri}: {answer:#}");
        assert!(!answer.to_string().contains("the-secret"), "{answer:#}");
    }
    // The session can still read allowed files, so the refusals above concern those resources.
    assert_eq!(read(&mut server, "handfast://file/src/main.rs")["text"], "fn main() {}\n");
    let refused: Vec<Value> =
        audited(&fixture, "file_read").into_iter().filter(|row| row["decision"] == "deny").collect();
    assert!(refused.len() >= 3, "{refused:#?}");
    for params in [json!({}), json!({"uri": 7}), json!({"uri": null}), json!([])] {
        assert_eq!(server.code("resources/read", params), -32602);
    }
    server.end();
}

#[test]
fn a_shortened_output_is_linked_and_its_parts_and_matching_lines_can_be_read() {
    let fixture = fixture();
    let mut command = fixture.command();
    command.args(FREE);
    let mut server = Server::for_client(command, json!({"experimental": {"handfast/resource_links": {}}}));
    let ran = server.call("shell_execute", json!({"command": "seq 1 20000"}));
    let link = ran["content"].as_array().unwrap().iter().find(|block| block["type"] == "resource_link");
    let link = link.unwrap_or_else(|| panic!("no link: {:.2000}", ran.to_string()));
    let uri = link["uri"].as_str().unwrap();
    assert_eq!(
        uri,
        format!("handfast://output/{}", ran["_meta"]["handfast/meta"]["output_ref"].as_str().unwrap())
    );
    assert_eq!(read(&mut server, &format!("{uri}?offset=0&limit=4"))["text"], "1\n2\n");
    assert_eq!(read(&mut server, &format!("{uri}?regex=%5E1234%24"))["text"], "1234: 1234\n");
    assert_eq!(server.code("resources/read", json!({"uri": format!("{uri}?regex=%5B")})), -32602);
    let short = server.call("shell_execute", json!({"command": "echo short"}));
    assert!(!short.to_string().contains("resource_link"), "{short:#}");
    server.end();
}

#[test]
fn prompts_show_what_they_are_about() {
    let fixture = fixture();
    let mut server = Server::start(&fixture, &FREE);
    let prompts = server.ask("prompts/list", json!({}));
    let names: Vec<&str> = prompts["prompts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|prompt| prompt["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["review_changes", "explain_denial", "what_can_be_done"]);
    assert_eq!(
        server.code("prompts/get", json!({"name": "explain_denial"})),
        -32602,
        "nothing was denied yet"
    );
    assert_eq!(
        server.code("prompts/get", json!({"name": "review_changes"})),
        -32602,
        "there is no change to undo yet"
    );
    let shown =
        |prompt: &Value| prompt["messages"][1]["content"]["resource"]["text"].as_str().unwrap().to_owned();
    server.data("file_write", json!({"path": "new.txt", "content": "new\n"}));
    let review = server.ask("prompts/get", json!({"name": "review_changes"}));
    assert!(shown(&review).contains("+new"), "{review:#}");
    let denied = server.call("file_read", json!({"path": ".env"}));
    assert_eq!(denied["_meta"]["handfast/error"]["code"], "EPERMISSION");
    let call = denied["_meta"]["handfast/meta"]["call_id"].as_str().unwrap();
    for arguments in [json!({}), json!({"call": call})] {
        let explained = server.ask("prompts/get", json!({"name": "explain_denial", "arguments": arguments}));
        let record: Value = serde_json::from_str(&shown(&explained)).unwrap();
        assert_eq!((&record["call"], &record["decision"]), (&json!(call), &json!("deny")), "{explained:#}");
    }
    let abilities = server.ask("prompts/get", json!({"name": "what_can_be_done"}));
    assert!(shown(&abilities).contains("permission_level"), "{abilities:#}");
    for params in [
        json!({"name": "no_such"}),
        json!({"name": 7}),
        json!({}),
        json!({"name": "explain_denial", "arguments": {"call": "absent"}}),
        json!({"name": "explain_denial", "arguments": {"call": 7}}),
        json!({"name": "explain_denial", "arguments": []}),
    ] {
        assert_eq!(server.code("prompts/get", params.clone()), -32602, "{params}");
    }
    assert_eq!(
        server.code("prompts/get", json!({"name": "review_changes", "arguments": {"checkpoint": "absent"}})),
        -32002
    );
    server.end();
}

#[test]
fn paths_checkpoints_and_calls_are_completed_and_denied_files_are_not() {
    let fixture = fixture();
    let mut server = Server::start(&fixture, &FREE);
    let file = "handfast://file/{+path}{?offset,max_bytes}";
    let mut complete = |of: Value, name: &str, value: &str| {
        server.answer("completion/complete", json!({"ref": of, "argument": {"name": name, "value": value}}))
    };
    let resource = |uri: &str| json!({"type": "ref/resource", "uri": uri});
    let mut path =
        |value: &str| complete(resource(file), "path", value)["result"]["completion"]["values"].take();
    assert_eq!(path("s"), json!(["src/"]));
    assert_eq!(path("src/"), json!(["src/a b.txt", "src/main.rs"]));
    assert_eq!(path("src/m"), json!(["src/main.rs"]));
    assert_eq!(path(".e"), json!([]), "a denied file has no name");
    assert_eq!(path("../"), json!([]));
    assert_eq!(path("absent/"), json!([]));
    for (of, name) in [
        (resource("handfast://file/x"), "path"),
        (resource(file), "version"),
        (json!({"type": "ref/prompt", "name": "no_such"}), "checkpoint"),
        (json!({"type": "ref/prompt", "name": "review_changes"}), "call"),
        (json!({"type": "ref/other", "name": "review_changes"}), "checkpoint"),
        (json!(7), "path"),
    ] {
        let answer = complete(of.clone(), name, "");
        // An argument without known values has no completions, or is an error.
        let nothing = answer["result"]["completion"]["values"] == json!([]);
        assert!(nothing || answer["error"]["code"] == -32602, "{of} {name}: {answer:#}");
    }
    let written = server.call("file_write", json!({"path": "new.txt", "content": "new\n"}));
    let id = written["_meta"]["handfast/meta"]["checkpoint"].clone();
    let of = json!({"type": "ref/prompt", "name": "review_changes"});
    let completed = server
        .ask("completion/complete", json!({"ref": of, "argument": {"name": "checkpoint", "value": ""}}));
    assert_eq!(completed["completion"]["values"], json!([id]));
    server.end();
}

#[test]
fn what_is_typed_leaves_no_question_behind_where_everything_is_asked_about() {
    let fixture = fixture();
    let mut server = Server::start(&fixture, &["--mode", "ask_always"]);
    let waiting = || fixture.run(&["approvals", "list", "--json"]).json().as_array().map(Vec::len);
    let file = json!({"type": "ref/resource", "uri": "handfast://file/{+path}{?offset,max_bytes}"});
    let checkpoint = json!({"type": "ref/prompt", "name": "review_changes"});
    for (of, name, value) in [(&file, "path", "s"), (&file, "path", "src/"), (&checkpoint, "checkpoint", "")]
    {
        let completed =
            server.ask("completion/complete", json!({"ref": of, "argument": {"name": name, "value": value}}));
        assert_eq!(completed["completion"]["values"], json!([]), "{name} {value}");
    }
    assert_eq!(waiting(), Some(0));
    // The control: a real call becomes a question.
    let listed = server.call("file_list", json!({"path": "src"}));
    assert_eq!(listed["isError"], true, "{listed:#}");
    assert_eq!(waiting(), Some(1));
    server.end();
}

#[test]
fn who_watches_the_checkpoints_is_told_of_a_new_one_and_who_wants_messages_gets_them() {
    let fixture = fixture();
    let mut server = Server::start(&fixture, &FREE);
    server.data("file_write", json!({"path": "a.txt", "content": "a"}));
    assert_eq!(server.notifications, Vec::<Value>::new(), "nobody asked");
    server.ask("resources/subscribe", json!({"uri": "handfast://checkpoints"}));
    server.ask("logging/setLevel", json!({"level": "warning"}));
    server.data("file_write", json!({"path": "b.txt", "content": "b"}));
    server.call("file_read", json!({"path": ".env"}));
    let told = std::mem::take(&mut server.notifications);
    let methods: Vec<&str> = told.iter().map(|told| told["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["notifications/resources/updated", "notifications/message"], "{told:#?}");
    assert_eq!(told[0]["params"], json!({"uri": "handfast://checkpoints"}));
    assert_eq!(
        (&told[1]["params"]["level"], &told[1]["params"]["data"]["code"]),
        (&json!("warning"), &json!("EPERMISSION"))
    );
    server.ask("resources/unsubscribe", json!({"uri": "handfast://checkpoints"}));
    server.data("file_write", json!({"path": "c.txt", "content": "c"}));
    assert_eq!(server.notifications, Vec::<Value>::new());
    assert_eq!(server.code("resources/subscribe", json!({"uri": "handfast://file/a.txt"})), -32602);
    assert_eq!(server.code("resources/subscribe", json!({"uri": 7})), -32602);
    server.end();
}

#[test]
fn text_is_sent_once_and_records_with_their_structure_by_every_tool() {
    let fixture = fixture();
    fixture.write("notes.txt", "one\ntwo\nthree\n");
    let mut server = Server::start(&fixture, &["--mode", "full_auto", "--catalogue", "full"]);
    let listed = server.tools();
    let (mut texts, mut records) = (0, 0);
    for tool in listed.as_array().unwrap() {
        let name = tool["name"].as_str().unwrap();
        let (_, example) = tool["description"].as_str().unwrap().rsplit_once("Example: ").unwrap();
        let result = server.call(name, serde_json::from_str(example).unwrap());
        let structured = result.get("structuredContent").is_some();
        if result["isError"] == true {
            // The subject of the example does not exist, so the error is text and `_meta`.
            assert!(!structured, "{name}: {result:#}");
            continue;
        }
        // A tool that answers with text has no output schema, so clients expect no structured copy.
        assert_eq!(structured, tool.get("outputSchema").is_some(), "{name}: {result:#}");
        if structured {
            records += 1;
        } else {
            texts += 1;
        }
    }
    assert!(texts >= 2 && records >= 4, "{texts} texts, {records} records");
    let text = server.call("file_read", json!({"path": "src/main.rs"}));
    assert!(text.get("structuredContent").is_none());
    assert_eq!(text.to_string().matches("fn main").count(), 1, "{text:#}");
    server.end();
}

#[test]
fn the_revision_without_sessions_has_the_same_by_requests_that_stand_for_themselves() {
    let fixture = fixture();
    let up = Up::start(&fixture, &FREE);
    let ask = |method: &str, name: Option<&str>, params: Value| {
        let method_line = format!("mcp-method: {method}");
        let name_line = name.map(|name| format!("mcp-name: {name}"));
        let mut headers = vec!["mcp-protocol-version: 2026-07-28", &method_line];
        headers.extend(name_line.as_deref());
        post(&up, &headers, &modern_of(method, params))
    };
    let uri = "handfast://file/src/main.rs";
    let read = ask("resources/read", Some(uri), json!({"uri": uri}));
    assert_eq!(read.json()["result"]["contents"][0]["text"], "fn main() {}\n");
    assert_eq!(read.json()["result"]["ttlMs"], 0, "a file may change");
    let other = ask("resources/read", Some("handfast://file/x"), json!({"uri": uri}));
    assert_eq!((other.status, &other.json()["error"]["code"]), (400, &json!(-32020)));
    let denied = ask("resources/read", Some("handfast://file/.env"), json!({"uri": "handfast://file/.env"}));
    assert_eq!(denied.json()["error"]["code"], -32000);
    assert!(!denied.body.contains("the-secret"));
    let absent = ask("resources/read", Some("handfast://file/x"), json!({"uri": "handfast://file/x"}));
    assert_eq!(absent.json()["error"]["code"], -32602, "this revision has no code of its own for it");
    let prompt = ask("prompts/get", Some("what_can_be_done"), json!({"name": "what_can_be_done"}));
    assert_eq!(prompt.json()["result"]["resultType"], "complete");
    for (method, params) in [
        ("logging/setLevel", json!({"level": "debug"})),
        ("resources/subscribe", json!({"uri": "handfast://checkpoints"})),
    ] {
        let gone =
            ask(method, Some("handfast://checkpoints").filter(|_| method != "logging/setLevel"), params);
        assert_eq!((gone.status, &gone.json()["error"]["code"]), (404, &json!(-32601)), "{method}");
    }
}
