//! Tests that cells leave no resources behind in the program that runs them. The test runs
//! alone, because it counts the resources of its whole process.

use std::fs;
use std::time::Duration;

use sandbox::{CellHost, CellSpec, Command, EndReason, Program, Stopper, run};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Lists the children of all threads, running or not yet reaped.
fn children() -> String {
    let threads = fs::read_dir("/proc/self/task").unwrap();
    threads.map(|thread| fs::read_to_string(thread.unwrap().path().join("children")).unwrap()).collect()
}

#[test]
fn no_descriptor_and_no_child_is_left_by_cells_however_they_end() {
    let _alone = crate::alone();
    let workspace = tempfile::tempdir().unwrap();
    let spec = CellSpec {
        workspace: workspace.path().canonicalize().unwrap(),
        spool_directory: std::env::temp_dir(),
        output_limit: 1 << 20,
        ..CellSpec::default()
    };
    let stopper = Stopper::new().unwrap();
    let try_run = |program: Program, folder: &str, deadline: Duration| {
        let command = Command { program, working_directory: folder.into() };
        run(&spec, &CellHost::default(), &command, Some(deadline), &stopper, &mut |_, _| {})
    };
    let patience = Duration::from_mins(1);
    let all_ways = || {
        let shell = |line: &str| Program::Shell(line.to_owned());
        assert_eq!(
            try_run(shell("head -c 300000 /dev/zero"), "/", patience).unwrap().ended,
            EndReason::Finished
        );
        let endless = try_run(shell("sleep 1000"), "/", Duration::from_millis(1)).unwrap();
        assert_eq!(endless.ended, EndReason::Deadline);
        try_run(Program::Argv(vec!["no-such-program".into()]), "/", patience).unwrap_err();
        try_run(shell("true"), "/no/such/folder", patience).unwrap_err();
        try_run(Program::Argv(Vec::new()), "/", patience).unwrap_err();
    };
    // Objects that are made once and kept are made by the first round.
    all_ways();
    let before = descriptors();
    for _ in 0..10 {
        all_ways();
    }
    assert_eq!(descriptors(), before);
    assert_eq!(children(), "");
}
