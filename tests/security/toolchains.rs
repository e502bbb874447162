//! The user's toolchains, as commands see them: programs are visible, keys and other projects are not.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::json;

use crate::harness::Fixture;

const KEY: &str = "planted-key-8714";

/// Keys and other projects, by their path in the home.
const PLANTED: &[&str] = &[
    ".asdf/installs/nodejs/22/.npm/etc/npmrc",
    ".asdf/plugins/python/.git/config",
    ".asdf/plugins/python/.git/logs/HEAD",
    ".bun/install/auth",
    ".cargo/config",
    ".cargo/config.toml",
    ".cargo/config.toml~",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".cargo/credentials.toml.bak",
    ".cargo/git/db/private-1/FETCH_HEAD",
    ".cargo/registry/credentials.toml.2024-01-31",
    ".deno/auth.json",
    ".fnm/node-versions/v22/installation/etc/npmrc",
    ".local/bin/server.pem~",
    ".local/lib/node_modules/x/.env",
    ".local/lib/node_modules/x/.npmrc",
    ".local/share/mise/installs/maven/3/conf/settings.xml",
    ".local/share/mise/installs/node/22/etc/npmrc",
    ".local/share/mise/plugins/p/.git/config",
    ".local/share/pipx/venvs/x/pip.conf",
    ".local/share/pipx/venvs/x/pipx_metadata.json",
    ".local/share/pnpm/.npmrc",
    ".local/share/uv/credentials/credentials.toml",
    ".local/share/uv/tools/x/.pypirc",
    ".local/share/uv/tools/x/uv-receipt.toml",
    ".npm-global/etc/npmrc",
    ".nvm/.git/config",
    ".nvm/versions/node/v22/etc/npmrc",
    ".pyenv/.git/config",
    ".pyenv/versions/3.12/pip.conf",
    ".pyenv/versions/3.12/pip.conf.orig",
    ".rbenv/versions/3/etc/gemrc",
    ".rbenv/versions/3/etc/server.key",
    ".rustup/toolchains/x/lib/id_ed25519",
    ".sdkman/candidates/maven/current/conf/settings.xml",
    ".sdkman/etc/token",
    ".volta/hooks.json",
    "go/pkg/mod/cache/vcs/abc/config",
    "go/src/example.com/secret/main.go",
    "miniconda3/.condarc",
    "miniconda3/envs/x/.condarc",
    "miniconda3/envs/x/pip.conf",
];

/// Files of the same toolchains that programs need.
const NEEDED: &[&str] = &[
    ".asdf/plugins/python/bin/install",
    ".cargo/bin/auth",
    ".cargo/git/checkouts/x-1/abc/.git/HEAD",
    ".cargo/registry/src/index/x-1.0.0/src/credentials.rs",
    ".local/share/uv/tools/x/lib/python3.12/site-packages/token.py",
    ".nvm/versions/node/v22/bin/node",
    ".pyenv/versions/3.12/lib/python3.12/secrets.py",
    ".pyenv/versions/3.12/lib/python3.12/site-packages/pip/_vendor/certifi/cacert.pem",
    ".rustup/settings.toml",
    ".sdkman/candidates/java/current/conf/net.properties",
    "go/pkg/mod/example.com/x@v1/main.go",
    "miniconda3/bin/python",
];

const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";

