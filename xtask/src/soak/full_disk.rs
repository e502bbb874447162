//! A state folder on a full disk: every change is complete or has no effect, and all calls work
//! again when space is available.

use std::path::Path;

use serde_json::{Value, json};

use crate::command::{Failure, Result};
use crate::soak::doors::Mcp;
use crate::soak::place::Place;

/// Number of calls with the disk nearly full.
const CALLS: usize = 30;
/// Bytes that the filler leaves free.
const SPARE: u64 = 2_000_000;

/// Fills the disk beneath a server, makes changes, frees the disk, and verifies the audit. Prints a
/// note if the test is not possible.
pub(super) fn run(place: &Place) -> Result<()> {
    let script = "program() { \"$program\" --workspace \"$workspace\" --state \"$state\" --no-input \"$@\"; }; \
                  program --mode full_auto mcp; program audit verify >&2; echo verified";
    let Some(mut command) = place.on_small_disk(script) else {
        eprintln!("SKIPPED: the full disk, since this user can mount no tmpfs");
        return Ok(());
    };
    let mut server = Mcp::start(&mut command, place)?;
    let file = place.workspace.join("held");
    let mut content = "before\n".to_owned();
    works(&write(&mut server, &content)?)?;
    // Path of the filler in the server's mount namespace, as seen from this process.
    let filler = format!("/proc/{}/root{}", server.id(), place.state.join("filler").display());
    if !fill(Path::new(&filler)) {
        return Err(Failure(format!("cannot fill the small disk by {filler}")));
    }
    let (mut refused, mut unrecorded) = (0, 0);
    for turn in 0..CALLS {
        let next = text(turn);
        let result = write(&mut server, &next)?;
        match result["error"]["effect"].as_str() {
            None => content = next,
            Some("none") => refused += 1,
            // The change is complete. Only the row of its end found no space, and the answer
            // reports that.
            Some("done") => (content, unrecorded) = (next, unrecorded + 1),
            Some(_) => return Err(Failure(format!("FULL DISK: {result}"))),
        }
        let found = std::fs::read_to_string(&file).unwrap_or_default();
        if found != content {
            return Err(Failure(format!("FULL DISK: held is {found:.200?} and must be {content:.200?}")));
        }
    }
    std::fs::remove_file(&filler).map_err(|error| Failure(format!("cannot free the small disk: {error}")))?;
    works(&write(&mut server, "after\n")?)?;
    server.close();
    let line = server.line()?;
    if line != "verified\n" {
        return Err(Failure(format!("after a full disk `handfast audit verify` did not pass: {line}")));
    }
    if refused == 0 || refused == CALLS {
        return Err(Failure(format!(
            "FULL DISK: {refused} of {CALLS} calls were refused, so nothing was tried"
        )));
    }
    eprintln!(
        "full disk: of {CALLS} changes {refused} refused, {unrecorded} made without a row of their end, none half done"
    );
    Ok(())
}

/// Returns text that hardly compresses, longer in each turn.
fn text(turn: usize) -> String {
    let mut state = turn as u64 + 1;
    let mut line = || {
        // Knuth's MMIX generator.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        format!("{:08x}\n", state >> 32)
    };
    (0..=turn * 600).map(|_| line()).collect()
}

fn write(server: &mut Mcp<'_>, content: &str) -> Result<Value> {
    server.call("file_write", &json!({"path": "held", "content": content}))
}

fn works(result: &Value) -> Result<()> {
    if result["ok"] == true { Ok(()) } else { Err(Failure(format!("FULL DISK: {result}"))) }
}

/// Writes until no space is left, then frees enough for a few small changes.
fn fill(path: &Path) -> bool {
    use std::io::Write as _;
    let Ok(mut file) = std::fs::File::create(path) else { return false };
    let block = [0; 4096];
    // The bound applies only if the path is not on the small disk.
    let full = (0..16_384).any(|_| file.write_all(&block).is_err());
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    full && file.set_len(length.saturating_sub(SPARE)).is_ok()
}
