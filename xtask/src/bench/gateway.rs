//! Calls of a tool of another MCP server through Handfast, compared with the same calls of the bare server, and the
//! start with many stored lists.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::bench::handfast;
use crate::bench::measure::Durations;
use crate::bench::server::{Kind, Server};
use crate::command::{Failure, Result, write};
use crate::repository::Repository;

/// Number of servers with stored lists. Each has 13 tools.
const SERVERS: usize = 24;

/// Number of samples.
#[derive(Clone, Copy)]
pub(super) struct Samples {
    pub(super) calls: usize,
    pub(super) starts: usize,
}

/// Figures of the gateway.
#[derive(Default)]
pub(super) struct Measured {
    /// Calls through Handfast, and of the bare server.
    pub(super) through: Durations,
    pub(super) bare: Durations,
    /// Starts until the list of tools, with and without the stored lists.
    pub(super) with_lists: Durations,
    pub(super) without: Durations,
    /// Number of foreign tools that a start lists.
    pub(super) tools: usize,
}

/// Measures both, in turns.
pub(super) fn all(
    repository: &Repository,
    folder: &Path,
    binary: &Path,
    samples: Samples,
) -> Result<Measured> {
    let modules = repository.test_tools().join("node/node_modules");
    let modules =
        modules.canonicalize().map_err(|error| Failure(format!("the servers are missing: {error}")))?;
    let workspace = folder.join("workspace");
    write(&workspace.join("small.txt"), "x")?;
    let workspace = workspace.canonicalize().map_err(|error| Failure(error.to_string()))?;
    let with_lists = kind(&folder.join("many"), &workspace, binary);
    let without = kind(&folder.join("none"), &workspace, binary);
    write(&folder.join("many/config/handfast/config.yaml"), &configuration(&modules))?;
    write(&folder.join("none/config/handfast/config.yaml"), "catalogue: full\n")?;
    let mut measured = Measured::default();
    let mut server = Server::start(&with_lists)?;
    eprintln!("listing the tools of {SERVERS} servers");
    for number in 0..SERVERS {
        server.call(("mcp_servers", json!({"server": format!("s{number}")})))?;
    }
    let mut bare = Server::start(&everything(folder, &modules))?;
    eprintln!("calling a tool {} times, through the gateway and without it", samples.calls);
    let arguments = || json!({"message": "hello"});
    for _ in 0..samples.calls {
        measured.through.add(server.call(("s0__echo", arguments()))?.took);
        measured.bare.add(bare.call(("echo", arguments()))?.took);
    }
    server.stop()?;
    bare.stop()?;
    eprintln!("starting {} times, with and without stored lists", samples.starts);
    for _ in 0..samples.starts {
        for (kind, starts) in [(&with_lists, &mut measured.with_lists), (&without, &mut measured.without)] {
            let began = std::time::Instant::now();
            let mut server = Server::start(kind)?;
            let answer = server.request("tools/list", &json!({}))?;
            starts.add(began.elapsed());
            measured.tools = measured.tools.max(answer.line.matches("__").count());
            server.stop()?;
        }
    }
    Ok(measured)
}

fn kind(folder: &Path, workspace: &Path, binary: &Path) -> Kind {
    handfast(folder, workspace, binary)
}

fn script(modules: &Path) -> PathBuf {
    modules.join("@modelcontextprotocol/server-everything/dist/index.js")
}

fn configuration(modules: &Path) -> String {
    let entry = |number: usize| {
        let (script, modules) = (script(modules), modules.display());
        let script = script.display();
        format!(
            "  s{number}: {{command: node, args: [\"{script}\", stdio], shows: [\"{modules}\"], level: safe}}\n"
        )
    };
    format!("catalogue: gateway\nmcp_servers:\n{}", (0..SERVERS).map(entry).collect::<String>())
}

fn everything(folder: &Path, modules: &Path) -> Kind {
    let script = script(modules);
    let call = |_: &str| ("echo", json!({"message": "hello"}));
    Kind {
        name: "server-everything",
        log: folder.join("server-everything.log"),
        command: Box::new(move || {
            let mut command = Command::new("node");
            command.arg(&script).arg("stdio");
            command
        }),
        read: Box::new(call),
        list_names: Box::new(call),
        list_details: Box::new(call),
        edit: Box::new(move |_, _, _| call("")),
    }
}
