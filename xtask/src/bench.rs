//! Speed and memory of the release binary, compared with a peer that does the same work.
//!
//! The benchmark talks to both servers over stdio with the same raw messages, in turns within one
//! run, so that a busy machine is busy for both. The ratios mean more than the figures. Policy and
//! audit of Handfast are on, as they always are. Commands are compared with the same commands run
//! bare and in bubblewrap, changes with the programs that make the same changes. The benchmark
//! compares and prints. No figure makes the benchmark fail, because only the user of the machine
//! knows what else is running.

mod agents;
mod browser;
mod changes;
mod commands;
mod embedding;
mod gateway;
mod graph;
mod http;
mod measure;
mod plugins;
mod report;
mod schedules;
mod scripts;
mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

pub(crate) use crate::bench::server::figure;
use crate::bench::server::{Call, Kind};
use crate::command::{Failure, Result, remove_folder, run as run_command, write};
use crate::repository::Repository;
use crate::setup;

/// Number of entries in the folder that is listed.
const ENTRIES: usize = 10_000;
const SMALL_FILE: usize = 1_024;
const LARGE_FILE: usize = 10 * 1_024 * 1_024;

/// The two servers. Both serve one workspace with `small.txt`, `large.txt` and `many/`.
struct Bench {
    handfast: Kind,
    peer: Kind,
}

/// Number of samples per measurement.
#[derive(Clone, Copy)]
struct Samples {
    starts: usize,
    small_reads: usize,
    large_reads: usize,
    listings: usize,
    commands: usize,
    changes: changes::Samples,
    http: http::Samples,
    browser: browser::Samples,
    schedules: schedules::Samples,
    agents: agents::Samples,
    plugins: usize,
    scripts: usize,
    gateway: gateway::Samples,
    graph: graph::Samples,
}

impl Samples {
    const FULL: Self = Self {
        starts: 30,
        small_reads: 4_000,
        large_reads: 20,
        listings: 40,
        commands: 300,
        changes: changes::Samples { edits: 20, patches: 20, commands: 10, reads: 100 },
        http: http::Samples { alone: 4_000, calls: 96_000, sessions: 5_000 },
        browser: browser::Samples { starts: 5, actions: 30 },
        schedules: schedules::Samples { jobs: 9_900, firings: 30 },
        agents: agents::Samples { turns: 200, questions: 60, agents: 100 },
        plugins: 300,
        scripts: 30,
        gateway: gateway::Samples { calls: 2_000, starts: 20 },
        graph: graph::Samples { starts: 10, edits: 30 },
    };
    const QUICK: Self = Self {
        starts: 3,
        small_reads: 400,
        large_reads: 2,
        listings: 4,
        commands: 30,
        changes: changes::Samples { edits: 2, patches: 2, commands: 2, reads: 10 },
        http: http::Samples { alone: 400, calls: 3_200, sessions: 500 },
        browser: browser::Samples { starts: 1, actions: 5 },
        schedules: schedules::Samples { jobs: 100, firings: 3 },
        agents: agents::Samples { turns: 20, questions: 6, agents: 10 },
        plugins: 30,
        scripts: 3,
        gateway: gateway::Samples { calls: 200, starts: 3 },
        graph: graph::Samples { starts: 2, edits: 3 },
    };
}

/// One part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Part {
    /// Start, reads and listings, compared with a peer
    Reads,
    /// Commands, compared with the same commands bare and in bubblewrap
    Commands,
    /// Edits, patches, checkpoints and undo, compared with programs that do the same
    Changes,
    /// The browser tools, compared with `@playwright/mcp`
    Browser,
    /// Storing and firing of scheduled tasks, compared with `APScheduler`
    Schedules,
    /// Turns of agents, questions between them, and the memory of idle ones
    Agents,
    /// Calls of plugins whose process waits, or starts, beside a command
    Plugins,
    /// Scripts with many calls, compared with the same calls one by one
    Scripts,
    /// Reads over HTTP, alone and with many in flight, and the memory of calls and sessions
    Http,
    /// Calls of another MCP server through Handfast, compared with those of the bare server
    Gateway,
    /// Requests to a web server, compared with those of a bare client
    Web,
    /// Cost of a policy decision
    Decisions,
    /// The way out of a cell
    Egress,
    /// One row of a database, compared with SQLite alone
    Data,
    /// Indexing and searching knowledge
    Knowledge,
    /// Embedding of texts, compared with onnxruntime and the same model
    Embedding,
    /// Search for the nearest of many vectors, compared with a plain scan
    Vectors,
    /// Indexing, edits and opening of the code graph, and its queries, compared with those of Kuzu
    Graph,
    /// Covering secrets, and looking up one secret
    Secrets,
}

