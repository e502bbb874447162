use serde_json::{Value, json};

use crate::{Edit, EditError, Format, Key};

fn set(path: &[&str], value: Value) -> Edit {
    Edit::Set { path: Key::fields(path), value }
}

fn remove(path: &[&str]) -> Edit {
    Edit::Remove { path: Key::fields(path) }
}

fn add(path: &[&str], texts: &[&str]) -> Edit {
    Edit::Add { path: Key::fields(path), texts: texts.iter().map(|text| (*text).to_owned()).collect() }
}

fn take_out(path: &[&str], texts: &[&str]) -> Edit {
    Edit::TakeOut { path: Key::fields(path), texts: texts.iter().map(|text| (*text).to_owned()).collect() }
}

fn server() -> Value {
    json!({"command": "/usr/bin/handfast", "args": ["mcp", "--workspace", "/home/a b"]})
}

fn edited(format: Format, text: &str, edits: &[Edit]) -> String {
    format.edit(text, edits).unwrap()
}

#[test]
fn json_keeps_comments_order_and_spacing() {
    let text = "// mine\n{\n  \"theme\": \"dark\", // at night\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\", },\n  },\n}\n";
    let new = edited(Format::Json, text, &[set(&["mcpServers", "handfast"], server())]);
    for line in text.lines() {
        assert!(new.contains(line.trim_end_matches(',')), "{line} is gone:\n{new}");
    }
    assert_eq!(Format::Json.read(&new).unwrap()["mcpServers"]["handfast"], server());
    let back = edited(Format::Json, &new, &[remove(&["mcpServers", "handfast"])]);
    assert_eq!(Format::Json.read(&back).unwrap(), Format::Json.read(text).unwrap());
    assert!(back.contains("// mine") && back.contains("// at night"), "{back}");
}

#[test]
fn an_empty_or_missing_text_becomes_a_file_with_the_entry() {
    for format in [Format::Json, Format::Toml, Format::Yaml] {
        for text in ["", "\n", if format == Format::Json { "{}" } else { "# nothing yet\n" }] {
            let new = edited(format, text, &[set(&["servers", "handfast"], server())]);
            assert_eq!(format.read(&new).unwrap(), json!({"servers": {"handfast": server()}}), "{new}");
        }
    }
}

#[test]
fn toml_keeps_comments_and_other_tables() {
    let text = "# mine\nmodel = \"o3\" # best\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[profiles.a]\nmodel = \"y\"\n";
    let edits = [
        set(&["mcp_servers", "handfast"], server()),
        set(&["features", "shell_tool"], json!(false)),
        set(&["sandbox_mode"], json!("read-only")),
    ];
    let new = edited(Format::Toml, text, &edits);
    assert!(new.contains("[mcp_servers.handfast]\n"), "{new}");
    for line in text.lines() {
        assert!(new.contains(line), "{line} is gone:\n{new}");
    }
    let undo = [
        remove(&["mcp_servers", "handfast"]),
        remove(&["features", "shell_tool"]),
        remove(&["sandbox_mode"]),
    ];
    assert_eq!(edited(Format::Toml, &new, &undo), text);
}

#[test]
fn yaml_keeps_comments_and_other_entries() {
    let text = "# mine\nextensions:\n  developer:\n    enabled: true # always\n    name: developer\n\n  # later\n  other: {enabled: false}\nGOOSE_MODEL: x\n";
    let edits = [
        set(
            &["extensions", "handfast"],
            json!({"type": "stdio", "cmd": "/usr/bin/handfast", "args": ["mcp"], "envs": {}, "enabled": true, "timeout": 300}),
        ),
        set(&["extensions", "developer", "enabled"], json!(false)),
    ];
    let failed = Format::Yaml.edit(text, &edits);
    assert!(
        matches!(failed, Err(EditError::NotKept)),
        "the comment behind the value would be lost: {failed:?}"
    );
    let new = edited(Format::Yaml, text, &edits[..1]);
    for line in text.lines() {
        assert!(new.contains(line), "{line} is gone:\n{new}");
    }
    assert_eq!(edited(Format::Yaml, &new, &[remove(&["extensions", "handfast"])]), text);
}

#[test]
fn yaml_lists_of_named_maps_are_edited_by_name() {
    let entry = |name: &str| vec![Key::Field("mcpServers".to_owned()), Key::Named(name.to_owned())];
    let mut value = server();
    value["name"] = json!("handfast");
    for text in [
        "name: Mine\nmcpServers:\n  - name: other\n    command: x\n    args:\n      - a\n  - command: y\n    name: third\nversion: 1.0.0\n",
        "name: Mine\nmcpServers:\n- name: other\n  command: x\nversion: 1.0.0\n",
        "name: Mine\nversion: 1.0.0\n",
        "name: Mine\nmcpServers: []\nversion: 1.0.0\n",
    ] {
        let set = Edit::Set { path: entry("handfast"), value: value.clone() };
        let new = edited(Format::Yaml, text, std::slice::from_ref(&set));
        let servers = Format::Yaml.read(&new).unwrap()["mcpServers"].clone();
        assert!(servers.as_array().unwrap().contains(&value), "{new}");
        let again = edited(Format::Yaml, &new, &[set]);
        assert_eq!(again, new, "a second time changes nothing");
        let back = edited(Format::Yaml, &new, &[Edit::Remove { path: entry("handfast") }]);
        let mut expected = Format::Yaml.read(text).unwrap();
        if expected["mcpServers"] == json!([]) {
            expected.as_object_mut().unwrap().shift_remove("mcpServers");
        }
        assert_eq!(Format::Yaml.read(&back).unwrap(), expected, "{back}");
    }
}

