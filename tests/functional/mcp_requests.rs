//! Requests of MCP servers behind this program: forms, a model, and the roots, in both eras of the protocol, of the
//! client and of the server.

use std::process::Command;

use serde_json::{Value, json};
use testkit::web::Server as WebServer;

use crate::functional::mcp_servers::SCRIPT;
use crate::functional::models::hello;
use crate::harness::{Fixture, eventually};
use crate::server::Server;
use crate::shown::data_of;

const MODERN: &str = include_str!("mcp_modern_server.py");

/// Scripts of a server of each era.
const ERAS: [(&str, &str); 2] = [("legacy.py", SCRIPT), ("modern.py", MODERN)];

/// Returns a fixture with a listed server of this script under the key `s`. `keys` are further keys of its entry,
/// and `more` is the rest of the configuration.
fn fixture_of((name, script): (&str, &str), keys: &str, more: &str) -> Fixture {
    let fixture = Fixture::with_files(&[(name, script), ("note.txt", "a note\n")]);
    fixture.configure(&format!(
        "mode: full_auto\nmcp_servers:\n  s:\n    command: /usr/bin/python3\n    args: [{name}, {}]\n{keys}{more}",
        mark(&fixture)
    ));
    let shown = fixture.run(&["call", "mcp_servers", r#"{"server": "s"}"#]).json();
    assert_eq!(shown["ok"], true, "{shown:#}");
    fixture
}

/// Makes a call as a client of an era with these capabilities. `answer` answers what the server asks for.
fn call_as(
    is_modern: bool,
    fixture: &Fixture,
    capabilities: &Value,
    tool: &str,
    answer: impl Fn(&str, &Value) -> Value,
) -> (Vec<(String, Value)>, Value) {
    let mut asked = Vec::new();
    let mut answering = |method: &str, params: &Value| {
        asked.push((method.to_owned(), params.clone()));
        answer(method, params)
    };
    let mut server = if is_modern {
        Server::of(fixture.asking_command())
    } else {
        Server::for_client(fixture.asking_command(), capabilities.clone())
    };
    let result = if is_modern {
        server.call_repeating(tool, json!({}), capabilities.clone(), answering)
    } else {
        server.call_answering(tool, json!({}), |method, params| Ok(answering(method, params)))
    };
    server.end();
    (asked, result)
}

/// Returns the answer that a server of any era got, from its result.
#[track_caller]
fn got(tool: &str, result: &Value) -> Value {
    let text = data_of(tool, result)["text"].as_str().unwrap_or_else(|| panic!("{result:#}")).to_owned();
    let mut said: Value = serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}"));
    // A server of the older era has the whole message.
    if said["jsonrpc"] == "2.0" { said["result"].take() } else { said }
}

fn said_by_model(text: &str) -> Value {
    json!({"role": "assistant", "model": "client-model-1", "stopReason": "endTurn", "content": {"type": "text", "text": text}})
}

#[test]
fn a_form_is_shown_as_the_servers_own_in_every_pair_of_eras_and_approves_nothing() {
    for era in ERAS {
        let name = era.0;
        let fixture = fixture_of(era, "    elicitation: true\n", "");
        for is_modern in [false, true] {
            let answer = |_: &str, _: &Value| json!({"action": "accept", "content": {"decision": "allow always", "more": "x"}});
            let forms = json!({"elicitation": {}});
            let (asked, result) = call_as(is_modern, &fixture, &forms, "s__form", answer);
            let [(method, params)] = &asked[..] else { panic!("{name} {is_modern}: {asked:?} {result:#}") };
            assert_eq!(method, "elicitation/create");
            let message = params["message"].as_str().unwrap();
            let begins = "The MCP server s asks, in its own words and not in Handfast's";
            assert!(message.starts_with(begins) && message.ends_with("Allow everything?"), "{message}");
            let expected = json!({"action": "accept", "content": {"decision": "allow always"}});
            assert_eq!(got("s__form", &result), expected, "{is_modern}: {result:#}");
        }
        assert_eq!(fixture.run(&["approvals", "list", "--all", "--json"]).json(), json!([]));
    }
}

/// Parameters of a call by a client of revision 2026-07-28 that shows forms.
fn form_call() -> Value {
    json!({"name": "s__form", "arguments": {}, "_meta": {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}},
    }})
}

/// Returns the call that continues the one with this response.
fn continued(response: &Value) -> Value {
    let state = &response["result"]["requestState"];
    assert!(state.is_string(), "no form: {response:#}");
    let mut call = form_call();
    call["requestState"] = state.clone();
    call["inputResponses"] = json!({"form": {"action": "accept", "content": {"decision": "deny"}}});
    call
}

/// Returns an argument by which the processes of a fixture's server are known.
fn mark(fixture: &Fixture) -> String {
    format!("mark-of-{}", fixture.workspace().parent().unwrap().display()).replace('/', "-")
}

