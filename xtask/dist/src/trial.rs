//! Installs each artefact with its own client and makes a call with it, as a user does.
//!
//! Every installation goes into a folder of its own and reaches no network. An artefact for another architecture,
//! or one whose client is not on this machine, is not tried, and the summary says so.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::artefacts::{Artefact, Form, file_name};
use crate::command::{Failure, Result, capture, probe, run, write};
use crate::product::{NAME, Product};
use crate::target::Target;

/// The text that the tried call prints.
const SAID: &str = "held fast";

/// Tries every artefact of this machine's architecture. Returns the outcome of each artefact by its path.
pub(crate) fn all(product: &Product, artefacts: &[Artefact]) -> Result<Vec<(PathBuf, String)>> {
    let mut tried = Vec::new();
    for artefact in artefacts.iter().filter(|artefact| artefact.form != Form::Text) {
        let here = artefact.target.is_none() || artefact.target == Target::of_this_machine();
        let outcome = if here {
            one(product, artefact, artefacts).map_err(|failure| {
                Failure(format!("{} does not work: {failure}", file_name(&artefact.path)))
            })?
        } else {
            "not tried: another architecture".to_owned()
        };
        tried.push((artefact.path.clone(), outcome));
    }
    Ok(tried)
}

fn one(product: &Product, artefact: &Artefact, artefacts: &[Artefact]) -> Result<String> {
    let folder = tempfile::tempdir().map_err(|error| Failure(format!("cannot make a folder: {error}")))?;
    let (folder, file) = (folder.path(), artefact.path.as_path());
    let (client, mut handfast) = match artefact.form {
        Form::Archive => ("tar", unpacked(file, folder)?),
        Form::Deb if !client("dpkg") => return Ok(missing("dpkg")),
        Form::Deb => ("dpkg", with_dpkg(file, folder)?),
        Form::NpmLauncher if !client("npm") => return Ok(missing("npm")),
        Form::NpmLauncher => ("npm", with_npm(file, artefacts, folder)?),
        Form::NpmProgram => return Ok("tried with the package that starts it".to_owned()),
        Form::Wheel if !client("python3") => return Ok(missing("python3")),
        Form::Wheel => ("pip", with_pip(file, folder)?),
        Form::Languages => return languages(artefact, artefacts, folder),
        Form::Text => return Ok(String::new()),
    };
    check(product, folder, &mut handfast)?;
    Ok(format!("works, installed by {client}"))
}

/// Starts the installed program anew.
type Started = Box<dyn FnMut() -> Command>;

/// Asks the program for its version, and makes a call whose command runs in a cell.
fn check(product: &Product, folder: &Path, handfast: &mut Started) -> Result<()> {
    let stated = capture(handfast().arg("--version"))?;
    let expected = format!("{NAME} {}", product.version);
    if stated.trim() != expected {
        return Err(Failure(format!("it is `{}`, not `{expected}`", stated.trim())));
    }
    let (workspace, home) = (folder.join("workspace"), folder.join("home"));
    for folder in [&workspace, &home] {
        std::fs::create_dir_all(folder).map_err(|error| Failure(format!("cannot make a folder: {error}")))?;
    }
    let arguments = serde_json::json!({"command": format!("printf '%s' '{SAID}'")}).to_string();
    let mut call = handfast();
    call.arg("--workspace").arg(&workspace).arg("--state").arg(folder.join("state")).env("HOME", &home);
    let answer = capture(call.args(["--no-input", "call", "--yes", "shell_execute", &arguments]))?;
    let answer: Value =
        serde_json::from_str(&answer).map_err(|error| Failure(format!("its answer is not JSON: {error}")))?;
    if answer["data"]["stdout"] != SAID {
        return Err(Failure(format!("its call answered {answer}")));
    }
    Ok(())
}

