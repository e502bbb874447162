//! A server in its cell: it sees no secret, no denied file, and no server of this machine.

use serde_json::json;

use crate::functional::mcp_servers::SCRIPT;
use crate::harness::Fixture;

const SECRET: &str = "sk-live-0123456789-abcdef";

#[test]
fn a_server_has_placeholders_of_secrets_and_no_denied_file() {
    let files = [("server.py", SCRIPT), ("note.txt", "PRIVATE\n"), ("definitions.json", "{}")];
    let fixture = Fixture::with_files(&files).with_vault();
    fixture.store("api_key", SECRET);
    let configuration = |denied: &str| {
        format!(
            "mode: full_auto\nsandbox_config:\n  normal:\n    allowed_hosts: [api.example.com]\n    \
             allowed_secrets: [\"api_key at api.example.com\"]\n    deny_read_paths: [{denied}]\n\
             mcp_servers:\n  s:\n    command: /usr/bin/python3\n    args: [server.py]\n"
        )
    };
    // A positive control: the server reads a file that is not denied.
    for (denied, reads) in [("other.txt", true), ("note.txt", false)] {
        let file = fixture.home().join(".config/handfast/config.yaml");
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, configuration(denied)).unwrap();
        let library = fixture.library();
        assert_eq!(library.call("mcp_servers", json!({"server": "s"}))["ok"], true);
        let note = library.call("s__note", json!({}));
        assert_eq!(note.to_string().contains("PRIVATE"), reads, "{denied}: {note:#}");
        let found = library.call("s__env", json!({"value": "api_key"}));
        let text = found["data"]["text"].as_str().unwrap_or_else(|| panic!("{found:#}"));
        let (value, reversed) = text.split_once(' ').unwrap();
        assert_ne!(value, "unset", "the server has a placeholder");
        assert_eq!(value.chars().rev().collect::<String>(), reversed, "nothing was covered");
        assert!(!reversed.contains(&SECRET.chars().rev().collect::<String>()), "{text}");
    }
}

#[test]
fn what_is_shown_further_hides_denied_files_and_never_has_those_of_handfast() {
    let fixture = Fixture::with_files(&[("definitions.json", "{}")]);
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().canonicalize().unwrap();
    for name in ["key.pem", "plain.txt"] {
        std::fs::write(outside.join(name), format!("CONTENT-{name}\n")).unwrap();
    }
    let script = SCRIPT.replace(
        "    return text(\"ok\")",
        &format!(
            "    import glob\n    found = []\n    for path in glob.glob('{}/*'):\n        try: found.append(open(path).read())\n        except OSError: pass\n    return text(' '.join(found))",
            outside.display()
        ),
    );
    fixture.write("server.py", &script);
    let file = fixture.home().join(".config/handfast/config.yaml");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let configuration = |shows: &std::path::Path, more: &str| {
        format!(
            "mode: full_auto\nsandbox_config: {{normal: {{deny_read_paths: [\"*.pem\"]{more}}}}}\nmcp_servers:\n  my.server:\n    \
             command: /usr/bin/python3\n    args: [server.py]\n    shows: [\"{}\"]\n",
            shows.display()
        )
    };
    let call = |library: &crate::harness::Library| {
        let listed = library.call("mcp_servers", json!({"server": "my.server"}));
        let found = library.call("tool_search", json!({"query": "hidden"})).to_string();
        let mut words = found.split('"');
        let name = words.find(|word| word.starts_with("my_server__hidden"));
        let name = name.unwrap_or_else(|| panic!("{listed:#} {found}")).to_owned();
        library.call(&name, json!({}))
    };
    std::fs::write(&file, configuration(&outside, "")).unwrap();
    let library = fixture.library();
    let shown = call(&library).to_string();
    assert!(shown.contains("CONTENT-plain.txt"), "the control: {shown}");
    assert!(!shown.contains("CONTENT-key.pem"), "{shown}");
    drop(library);
    // A rule names the server as the configuration does, though its tools have other names.
    std::fs::write(&file, configuration(&outside, ", deny_tools: [\"my.server__*\"]")).unwrap();
    let denied = call(&fixture.library());
    assert_eq!(denied["error"]["code"], "EPERMISSION", "{denied:#}");
    std::fs::write(&file, configuration(&fixture.state(), "")).unwrap();
    let refused = fixture.library().call("mcp_servers", json!({"server": "my.server"})).to_string();
    assert!(refused.contains("the files of Handfast"), "{refused}");
}