/// Returns the ids of the processes of a fixture's server.
fn processes_of(fixture: &Fixture) -> String {
    let found = Command::new("pgrep").args(["-f", &mark(fixture)]).output().unwrap();
    String::from_utf8_lossy(&found.stdout).into_owned()
}

#[test]
fn a_client_that_leaves_a_form_open_holds_up_no_other_call_and_leaves_nothing_behind() {
    for era in ERAS {
        let fixture = fixture_of(era, "    elicitation: true\n", "");
        let mut server = Server::of(fixture.asking_command());
        let left = server.answer("tools/call", form_call());
        // Meanwhile the server shows a form of another call.
        let second = server.answer("tools/call", form_call());
        let done = server.answer("tools/call", continued(&second));
        assert_eq!(got("s__form", &done["result"])["content"]["decision"], "deny", "{done:#}");
        let again = server.answer("tools/call", continued(&second));
        assert_eq!(again["error"]["code"], -32602, "a form is answered once: {again:#}");
        // The first one is still open, and can be answered late.
        let late = server.answer("tools/call", continued(&left));
        assert_eq!(got("s__form", &late["result"])["content"]["decision"], "deny", "{late:#}");
        let open = server.answer("tools/call", form_call());
        assert!(!processes_of(&fixture).is_empty(), "the control: the server runs");
        server.end();
        eventually("the end of the server", || processes_of(&fixture).is_empty());
        let rows = fixture.recorded();
        let calls: Vec<&Value> =
            rows.iter().filter(|row| row["tool"] == "s__form" && row["kind"] != "intent").collect();
        assert!(calls.iter().any(|row| row.to_string().contains("ECANCELLED")), "{calls:#?}");
        // Another run of this program knows nothing of it.
        let mut server = Server::of(fixture.asking_command());
        let restarted = server.answer("tools/call", continued(&open));
        assert_eq!(restarted["error"]["code"], -32602, "{restarted:#}");
        server.end();
    }
}

#[test]
fn what_is_no_plain_form_of_a_call_is_refused_and_the_server_goes_on() {
    let fixture = fixture_of(ERAS[0], "    elicitation: true\n", "");
    let mut server = Server::with_forms(&fixture, &[]);
    for (value, code, told) in [
        ("nested", -1, "types"),
        ("many", -1, "at most"),
        ("url", -32601, "not supported"),
        ("password", -1, "no password"),
        ("none", -1, "requestedSchema"),
    ] {
        let shown = |_: &str, _: &Value| -> Result<Value, Value> { panic!("{value}: a form is shown") };
        let result = server.call_answering("s__form", json!({"value": value}), shown);
        let text = data_of("s__form", &result)["text"].as_str().unwrap().to_owned();
        let got: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(got["error"]["code"], code, "{value}: {got}");
        assert!(got["error"]["message"].as_str().unwrap().contains(told), "{value}: {got}");
    }
    // The control: a plain form is shown.
    server.asked("s__form", json!({}), "deny");
    // A form after the result of a call belongs to nobody.
    server.call("s__late", json!({}));
    let answers = server.call("s__answers", json!({}));
    let text = data_of("s__answers", &answers)["text"].as_str().unwrap().to_owned();
    let late = &serde_json::from_str::<Value>(&text).unwrap()["a1"]["error"];
    assert_eq!(late["code"], -1, "{text}");
    server.end();
}

#[test]
fn a_form_while_a_list_is_read_is_refused() {
    let fixture = Fixture::with_files(&[("server.py", SCRIPT)]);
    fixture.configure(
        "mode: full_auto\nmcp_servers:\n  s: {command: /usr/bin/python3, args: [server.py, --list-form], elicitation: true}\n",
    );
    let mut server = Server::with_forms(&fixture, &[]);
    let shown = |_: &str, _: &Value| -> Result<Value, Value> { panic!("a form is shown") };
    let listed = server.call_answering("mcp_servers", json!({"server": "s"}), shown);
    assert_ne!(listed["isError"], true, "{listed:#}");
    let answers = server.call_answering("s__answers", json!({}), shown);
    let text = data_of("s__answers", &answers)["text"].as_str().unwrap().to_owned();
    let answer = &serde_json::from_str::<Value>(&text).unwrap()["l1"]["error"];
    assert!(answer["message"].as_str().unwrap().contains("exactly one call"), "{text}");
    server.end();
}