fn put(path: PathBuf, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

fn planted() -> Fixture {
    let fixture = Fixture::new();
    for path in PLANTED {
        // Some kinds of files are judged by their content, so the planted ones have a realistic form.
        let content = match path.rsplit('/').next().unwrap() {
            "config" => format!("[remote \"origin\"]\nurl = https://me:{KEY}@host/r\n"),
            "pipx_metadata.json" => {
                format!("{{\"pip_args\": [\"--index-url\", \"https://me:{KEY}@host/s\"]}}\n")
            }
            "uv-receipt.toml" => format!("[tool]\nindex-url = \"https://me:{KEY}@host/simple\"\n"),
            "FETCH_HEAD" | "HEAD" => format!("abc branch 'main' of https://{KEY}@host/r\n"),
            "settings.xml" => format!("<settings><!-- <password>{KEY}</password> --></settings>\n"),
            "config.toml" | "config.toml~" => format!("[registry]\ntoken = \"{KEY}\"\n"),
            _ => format!("{KEY}\n"),
        };
        put(fixture.home().join(path), &content);
    }
    for path in NEEDED {
        let path = fixture.home().join(path);
        let content = if path.ends_with("cacert.pem") { CERTIFICATE } else { "needed-4471\n" };
        put(path.clone(), content);
        if path.parent().unwrap().ends_with("bin") {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    fixture
}

/// Returns the output of a command that reads these files.
fn read(fixture: &Fixture, folder: &std::path::Path, files: &[&str]) -> String {
    // A script, because paths in a line are judged before it runs.
    let mut script = String::new();
    for file in files {
        let path = folder.join(file);
        script.push_str(&format!("echo \"{file}: $(cat '{}' 2>&1)\"\n", path.display()));
    }
    fixture.write("look.sh", &script);
    let line = json!({ "command": "sh look.sh" }).to_string();
    let result = fixture.run(&["call", "shell_execute", &line]).json();
    assert_eq!(result["ok"], true, "{result}");
    result["data"]["stdout"].as_str().unwrap().to_owned()
}

#[test]
fn keys_and_other_projects_in_toolchains_are_absent_and_what_runs_is_there() {
    let fixture = planted();
    let shown = read(&fixture, &fixture.home(), PLANTED);
    let leaked: Vec<&str> = shown.lines().filter(|line| line.contains(KEY)).collect();
    assert_eq!(leaked, [] as [&str; 0]);
    assert_eq!(shown.lines().filter(|line| line.contains(": cat:")).count(), PLANTED.len(), "{shown}");
    let needed = read(&fixture, &fixture.home(), NEEDED);
    for path in NEEDED {
        let content = if path.ends_with("cacert.pem") { "-----BEGIN" } else { "needed-4471" };
        assert!(needed.contains(&format!("{path}: {content}")), "{needed}");
    }
}

#[test]
fn the_deny_lists_hold_in_toolchains_and_so_do_backups_of_what_they_name() {
    let fixture = Fixture::new();
    let home = fixture.home();
    for name in ["plain", "customer.dat", "customer.dat.bak", "customer.dat~"] {
        put(home.join(".pyenv/versions/3/lib").join(name), KEY);
    }
    put(
        home.join(".config/handfast/config.yaml"),
        "sandbox_config:\n  normal:\n    deny_read_paths: ['*.dat']\n    undoable: pass\n",
    );
    let files = ["plain", "customer.dat", "customer.dat.bak", "customer.dat~"];
    let shown = read(&fixture, &home.join(".pyenv/versions/3/lib"), &files);
    let leaked: Vec<&str> = shown.lines().filter(|line| line.contains(KEY)).collect();
    assert_eq!(leaked, [format!("plain: {KEY}")]);
}

#[test]
fn a_toolchain_that_the_environment_names_has_its_keys_hidden_wherever_it_lies() {
    let fixture = Fixture::new();
    let elsewhere = fixture.outside().join("elsewhere/cargo");
    let files = ["credentials.toml", "registry/x/credentials.toml.old", "target/notes", "registry/x/lib.rs"];
    for file in files {
        put(elsewhere.join(file), KEY);
    }
    let lines = files.map(|file| format!("cat '{}/{file}'\n", elsewhere.display()));
    fixture.write("look.sh", &format!("{}echo; echo $CARGO_HOME\n", lines.concat()));
    let mut command = fixture.command();
    command.env("CARGO_HOME", &elsewhere);
    command.args(["call", "shell_execute", &json!({ "command": "sh look.sh" }).to_string()]);
    let output = command.output().unwrap();
    let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(result["data"]["stdout"], format!("{KEY}\n{}\n", elsewhere.display()), "{result}");
}

#[test]
fn as_root_what_only_root_may_read_in_a_toolchain_is_closed() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let fixture = Fixture::new();
    for (name, mode) in [("closed", 0o600), ("open", 0o644)] {
        let path = fixture.home().join(".rustup/toolchains/x").join(name);
        put(path.clone(), KEY);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    let shown = read(&fixture, &fixture.home().join(".rustup/toolchains/x"), &["closed", "open"]);
    assert!(shown.contains(&format!("open: {KEY}")) && shown.contains("closed: cat:"), "{shown}");
}
