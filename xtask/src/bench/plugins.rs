//! Plugins: a call of a process that waits, and of one that starts, beside a command in a cell.
//!
//! The three take turns, one call each. The program of each is the same shell, which does nothing else.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::bench::measure::Durations;
use crate::bench::server::{Kind, Server};
use crate::command::{Result, run, write};

/// Durations of the three ways.
#[derive(Default)]
pub(super) struct Measured {
    /// Call of a plugin whose process answers many calls.
    pub(super) waiting: Durations,
    /// Call of a plugin with a process of its own.
    pub(super) starting: Durations,
    /// Command that does the same as the process of the second one.
    pub(super) command: Durations,
}

const ANSWER: &str = "echo '{\"ok\":true,\"data\":{}}'";

/// Measures `count` calls of each kind. `binary` is the program that the server runs, too.
pub(super) fn all(kind: &Kind, folder: &Path, binary: &Path, count: usize) -> Result<Measured> {
    let waiting = format!("while IFS= read -r request; do {ANSWER}; done\n");
    let starting = format!("IFS= read -r request; {ANSWER}\n");
    for (name, mode, script) in [("waiting", "serve", &waiting), ("starting", "once", &starting)] {
        let plugin = folder.join("config/handfast/plugins").join(name);
        write(&plugin.join("main.sh"), script)?;
        let manifest = format!(
            "name: {name}\ndescription: A plugin of the benchmark.\ncommand: [sh, main.sh]\nmode: {mode}\n\
             input_schema: {{type: object, properties: {{}}}}\noutput_schema: {{type: object, properties: {{}}}}\n\
             example: {{arguments: {{}}, result: {{}}}}\n"
        );
        write(&plugin.join("plugin.yaml"), &manifest)?;
        let mut enable = Command::new(binary);
        enable.args(["plugin", "enable", name, "--yes", "--state"]).arg(folder.join("state"));
        run(enable.env("XDG_CONFIG_HOME", folder.join("config")))?;
    }
    eprintln!("calling two plugins and a command {count} times each");
    let mut server = Server::start(kind)?;
    let mut measured = Measured::default();
    for turn in 0..=count {
        let line = format!("echo '{{}}' | {{ {starting} }}");
        let calls = [
            (("waiting", json!({})), &mut measured.waiting),
            (("starting", json!({})), &mut measured.starting),
            (("shell_execute", json!({"command": line})), &mut measured.command),
        ];
        for (call, durations) in calls {
            let took = server.call(call)?.took;
            // The first turn starts what waits afterwards.
            if turn > 0 {
                durations.add(took);
            }
        }
    }
    server.stop()?;
    Ok(measured)
}
