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
