//! Memory use of large changes.

use std::path::Path;

use serde_json::json;

use crate::bench::changes::tree::Tree;
use crate::bench::server::{Call, Kind, Server};
use crate::bench::text_of;
use crate::command::{Result, remove_folder, write};

/// Files of the patch: about 12 MB for 20,000 files.
const PATCHED: Tree = Tree { folders: 100, files: 200, lines: 8 };
const EDITED: usize = 100 * 1024 * 1024;
/// Number of files that a command changes, of [`LARGE`] bytes each: 1 GiB.
const FILES: usize = 64;
const LARGE: usize = 16 * 1024 * 1024;

/// Peak resident memory of the server with all its processes, in KiB.
pub(crate) struct Peaks {
    pub(crate) patch: u64,
    pub(crate) patch_bytes: usize,
    pub(crate) edit: u64,
    pub(crate) command: u64,
}

/// Makes each change once, each with a server of its own.
pub(crate) fn peaks(kind: &Kind, workspace: &Path) -> Result<Peaks> {
    eprintln!("changing much at once, for the memory that it takes");
    let folder = workspace.join("large");
    PATCHED.lay_out(&folder, 0)?;
    let diff = PATCHED.patch("large", 0);
    let patch_bytes = diff.len();
    let patch = peak(kind, ("file_patch", json!({"patch": diff})))?;
    remove_folder(&folder)?;
    write(&folder.join("edited"), &format!("{}here\n", text_of(EDITED)))?;
    let edits = json!([{"old_text": "here\n", "new_text": "there\n"}]);
    let edit = peak(kind, ("file_edit", json!({"path": "large/edited", "edits": edits})))?;
    remove_folder(&folder)?;
    for file in 0..FILES {
        write(&folder.join(format!("f{file}")), &format!("{file}\n{}", text_of(LARGE)))?;
    }
    let line = "for file in large/*; do echo changed >> $file; done";
    let command = peak(kind, ("shell_execute", json!({"command": line, "timeout": 250})))?;
    remove_folder(&folder)?;
    Ok(Peaks { patch, patch_bytes, edit, command })
}

fn peak(kind: &Kind, call: Call) -> Result<u64> {
    let mut server = Server::start(kind)?;
    server.call(call)?;
    let peak = server.status("VmHWM")?;
    server.stop()?;
    Ok(peak)
}
