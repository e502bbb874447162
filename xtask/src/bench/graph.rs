//! The code graph: indexing, edits and opening on sources of published crates, through the whole program and in the
//! library, and queries of a large graph beside those of Kuzu.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::bench::measure::Durations;
use crate::bench::server::{Kind, Server};
use crate::command::{Failure, Result, probe, run, write};
use crate::repository::Repository;
use crate::setup;

/// Number of samples.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) starts: usize,
    pub(super) edits: usize,
}

/// Figures of the code graph through the whole program.
#[derive(Default)]
pub(super) struct Measured {
    pub(super) files: usize,
    pub(super) lines: usize,
    /// First query of a workspace that nobody has read.
    pub(super) first: Duration,
    /// Queries after an edit.
    pub(super) edited: Durations,
    /// Queries without an edit.
    pub(super) unedited: Durations,
    /// First queries of servers that open the kept graph.
    pub(super) opened: Durations,
    /// Memory of the server with the graph, in KiB.
    pub(super) resident: u64,
    /// Bytes that the grammars add to a program.
    pub(super) grammars: u64,
}

/// Measures the program with a workspace.
pub(super) fn all(kind: &Kind, corpus: &Path, samples: Samples) -> Result<Measured> {
    let mut measured = Measured::default();
    let mut by_size: Vec<(u64, PathBuf)> = Vec::new();
    for path in sources(corpus)? {
        let content = fs::read(&path).map_err(|error| failed(&path, &error))?;
        measured.files += 1;
        measured.lines += content.split(|byte| *byte == b'\n').count().saturating_sub(1);
        by_size.push((content.len() as u64, path));
    }
    by_size.sort();
    let Some((_, edited)) = by_size.get(by_size.len() * 3 / 4) else {
        return Err(Failure("the corpus is empty".to_owned()));
    };
    let original = fs::read_to_string(edited).map_err(|error| failed(edited, &error))?;
    eprintln!("asking about {} files, and editing one {} times", measured.files, samples.edits);
    let mut server = Server::start(kind)?;
    measured.first = server.call(count_of("main"))?.took;
    for edit in 0..samples.edits {
        let name = format!("a_function_of_the_benchmark_{edit}");
        write(edited, &format!("{original}\nfn {name}() {{}}\n"))?;
        let answer = server.call(count_of(&name))?;
        // The name is asked for anew, so an answer without the edit would count none.
        if !answer.line.contains("\"n\":1") {
            let start: String = answer.line.chars().take(300).collect();
            return Err(Failure(format!("the edit is not in the answer: {start}")));
        }
        measured.edited.add(answer.took);
        measured.unedited.add(server.call(count_of(&name))?.took);
    }
    measured.resident = server.resident()?;
    server.stop()?;
    write(edited, &original)?;
    for start in 0..=samples.starts {
        let mut server = Server::start(kind)?;
        let took = server.call(count_of("main"))?.took;
        server.stop()?;
        // The first start keeps the graph of the files as they are.
        if start > 0 {
            measured.opened.add(took);
        }
    }
    Ok(measured)
}

fn count_of(name: &str) -> (&'static str, serde_json::Value) {
    let query = "MATCH (f:Function {name: $name}) RETURN count(f) AS n";
    ("graph_query", json!({"query": query, "params": {"name": name}}))
}

fn sources(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut files, mut open) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = open.pop() {
        for path in entries(&folder)? {
            if path.is_dir() {
                open.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Returns the bytes that the grammars add to a stripped program: the same example with and without them.
pub(super) fn grammars(repository: &Repository, folder: &Path) -> Result<u64> {
    if !probe(Command::new("strip").arg("--version")) {
        return Err(Failure("the size of the grammars needs `strip`; install binutils".to_owned()));
    }
    let built = repository.build_folder()?.join("release/examples/call_graph");
    let mut sizes = Vec::new();
    // The one with grammars is built last, so that it stays for others.
    for options in [["--no-default-features"].as_slice(), &[]] {
        let arguments =
            ["build", "--release", "--quiet", "--package", "codegraph", "--example", "call_graph"];
        run(repository.cargo(&arguments).args(options))?;
        let stripped = folder.join("stripped");
        run(Command::new("strip").arg("-o").arg(&stripped).arg(&built))?;
        sizes.push(fs::metadata(&stripped).map_err(|error| failed(&stripped, &error))?.len());
    }
    let [without, with] = sizes[..] else { return Err(Failure::new("two sizes are missing")) };
    Ok(with.saturating_sub(without))
}

/// Runs the example that asks a graph of 200,000 nodes, in turns with Kuzu.
pub(super) fn queries(repository: &Repository) -> Result<()> {
    setup::install_python_tools(repository, "graph-bench", "graph-bench.txt", &[])?;
    let arguments = ["run", "--release", "--quiet", "--package", "cypher", "--example", "measure", "--"];
    let mut cargo = repository.cargo(&arguments);
    cargo.arg(repository.test_tools().join("graph-bench/bin/python"));
    run(cargo.arg(repository.root.join("xtask/test-tools/graph_peer.py")))
}

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
