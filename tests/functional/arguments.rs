//! Arguments, tested on every tool: values that count as omitted, texts that stand for other
//! values, and bounds, each of which the schema states.

use serde_json::{Map, Value, json};

use crate::harness::Fixture;
use crate::http::Up;
use crate::server::Server;

const DIALECTS: [&str; 6] = ["handfast", "msc", "elophanto", "sluagh", "sage", "csp1"];

/// Fields in which an empty text is a value.
const EMPTY_MEANS_SOMETHING: [(&str, &str); 2] =
    [("linear_action", "description"), ("gmail_send", "subject")];

/// A server of a dialect, and its tools.
struct Tools {
    dialect: &'static str,
    up: Up,
    listed: Vec<Value>,
}

impl Tools {
    fn of(fixture: &Fixture, dialect: &'static str) -> Self {
        let up = Up::start(fixture, &["--dialect", dialect, "--catalogue", "full"]);
        let listed = up.get(&up.user, "/v1/tools").json().as_array().unwrap().clone();
        assert!(!listed.is_empty(), "{dialect}: {listed:#?}");
        Self { dialect, up, listed }
    }

    /// Returns the policy's decision for a call, or the error.
    fn checked(&self, tool: &str, arguments: &Value) -> Value {
        self.up.post(&self.up.agent, "/v1/check", &json!({"tool": tool, "arguments": arguments})).json()
    }
}

fn schema_of(tool: &Value) -> &Value {
    ["input_schema", "inputSchema", "parameters"]
        .iter()
        .map(|key| &tool[*key])
        .find(|schema| schema.is_object())
        .unwrap()
}

/// Returns a value that the schema accepts.
fn some(schema: &Value) -> Value {
    if let Some(choice) = schema["enum"].as_array().and_then(|choices| choices.first()) {
        return choice.clone();
    }
    match schema["type"].as_str() {
        Some("integer" | "number") => schema.get("minimum").cloned().unwrap_or(json!(1)),
        Some("boolean") => json!(false),
        Some("array") => json!([some(&schema["items"])]),
        Some("object") => required(schema),
        _ => json!("x"),
    }
}

/// Returns the smallest object that the schema accepts.
fn required(schema: &Value) -> Value {
    let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let fields = names.map(|name| (name.to_owned(), some(&schema["properties"][name])));
    Value::Object(fields.collect::<Map<_, _>>())
}

/// Returns arguments that the tool accepts.
fn base(tool: &Value) -> Value {
    let example = &tool["example"]["arguments"];
    if example.is_object() { example.clone() } else { required(schema_of(tool)) }
}

/// A field at any depth of an object: its path (a list stands for its first item), its schema, and
/// true if it may be omitted.
struct Field {
    path: Vec<String>,
    schema: Value,
    is_optional: bool,
}

fn fields(schema: &Value, above: &[String]) -> Vec<Field> {
    let mut found = Vec::new();
    for (name, own) in schema["properties"].as_object().into_iter().flatten() {
        let path = [above, std::slice::from_ref(name)].concat();
        let is_optional =
            !schema["required"].as_array().into_iter().flatten().any(|required| required == name);
        let below = if own["type"] == "array" { &own["items"] } else { own };
        found.extend(fields(below, &path));
        found.push(Field { path, schema: own.clone(), is_optional });
    }
    found
}

/// Returns the arguments with this value in the field.
fn with(arguments: &Value, schema: &Value, path: &[String], value: &Value) -> Value {
    let Some((name, below)) = path.split_first() else { return value.clone() };
    let own = &schema["properties"][name];
    let mut changed = if arguments.is_object() { arguments.clone() } else { required(schema) };
    let before = changed.get(name).cloned().unwrap_or(Value::Null);
    changed[name] = if below.is_empty() {
        value.clone()
    } else if own["type"] == "array" {
        json!([with(&before[0], &own["items"], below, value)])
    } else {
        with(&before, own, below, value)
    };
    changed
}

/// Calls `test` for each field, at any depth, of each tool of each dialect.
fn each_field(mut test: impl FnMut(&Tools, &Value, &Field)) {
    for dialect in DIALECTS {
        let fixture = Fixture::new();
        let tools = Tools::of(&fixture, dialect);
        for tool in &tools.listed {
            for field in fields(schema_of(tool), &[]) {
                test(&tools, tool, &field);
            }
        }
    }
}

