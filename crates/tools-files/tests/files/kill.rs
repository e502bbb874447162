//! A kill during an overwrite leaves the old or the new content of a file, and nothing in between.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

const BYTES: usize = 2 << 20;
const ROUNDS: u32 = 40;
/// Maximum number of rounds; the careless writer tears its file much earlier.
const MAX_CARELESS_ROUNDS: u32 = 400;

/// Lets the child overwrite `file` for a while, and kills it at a moment that depends on `round`
/// and on chance.
fn overwrite_and_kill(how: &str, workspace: &Path, round: u32) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tools-files-call"))
        .args([how, workspace.to_str().unwrap(), "file", &BYTES.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut dots = vec![0; 1 + usize::try_from(round % 3).unwrap()];
    child.stdout.as_mut().unwrap().read_exact(&mut dots).unwrap();
    // The next write has begun. The loop spreads the kills over the write at any speed.
    for _ in 0..(round * 7919) % 400_000 {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9), "the child was killed, and did not end by itself");
}

fn is_whole(path: &Path) -> bool {
    let content = std::fs::read(path).unwrap();
    content.len() == BYTES && content.iter().all(|byte| *byte == content[0])
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    std::fs::read_dir(folder).unwrap().map(name).collect()
}

#[test]
fn a_killed_write_leaves_the_file_whole() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..ROUNDS {
        overwrite_and_kill("overwrite", folder.path(), round);
        assert!(is_whole(&folder.path().join("file")), "round {round}");
        // A kill leaves at most one temporary file, which the next writer takes over.
        let left: Vec<_> = names(folder.path()).into_iter().filter(|name| name != "file").collect();
        assert!(left.iter().all(|name| name == ".handfast-0.tmp"), "{left:?}");
    }
}

/// Checks as a control that the same kills tear a file that is written in place.
#[test]
fn a_killed_careless_write_would_be_noticed() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..MAX_CARELESS_ROUNDS {
        overwrite_and_kill("overwrite-in-place", folder.path(), round);
        if !is_whole(&folder.path().join("file")) {
            return;
        }
    }
    panic!("no kill out of {MAX_CARELESS_ROUNDS} hit a write");
}
