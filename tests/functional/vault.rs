//! `handfast vault`: the user's access to the secrets.

use serde_json::{Value, json};

use crate::harness::Fixture;

const VALUE: &str = "sk-0123456789abcdef";

fn names(fixture: &Fixture) -> Vec<String> {
    let listed = fixture.run(&["vault", "list", "--json"]).json();
    listed.as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn secrets_are_stored_listed_replaced_and_removed_and_never_shown() {
    let fixture = Fixture::new().with_vault();
    let bound = [
        "vault",
        "set",
        "github.com",
        "--host",
        "*.github.com",
        "--in",
        "header",
        "--in",
        "query",
        "--expires",
        "30d",
    ];
    let stored = fixture.run_with_input(&bound, format!("{VALUE}\n").as_bytes());
    assert_eq!((stored.code, stored.stdout.as_str()), (0, ""), "{}", stored.stderr);
    let listed = fixture.run(&["vault", "list", "--json"]).json();
    assert_eq!(listed[0]["hosts"], json!(["*.github.com"]));
    assert_eq!(listed[0]["places"], json!(["header", "query"]));
    assert_eq!((listed[0]["last_used_at"].clone(), listed[0]["expires_at"].is_string()), (Value::Null, true));
    let shown = fixture.run(&["vault"]).stdout;
    assert!(shown.starts_with("github.com  *.github.com") && !shown.contains("sk-"), "{shown}");
    let again = fixture.run_with_input(&["vault", "set", "github.com"], VALUE.as_bytes());
    assert!(again.stderr.contains("replaced"), "{}", again.stderr);
    assert_eq!(fixture.run(&["vault", "list", "--json"]).json()[0]["hosts"], json!(["*.github.com"]));
    assert_eq!(fixture.run(&["vault", "remove", "github.com"]).code, 0);
    assert_eq!(fixture.run(&["vault", "remove", "github.com"]).code, 1);
    assert!(names(&fixture).is_empty());
}

#[test]
fn a_value_is_no_argument_and_a_short_one_is_none() {
    let fixture = Fixture::new().with_vault();
    assert_eq!(fixture.run(&["vault", "set", "name", VALUE]).code, 2);
    let short = fixture.run_with_input(&["vault", "set", "name"], b"01234567890\n");
    assert_eq!(short.code, 1);
    assert!(
        short.stderr.contains("at least 12 characters") && !short.stderr.contains("0123"),
        "{}",
        short.stderr
    );
    assert_eq!(fixture.run_with_input(&["vault", "set", "a b"], VALUE.as_bytes()).code, 2);
    assert!(names(&fixture).is_empty());
}

#[test]
fn who_gives_a_tool_a_value_as_an_argument_is_told_who_sees_it() {
    let fixture = Fixture::new().with_vault();
    let arguments = json!({"key": "name", "value": VALUE}).to_string();
    let given = fixture.run(&["call", "--yes", "vault_set", &arguments]);
    assert!(given.stderr.contains("on standard input") && !given.stderr.contains(VALUE), "{}", given.stderr);
    let read = fixture.run_with_input(&["call", "--yes", "vault_set", "-"], arguments.as_bytes());
    assert_eq!((read.code, read.stderr.as_str()), (0, ""));
    assert_eq!(fixture.run(&["call", "file_list"]).stderr, "");
}

#[test]
fn a_file_of_variables_is_imported_and_what_is_left_out_is_said() {
    let fixture = Fixture::new().with_vault();
    let text = format!("# keys\nexport A_KEY=\"{VALUE}\"\nB_KEY='{VALUE}2'\n\nSHORT=abc\nno line\n");
    let imported =
        fixture.run_with_input(&["vault", "import", "-", "--host", "api.example.com"], text.as_bytes());
    assert_eq!(imported.code, 1);
    for said in ["2 stored, 2 left out", "line 5", "line 6"] {
        assert!(imported.stderr.contains(said), "{}", imported.stderr);
    }
    assert!(!imported.stderr.contains("abc"));
    assert_eq!(names(&fixture), ["A_KEY", "B_KEY"]);
    fixture.write("a", &format!("{VALUE}2 {VALUE}"));
    assert_eq!(fixture.data("file_read", json!({"path": "a"}))["content"], "[SECRET:B_KEY] [SECRET:A_KEY]");
}

#[test]
fn without_a_key_it_says_what_to_do_and_a_passphrase_makes_and_opens_one() {
    let fixture = Fixture::new();
    let none = fixture.run_with_input(&["vault", "set", "name"], VALUE.as_bytes());
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("HANDFAST_VAULT_KEY_FILE"), "{}", none.stderr);
    let locked = fixture.call("vault_set", json!({"key": "name", "value": VALUE}));
    assert_eq!(locked["error"]["code"], "EUNAVAILABLE", "{locked:#}");
    let with = |passphrase: &str, arguments: &[&str]| {
        let mut command = fixture.command();
        command.env("HANDFAST_VAULT_PASSPHRASE", passphrase).args(arguments);
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
    };
    let call = ["call", "--yes", "vault_set", &json!({"key": "name", "value": VALUE}).to_string()]
        .map(str::to_owned);
    let call: Vec<&str> = call.iter().map(String::as_str).collect();
    let (code, out, err) = with("correct horse battery", &call);
    assert_eq!(code, 0, "{out} {err}");
    let (code, _, err) = with("another passphrase", &["vault", "list"]);
    assert!(code == 1 && err.contains("does not open the vault"), "{err}");
    let (_, out, _) = with("correct horse battery", &["vault", "list"]);
    assert!(out.starts_with("name"), "{out}");
    assert_eq!(fixture.call("vault_list", json!({}))["error"]["code"], "EUNAVAILABLE");
}

