//! `cargo xtask eval oracles`: the calls of the code graph on real packages, compared with those that TypeScript's
//! own compiler and scip-python find there. The packages and the compilers come from their registries, pinned.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{Failure, Result, capture, remove_folder, run as run_command, write};
use crate::repository::Repository;
use crate::setup;

/// Packages from npm whose sources are in TypeScript, in the folder `src`.
const OF_TYPESCRIPT: [&str; 2] = ["zod", "rxjs"];

/// Packages of Python, with their versions.
const OF_PYTHON: [(&str, &str); 2] = [("click", "8.1.8"), ("requests", "2.32.3")];

/// Compares all packages, and fails at the end if one is below the aims. With `prints_all`, prints every difference.
pub(super) fn run(repository: &Repository, only: Option<&str>, prints_all: bool) -> Result<()> {
    let modules = setup::install_oracles(repository)?;
    let folder = repository.root.join("target/oracles");
    std::fs::create_dir_all(&folder)
        .map_err(|error| Failure(format!("cannot make {}: {error}", folder.display())))?;
    let is_wanted = |name: &str| only.is_none_or(|only| only == name);
    let mut failed = Vec::new();
    for name in OF_TYPESCRIPT.into_iter().filter(|name| is_wanted(name)) {
        let calls = calls_of_typescript(repository, &modules, &folder, name)?;
        failed.extend(compare(repository, name, (&folder.join(name), &calls), prints_all).err());
    }
    for (name, version) in OF_PYTHON.into_iter().filter(|(name, _)| is_wanted(name)) {
        let calls = calls_of_python(repository, &modules, &folder, (name, version))?;
        failed.extend(compare(repository, name, (&folder.join(name), &calls), prints_all).err());
    }
    match failed.len() {
        0 => Ok(()),
        count => Err(Failure(format!("{count} packages are below the aims"))),
    }
}

/// Returns the names of the packages.
pub(super) fn names() -> Vec<&'static str> {
    OF_TYPESCRIPT.into_iter().chain(OF_PYTHON.map(|(name, _)| name)).collect()
}

fn script(repository: &Repository, name: &str) -> PathBuf {
    repository.root.join("xtask/test-tools/oracles").join(name)
}

/// Copies the sources of a package, because a compiler treats what is in `node_modules` in another way.
fn calls_of_typescript(
    repository: &Repository,
    modules: &Path,
    folder: &Path,
    name: &str,
) -> Result<PathBuf> {
    let sources = folder.join(name);
    remove_folder(&sources)?;
    run_command(Command::new("cp").arg("-r").arg(modules.join(name).join("src")).arg(&sources))?;
    let mut node = Command::new("node");
    node.arg(script(repository, "calls_of_typescript.cjs")).arg(&sources).env("NODE_PATH", modules);
    kept(folder, name, &capture(&mut node)?)
}

fn calls_of_python(
    repository: &Repository,
    modules: &Path,
    folder: &Path,
    (name, version): (&str, &str),
) -> Result<PathBuf> {
    let (sources, wheels) = (folder.join(name), folder.join(format!("{name}-wheel")));
    for folder in [&sources, &wheels] {
        remove_folder(folder)?;
    }
    let pip = ["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"];
    let mut download = Command::new("python3");
    download.args(pip).args(["--only-binary=:all:", "--dest"]).arg(&wheels);
    run_command(download.arg(format!("{name}=={version}")))?;
    let unpack = "import pathlib, sys, zipfile\n\
                  zipfile.ZipFile(next(pathlib.Path(sys.argv[1]).glob('*.whl'))).extractall(sys.argv[2])\n";
    run_command(Command::new("python3").args(["-c", unpack]).args([&wheels, &sources]))?;
    // Without the list of installed packages, names of other packages lead nowhere, which is not judged.
    let (environment, index) = (folder.join("environment.json"), folder.join(format!("{name}.scip")));
    write(&environment, "[]\n")?;
    let mut scip = Command::new("node");
    scip.current_dir(&sources).arg(modules.join("@sourcegraph/scip-python/index.js")).arg("index");
    scip.args(["--quiet", "--project-name", name, "--project-version", version, "--environment"]);
    run_command(scip.arg(&environment).arg("--output").arg(&index))?;
    let mut python = Command::new("python3");
    python.arg("-B").arg(script(repository, "calls_of_python.py")).args([&sources, &index]);
    kept(folder, name, &capture(&mut python)?)
}

fn kept(folder: &Path, name: &str, calls: &str) -> Result<PathBuf> {
    let path = folder.join(format!("{name}.json"));
    write(&path, calls)?;
    Ok(path)
}

fn compare(
    repository: &Repository,
    name: &str,
    (sources, calls): (&Path, &Path),
    prints_all: bool,
) -> Result<()> {
    eprintln!("{name}");
    let mut cargo = repository.cargo(&super::example("codegraph", "oracle"));
    cargo.arg(sources).arg(calls).args(prints_all.then_some("--all"));
    run_command(&mut cargo)
}
