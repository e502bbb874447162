//! The dialects: each schema and each response compared with the contract of the dialect, and the
//! properties that all dialects share.

mod csp1;
mod elophanto;
mod msc;
mod sage;
mod secret_provider;
mod sluagh;

use std::collections::BTreeMap;

use crate::fakes::gmail::Gmail;
use crate::fakes::linear::Linear;
use serde_json::{Value, json};
use testkit::web::Reply;

use crate::functional::gmail::logged_in;
use crate::functional::linear::with_key;
use crate::functional::models::{configure, hello};
use crate::functional::{self_development, self_plugins};
use crate::harness::{Fixture, Run};
use crate::http::Up;
use crate::server::Server;

/// A contract of one tool: its level and its rows, in order.
struct Contract {
    tool: &'static str,
    level: &'static str,
    rows: Vec<&'static str>,
}

fn contracts(text: &'static str) -> Vec<Contract> {
    let mut contracts: Vec<Contract> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with("takes ") || line.starts_with("gives ") {
            contracts.last_mut().unwrap().rows.push(line);
        } else {
            let (tool, level) = line.split_once(' ').unwrap();
            contracts.push(Contract { tool, level, rows: Vec::new() });
        }
    }
    assert!(contracts.iter().all(|contract| contract.rows.len() > 1));
    contracts
}

/// Collects the rows of a schema in the notation of a contract. `number` in the contract accepts an
/// integer, as JSON does.
fn rows(sign: &str, schema: &Value, prefix: &str, found: &mut Vec<String>) {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().map(|name| name.as_str().unwrap()).collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let mark = if required.contains(&name.as_str()) { "" } else { "?" };
        // A schema without a type accepts any value.
        let kind = property["type"].as_str().unwrap_or("any");
        let kind = match (
            kind,
            &property["enum"],
            &property["items"]["type"],
            &property["additionalProperties"]["type"],
        ) {
            (_, Value::Array(names), ..) => {
                names.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>().join("|")
            }
            (kind, _, Value::String(of), _) if of != "object" => format!("{kind} of {of}"),
            (kind, _, _, Value::String(of)) => format!("{kind} of {of}"),
            (kind, ..) => kind.to_owned(),
        };
        let default = match &property["default"] {
            Value::Null => String::new(),
            default => format!(" = {default}"),
        };
        found.push(format!("{sign} {prefix}{name}{mark} {kind}{default}"));
        rows(sign, property, &format!("{prefix}{name}."), found);
        rows(sign, &property["items"], &format!("{prefix}{name}[]."), found);
    }
}

fn fits(row: &str, contract: &str) -> bool {
    row == contract || contract.ends_with(" number") && row == contract.replace(" number", " integer")
}

/// Compares with the contract the tools that the program lists in a dialect, and the response of
/// every tool to its worked example.
fn hold_to_the_contract(dialect: &str, text: &'static str) {
    let contracts = contracts(text);
    let tools = Fixture::new().run(&["tools", "--dialect", dialect, "--json"]).json();
    let tools = tools.as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, contracts.iter().map(|contract| contract.tool).collect::<Vec<_>>());
    for (tool, contract) in tools.iter().zip(&contracts) {
        let name = contract.tool;
        assert_eq!(tool["level"], contract.level, "{name}");
        assert_eq!(tool["input_schema"]["additionalProperties"], false, "{name}");
        let mut found = Vec::new();
        rows("takes", &tool["input_schema"], "", &mut found);
        rows("gives", &tool["output_schema"], "", &mut found);
        let all = found.len() == contract.rows.len();
        assert!(all && found.iter().zip(&contract.rows).all(|(row, of)| fits(row, of)), "{name}: {found:#?}");

        let (linear, gmail) = (Linear::new(), Gmail::new());
        let fixture = match name {
            "linear_action" => with_key(&linear, ""),
            name if name.starts_with("gmail_") => logged_in(&gmail, ""),
            name if name.starts_with("self_") => self_development::example(),
            _ => Fixture::new().with_vault(),
        };
        for (path, content) in tool["example"]["files"].as_object().unwrap() {
            fixture.write(path, content.as_str().unwrap());
        }
        // A local server has the web resources that an example requests.
        let web = testkit::web::Server::http(|request| match request.path.as_str() {
            "/issues/1" => Reply::json(r#"{"id": 1}"#),
            "/chat/completions" => hello(),
            _ => Reply::status(404),
        });
        let author = testkit::web::Server::http(self_plugins::author);
        if name == "self_create_plugin" {
            configure(&fixture, &author, "");
        }
        if name == "llm_call" {
            configure(&fixture, &web, "");
        }
        // Agents need a program that outlives the call: `agents.rs`.
        if ["create_agent", "ask_agent", "model_switch"].contains(&name) {
            continue;
        }
        let arguments =
            tool["example"]["arguments"].to_string().replace("https://api.example.com", &web.url(""));
        // A download needs a server in the network of the session.
        if name == "browser_download" {
            continue;
        }
        let answer = if name == "browser" {
            let up = Up::start(&fixture, &["--dialect", dialect, "--mode", "full_auto"]);
            up.call(name, serde_json::from_str(&arguments).unwrap())
        } else if name.starts_with("browser_") {
            in_a_browser(&fixture, dialect, name, &arguments)
        } else {
            fixture.run(&["--dialect", dialect, "call", "--yes", name, &arguments]).json()
        };
        assert_eq!(answer["ok"], true, "{name}: {answer:#}");
        has(&answer["data"], &tool["example"]["result"]);
        is_of(&answer["data"], &tool["output_schema"], name);
    }
}

