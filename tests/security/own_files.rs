//! Handfast's own files: the user's configuration, the workspace's, and the state folder with its
//! audit. No tool changes them, by any name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::harness::{Fixture, unread};
use crate::security::ordinary_user::Ordinary;
use crate::server::Server;

const POLICY: &str = "mode: full_auto\n";

/// Returns the program's response about this workspace, with every question answered yes.
fn call(command: Command, tool: &str, arguments: Value) -> Value {
    let mut command = command;
    let output = command.args(["call", "--yes", tool, &arguments.to_string()]).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)))
}

/// A fixture whose workspace is the folder that contains its home and its state.
struct Around {
    own: Ordinary,
    as_root: bool,
}

impl Around {
    fn new(as_root: bool) -> Self {
        let own = Ordinary::new(&[("plain", "plain")]);
        let configuration = own.fixture.home().join(".config/handfast");
        fs::create_dir_all(&configuration).unwrap();
        fs::write(configuration.join("config.yaml"), POLICY).unwrap();
        fs::write(own.fixture.state().join("kept"), POLICY).unwrap();
        fs::write(own.fixture.outside().join("handfast.yaml"), POLICY).unwrap();
        own.give_all();
        Self { own, as_root }
    }

    fn workspace(&self) -> PathBuf {
        self.own.fixture.outside()
    }

    fn files(&self) -> [PathBuf; 3] {
        ["home/.config/handfast/config.yaml", "state/kept", "handfast.yaml"]
            .map(|path| self.workspace().join(path))
    }

    fn command(&self) -> Command {
        let mut command = if self.as_root {
            let mut command = Command::new(self.workspace().join("handfast"));
            command.arg("--state").arg(self.own.fixture.state()).env("HOME", self.own.fixture.home());
            command.arg("--workspace");
            command
        } else {
            self.own.command_for_workspace()
        };
        command.arg(self.workspace()).arg("--no-input").stdin(Stdio::null());
        command
    }

    #[track_caller]
    fn unchanged(&self, after: &str) {
        for file in self.files() {
            let found = fs::read_to_string(&file);
            assert_eq!(found.ok().as_deref(), Some(POLICY), "{} after {after}", file.display());
        }
    }
}

/// Returns paths that all lead to the file.
fn spellings(around: &Around, file: &Path) -> Vec<PathBuf> {
    let workspace = around.workspace();
    let relative = file.strip_prefix(&workspace).unwrap();
    let link = workspace.join("link");
    let _ = fs::remove_file(&link);
    symlink(file, &link).unwrap();
    let folder = workspace.join("folder");
    let _ = fs::remove_file(&folder);
    symlink(file.parent().unwrap(), &folder).unwrap();
    vec![
        file.to_owned(),
        relative.to_owned(),
        Path::new("workspace/..").join(relative),
        Path::new("/proc/self/root").join(file.strip_prefix("/").unwrap()),
        Path::new("/proc/self/cwd").join(relative),
        link,
        folder.join(file.file_name().unwrap()),
    ]
}

fn by_file_tools(as_root: bool) {
    let around = Around::new(as_root);
    let evil = "mode: full_auto\n# evil\n";
    for file in around.files() {
        for path in spellings(&around, &file) {
            let tries = [
                ("file_write", json!({"path": path, "content": evil})),
                ("file_edit", json!({"path": path, "edits": [{"old_text": "mode", "new_text": "evil"}]})),
                ("file_delete", json!({"path": file})),
                ("file_delete", json!({"path": file.parent().unwrap(), "recursive": true})),
                ("file_move", json!({"source": file, "destination": "stolen"})),
                ("file_move", json!({"source": "workspace/plain", "destination": path})),
            ];
            for (tool, arguments) in tries {
                let result = call(around.command(), tool, arguments.clone());
                assert_ne!(result["error"]["code"], "EVALIDATION", "{tool} {arguments}: {result:#}");
                around.unchanged(&format!("{tool} {arguments}: {result:#}"));
            }
        }
    }
    // The control: the same calls work on an ordinary file.
    let plain = around.workspace().join("workspace/plain");
    let wrote = call(around.command(), "file_write", json!({"path": plain, "content": evil}));
    assert_eq!(wrote["ok"], true, "{wrote:#}");
    assert_eq!(fs::read_to_string(plain).unwrap(), evil);
}

