//! The code graph: indexing, edits and opening on sources of published crates, and queries of a large graph.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Failure, Result};

/// Number of lines of the sources: about those of Cargo.
const LINES: usize = 341_000;

/// Number of lines for a first impression.
const FEW_LINES: usize = 30_000;

/// Copies sources of crates from the machine's cache of Cargo, up to about a number of lines. Returns the folder.
pub(super) fn prepare(folder: &Path, quick: bool) -> Result<PathBuf> {
    let wanted = if quick { FEW_LINES } else { LINES };
    let corpus = folder.join("corpus");
    let mut lines = 0;
    for package in packages()? {
        if lines >= wanted {
            break;
        }
        let Some(name) = package.file_name() else { continue };
        lines += copy(&package, &corpus.join(name), wanted - lines)?;
    }
    if lines == 0 {
        return Err(Failure("Cargo's cache has no sources; run `cargo fetch`".to_owned()));
    }
    Ok(corpus)
}

/// Returns the folders of the crates in the cache, in the order of their names.
fn packages() -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let user = || std::env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let home = home.or_else(user).ok_or_else(|| Failure("set CARGO_HOME or HOME".to_owned()))?;
    let mut packages = Vec::new();
    for registry in entries(&home.join("registry/src"))? {
        packages.extend(entries(&registry)?);
    }
    packages.sort();
    Ok(packages)
}

/// Copies the Rust sources of a crate, up to about a number of lines. Returns the number of lines.
fn copy(from: &Path, to: &Path, most: usize) -> Result<usize> {
    let mut lines = 0;
    let mut open = vec![from.to_owned()];
    while let Some(folder) = open.pop() {
        for path in entries(&folder)? {
            let kind = fs::symlink_metadata(&path).map_err(|error| failed(&path, &error))?;
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|ending| ending == "rs") && lines < most
            {
                let content = fs::read(&path).map_err(|error| failed(&path, &error))?;
                lines += content.split(|byte| *byte == b'\n').count().saturating_sub(1);
                let target = to.join(path.strip_prefix(from).unwrap_or(&path));
                let parent = target.parent().unwrap_or(to);
                fs::create_dir_all(parent).map_err(|error| failed(parent, &error))?;
                fs::write(&target, content).map_err(|error| failed(&target, &error))?;
            }
        }
    }
    Ok(lines)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let listed = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    let mut paths = Vec::new();
    for entry in listed {
        paths.push(entry.map_err(|error| failed(folder, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure(format!("cannot use {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_copied_up_to_the_number_of_lines() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("crate");
        fs::create_dir_all(from.join("src")).unwrap();
        for (path, content) in [("src/a.rs", "1\n2\n"), ("src/b.rs", "3\n"), ("notes.md", "x\n")] {
            fs::write(from.join(path), content).unwrap();
        }
        let to = folder.path().join("to");
        assert_eq!(copy(&from, &to, 2).unwrap(), 2);
        assert_eq!(entries(&to.join("src")).unwrap(), [to.join("src/a.rs")]);
        assert_eq!(copy(&from, &to, 10).unwrap(), 3);
        assert!(!to.join("notes.md").exists());
    }
}
