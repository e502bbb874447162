//! Scripts of `run_code`, compared with the same calls one by one, in turns.

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::measure::Durations;
use crate::bench::server::{Kind, Server};
use crate::command::{Result, write};

/// Number of calls of a script.
pub(super) const CALLS: usize = 100;

/// Number of edits of the task whose text is counted.
pub(super) const EDITS: usize = 50;

/// Figures of both ways.
#[derive(Default)]
pub(super) struct Measured {
    /// Script with [`CALLS`] reads.
    pub(super) script: Durations,
    /// Reads one by one: all of a round together.
    pub(super) calls: Durations,
    /// Script without a call.
    pub(super) empty: Durations,
    /// Bytes that a model writes and reads for [`EDITS`] edits by a script, and one by one.
    pub(super) bytes: (usize, usize),
}

/// Measures `rounds` rounds in a workspace, whose server is `kind`.
pub(super) fn all(kind: &Kind, workspace: &Path, rounds: usize) -> Result<Measured> {
    write(&workspace.join("small.txt"), "x\n")?;
    for number in 0..EDITS * 2 {
        write(&workspace.join(format!("src/module_{number:03}.py")), "def colour():\n    return 1\n")?;
    }
    let mut server = Server::start(kind)?;
    let mut measured = Measured::default();
    let reads = format!("for _ in range({CALLS}):\n    tools.file_read(path='small.txt')\n");
    eprintln!("running scripts with {CALLS} reads and the same reads, {rounds} times");
    for round in 0..=rounds {
        let script = server.call(("run_code", json!({ "code": reads })))?.took;
        let mut calls = Duration::ZERO;
        for _ in 0..CALLS {
            calls += server.call(("file_read", json!({"path": "small.txt"})))?.took;
        }
        let empty = server.call(("run_code", json!({"code": "pass"})))?.took;
        // The first round fills caches.
        if round > 0 {
            measured.script.add(script);
            measured.calls.add(calls);
            measured.empty.add(empty);
        }
    }
    let script = format!(
        "for number in range({EDITS}):\n    tools.file_edit(path=f'src/module_{{number:03}}.py', \
         edits=[{{'old_text': 'colour', 'new_text': 'color'}}])\nprint('done')\n"
    );
    measured.bytes.0 = text_of_call(&mut server, "run_code", json!({ "code": script }))?;
    for number in EDITS..EDITS * 2 {
        let edits = json!([{"old_text": "colour", "new_text": "color"}]);
        let arguments = json!({"path": format!("src/module_{number:03}.py"), "edits": edits});
        measured.bytes.1 += text_of_call(&mut server, "file_edit", arguments)?;
    }
    server.stop()?;
    Ok(measured)
}

/// Makes a call. Returns the bytes of its arguments and of the text of its answer, which are what a model writes and
/// reads.
fn text_of_call(server: &mut Server, tool: &'static str, arguments: Value) -> Result<usize> {
    let written = tool.len() + arguments.to_string().len();
    let answer: Value = serde_json::from_str(&server.call((tool, arguments))?.line).unwrap_or_default();
    let blocks = answer["result"]["content"].as_array().cloned().unwrap_or_default();
    Ok(written + blocks.iter().filter_map(|block| block["text"].as_str()).map(str::len).sum::<usize>())
}
