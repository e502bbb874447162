//! The profile's choice of the isolation of commands. Everything runs as an ordinary user, for whom
//! this machine offers every kind.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::functional::search_path::{file, path_of, program};
use crate::harness::{Fixture, copy_program};

/// A user that owns nothing (`nobody` of Debian).
const NOBODY: u32 = 65534;

struct Host {
    fixture: Fixture,
    root: bool,
}

fn give(path: &Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() && !path.is_symlink() {
        for entry in std::fs::read_dir(path).unwrap() {
            give(&entry.unwrap().path());
        }
    }
}

fn profile(isolation: &str) -> String {
    format!("sandbox_config:\n  normal:\n    isolation: {isolation}\n")
}

impl Host {
    /// Makes a host on which the user, or the file of the workspace, has this configuration.
    fn new(user: Option<&str>, workspace: Option<&str>) -> Self {
        let fixture = Fixture::new();
        copy_program(&fixture.outside().join("handfast"));
        let folder = fixture.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        if let Some(content) = user {
            std::fs::write(folder.join("config.yaml"), content).unwrap();
        }
        if let Some(content) = workspace {
            fixture.write("handfast.yaml", content);
        }
        let root =
            std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
        if root {
            give(&fixture.outside());
        }
        Self { fixture, root }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    fn command(&self) -> Command {
        let program = self.fixture.outside().join("handfast");
        let mut command = if self.root {
            let id = NOBODY.to_string();
            let mut command = Command::new("setpriv");
            command.args(["--reuid", &id, "--regid", &id, "--clear-groups", "--inh-caps=-all", "--"]);
            command.arg(program);
            command
        } else {
            Command::new(program)
        };
        command.arg("--workspace").arg(self.fixture.workspace()).arg("--state").arg(self.fixture.state());
        command.env("HOME", self.fixture.home()).current_dir(self.fixture.workspace());
        command
    }

    /// Runs a line. Returns the result, and the program's warnings.
    #[track_caller]
    fn call(&self, line: &str) -> (Value, String) {
        let arguments = json!({"command": line, "timeout": 60}).to_string();
        let output = self.run(&["call", "--yes", "--no-input", "shell_execute", &arguments]);
        let warned = String::from_utf8(output.stderr).unwrap();
        let result = serde_json::from_slice(&output.stdout);
        (result.unwrap_or_else(|error| panic!("{error}: {warned}")), warned)
    }

    /// Returns the kind of the cell in which a command has run.
    #[track_caller]
    fn kind(&self) -> String {
        let (result, _) = self.call("echo x > made && cat made");
        assert_eq!((&result["ok"], &result["data"]["stdout"]), (&json!(true), &json!("x\n")), "{result:#}");
        assert_eq!(self.fixture.read("made"), "x\n");
        result["meta"]["sandbox"][0].as_str().unwrap().to_owned()
    }
}

#[test]
fn a_command_runs_in_the_isolation_that_the_profile_names() {
    for (isolation, kind) in [
        ("auto", "namespaces:"),
        ("namespaces", "namespaces:"),
        ("bubblewrap", "degraded:bwrap"),
        ("landlock", "degraded:landlock"),
    ] {
        let host = Host::new(Some(&profile(isolation)), None);
        let found = host.kind();
        assert!(found.starts_with(kind), "{isolation}: {found}");
    }
}

#[test]
fn a_program_to_which_path_leads_runs_in_each_isolation_with_its_files_and_nothing_beside_them() {
    for isolation in ["namespaces", "bubblewrap", "landlock"] {
        let host = Host::new(Some(&profile(isolation)), None);
        let home = host.fixture.home();
        let (script, key) = ("#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/x\"\n", "planted-key-3118");
        program(&host.fixture, "apps/demo-1/bin/demo", script);
        file(&host.fixture, "apps/demo-1/lib/x", "library\n");
        for planted in ["apps/demo-1/.npmrc", ".ssh/id_rsa", "diary"] {
            file(&host.fixture, planted, key);
        }
        symlink("apps/demo-1", home.join("current")).unwrap();
        // Two links in a row, one of them in a folder that nothing else shows.
        for folder in ["opt", "programs"] {
            std::fs::create_dir(home.join(folder)).unwrap();
        }
        program(&host.fixture, "apps/chain/bin/chain", "#!/bin/sh\necho chained\n");
        symlink("../apps/chain/bin/chain", home.join("opt/chain")).unwrap();
        symlink("../opt/chain", home.join("programs/chain")).unwrap();
        if host.root {
            give(&host.fixture.outside());
        }
        let call = |folders: &[&str]| {
            let mut command = host.command();
            let line = format!(
                "demo; chain; cat {0}/apps/demo-1/.npmrc {0}/.ssh/id_rsa {0}/diary; echo end",
                home.display()
            );
            let arguments = json!({ "command": line, "timeout": 60 }).to_string();
            command.args(["call", "--yes", "--no-input", "shell_execute", &arguments]);
            let output = command.env("PATH", path_of(&host.fixture, folders)).output().unwrap();
            serde_json::from_slice::<Value>(&output.stdout).unwrap()
        };
        let result = call(&["current/bin", "programs"]);
        assert_eq!(result["data"]["stdout"], "library\nchained\nend\n", "{isolation}: {result:#}");
        assert!(!result.to_string().contains(key), "{isolation}: {result:#}");
        // The control: without these folders nothing is found.
        assert_eq!(call(&[])["data"]["stdout"], "end\n", "{isolation}");
    }
}

#[test]
fn a_lesser_isolation_under_a_strict_profile_runs_nothing() {
    for isolation in ["bubblewrap", "landlock"] {
        let configuration = profile(isolation) + "    strict: true\n";
        let host = Host::new(Some(&configuration), None);
        let (result, _) = host.call("echo x > made");
        assert_eq!(result["error"]["code"], "EUNAVAILABLE", "{result:#}");
        assert!(result["error"]["message"].as_str().unwrap().contains(isolation), "{result:#}");
        assert!(result["error"]["hint"].as_str().unwrap().contains("isolation: auto"), "{result:#}");
        assert!(!host.fixture.workspace().join("made").exists());
    }
}

#[test]
fn a_workspace_chooses_no_weaker_isolation_before_it_is_trusted() {
    let host = Host::new(None, Some(&profile("landlock")));
    let (result, warned) = host.call("true");
    assert!(result["meta"]["sandbox"][0].as_str().unwrap().starts_with("namespaces:"), "{result:#}");
    assert!(warned.contains("`isolation` is ignored"), "{warned}");
    let trusted = host.run(&["trust"]);
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    let (result, warned) = host.call("true");
    assert_eq!(result["meta"]["sandbox"][0], "degraded:landlock", "{result:#}");
    assert!(!warned.contains("is ignored"), "{warned}");
}

#[test]
fn an_isolation_that_does_not_exist_is_refused_with_those_that_do() {
    let host = Host::new(Some(&profile("chroot")), None);
    let output =
        host.run(&["call", "--yes", "--no-input", "shell_execute", r#"{"command": "echo x > made"}"#]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("`chroot`"), "{told}");
    for known in ["auto", "namespaces", "bubblewrap", "landlock"] {
        assert!(told.contains(&format!("`{known}`")), "{told}");
    }
    assert!(!host.fixture.workspace().join("made").exists());
}