/// Measures the given part, or all parts, and prints the tables.
pub(crate) fn run(
    repository: &Repository,
    binary: Option<&Path>,
    quick: bool,
    only: Option<Part>,
) -> Result<()> {
    setup::run_all(repository)?;
    let binary = match binary {
        Some(path) => path.to_owned(),
        None => build(repository)?,
    };
    let folder = repository.root.join("target/bench");
    remove_folder(&folder)?;
    let samples = if quick { Samples::QUICK } else { Samples::FULL };
    let wants = |part| only.is_none_or(|only| only == part);
    if wants(Part::Reads) {
        let bench = Bench::prepare(repository, &folder, &binary)?;
        let [ours, peer] = measure::all(&bench, samples)?;
        report::print(&ours, &peer)?;
    }
    if wants(Part::Commands) {
        let many = folder.join("many");
        commands::prepare(&many)?;
        let many = real(&many)?;
        let server = handfast(&folder, &many, &binary);
        report::print_commands(&commands::all(&server, &many, samples.commands)?)?;
        example(repository, "handfast", "call_speed", Some(&folder.join("library")))?;
    }
    if wants(Part::Changes) {
        let folder = folder.join("changes");
        let places = changes::prepare(&folder)?;
        let server = handfast(&folder, &places.handfast, &binary);
        let peer = peer_of(&folder, &places.other, &peer_script(repository));
        let measured = changes::all(&server, &peer, &places, samples.changes)?;
        report::changes::print(&measured, &changes::peaks(&server, &places.handfast)?)?;
    }
    if wants(Part::Browser) {
        let figures = browser::all(repository, &folder.join("browser"), &binary, samples.browser)?;
        report::browser::print(&figures)?;
    }
    if wants(Part::Schedules) {
        let measured = schedules::all(repository, &folder.join("schedules"), &binary, samples.schedules)?;
        report::schedules::print(&measured)?;
    }
    if wants(Part::Agents) {
        report::agents::print(&agents::all(&folder.join("agents"), &binary, samples.agents)?)?;
    }
    if wants(Part::Plugins) {
        let folder = folder.join("plugins");
        let workspace = folder.join("workspace");
        write(&workspace.join("small.txt"), "x")?;
        let server = handfast(&folder, &real(&workspace)?, &binary);
        report::plugins::print(&plugins::all(&server, &folder, &binary, samples.plugins)?)?;
    }
    if wants(Part::Scripts) {
        let folder = folder.join("scripts");
        let workspace = folder.join("workspace");
        write(&workspace.join("small.txt"), "x")?;
        let workspace = real(&workspace)?;
        let server = handfast(&folder, &workspace, &binary);
        report::scripts::print(&scripts::all(&server, &workspace, samples.scripts)?)?;
    }
    if wants(Part::Http) {
        report::http::print(&http::all(&folder.join("http"), &binary, samples.http)?)?;
    }
    if wants(Part::Gateway) {
        let folder = folder.join("gateway");
        report::gateway::print(&gateway::all(repository, &folder, &binary, samples.gateway)?)?;
    }
    if wants(Part::Web) {
        example(repository, "handfast", "fetch_speed", Some(&folder.join("web")))?;
    }
    if wants(Part::Decisions) {
        example(repository, "policy", "decide_speed", None)?;
    }
    if wants(Part::Egress) {
        example(repository, "egress", "carry_speed", None)?;
    }
    if wants(Part::Data) {
        example(repository, "handfast", "query_speed", Some(&folder.join("data")))?;
    }
    if wants(Part::Knowledge) {
        example(repository, "knowledge", "knowledge_speed", Some(&folder.join("knowledge")))?;
    }
    if wants(Part::Embedding) {
        embedding::run(repository, quick)?;
    }
    if wants(Part::Vectors) {
        example(repository, "retrieval", "search_speed", None)?;
    }
    if wants(Part::Graph) {
        let folder = folder.join("graph");
        let corpus = real(&graph::prepare(&folder, quick)?)?;
        let server = handfast(&folder, &corpus, &binary);
        let mut measured = graph::all(&server, &corpus, samples.graph)?;
        measured.grammars = graph::grammars(repository, &folder)?;
        report::graph::print(&measured)?;
        example(repository, "codegraph", "index", Some(&corpus))?;
        graph::queries(repository)?;
    }
    if wants(Part::Secrets) {
        example(repository, "engine", "redact_speed", None)?;
        example(repository, "vault", "lookup_speed", None)?;
    }
    // Removal waits until here, because some file systems create files slowly after a large removal.
    remove_folder(&folder)
}

