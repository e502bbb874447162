//! `cargo xtask extension`: the scripts of the browser extension, compiled from TypeScript.
//!
//! The compiler's output is committed, because users load the extension from the program, without
//! Node. A step of `cargo xtask test` holds it equal to its source.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::command::{Failure, Result, read, remove_folder, run as run_command, write};
use crate::repository::Repository;
use crate::setup;

/// Folder of the extension, with its source in `src` and its scripts in `js`.
const FOLDER: &str = "extension";

/// Compiles the extension and writes its scripts. With `check`, only compares them.
pub(crate) fn run(repository: &Repository, check: bool) -> Result<()> {
    let modules = setup::node_modules(repository)?;
    let compiled = repository.build_folder()?.join("extension-js");
    remove_folder(&compiled)?;
    let compiler = modules.join("typescript/bin/tsc");
    run_command(
        Command::new("node")
            .arg(compiler)
            .arg("--project")
            .arg(repository.root.join(FOLDER))
            .arg("--typeRoots")
            .arg(modules.join("@types"))
            .arg("--outDir")
            .arg(&compiled),
    )?;
    let (wanted, folder) = (scripts(&compiled)?, repository.root.join(FOLDER).join("js"));
    let there = if folder.exists() { scripts(&folder)? } else { BTreeMap::new() };
    if wanted == there {
        eprintln!("extension: {} scripts are up to date", wanted.len());
        return Ok(());
    }
    if check {
        return Err(Failure(format!(
            "{FOLDER}/js differs from what {FOLDER}/src compiles to\nTo write it: cargo xtask extension"
        )));
    }
    remove_folder(&folder)?;
    for (name, text) in &wanted {
        write(&folder.join(name), text)?;
    }
    eprintln!("extension: {} scripts written", wanted.len());
    Ok(())
}

/// Returns the scripts of a folder by name.
fn scripts(folder: &Path) -> Result<BTreeMap<String, String>> {
    let failed = |error: std::io::Error| Failure(format!("cannot read {}: {error}", folder.display()));
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        found.insert(name, read(&path)?);
    }
    Ok(found)
}
