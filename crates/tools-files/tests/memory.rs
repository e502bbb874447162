//! Memory for one endless line is bounded. The test is alone in its process, because it measures
//! that process.

#![expect(clippy::disallowed_methods, reason = "this test looks at its own process")]
#![expect(clippy::unwrap_used, reason = "a test ends where its set-up fails")]

use std::io::Write;

use serde_json::{Value, json};
use testkit::{Workspace, run_tool};

const LINE_BYTES: u64 = 64 << 20;
/// Maximum growth: the searcher's limit of 8 MiB, twice while its buffer grows, and a margin.
const BOUND_BYTES: u64 = 24 << 20;

/// Returns the peak memory of this process.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn a_line_that_does_not_end_costs_bounded_memory() {
    let workspace = Workspace::new().with_files(&[("normal", "needle\n")]);
    {
        let mut file = std::fs::File::create(workspace.at("long")).unwrap();
        file.write_all(b"needle and ").unwrap();
        let part = vec![b'x'; 1 << 20];
        for _ in 0..LINE_BYTES >> 20 {
            file.write_all(&part).unwrap();
        }
    }
    let tools = tools_files::tools();
    let call = |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
        run_tool(tool.as_ref(), &workspace, arguments).unwrap()
    };
    let before = peak();
    let start = call("file_read", json!({"path": "long", "max_bytes": 10}));
    assert_eq!((&start["content"], &start["next_offset"]), (&json!("needle and"), &json!(10)));
    let line = call("file_read", json!({"path": "long", "lines": {"start": 1, "end": 1}}));
    assert_eq!((line["content"].as_str().unwrap().len(), &line["truncated"]), (25_000, &json!(true)));
    let none = call("file_read", json!({"path": "long", "lines": {"start": 2}}));
    assert_eq!(none["content"], "");
    let found = call("file_search", json!({"pattern": "needle"}));
    let note = found["note"].as_str().unwrap();
    assert!(note.starts_with("long: searched only up to a line longer than"), "{note}");
    assert_eq!(found["matches"][0]["path"], "normal");
    let bounded = peak();
    assert!(bounded - before < BOUND_BYTES, "{} bytes more", bounded - before);
    // Control: `file_read` has the requested bytes in memory, and the measurement shows it.
    call("file_read", json!({"path": "long", "max_bytes": 32 << 20}));
    assert!(peak() - bounded > BOUND_BYTES, "{} bytes more", peak() - bounded);
}
