//! Prepares a machine for the tests: programs, the official MCP client, the benchmark's peer.
//!
//! Debian packages are installed only if no password is needed, and only if their program is
//! missing. Everything else goes under `target/test-tools`, pinned, and stays unchanged while its
//! pins are unchanged:
//!
//! - `target/test-tools/venv/bin/python`: a Python with the official MCP SDK; the whole-binary
//!   tests run this one.
//! - `target/test-tools/agents/bin/python`: a Python with agent frameworks.
//! - `target/test-tools/servers/bin/python`: a Python with official MCP servers.
//! - `target/test-tools/node/node_modules`: the TypeScript SDK, the AI SDK, official MCP servers, and the
//!   compiler of the browser extension.
//! - `target/test-tools/clients/node_modules`: agent clients; only `cargo xtask clients` installs them.
//! - `target/test-tools/browser/node_modules`: the peer of `cargo xtask bench --only browser`.
//! - `target/test-tools/cypher/bin/python`: a Python with the second engine of `cargo xtask eval cypher`, which alone
//!   installs it.
//! - `target/test-tools/graph-bench/bin/python`: a Python with the peer of `cargo xtask bench --only graph`.
//! - `target/test-tools/oracles/node_modules`: compilers that judge the code graph; only `cargo xtask eval oracles`
//!   installs them.
//! - The embedding model and its reference: see `embedding`.
//! - The model of language: see `language`.

pub(crate) mod embedding;
mod language;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, Result, capture, probe, read, remove_folder, run, write};
use crate::repository::Repository;

/// A program that the tests need on the machine.
struct Requirement {
    /// Name of the requirement for messages.
    what: &'static str,
    /// Command that exits with 0 if the requirement is met.
    probe: &'static [&'static str],
    /// Debian packages that provide the requirement.
    packages: &'static [&'static str],
}