#[test]
fn lists_get_each_text_once_and_lose_only_those_named() {
    for (format, text) in [
        (Format::Json, "{\"permissions\": {\"deny\": [\"Read(.env)\", \"Bash\"]}}"),
        (Format::Toml, "[permissions]\ndeny = [\"Read(.env)\", \"Bash\"]\n"),
        (Format::Yaml, "permissions:\n  deny:\n    - Read(.env)\n    - Bash\n"),
    ] {
        let path = ["permissions", "deny"];
        let new = edited(format, text, &[add(&path, &["Bash", "Edit"])]);
        assert_eq!(format.read(&new).unwrap()["permissions"]["deny"], json!(["Read(.env)", "Bash", "Edit"]));
        let back = edited(format, &new, &[take_out(&path, &["Edit"])]);
        assert_eq!(format.read(&back).unwrap(), format.read(text).unwrap());
        let none = edited(format, &back, &[take_out(&path, &["Read(.env)", "Bash"])]);
        assert_eq!(format.read(&none).unwrap(), json!({}), "{none}");
    }
}

#[test]
fn what_is_broken_or_of_another_kind_is_left_alone() {
    for (format, text) in
        [(Format::Json, "{\"a\": "), (Format::Toml, "a = "), (Format::Yaml, "a: [1\nb: 2\n")]
    {
        let failed = format.edit(text, &[set(&["b"], json!(1))]).unwrap_err();
        assert!(matches!(failed, EditError::Unreadable { .. }), "{failed:?}");
    }
    for (format, text) in [
        (Format::Json, "{\"mcpServers\": \"none\"}"),
        (Format::Toml, "mcpServers = \"none\"\n"),
        (Format::Yaml, "mcpServers: none\n"),
    ] {
        let failed = format.edit(text, &[set(&["mcpServers", "handfast"], json!({}))]).unwrap_err();
        assert_eq!(failed.to_string(), "`mcpServers` in it is not a map");
        let failed = format.edit(text, &[add(&["mcpServers"], &["a"])]).unwrap_err();
        assert_eq!(failed.to_string(), "`mcpServers` in it is not a list");
    }
    let twice = "{\"mcpServers\": {\"a\": 1}, \"mcpServers\": {\"b\": 2}}";
    let failed = Format::Json.edit(twice, &[set(&["mcpServers", "handfast"], json!({}))]);
    assert!(failed.is_err(), "a doubled key has no one meaning: {failed:?}");
}

#[test]
fn a_byte_order_mark_and_line_ends_stay() {
    let text = "\u{feff}{\r\n  \"a\": 1\r\n}\r\n";
    let new = edited(Format::Json, text, &[set(&["b"], json!(2))]);
    assert!(new.starts_with("\u{feff}{\r\n") && !new.replace("\r\n", "").contains('\n'), "{new:?}");
    let new = edited(Format::Yaml, "a: 1\r\n", &[set(&["b"], json!(2))]);
    assert_eq!(new, "a: 1\r\nb: 2\r\n");
}

#[test]
fn yaml_texts_that_could_mean_something_else_are_quoted() {
    for text in [
        "yes",
        "NO",
        "1.5",
        "- x",
        "a: b",
        "#",
        "",
        " x",
        "x ",
        "~",
        "@a",
        "é\n\u{7}",
        "null",
        "0x1",
        "2026-01-01",
    ] {
        let new = edited(Format::Yaml, "", &[set(&["key"], json!({"inner": [text, {"deep": text}]}))]);
        assert_eq!(
            Format::Yaml.read(&new).unwrap(),
            json!({"key": {"inner": [text, {"deep": text}]}}),
            "{new}"
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

    /// Any text either is refused or keeps every value that the edit does not name.
    #[test]
    fn an_edit_keeps_everything_else_or_is_refused(
        text in "([a-c]:( [a-z1-3]{1,3})?\n|  [a-c]: [\\[\\]{}a-c,\" #]{0,5}\n|- [a-c]: x\n|# c\n|\n){0,8}",
        key in "[a-d]",
        below in "[a-d]",
    ) {
        let edit = set(&[&key, &below], json!({"x": ["y"]}));
        if let (Ok(before), Ok(new)) = (Format::Yaml.read(&text), Format::Yaml.edit(&text, &[edit])) {
            let mut after = Format::Yaml.read(&new).unwrap();
            proptest::prop_assert_eq!(&after[&key][&below], &json!({"x": ["y"]}));
            let mut before = before;
            for values in [&mut before, &mut after] {
                if let Some(map) = values.get_mut(&key).and_then(Value::as_object_mut) {
                    map.shift_remove(&below);
                }
                values.as_object_mut().unwrap().retain(|_, value| !value.is_null() && *value != json!({}));
            }
            proptest::prop_assert_eq!(before, after);
        }
    }
}