#[test]
fn null_and_empty_texts_in_optional_fields_are_as_if_left_out_in_every_tool_of_every_dialect() {
    let mut tried = 0;
    each_field(|tools, tool, field| {
        let (name, schema) = (tool["name"].as_str().unwrap(), schema_of(tool));
        let (last, above) = field.path.split_last().unwrap();
        if !field.is_optional {
            return;
        }
        // Both calls contain the object that holds the field.
        let mut holder = with(&base(tool), schema, &field.path, &Value::Null);
        let mut place = &mut holder;
        for part in above {
            place = place.get_mut(part).unwrap();
            if place.is_array() {
                place = &mut place[0];
            }
        }
        let left_out = place.as_object_mut().unwrap().remove(last).is_some();
        assert!(left_out, "{name} {last}");
        let expected = tools.checked(name, &holder);
        for given in [Value::Null, json!("")] {
            let means_something = EMPTY_MEANS_SOMETHING.contains(&(name, last.as_str()));
            if given == "" && means_something {
                continue;
            }
            let arguments = with(&holder, schema, &field.path, &given);
            assert_eq!(tools.checked(name, &arguments), expected, "{name} {arguments}");
            tried += 1;
        }
    });
    assert!(tried > 400, "{tried}");
}

#[test]
fn numbers_booleans_lists_and_objects_as_text_are_taken_in_every_tool_of_every_dialect() {
    let mut tried = 0;
    each_field(|tools, tool, field| {
        let (name, schema) = (tool["name"].as_str().unwrap(), schema_of(tool));
        let kind = field.schema["type"].as_str().unwrap_or_default();
        if !["integer", "number", "boolean", "array", "object"].contains(&kind) {
            return;
        }
        let value = some(&field.schema);
        let spelled = json!(value.to_string());
        let [plain, spelled] = [value, spelled].map(|value| with(&base(tool), schema, &field.path, &value));
        assert_eq!(tools.checked(name, &spelled), tools.checked(name, &plain), "{name} {spelled}");
        // A text that stands for no value is refused, and the error contains the name of the field.
        let nonsense = with(&base(tool), schema, &field.path, &json!("nonsense"));
        let refused = tools.checked(name, &nonsense);
        assert_eq!(refused["error"]["code"], "EVALIDATION", "{name} {nonsense}: {refused:#}");
        tried += 1;
    });
    assert!(tried > 100, "{tried}");
}

#[test]
fn every_bound_on_a_number_or_a_list_stands_in_the_schema() {
    const NUMBERS: [i64; 15] = [
        -1,
        0,
        1,
        21,
        101,
        1_001,
        10_001,
        20_001,
        100_001,
        1_000_001,
        33_554_433,
        1 << 31,
        1 << 32,
        1 << 53,
        i64::MAX,
    ];
    const LENGTHS: [usize; 5] = [0, 1, 21, 101, 1_001];
    let mut beyond = 0;
    each_field(|tools, tool, field| {
        let (name, schema) = (tool["name"].as_str().unwrap(), schema_of(tool));
        let last = field.path.last().unwrap();
        let refused = |value: &Value| {
            let answer = tools.checked(name, &with(&base(tool), schema, &field.path, value));
            let message = answer["error"]["message"].as_str().unwrap_or_default().to_owned();
            (answer["error"]["code"] == "EVALIDATION").then_some(message)
        };
        let by_schema = |message: &str| message.contains(&format!("the arguments of {name} are wrong"));
        let values: Vec<Value> = match field.schema["type"].as_str() {
            Some("integer" | "number") => NUMBERS.map(Value::from).to_vec(),
            // The contract of a dialect has its own lists.
            Some("array") if tools.dialect == "handfast" => {
                LENGTHS.map(|length| json!(vec![some(&field.schema["items"]); length])).to_vec()
            }
            _ => return,
        };
        for value in values {
            if let Some(message) = refused(&value) {
                let by_hand =
                    message.starts_with(&format!("`{last}`")) || message.contains(&format!(".{last}`"));
                let is_about_number =
                    message.contains("between") || message.contains("at most") || message.contains("is 0");
                assert!(
                    by_schema(&message) || !(by_hand && is_about_number),
                    "{name} refuses a value of `{last}` that its schema takes: {message}"
                );
            }
        }
        for (bound, step) in [("minimum", -1.0), ("maximum", 1.0)] {
            let Some(stated) = field.schema[bound].as_f64() else { continue };
            #[expect(clippy::cast_possible_truncation, reason = "bounds of integers are whole numbers")]
            let value = if field.schema["type"] == "integer" {
                json!((stated + step) as i64)
            } else {
                json!(stated + step)
            };
            let message = refused(&value).unwrap_or_else(|| panic!("{name} takes {value} for `{last}`"));
            assert!(by_schema(&message) && message.contains(last.as_str()), "{name} {last}: {message}");
            beyond += 1;
        }
    });
    assert!(beyond > 60, "{beyond}");
}