/// Attempts of a command on a file with the path `$1` from the workspace, in the folder `$2`.
const ATTEMPTS: [&str; 12] = [
    "echo evil > $1",
    "echo evil >> $PWD/$1",
    "echo evil > /proc/self/root/$PWD/$1",
    "ln -s $1 to; echo evil > to",
    "ln $1 hard; echo evil > hard",
    "cp $1 x; echo evil >> x; mv x $1",
    "rm -f $1",
    "rm -rf $2",
    "mv $2 away; mkdir -p $2; echo evil > $1",
    "mv home away; mkdir -p home/.config/handfast; echo evil > home/.config/handfast/config.yaml",
    "mv state away; mkdir state; echo evil > state/kept",
    "umount -l $1; mount -o remount,rw $1; echo evil > $1",
];

fn attempts(around: &Around) -> Vec<String> {
    let mut all = Vec::new();
    for file in around.files() {
        let relative = file.strip_prefix(around.workspace()).unwrap().display().to_string();
        let folder = Path::new(&relative).parent().unwrap().display().to_string();
        let folder = if folder.is_empty() { "workspace".to_owned() } else { folder };
        for attempt in ATTEMPTS {
            all.push(unread(&format!("set -- {relative} {folder}; {attempt}; echo end > workspace/control")));
        }
    }
    all
}

fn by_commands(as_root: bool) {
    let around = Around::new(as_root);
    for line in attempts(&around) {
        let result = call(around.command(), "shell_execute", json!({ "command": line }));
        around.unchanged(&format!("{line}: {result:#}"));
    }
    // The control: the file that each command writes last exists.
    let control = around.workspace().join("workspace/control");
    let line = unread("echo end > workspace/control");
    let result = call(around.command(), "shell_execute", json!({ "command": line }));
    assert_eq!(fs::read_to_string(control).ok().as_deref(), Some("end\n"), "{result:#}");
}

#[test]
fn no_file_tool_changes_handfasts_own_files_below_a_workspace_under_any_of_their_names() {
    by_file_tools(true);
    by_file_tools(false);
}

#[test]
fn no_command_changes_handfasts_own_files_below_a_workspace() {
    by_commands(true);
    by_commands(false);
}

#[test]
fn no_command_that_writes_directly_changes_handfasts_own_files_below_a_workspace() {
    for as_root in [true, false] {
        let around = Around::new(as_root);
        let mut command = around.command();
        command.args(["--mode", "full_auto"]);
        let mut server = Server::of(command);
        for line in attempts(&around) {
            let id = server.background(&format!("{line}; echo end"), false);
            server.expect(&id, 0, "^end$");
            around.unchanged(&line);
        }
        let control = fs::read_to_string(around.workspace().join("workspace/control"));
        assert_eq!(control.ok().as_deref(), Some("end\n"), "the control");
        server.end();
    }
}

#[test]
fn a_configuration_that_is_not_there_yet_is_made_by_no_tool() {
    let around = Around::new(true);
    let folder = around.own.fixture.home().join(".config");
    fs::remove_dir_all(&folder).unwrap();
    let file = folder.join("handfast/config.yaml");
    let wrote = call(around.command(), "file_write", json!({"path": file, "content": POLICY}));
    assert_eq!(wrote["error"]["code"], "EPERMISSION", "{wrote:#}");
    let line = unread(
        "mkdir -p home/.config/handfast; echo evil > home/.config/handfast/config.yaml; echo end > end",
    );
    let result = call(around.command(), "shell_execute", json!({ "command": line }));
    assert!(!file.exists(), "{result:#}");
    // The control: a file in another folder is made.
    let line = unread("mkdir -p home/.config/other; echo good > home/.config/other/config.yaml");
    call(around.command(), "shell_execute", json!({ "command": line }));
    assert!(folder.join("other/config.yaml").exists());
}

