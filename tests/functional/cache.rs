//! The response cache: a cached response is returned only as long as a new call would return the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

use crate::harness::Fixture;
use crate::http::Up;
use crate::specialist::{Specialist, text};

const FREE: [&str; 2] = ["--mode", "full_auto"];

fn cached(up: &Up, tool: &str, arguments: &Value) -> Value {
    let body = json!({"tool": tool, "arguments": arguments, "cache": true});
    let result = up.post(&up.agent, "/v1/call", &body).json();
    assert_eq!(result["ok"], true, "{result:#}");
    result
}

/// Repeats the call until the response comes from the cache. A response is cached only if a later
/// change would certainly show.
fn until_cached(up: &Up, tool: &str, arguments: &Value) -> Value {
    loop {
        let result = cached(up, tool, arguments);
        if result["meta"]["cached"] == true {
            return result;
        }
    }
}

#[test]
fn what_only_reads_is_given_again_and_nothing_else() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n"), ("dir/b.txt", "two\n")]);
    fixture.write(
        "handfast.yaml",
        "sandbox_config:\n  normal:\n    allowed_exec_command: [mkdir]\n    allowed_write_paths: [out, made, z]\n",
    );
    assert_eq!(fixture.run(&["trust"]).code, 0);
    let up = Up::start(&fixture, &FREE);
    let cat = json!({"command": "cat a.txt dir/b.txt"});
    assert_eq!(until_cached(&up, "shell_execute", &cat)["data"]["stdout"], "one\ntwo\n");
    until_cached(&up, "file_read", &json!({"path": "a.txt"}));
    assert_eq!(up.call("shell_execute", cat.clone())["meta"]["cached"], Value::Null, "nobody opted in");
    // In another directory, the same words are another command.
    let here = json!({"command": "cat a.txt", "working_directory": "dir"});
    assert_ne!(cached(&up, "shell_execute", &here)["data"]["exit_code"], 0);
    // Commands that write, or are not known to only read, run each time.
    for command in [
        "echo x >> out",
        "mkdir -p made",
        "cat a.txt; echo y > z",
        "python3 -c 'print(1)'",
        "cat $((0))a.txt",
    ] {
        for _ in 0..6 {
            let result = cached(&up, "shell_execute", &json!({"command": command}));
            assert_eq!(result["meta"]["cached"], Value::Null, "{command}: {result:#}");
        }
    }
    assert_eq!(fixture.read("out").lines().count(), 6);
    // A background command may change the files of a read at any time.
    let begun = up.call("shell_execute", json!({"command": "sleep 100", "background": true}));
    assert_eq!(begun["ok"], true, "{begun:#}");
    for _ in 0..6 {
        assert_eq!(cached(&up, "shell_execute", &cat)["meta"]["cached"], Value::Null);
    }
}

#[test]
fn a_specialist_opts_in_by_a_line_and_its_log_does_not_spoil_the_cache() {
    let fixture = Fixture::with_files(&[("a.txt", "one\n")]);
    let mut specialist = Specialist::start(&fixture, &[]);
    loop {
        let answer = specialist.run("cat a.txt", "CACHE true\n");
        assert_eq!(text(&answer["STDOUT_SUMMARY"]), "one");
        assert_eq!(answer.contains_key("CACHED"), !answer.contains_key("LOG_REF"), "{answer:?}");
        if answer.contains_key("CACHED") {
            break;
        }
    }
    assert!(!specialist.run("cat a.txt", "").contains_key("CACHED"));
    std::fs::write(fixture.workspace().join("a.txt"), "two\n").unwrap();
    assert_eq!(text(&specialist.run("cat a.txt", "CACHE true\n")["STDOUT_SUMMARY"]), "two");
    assert_eq!(specialist.end(), Some(0));
}

/// One step: a change, or a read.
#[derive(Debug, Clone)]
enum Step {
    HostWrites(usize, u8),
    HostReplaces(usize, u8),
    HostMoves(usize, usize),
    HostRemoves(usize),
    ToolWrites(usize, u8),
    CommandWrites(usize, u8),
    Reads(usize),
}

const FILES: [&str; 3] = ["a.txt", "dir/b.txt", "dir/c.txt"];