#[test]
fn the_audit_and_the_approval_have_the_arguments_as_they_were_read() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]).asking();
    let plain = json!({"path": "a.txt", "edits": [{"old_text": "one", "new_text": ""}]});
    let spelled = json!({
        "path": "a.txt", "version": null, "encoding": "", "strategy": "", "dry_run": "false",
        "edits": "[{\"old_text\": \"one\", \"new_text\": \"\", \"replace_all\": null, \"expected_count\": \"\"}]",
    });
    let told_again = json!({"path": "a.txt", "dry_run": false, "edits": [{"old_text": "one", "new_text": "", "replace_all": null}]});
    let asked = fixture.run(&["call", "file_edit", &spelled.to_string()]).json();
    let id = asked["error"]["approval_id"].as_str().unwrap_or_else(|| panic!("{asked:#}"));
    let call = asked["meta"]["call_id"].as_str().unwrap();
    let rows = fixture.run(&["audit", "show", call, "--json"]).json();
    let mut noted = plain.clone();
    noted["dry_run"] = json!(false);
    assert_eq!(rows.as_array().unwrap().last().unwrap()["plan"]["arguments"], noted, "{rows:#}");
    assert_eq!(fixture.run(&["approvals", "approve", id]).code, 0);
    // A call in another spelling is the same call.
    let done = fixture.run(&["call", "file_edit", &told_again.to_string()]).json();
    assert_eq!(done["ok"], true, "{done:#}");
    assert_eq!(fixture.read("a.txt"), "\n", "an empty replacement is one");
}

#[test]
fn what_clients_send_works_over_mcp_and_through_tool_call() {
    let fixture = Fixture::with_files(&[("a.txt", "one two\n"), ("b.txt", "b\n")]);
    let mut server = Server::start(&fixture, &["--mode", "full_auto"]);
    // CrewAI sends null for every omitted field, at every depth.
    let edit = json!({"path": "a.txt", "version": null, "dry_run": null, "edits": [
        {"old_text": "one", "new_text": "1", "replace_all": null, "expected_count": null},
    ]});
    let edited = server.call("file_edit", edit);
    assert_ne!(edited["isError"], true, "{edited:#}");
    let inner = json!({"name": "file_edit", "arguments": json!({
        "path": "a.txt", "edits": [{"old_text": "two", "new_text": "2", "replace_all": "true"}],
    }).to_string()});
    let edited = server.call("tool_call", inner);
    assert_ne!(edited["isError"], true, "{edited:#}");
    assert_eq!(fixture.read("a.txt"), "1 2\n");
    let written = server.call("file_write", json!({"path": "b.txt", "content": "", "encoding": ""}));
    assert_ne!(written["isError"], true, "{written:#}");
    assert_eq!(fixture.read("b.txt"), "", "an empty file is what was asked for");
    let ran = server.data("shell_execute", json!({
        "command": "printf %s ok", "apply": "", "working_directory": "", "timeout": "5", "background": "False",
    }));
    assert_eq!(ran["stdout"], "ok", "{ran:#}");
    // The error names the tool that describes the arguments, and no shell command.
    let wrong = server.call("file_edit", json!({"path": "a.txt", "edits": "no list"}));
    let text = wrong["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("tool_describe") && !text.contains("handfast "), "{text}");
    server.end();
}