/// Installs the languages with the program of the archive, and asks the graph about a file in one of them.
fn languages(artefact: &Artefact, artefacts: &[Artefact], folder: &Path) -> Result<String> {
    let archive = artefacts
        .iter()
        .find(|one| one.form == Form::Archive && one.target == artefact.target)
        .ok_or_else(|| Failure::new("there is no archive for this architecture"))?;
    let mut handfast = unpacked(&archive.path, folder)?;
    let workspace = folder.join("workspace");
    write(&workspace.join("a.cpp"), "int held() { return 1; }\nint fast() { return held(); }\n")?;
    let mut with_state = || {
        let mut command = handfast();
        command.arg("--workspace").arg(&workspace).arg("--state").arg(folder.join("state"));
        command.env("HOME", folder);
        command
    };
    run(with_state().args(["setup", "languages", "--from"]).arg(&artefact.path))?;
    let query = "MATCH (g)-[:CALLS]->(f) RETURN g.name AS g, f.name AS f";
    let answer = capture(with_state().args(["graph", "query", "--json", query]))?;
    if !answer.contains("held") || !answer.contains("fast") {
        return Err(Failure(format!("the graph answered {answer}")));
    }
    Ok("works, installed by handfast setup languages".to_owned())
}

fn unpacked(file: &Path, folder: &Path) -> Result<Started> {
    run(Command::new("tar").arg("-xzf").arg(file).arg("-C").arg(folder))?;
    let inner = file_name(file).trim_end_matches(".tar.gz").to_owned();
    for path in ["LICENSE-MIT", "LICENSES-THIRD-PARTY.txt", "completions/_handfast", "man/man1/handfast.1"] {
        present(&folder.join(&inner).join(path))?;
    }
    Ok(program(folder.join(inner).join(NAME)))
}

/// Installs the package into a root of its own, with its scripts. Only root may give files to root, so another user
/// only unpacks it.
fn with_dpkg(file: &Path, folder: &Path) -> Result<Started> {
    let root = folder.join("root");
    if probe(Command::new("sh").args(["-c", r#"test "$(id -u)" = 0"#])) {
        let database = root.join("var/lib/dpkg");
        for name in ["status", "available"] {
            write(&database.join(name), "")?;
        }
        for name in ["info", "updates", "triggers"] {
            let made = std::fs::create_dir_all(database.join(name));
            made.map_err(|error| Failure(format!("cannot make dpkg's folders: {error}")))?;
        }
        let mut dpkg = Command::new("dpkg");
        // There is no shell in that root: the scripts run here, and know it by DPKG_ROOT.
        dpkg.arg(format!("--root={}", root.display())).args(["--force-script-chrootless", "--install"]);
        run(dpkg.arg(file))?;
    } else {
        run(Command::new("dpkg-deb").arg("--extract").arg(file).arg(&root))?;
    }
    for path in ["usr/share/man/man1/handfast.1.gz", "usr/share/doc/handfast/copyright"] {
        present(&root.join(path))?;
    }
    Ok(program(root.join("usr/bin").join(NAME)))
}

fn with_npm(file: &Path, all: &[Artefact], folder: &Path) -> Result<Started> {
    let here = Target::of_this_machine();
    let program = all.iter().find(|artefact| artefact.form == Form::NpmProgram && artefact.target == here);
    let program = program.ok_or_else(|| Failure::new("there is no program for this architecture"))?;
    let project = folder.join("project");
    write(&project.join("package.json"), "{\"private\": true}\n")?;
    let cache = folder.join("cache");
    let npm = {
        let (project, cache) = (project.clone(), cache);
        move |name: &str| {
            let mut command = Command::new(name);
            command
                .current_dir(&project)
                .env("npm_config_cache", &cache)
                .env("npm_config_update_notifier", "false");
            command.arg("--offline");
            command
        }
    };
    let install = ["install", "--ignore-scripts", "--no-audit", "--no-fund"];
    run(npm("npm").args(install).arg(file).arg(&program.path))?;
    Ok(Box::new(move || {
        let mut command = npm("npx");
        command.args(["--no", "--", NAME]);
        command
    }))
}

fn with_pip(file: &Path, folder: &Path) -> Result<Started> {
    let venv = folder.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index"];
    run(Command::new(venv.join("bin/python")).args(pip).arg(file))?;
    Ok(program(venv.join("bin").join(NAME)))
}

fn program(path: PathBuf) -> Started {
    Box::new(move || Command::new(&path))
}

fn client(name: &str) -> bool {
    probe(Command::new(name).arg("--version"))
}

fn missing(client: &str) -> String {
    format!("not tried: {client} is not on this machine")
}

fn present(path: &Path) -> Result<()> {
    if path.is_file() { Ok(()) } else { Err(Failure(format!("it did not install {}", path.display()))) }
}