#[test]
fn an_unlocked_vault_serves_every_program_until_it_is_locked() {
    let fixture = Fixture::new().with_vault();
    fixture.store("name", VALUE);
    let unlocked = fixture.run(&["vault", "unlock", "--for", "10m"]);
    if unlocked.code != 0 {
        // The system call filters of some containers refuse key rings. The error reports this, and
        // nothing else is promised there.
        assert!(unlocked.stderr.contains("key ring"), "{}", unlocked.stderr);
        return;
    }
    std::fs::rename(fixture.key_file(), fixture.outside().join("away")).unwrap();
    assert_eq!(fixture.data("vault_list", json!({}))["secrets"][0]["key"], "name");
    assert!(fixture.run(&["vault", "lock"]).stderr.contains("is locked"));
    assert_eq!(fixture.error("vault_list", json!({}))["code"], "EUNAVAILABLE");
    assert_eq!(fixture.run(&["vault", "list"]).code, 1);
}

#[test]
fn the_users_configuration_names_the_key_file_and_a_workspace_cannot() {
    let fixture = Fixture::new().with_vault();
    fixture.store("name", VALUE);
    // Move the key to a path that the environment does not name.
    let key = fixture.home().join("the-key");
    std::fs::rename(fixture.key_file(), &key).unwrap();
    let listed = || fixture.call("vault_list", json!({}));
    assert_eq!(listed()["error"]["code"], "EUNAVAILABLE");
    let named = |path: &str| format!("vault:\n  key_file: {path}\n");
    fixture.write("handfast.yaml", &named("~/the-key"));
    let ignored = fixture.run(&["call", "vault_list"]);
    assert_eq!(ignored.json()["error"]["code"], "EUNAVAILABLE");
    assert!(ignored.stderr.contains("`vault` is ignored in"), "{}", ignored.stderr);
    std::fs::remove_file(fixture.workspace().join("handfast.yaml")).unwrap();

    let folder = fixture.home().join(".config/handfast");
    std::fs::create_dir_all(&folder).unwrap();
    let configure = |text: &str| std::fs::write(folder.join("config.yaml"), text).unwrap();
    for path in ["~/the-key", key.to_str().unwrap()] {
        configure(&named(path));
        assert_eq!(listed()["data"]["secrets"][0]["key"], "name", "{path}");
        assert_eq!(names(&fixture), ["name"]);
    }
    // The environment variable takes precedence.
    let other = fixture.run_with(&[("HANDFAST_VAULT_KEY_FILE", "/nonexistent")], &["vault", "list"]);
    assert!(other.code == 1 && other.stderr.contains("/nonexistent"), "{}", other.stderr);
    for (path, said) in [("~/missing", "it does not exist"), ("~/", "it is a folder")] {
        configure(&named(path));
        let run = fixture.run(&["vault", "list"]);
        assert!(run.code == 1 && run.stderr.contains(said), "{path}: {}", run.stderr);
        assert_eq!(listed()["error"]["code"], "EUNAVAILABLE");
    }
    for (text, said) in [
        (named("the-key"), "must be an absolute path"),
        ("vault:\n  key: x\n".to_owned(), "there is no key `key` here"),
    ] {
        configure(&text);
        let run = fixture.run(&["vault", "list"]);
        assert!(run.code == 2 && run.stderr.contains(said), "{}", run.stderr);
    }
    // A key within reach of the tools is refused, whichever setting names it.
    std::fs::rename(&key, fixture.workspace().join("key")).unwrap();
    configure(&named(fixture.workspace().join("key").to_str().unwrap()));
    let run = fixture.run(&["call", "vault_list"]);
    assert!(run.code == 2 && run.stderr.contains("within reach of the tools"), "{}", run.stderr);
}