#[test]
fn where_the_folder_of_the_configuration_cannot_be_made_within_reach_of_commands_nothing_begins() {
    let fixture = Fixture::new();
    let home = fixture.workspace().join("home");
    fs::create_dir(&home).unwrap();
    // The home is a tmpfs with this many inodes, or on the existing disk.
    let list = |inodes: Option<u32>| {
        let mount = inodes.map(|inodes| format!("mount -t tmpfs -o nr_inodes={inodes} none \"$HOME\" && "));
        let script = format!("{}exec \"$@\"", mount.unwrap_or_default());
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
        command.arg(crate::harness::program()).arg("--state").arg(fixture.state());
        command.arg("--workspace").arg(fixture.workspace());
        command.args(["--no-input", "call", "file_list", r#"{"path": "."}"#]).env("HOME", &home);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    // A full disk, on which only the folder around the configuration can be made.
    let (code, said) = list(Some(2));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("a command could create it"), "{said}");
    // The controls.
    assert_eq!(list(Some(20)).0, Some(0));
    assert_eq!(list(None).0, Some(0));
    assert!(home.join(".config/handfast").is_dir());
}

#[test]
fn a_workspace_in_the_folder_of_the_configuration_is_refused() {
    let fixture = Fixture::new();
    let folder = fixture.home().join(".config/handfast");
    fs::create_dir_all(folder.join("below")).unwrap();
    symlink(&folder, fixture.outside().join("link")).unwrap();
    let run = |workspace: &Path| {
        let mut command = Command::new(crate::harness::program());
        command.arg("--state").arg(fixture.state()).arg("--workspace").arg(workspace);
        command.args([
            "call",
            "--yes",
            "file_write",
            r#"{"path": "config.yaml", "content": "mode: full_auto"}"#,
        ]);
        let output = command.env("HOME", fixture.home()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for workspace in [folder.clone(), folder.join("below"), fixture.outside().join("link")] {
        let (code, said) = run(&workspace);
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("lies in the folder of your configuration"), "{said}");
    }
    assert!(!folder.join("config.yaml").exists());
    // The control: a workspace next to the folder of the configuration.
    fs::create_dir(fixture.home().join(".config/other")).unwrap();
    let (code, said) = run(&fixture.home().join(".config/other"));
    assert_eq!(code, Some(0), "{said}");
}

#[test]
fn a_configuration_that_is_a_link_into_the_workspace_is_closed_where_it_really_lies() {
    for (link, target) in [
        (".config", "dotfiles/config/handfast/config.yaml"),
        (".config/handfast", "dotfiles/config.yaml"),
        (".config/handfast/config.yaml", "dotfiles/handfast.yml"),
        (".config/handfast/config.yaml", "dotfiles/not-there.yml"),
    ] {
        let fixture = Fixture::with_files(&[("plain", "plain")]);
        let real = fixture.workspace().join(target);
        let at = fixture.home().join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        let depth =
            Path::new(".config/handfast/config.yaml").strip_prefix(link).unwrap().components().count();
        symlink(real.ancestors().nth(depth).unwrap(), &at).unwrap();
        fs::create_dir_all(real.parent().unwrap()).unwrap();
        if !target.contains("not-there") {
            fs::write(&real, POLICY).unwrap();
        }
        let before = fs::read(&real).ok();
        let wrote = fixture.call("file_write", json!({"path": target, "content": "evil"}));
        assert_eq!(wrote["error"]["code"], "EPERMISSION", "{target}: {wrote:#}");
        let line = unread(&format!("echo evil > {target}; echo end > plain"));
        let result = fixture.call("shell_execute", json!({ "command": line }));
        assert_eq!(fs::read(&real).ok(), before, "{target}: {result:#}");
        // The control.
        fixture.data("file_write", json!({"path": "plain", "content": "new"}));
    }
}