fn peer_script(repository: &Repository) -> PathBuf {
    repository.test_tools().join("node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js")
}

/// Runs the example that measures one operation in the library. `folder` is its working folder, if
/// it needs one.
fn example(repository: &Repository, package: &str, name: &str, folder: Option<&Path>) -> Result<()> {
    let arguments = ["run", "--release", "--quiet", "--package", package, "--example", name, "--"];
    run_command(repository.cargo(&arguments).args(folder))
}

pub(crate) fn build(repository: &Repository) -> Result<PathBuf> {
    run_command(&mut repository.cargo(&[
        "build",
        "--release",
        "--package",
        "handfast",
        "--bin",
        "handfast",
    ]))?;
    Ok(repository.build_folder()?.join("release/handfast"))
}

impl Bench {
    /// Lays out the workspace and defines how each server is started and called.
    fn prepare(repository: &Repository, folder: &Path, binary: &Path) -> Result<Self> {
        let workspace = folder.join("workspace");
        write(&workspace.join("small.txt"), &text_of(SMALL_FILE))?;
        write(&workspace.join("large.txt"), &text_of(LARGE_FILE))?;
        for entry in 0..ENTRIES {
            write(&workspace.join(format!("many/entry-{entry:05}.txt")), "x")?;
        }
        let workspace = real(&workspace)?;
        let peer = peer_script(repository);
        Ok(Self { handfast: handfast(folder, &workspace, binary), peer: peer_of(folder, &workspace, &peer) })
    }
}

fn real(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|error| Failure(format!("cannot find {}: {error}", folder.display())))
}

fn handfast(folder: &Path, workspace: &Path, binary: &Path) -> Kind {
    let (binary, workspace) = (binary.to_owned(), workspace.to_owned());
    let state = folder.join("state");
    let configuration = folder.join("config");
    Kind {
        name: "handfast",
        log: folder.join("handfast.log"),
        command: Box::new(move || {
            let mut command = Command::new(&binary);
            // No human is present to approve commands.
            command
                .args(["mcp", "--mode", "full_auto", "--workspace"])
                .arg(&workspace)
                .arg("--state")
                .arg(&state);
            // The figures describe the built-in settings, not the configuration of the user.
            command.env("XDG_CONFIG_HOME", &configuration);
            command
        }),
        read: Box::new(|path| ("file_read", json!({"path": path, "max_bytes": LARGE_FILE * 2}))),
        list_names: Box::new(|path| ("file_list", json!({"path": path, "limit": ENTRIES, "details": false}))),
        list_details: Box::new(|path| ("file_list", json!({"path": path, "limit": ENTRIES}))),
        edit: Box::new(|path, old, new| {
            ("file_edit", json!({"path": path, "edits": [{"old_text": old, "new_text": new}]}))
        }),
    }
}

fn peer_of(folder: &Path, workspace: &Path, script: &Path) -> Kind {
    let (script, root) = (script.to_owned(), workspace.to_owned());
    let on_path = |tool: &'static str| -> Box<dyn Fn(&str) -> Call> {
        let root = workspace.to_owned();
        Box::new(move |path| (tool, json!({"path": root.join(path)})))
    };
    let edited = workspace.to_owned();
    Kind {
        name: "server-filesystem",
        log: folder.join("server-filesystem.log"),
        command: Box::new(move || {
            let mut command = Command::new("node");
            command.arg(&script).arg(&root);
            command
        }),
        read: on_path("read_text_file"),
        list_names: on_path("list_directory"),
        list_details: on_path("list_directory_with_sizes"),
        edit: Box::new(move |path, old, new| {
            let edits = json!([{"oldText": old, "newText": new}]);
            ("edit_file", json!({"path": edited.join(path), "edits": edits}))
        }),
    }
}

/// Returns lines of plain ASCII text, so that one byte is one character for both servers.
fn text_of(bytes: usize) -> String {
    let line = "The quick brown fox jumps over the lazy dog, and then it does so again.\n";
    line.chars().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_has_exactly_its_length() {
        assert_eq!(text_of(SMALL_FILE).len(), SMALL_FILE);
        assert!(text_of(200).lines().count() > 2);
    }
}