const REQUIREMENTS: [Requirement; 12] = [
    Requirement { what: "git", probe: &["git", "--version"], packages: &["git"] },
    Requirement { what: "GitHub's gh", probe: &["gh", "--version"], packages: &["gh"] },
    Requirement {
        what: "Python 3.11 or newer",
        probe: &["python3", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"],
        packages: &["python3"],
    },
    Requirement {
        what: "Python's venv module",
        probe: &["python3", "-c", "import ensurepip, venv"],
        packages: &["python3-venv"],
    },
    Requirement { what: "Node.js", probe: &["node", "--version"], packages: &["nodejs"] },
    Requirement {
        what: "a browser",
        probe: &["chromium-headless-shell", "--version"],
        packages: &["chromium-headless-shell"],
    },
    Requirement {
        // Extensions do not load in the headless shell.
        what: "a browser with extensions",
        probe: &["chromium", "--version"],
        packages: &["chromium"],
    },
    Requirement { what: "npm", probe: &["npm", "--version"], packages: &["npm"] },
    Requirement {
        what: "gcc with the C library's headers",
        probe: &["sh", "-c", "echo '#include <stdio.h>' | gcc -x c -E - "],
        packages: &["gcc", "libc6-dev"],
    },
    Requirement { what: "bubblewrap", probe: &["bwrap", "--version"], packages: &["bubblewrap"] },
    Requirement {
        what: "a D-Bus bus",
        probe: &["sh", "-c", "dbus-daemon --version && command -v dbus-send"],
        packages: &["dbus"],
    },
    Requirement { what: "make", probe: &["make", "--version"], packages: &["make"] },
];

/// Components of the Rust toolchain, as pairs of the cargo command and the component's name.
const COMPONENTS: [(&str, &str); 2] = [("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs missing requirements. Fails with their names if installing is not permitted.
pub(crate) fn run_all(repository: &Repository) -> Result<()> {
    check_components(repository)?;
    install_programs()?;
    install_python_tools(repository, "venv", "requirements.txt", &[])?;
    // Python compiles the files that the tests import, which are about half of them.
    install_python_tools(repository, "agents", "agents.txt", &["--no-compile"])?;
    install_python_tools(repository, "servers", "servers.txt", &[])?;
    install_node_tools(repository)?;
    embedding::install(repository)?;
    language::install(repository)
}

fn check_components(repository: &Repository) -> Result<()> {
    let missing: Vec<_> = COMPONENTS
        .iter()
        .filter(|(command, _)| !probe(&mut repository.cargo(&[command, "--version"])))
        .map(|(_, component)| *component)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names = missing.join(" ");
    Err(Failure(format!("the Rust toolchain lacks {names}; install with: rustup component add {names}")))
}

fn install_programs() -> Result<()> {
    let missing = missing_of(&REQUIREMENTS);
    if missing.is_empty() {
        return Ok(());
    }
    let Some(prefix) = apt_prefix() else {
        return Err(cannot_install(&missing));
    };
    eprintln!("installing {} (only what is missing)", packages_of(&missing).join(" "));
    let apt = |arguments: &[&str]| {
        let words: Vec<&str> =
            prefix.iter().copied().chain(["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]).collect();
        let (program, rest) = words.split_first().ok_or_else(|| Failure::new("an empty command"))?;
        run(Command::new(program).args(rest).args(arguments))
    };
    apt(&["update", "--quiet"])?;
    let mut install = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
    install.extend(packages_of(&missing));
    apt(&install)?;
    let still = missing_of(&REQUIREMENTS);
    if still.is_empty() { Ok(()) } else { Err(cannot_install(&still)) }
}

fn missing_of(requirements: &[Requirement]) -> Vec<&Requirement> {
    let met = |requirement: &&Requirement| {
        requirement
            .probe
            .split_first()
            .is_some_and(|(program, arguments)| probe(Command::new(program).args(arguments)))
    };
    requirements.iter().filter(|requirement| !met(requirement)).collect()
}

fn packages_of(requirements: &[&Requirement]) -> Vec<&'static str> {
    requirements.iter().flat_map(|requirement| requirement.packages.iter().copied()).collect()
}

/// Returns the words before `apt-get`, or `None` if it cannot run without a password.
fn apt_prefix() -> Option<&'static [&'static str]> {
    if !probe(Command::new("apt-get").arg("--version")) {
        return None;
    }
    if probe(Command::new("sh").args(["-c", r#"test "$(id -u)" = 0"#])) {
        return Some(&[]);
    }
    probe(Command::new("sudo").args(["-n", "true"])).then_some(&["sudo", "-n"])
}

fn cannot_install(missing: &[&Requirement]) -> Failure {
    let what: Vec<_> = missing.iter().map(|requirement| requirement.what).collect();
    Failure(format!(
        "the tests need {}.\nOn Debian or Ubuntu: sudo apt-get install {}",
        what.join(", "),
        packages_of(missing).join(" ")
    ))
}

/// Installs the packages of a file into a venv of their own. `options` are further ones of pip.
pub(crate) fn install_python_tools(
    repository: &Repository,
    venv: &str,
    file: &str,
    options: &[&str],
) -> Result<()> {
    let requirements = repository.root.join("xtask/test-tools").join(file);
    let venv = repository.test_tools().join(venv);
    let python = venv.join("bin/python");
    // The interpreter is part of the pin, because a venv does not outlive the Python that created it.
    let version =
        capture(Command::new("python3").args(["-c", "import sys; print(sys.executable, sys.version)"]))?;
    let pins = format!("{version}{}", read(&requirements)?);
    install_once(&venv, &pins, probe(Command::new(&python).args(["-c", ""])), || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "--disable-pip-version-check"];
        // Without `--no-deps`, pip would install the newest version of any dependency that the file
        // omits.
        run(Command::new(&python)
            .args(pip)
            .args(["install", "--quiet", "--no-deps"])
            .args(options)
            .arg("-r")
            .arg(&requirements))?;
        run(Command::new(&python).args(pip).arg("check"))
    })
}

fn install_node_tools(repository: &Repository) -> Result<()> {
    node_modules(repository).map(drop)
}

/// Installs the packages for the tests, and returns their `node_modules`.
pub(crate) fn node_modules(repository: &Repository) -> Result<PathBuf> {
    install_packages(repository, "xtask/test-tools", "node")
}

/// Installs the agent clients, and returns their `node_modules`.
pub(crate) fn install_clients(repository: &Repository) -> Result<PathBuf> {
    install_packages(repository, "xtask/test-tools/clients", "clients")
}

/// Installs the peer of the browser benchmark, and returns its `node_modules`.
pub(crate) fn install_browser_peer(repository: &Repository) -> Result<PathBuf> {
    install_packages(repository, "xtask/test-tools/browser", "browser")
}

/// Installs the compilers that judge the code graph, and returns their `node_modules`.
pub(crate) fn install_oracles(repository: &Repository) -> Result<PathBuf> {
    install_packages(repository, "xtask/test-tools/oracles", "oracles")
}

/// Installs the packages that the folder `pins` locks, and returns their `node_modules`. No script of
/// a package runs.
fn install_packages(repository: &Repository, pins: &str, name: &str) -> Result<PathBuf> {
    let folder = repository.test_tools().join(name);
    let package = repository.read(&format!("{pins}/package.json"))?;
    let lock = repository.read(&format!("{pins}/package-lock.json"))?;
    install_once(&folder, &format!("{package}{lock}"), true, || {
        write(&folder.join("package.json"), &package)?;
        write(&folder.join("package-lock.json"), &lock)?;
        run(Command::new("npm").current_dir(&folder).args([
            "ci",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
        ]))
    })?;
    Ok(folder.join("node_modules"))
}

/// Runs `install` into an empty `folder`, unless the folder already exists with exactly these pins
/// and `works`.
///
/// The stamp is written last, so an interrupted installation never counts as complete.
fn install_once(folder: &Path, pins: &str, works: bool, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp: PathBuf = folder.join("installed-pins");
    if works && std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == pins) {
        return Ok(());
    }
    remove_folder(folder)?;
    install()?;
    write(&stamp, pins)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const MET: Requirement = Requirement { what: "truth", probe: &["true"], packages: &["coreutils"] };
    const UNMET: Requirement =
        Requirement { what: "falsehood", probe: &["false"], packages: &["liar", "liar-data"] };

    #[test]
    fn only_what_is_missing_is_named() {
        let failure = cannot_install(&missing_of(&[MET, UNMET]));
        assert_eq!(
            failure.0,
            "the tests need falsehood.\nOn Debian or Ubuntu: sudo apt-get install liar liar-data"
        );
    }

    #[test]
    fn an_installation_is_repeated_when_its_pins_change_or_it_no_longer_works() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("tools");
        let installed = Cell::new(0);
        let install = |pins: &str, works: bool| {
            install_once(&folder, pins, works, || {
                installed.set(installed.get() + 1);
                write(&folder.join("tool"), pins)
            })
            .unwrap();
            installed.get()
        };
        assert_eq!(install("a==1", true), 1);
        assert_eq!(install("a==1", true), 1, "unchanged pins are skipped");
        assert_eq!(install("a==2", true), 2, "changed pins are installed");
        assert_eq!(install("a==2", false), 3, "what no longer works is installed anew");
    }

    #[test]
    fn an_interrupted_installation_is_done_again() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("tools");
        let broken = install_once(&folder, "a==1", true, || {
            write(&folder.join("half"), "")?;
            Err(Failure::new("the line went down"))
        });
        assert_eq!(broken, Err(Failure::new("the line went down")));
        install_once(&folder, "a==1", true, || write(&folder.join("whole"), "")).unwrap();
        assert!(folder.join("whole").exists());
        assert!(!folder.join("half").exists(), "nothing of the interrupted one is left");
    }
}
