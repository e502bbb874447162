//! Shared parts of the whole-binary tests: a workspace and a state folder, and ways to run the
//! program in them.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use handfast::{Builder, Runtime};
use serde_json::Value;

/// Waits up to a minute for the state of another program, which sends no event. Tests never judge the
/// time itself. The pause between two looks leaves the processors to that program.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_mins(1), "{what} never came about");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// A workspace, a state folder and a home, removed when the value is dropped.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
}

/// The runtime of a fixture within this process.
pub(crate) struct Library {
    runtime: Runtime,
    tokio: tokio::runtime::Runtime,
}

impl Library {
    pub(crate) fn of(builder: Builder) -> Self {
        let runtime = builder.build().unwrap();
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, tokio }
    }

    /// Returns the result of a call.
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        let result = self.tokio.block_on(async { self.runtime.call(tool, arguments).await });
        serde_json::to_value(&result).unwrap()
    }

    /// Undoes the changes of a call.
    pub(crate) fn undo(&self, checkpoint: &str) {
        self.tokio.block_on(async { self.runtime.undo(checkpoint).await }).unwrap();
    }
}

/// The exit code and the output of one run of the program.
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// Parses standard output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {:?}, stderr {:?}", self.stdout, self.stderr))
    }
}

impl Fixture {
    pub(crate) fn new() -> Self {
        // Prefer /var/tmp: a cell replaces /tmp with its own folder, and workspaces usually lie
        // elsewhere.
        let base = if Path::new("/var/tmp").is_dir() { Path::new("/var/tmp") } else { Path::new("/tmp") };
        let folder = tempfile::Builder::new().prefix("handfast-test-").tempdir_in(base).unwrap();
        for name in ["workspace", "state", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// Builds a fixture whose workspace contains these files.
    pub(crate) fn with_files(files: &[(&str, &str)]) -> Self {
        let fixture = Self::new();
        for (path, content) in files {
            fixture.write(path, content);
        }
        fixture
    }

    /// Returns every audit row, the oldest first, except the rows of audit reads.
    pub(crate) fn recorded(&self) -> Vec<Value> {
        let exported = self.run(&["audit", "export"]).stdout;
        let rows = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        rows.filter(|row| row["tool"] != "audit_read").collect()
    }

    /// Builds the fixture's runtime within this process, without the program.
    pub(crate) fn library(&self) -> Library {
        Library::of(self.builder())
    }

    /// Returns the builder of the fixture's runtime.
    pub(crate) fn builder(&self) -> Builder {
        let builder = Runtime::builder().workspace(self.workspace()).state(self.state());
        let builder = builder.configuration(self.home().join(".config/handfast"));
        if self.key_file().exists() { builder.vault_key_file(self.key_file()) } else { builder }
    }

    /// Configures the fixture's user to be asked even about changes that can be undone.
    pub(crate) fn asking(self) -> Self {
        let folder = self.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("config.yaml"), "sandbox_config:\n  normal:\n    undoable: table\n")
            .unwrap();
        self
    }

    /// Adds these lines to the user's configuration.
    pub(crate) fn configure(&self, lines: &str) {
        let folder = self.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("config.yaml");
        let before = std::fs::read_to_string(&file).unwrap_or_default();
        std::fs::write(&file, format!("{before}{lines}")).unwrap();
    }

    /// Configures the fixture's user so that commands reach no host, and nobody is asked about one.
    pub(crate) fn without_hosts(self) -> Self {
        let folder = self.home().join(".config/handfast");
        std::fs::create_dir_all(&folder).unwrap();
        let profile = "sandbox_config:\n  normal:\n    unlisted_hosts: deny\n";
        std::fs::write(folder.join("config.yaml"), profile).unwrap();
        self
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the folder around the workspace, out of every tool's reach.
    pub(crate) fn outside(&self) -> PathBuf {
        self.folder.path().canonicalize().unwrap()
    }

    pub(crate) fn write(&self, path: &str, content: &str) {
        let path = self.workspace().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// Returns the program with this fixture's folders, a clean environment, and nobody to ask.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.asking_command();
        command.arg("--no-input");
        command
    }

    /// Returns the program with this fixture's folders and a clean environment. The program asks a
    /// user who is present.
    pub(crate) fn asking_command(&self) -> Command {
        let mut command = Command::new(program());
        command
            .args(["--workspace".as_ref(), self.workspace().as_os_str()])
            .args(["--state".as_ref(), self.state().as_os_str()])
            .env_clear()
            .env("HOME", self.home())
            .env("PATH", system_path())
            .current_dir(self.workspace());
        if self.key_file().exists() {
            command.env("HANDFAST_VAULT_KEY_FILE", self.key_file());
        }
        command
    }

    /// Returns the path of the vault's key file, which need not exist.
    pub(crate) fn key_file(&self) -> PathBuf {
        self.outside().join("key")
    }

    /// Adds a vault to the fixture, which every run of the program can open.
    pub(crate) fn with_vault(self) -> Self {
        let made = self.run(&["vault", "make-key", self.key_file().to_str().unwrap()]);
        assert_eq!(made.code, 0, "{}", made.stderr);
        self
    }

    /// Stores a secret.
    #[track_caller]
    pub(crate) fn store(&self, name: &str, value: &str) {
        let stored =
            self.run_with_input(&["vault", "set", name, "--host", "api.example.com"], value.as_bytes());
        assert_eq!(stored.code, 0, "{}", stored.stderr);
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        finished(self.command().args(arguments).stdin(Stdio::null()).output().unwrap())
    }

    /// Runs the program with these environment variables.
    pub(crate) fn run_with(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Run {
        let mut command = self.command();
        command.envs(variables.iter().copied()).args(arguments);
        finished(command.stdin(Stdio::null()).output().unwrap())
    }

    pub(crate) fn run_with_input(&self, arguments: &[&str], input: &[u8]) -> Run {
        let mut command = self.command();
        command.args(arguments);
        Self::run_command(command, input)
    }

    /// Runs a command made by [`Fixture::command`].
    pub(crate) fn run_command(mut command: Command, input: &[u8]) -> Run {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        // The program may answer before it has read all input, so another thread writes it.
        let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap();
        finished(output)
    }

    /// Makes one call, with every question answered yes.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: Value) -> Value {
        self.run(&["call", "--yes", tool, &arguments.to_string()]).json()
    }

    /// Makes one call that must work, and returns its data.
    #[track_caller]
    pub(crate) fn data(&self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments);
        assert_eq!(result["ok"], true, "{result:#}");
        result["data"].take()
    }

    /// Makes one call that must fail, and returns its error.
    #[track_caller]
    pub(crate) fn error(&self, tool: &str, arguments: Value) -> Value {
        let mut result = self.call(tool, arguments);
        assert_eq!(result["ok"], false, "{result:#}");
        result["error"].take()
    }
}

/// Returns the folders of this machine's `PATH` that belong to the system. Commands see what `PATH`
/// leads to, and a test must not depend on who runs it.
pub(crate) fn system_path() -> std::ffi::OsString {
    let listed = std::env::var_os("PATH").unwrap_or_default();
    let of_system =
        |folder: &PathBuf| ["/usr", "/bin", "/sbin", "/opt"].iter().any(|top| folder.starts_with(top));
    std::env::join_paths(std::env::split_paths(&listed).filter(of_system)).unwrap()
}

pub(crate) fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_handfast"))
}

/// Copies the program, in another process. If this process opened the copy for writing, a process
/// that another test starts at that moment could inherit the descriptor. The copy could not run
/// while that descriptor is open (ETXTBSY).
#[allow(dead_code, reason = "not every folder of tests needs it")]
pub(crate) fn copy_program(to: &Path) {
    assert!(Command::new("cp").arg(program()).arg(to).status().unwrap().success());
}

/// Returns the root of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns the Python interpreter with the official MCP client, which `cargo xtask test` installs.
pub(crate) fn python_with_mcp() -> PathBuf {
    let python = repository().join("target/test-tools/venv/bin/python");
    assert!(python.exists(), "{} is missing: `cargo xtask test` installs it", python.display());
    python
}

/// Returns the folder of the programs and libraries from npm.
pub(crate) fn node_tools() -> PathBuf {
    let modules = repository().join("target/test-tools/node/node_modules");
    assert!(modules.exists(), "{} is missing: `cargo xtask test` installs it", modules.display());
    modules
}

fn finished(output: Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Puts arithmetic before the line, so that the policy does not read it and only the cell restricts it.
#[allow(dead_code, reason = "not every folder of tests needs it")]
pub(crate) fn unread(line: &str) -> String {
    format!(": $((0)); {line}")
}
