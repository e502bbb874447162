//! Tests that output of any size costs bounded memory. The test runs alone, because it
//! measures its whole process.

use std::fs;
use std::io::{Read, Seek, SeekFrom};

use sandbox::{CellHost, CellSpec, Command, EndReason, Exit, Program, Stopper, run};

/// Returns the peak resident memory of this process since the last reset, in KiB.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse().unwrap()
}

#[test]
fn two_hundred_megabytes_of_output_take_little_memory_and_are_counted_exactly() {
    let _alone = crate::alone();
    let workspace = tempfile::tempdir().unwrap();
    let spec = CellSpec {
        workspace: workspace.path().canonicalize().unwrap(),
        spool_directory: std::env::temp_dir(),
        output_limit: 10_000_000,
        ..CellSpec::default()
    };
    let command = Command {
        program: Program::Shell("echo first; yes 123456789 | head -c 200000000; echo last".to_owned()),
        working_directory: spec.workspace.clone(),
    };
    let before = peak();
    let mut seen = 0;
    let outcome =
        run(&spec, &CellHost::default(), &command, None, &Stopper::new().unwrap(), &mut |_, chunk| {
            assert!(chunk.len() <= 64 * 1024);
            seen += chunk.len() as u64;
        })
        .unwrap();
    let grown = peak() - before;
    assert_eq!((outcome.exit, outcome.ended), (Exit::Code(0), EndReason::Finished));
    let stdout = outcome.stdout;
    assert_eq!((stdout.bytes, seen), (200_000_011, 200_000_011));
    assert_eq!(stdout.lines, 20_000_002);
    assert!(stdout.head.starts_with(b"first\n123456789\n") && stdout.tail.ends_with(b"123456789\nlast\n"));
    assert_eq!(stdout.whole_bytes, 10_000_000);
    let mut whole = stdout.whole.unwrap();
    assert_eq!(whole.seek(SeekFrom::End(0)).unwrap(), 10_000_000);
    whole.rewind().unwrap();
    let mut start = [0; 6];
    whole.read_exact(&mut start).unwrap();
    assert_eq!(&start, b"first\n");
    assert!(grown < 2048, "{grown} KiB more than before");
}