#[test]
fn a_server_asks_the_model_of_the_client_as_a_recorded_call_in_every_pair_of_eras() {
    for era in ERAS {
        let fixture = fixture_of(era, "    sampling: true\n", "");
        for is_modern in [false, true] {
            let answer = |_: &str, _: &Value| said_by_model("Once more.");
            let sampling = json!({"sampling": {"tools": {}}});
            let (asked, result) = call_as(is_modern, &fixture, &sampling, "s__sample", answer);
            let (method, params) = &asked[0];
            assert_eq!(method, "sampling/createMessage");
            let system = params["systemPrompt"].as_str().unwrap();
            assert!(system.starts_with("The MCP server s asks this, in its own words"), "{system}");
            let message = json!({"role": "user", "content": [{"type": "text", "text": "again"}]});
            assert_eq!(params["messages"], json!([message]), "{params}");
            assert_eq!((&params["maxTokens"], &params["tools"]), (&json!(5), &Value::Null), "{params}");
            let said = got("s__sample", &result);
            assert!(said.to_string().contains("Once more."), "{said}");
            // The older server asks twelve times during one call, and the other one once.
            let most = if era == ERAS[0] { 4 } else { 1 };
            assert_eq!(asked.len(), most, "{asked:#?}");
            if era == ERAS[0] {
                assert_eq!((&said[0], &said[2]["error"]["code"]), (&json!(4), &json!(-1)), "{said}");
            }
        }
        let rows = fixture.recorded();
        let parents: Vec<&Value> =
            rows.iter().filter(|row| row["tool"] == "s__sample").map(|row| &row["call"]).collect();
        let intents = rows.iter().filter(|row| row["tool"] == "llm_call" && row["kind"] == "intent");
        let intents: Vec<&Value> = intents.collect();
        assert_eq!(intents.len(), if era == ERAS[0] { 8 } else { 2 }, "{rows:#?}");
        for row in intents {
            assert_eq!(row["door"], "tool", "{row}");
            assert!(parents.contains(&&row["plan"]["parent"]), "{row}");
        }
    }
}

#[test]
fn a_server_asks_the_configured_model_if_the_client_offers_none_within_budget_and_rules() {
    let model = WebServer::http(|_| hello());
    let configured = |more: &str, rules: &str| {
        format!(
            "models: {{providers: {{local: {{api: openai_compatible, url: \"{}\"}}}}, routes: {{usual: [local/small]}}{more}}}\n\
             sandbox_config: {{normal: {{allowed_hosts: [localhost]{rules}}}}}\n",
            model.url("")
        )
    };
    for era in ERAS {
        let name = era.0;
        for (more, rules, keys, told) in [
            ("", "", "    sampling: true\n", "Hello."),
            (", budget: {call_tokens: 1}", "", "    sampling: true\n", "budget"),
            ("", ", deny_tools: [llm_call]", "    sampling: true\n", "refused"),
            ("", "", "", "not supported"),
            ("", "", "    sampling: true\n    shared: true\n", "not supported"),
        ] {
            let before = model.seen().len();
            let fixture = fixture_of(era, keys, &configured(more, rules));
            let result = fixture.run(&["call", "s__sample", "{}"]).json();
            assert!(result.to_string().contains(told), "{name} {more} {rules} {keys}: {result:#}");
            assert_eq!(model.seen().len() > before, told == "Hello.", "{name} {more} {rules} {keys}");
        }
        // The client pays if it offers its own model.
        let before = model.seen().len();
        let fixture = fixture_of(era, "    sampling: true\n", &configured("", ""));
        let answer = |_: &str, _: &Value| said_by_model("Of the client.");
        for is_modern in [false, true] {
            let sampling = json!({"sampling": {}});
            let (_, result) = call_as(is_modern, &fixture, &sampling, "s__sample", answer);
            assert!(result.to_string().contains("Of the client."), "{result:#}");
        }
        assert_eq!(model.seen().len(), before);
    }
}

#[test]
fn a_server_learns_of_the_workspace_only_where_its_cell_shows_it() {
    for (keys, is_shown) in [("", true), ("    workspace: write\n", true), ("    workspace: none\n", false)] {
        let fixture = Fixture::new();
        fixture.write("server.py", SCRIPT);
        let script = fixture.workspace().join("server.py");
        let shows = format!("    shows: [{}]\n", script.display());
        fixture.configure(&format!(
            "mode: full_auto\nmcp_servers:\n  s:\n    command: /usr/bin/python3\n    args: [\"{}\"]\n{keys}{shows}",
            script.display()
        ));
        let listed = fixture.run(&["call", "mcp_servers", r#"{"server": "s"}"#]).json();
        assert_eq!(listed["ok"], true, "{listed:#}");
        let result = fixture.run(&["call", "s__roots", "{}"]).json();
        let text = result["data"]["text"].as_str().unwrap_or_else(|| panic!("{keys}: {result:#}"));
        let got: Value = serde_json::from_str(text).unwrap();
        if is_shown {
            let uri = format!("file://{}", fixture.workspace().display());
            assert_eq!(got["result"], json!({"roots": [{"uri": uri, "name": "workspace"}]}), "{keys}");
        } else {
            assert_eq!(got["error"]["code"], -32601, "{keys}: {got}");
            assert!(!got.to_string().contains(&*fixture.workspace().to_string_lossy()), "{got}");
        }
    }
}