/// Makes a call in a session whose browser has an empty page in tab 1.
fn in_a_browser(fixture: &Fixture, dialect: &str, tool: &str, arguments: &str) -> Value {
    fixture.configure("sandbox_config: {normal: {allowed_hosts: [example.com]}}");
    let up = Up::start(fixture, &["--dialect", dialect, "--mode", "full_auto"]);
    up.call("browser_navigate", json!({"url": "about:blank"}));
    up.call(tool, serde_json::from_str(arguments).unwrap())
}

/// Asserts that a value has exactly the fields of its schema, each with the right type.
fn is_of(value: &Value, schema: &Value, at: &str) {
    // A schema without a type accepts any value.
    let Some(kind) = schema["type"].as_str() else { return };
    let right = match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        _ => value.is_object(),
    };
    assert!(right, "{at}: {value} is not of {schema}");
    let properties = schema["properties"].as_object();
    for (name, value) in value.as_object().into_iter().flatten() {
        // The columns of database rows are not known in advance.
        let any = schema.get("additionalProperties").filter(|of| of.is_object());
        let known = properties.and_then(|properties| properties.get(name)).or(any);
        if known.is_none() && properties.is_none() {
            continue;
        }
        is_of(
            value,
            known.unwrap_or_else(|| panic!("{at}.{name} is in no contract")),
            &format!("{at}.{name}"),
        );
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing in {value}");
    }
    for item in value.as_array().into_iter().flatten() {
        is_of(item, &schema["items"], &format!("{at}[]"));
    }
}

/// Asserts that `whole` contains `part`.
fn has(whole: &Value, part: &Value) {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            part.iter().for_each(|(name, part)| has(&whole[name], part));
        }
        (Value::Array(whole), Value::Array(part)) if whole.len() == part.len() => {
            whole.iter().zip(part).for_each(|(whole, part)| has(whole, part));
        }
        _ => assert_eq!(whole, part),
    }
}

fn call(fixture: &Fixture, dialect: &str, tool: &str, arguments: &Value) -> Run {
    fixture.run(&["--dialect", dialect, "call", "--yes", tool, &arguments.to_string()])
}