fn step() -> impl Strategy<Value = Step> {
    let file = 0..FILES.len();
    prop_oneof![
        1 => (file.clone(), any::<u8>()).prop_map(|(file, byte)| Step::HostWrites(file, byte)),
        1 => (file.clone(), any::<u8>()).prop_map(|(file, byte)| Step::HostReplaces(file, byte)),
        1 => (file.clone(), file.clone()).prop_map(|(from, to)| Step::HostMoves(from, to)),
        1 => file.clone().prop_map(Step::HostRemoves),
        1 => (file.clone(), any::<u8>()).prop_map(|(file, byte)| Step::ToolWrites(file, byte)),
        1 => (file.clone(), any::<u8>()).prop_map(|(file, byte)| Step::CommandWrites(file, byte)),
        8 => (0..4_usize).prop_map(Step::Reads),
    ]
}

/// Checks that no cached response is outdated, regardless of the writer and of the time between
/// write and read.
#[test]
fn no_answer_is_stale_whoever_writes() {
    let hits = std::cell::Cell::new(0);
    let config = Config { cases: 6, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&proptest::collection::vec(step(), 40..80), |steps| {
            let fixture = Fixture::with_files(&[("dir/keep", "")]);
            let up = Up::start(&fixture, &FREE);
            let mut there: BTreeMap<usize, String> = BTreeMap::new();
            for step in steps {
                let path = |file: usize| fixture.workspace().join(FILES[file]);
                // All contents have the same size, so only times and identities differ.
                let content = |byte: u8| format!("{byte:03}\n");
                match step {
                    Step::HostWrites(file, byte) => {
                        std::fs::write(path(file), content(byte)).unwrap();
                        there.insert(file, content(byte));
                    }
                    Step::HostReplaces(file, byte) => {
                        let beside = fixture.outside().join("beside");
                        std::fs::write(&beside, content(byte)).unwrap();
                        std::fs::rename(beside, path(file)).unwrap();
                        there.insert(file, content(byte));
                    }
                    Step::HostMoves(from, to) => {
                        if from != to
                            && let Some(moved) = there.remove(&from)
                        {
                            std::fs::rename(path(from), path(to)).unwrap();
                            there.insert(to, moved);
                        }
                    }
                    Step::HostRemoves(file) => {
                        if there.remove(&file).is_some() {
                            std::fs::remove_file(path(file)).unwrap();
                        }
                    }
                    Step::ToolWrites(file, byte) => {
                        let written =
                            up.call("file_write", json!({"path": FILES[file], "content": content(byte)}));
                        prop_assert_eq!(&written["ok"], true, "{:#}", written);
                        there.insert(file, content(byte));
                    }
                    Step::CommandWrites(file, byte) => {
                        let line = format!("printf '{byte:03}\\n' > {}", FILES[file]);
                        let written = up.call("shell_execute", json!({ "command": line }));
                        prop_assert_eq!(&written["data"]["exit_code"], 0, "{:#}", written);
                        there.insert(file, content(byte));
                    }
                    Step::Reads(file) if file < FILES.len() => {
                        let line = format!("cat {} 2>/dev/null", FILES[file]);
                        let read = cached(&up, "shell_execute", &json!({ "command": line }));
                        hits.set(hits.get() + usize::from(read["meta"]["cached"] == true));
                        let expected = there.get(&file).cloned().unwrap_or_default();
                        prop_assert_eq!(&read["data"]["stdout"], &json!(expected), "{:#}", read);
                    }
                    Step::Reads(_) => {
                        let listed = cached(&up, "file_list", &json!({"path": "dir"}));
                        hits.set(hits.get() + usize::from(listed["meta"]["cached"] == true));
                        let names: Vec<&str> = listed["data"]["entries"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .map(|entry| entry["name"].as_str().unwrap())
                            .collect();
                        let mut expected: Vec<&str> = there
                            .keys()
                            .filter_map(|file| FILES[*file].strip_prefix("dir/"))
                            .chain(["keep"])
                            .collect();
                        expected.sort_unstable();
                        prop_assert_eq!(names, expected);
                    }
                }
            }
            Ok(())
        })
        .unwrap();
    assert!(hits.get() > 0, "nothing ever came from the cache");
}