#[test]
fn another_key_opens_it_after_rotation_and_a_damaged_one_can_be_put_back() {
    let fixture = Fixture::new().with_vault();
    fixture.store("first", VALUE);
    let key = std::fs::read(fixture.key_file()).unwrap();
    assert_eq!(fixture.run(&["vault", "rotate"]).code, 0);
    assert_ne!(std::fs::read(fixture.key_file()).unwrap(), key);
    fixture.store("second", VALUE);
    assert_eq!(names(&fixture), ["first", "second"]);
    let path = fixture.state().join("vault/vault.age");
    let mut bytes = std::fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damaged = fixture.error("vault_set", json!({"key": "third", "value": VALUE}));
    assert_eq!(damaged["code"], "EUNAVAILABLE");
    assert!(damaged["hint"].as_str().unwrap().contains("vault restore"), "{damaged:#}");
    assert_eq!(fixture.run(&["vault", "restore"]).code, 0);
    assert_eq!(names(&fixture), ["first"]);
}

#[test]
fn what_the_user_does_to_the_vault_and_trusts_is_in_the_audit_and_no_value_is() {
    let fixture = Fixture::new().with_vault();
    let set = fixture.run_with_input(&["vault", "set", "key", "--host", "api.example.com"], VALUE.as_bytes());
    assert_eq!(set.code, 0, "{}", set.stderr);
    let lines = format!("A_KEY={VALUE}2\nSHORT=abc\n");
    fixture.run_with_input(&["vault", "import", "-"], lines.as_bytes());
    assert_eq!(fixture.run(&["vault", "remove", "key"]).code, 0);
    assert_eq!(fixture.run(&["vault", "remove", "key"]).code, 1);
    fixture.write("handfast.yaml", "mode: smart_auto\n");
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let listed = fixture.run(&["audit", "list", "--json"]);
    let mut told: Vec<String> = listed
        .stdout
        .lines()
        .map(|row| serde_json::from_str::<Value>(row).unwrap())
        .filter(|row| row["approved_by"] == "the user, on the command line")
        .map(|row| {
            format!("{} {} {}", row["tool"], row["plan"]["arguments"]["name"], row["outcome"])
                .replace('"', "")
        })
        .collect();
    told.reverse();
    assert_eq!(
        told,
        [
            "vault_set key ok",
            "vault_set A_KEY ok",
            "vault_set SHORT EVALIDATION",
            "vault_delete key ok",
            "vault_delete key ENOTFOUND",
            "trust null ok"
        ]
    );
    assert!(!listed.stdout.contains(VALUE) && listed.stdout.contains("api.example.com"));
}