/// Makes calls that must be refused before anything happens. Each case has a tool, arguments, and a
/// word of the message.
fn refuses(dialect: &str, cases: &[(&str, Value, &str)]) {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    for (tool, arguments, named) in cases {
        let run = call(&fixture, dialect, tool, arguments);
        let answer = run.json();
        assert_eq!((answer["ok"].clone(), run.code), (json!(false), 2), "{tool} {arguments}: {answer:#}");
        assert_eq!(answer["error"]["code"], "EVALIDATION", "{tool} {arguments}: {answer:#}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.contains(named), "{tool} {arguments}: {message}");
    }
    assert_eq!(fixture.read("a.txt"), "one\n");
}

fn decision(fixture: &Fixture, options: &[&str], tool: &str, arguments: Value) -> String {
    let arguments = arguments.to_string();
    let checked = fixture.run(&[options, &["check", tool, &arguments]].concat()).json();
    checked["decision"].as_str().unwrap_or_else(|| panic!("{checked:#}")).to_owned()
}

/// Calls of each dialect: one that writes, and one that runs a command.
const CALLS: [(&str, &str, &str); 8] = [
    ("elophanto", "file_write", r#"{"path": "a.txt", "content": "x"}"#),
    ("elophanto", "shell_execute", r#"{"command": "touch a.txt"}"#),
    ("sluagh", "run_command", r#"{"command": "touch", "args": ["a.txt"]}"#),
    ("msc", "write_file", r#"{"path": "a.txt", "content": "x"}"#),
    ("msc", "execute", r#"{"command": "touch a.txt"}"#),
    ("sage", "Write", r#"{"file": "a.txt", "content": "x"}"#),
    ("sage", "Bash", r#"{"command": "touch a.txt"}"#),
    ("csp1", "exec", r#"{"COMMAND": "touch a.txt"}"#),
];

#[test]
fn a_shortened_text_names_no_tool_that_the_dialect_does_not_have() {
    let line = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
    let fixture = Fixture::new();
    let canonical = fixture.data("shell_execute", json!({"command": line}));
    let shown = canonical["stdout"].as_str().unwrap();
    assert!(
        shown.contains(" left out; output_read {\"output_ref\":\"")
            && shown.contains(" has the whole ...]\n")
    );
    for (dialect, tool, arguments) in [
        ("elophanto", "shell_execute", json!({"command": line})),
        ("sluagh", "run_command", json!({"command": "sh", "args": ["-c", line]})),
        ("msc", "execute", json!({"command": line})),
        ("sage", "Bash", json!({"command": line})),
    ] {
        let answer = call(&fixture, dialect, tool, &arguments).json();
        let shown = answer["data"]["stdout"].as_str().unwrap_or_else(|| panic!("{dialect}: {answer:#}"));
        assert!(shown.starts_with("line 0\n") && shown.ends_with("line 19999\n"), "{dialect}");
        assert!(shown.contains(" left out ...]\n"), "{dialect}: {shown}");
        assert!(!answer.to_string().contains("output_read"), "{dialect}: {shown}");
    }
}

#[test]
fn rules_for_canonical_tools_hold_in_every_dialect_and_the_audit_names_both() {
    let fixture = Fixture::new();
    for (dialect, tool, arguments) in CALLS {
        let run = fixture.run(&["--dialect", dialect, "--mode", "full_auto", "call", tool, arguments]);
        assert_eq!(run.code, 0, "{dialect} {tool}: {}", run.stdout);
        assert!(fixture.workspace().join("a.txt").exists(), "{dialect} {tool}");
        std::fs::remove_file(fixture.workspace().join("a.txt")).unwrap();
    }
    fixture
        .write("handfast.yaml", "sandbox_config:\n  normal:\n    deny_tools: [file_write, shell_execute]\n");
    for (dialect, tool, arguments) in CALLS {
        let run = fixture.run(&["--dialect", dialect, "--mode", "full_auto", "call", tool, arguments]);
        assert_eq!(run.code, 3, "{dialect} {tool}: {}", run.stdout);
        assert_eq!(run.json()["error"]["code"], "EPERMISSION");
        assert!(!fixture.workspace().join("a.txt").exists(), "{dialect} {tool}");
    }
    // A call that the schema refuses is also recorded under the canonical tool.
    assert_eq!(fixture.run(&["--dialect", "sage", "call", "Bash", "{}"]).code, 2);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for row in fixture.recorded() {
        if row["kind"] != "intent" {
            *seen
                .entry(format!("{} {}", row["dialect"].as_str().unwrap(), row["tool"].as_str().unwrap()))
                .or_default() += 1;
        }
    }
    let expected = [
        ("csp1 shell_execute", 2),
        ("elophanto file_write", 2),
        ("elophanto shell_execute", 2),
        ("msc file_write", 2),
        ("msc shell_execute", 2),
        ("sage file_write", 2),
        ("sage shell_execute", 3),
        ("sluagh shell_execute", 2),
    ];
    assert_eq!(seen, expected.map(|(row, count)| (row.to_owned(), count)).into());
}

#[test]
fn a_dialect_is_chosen_by_option_and_configuration_and_an_unknown_one_is_refused() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("config.yaml"), "dialect: sage\n").unwrap();
    assert_eq!(
        fixture.run(&["call", "Read", r#"{"file": "a.txt"}"#]).json()["data"],
        json!({"content": "one\n"})
    );
    assert!(fixture.run(&["tools"]).stdout.contains("Bash"));
    assert_eq!(fixture.run(&["--dialect", "handfast", "call", "file_read", r#"{"path": "a.txt"}"#]).code, 0);
    assert_eq!(fixture.run(&["call", "file_read", r#"{"path": "a.txt"}"#]).code, 2);
    let unknown = fixture.run(&["--dialect", "klingon", "tools"]);
    assert!(
        unknown.code == 2 && unknown.stderr.contains("handfast, elophanto, sluagh, msc, sage, csp1"),
        "{}",
        unknown.stderr
    );

    let untrusted = Fixture::with_files(&[("handfast.yaml", "dialect: sage\n")]);
    let run = untrusted.run(&["tools"]);
    assert!(
        run.stdout.contains("shell_execute") && run.stderr.contains("`dialect` is ignored"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_client_is_shown_exactly_the_tools_of_a_dialect_with_their_whole_schemas() {
    for dialect in ["elophanto", "sluagh", "msc", "sage", "csp1"] {
        let fixture = Fixture::new();
        let described = fixture.run(&["tools", "--dialect", dialect, "--json"]).json();
        let mut server = Server::start(&fixture, &["--dialect", dialect]);
        let listed = server.tools();
        for (listed, tool) in listed.as_array().unwrap().iter().zip(described.as_array().unwrap()) {
            assert_eq!(listed["name"], tool["name"]);
            assert_eq!(listed["inputSchema"], tool["input_schema"]);
            if dialect != "sage" {
                assert_eq!(listed["outputSchema"], tool["output_schema"]);
            }
        }
        assert_eq!(listed.as_array().unwrap().len(), described.as_array().unwrap().len());
        server.end();
        // In the compact catalogue, the tools are described under the dialect's own names.
        let mut server = Server::start(&fixture, &["--dialect", dialect, "--catalogue", "compact"]);
        let first = described[0]["name"].as_str().unwrap();
        let found = server.call("tool_describe", json!({"names": [first]}));
        let text = found["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(&described[0]["input_schema"].to_string()), "{text}");
        server.end();
    }
}
