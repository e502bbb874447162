//! Servers that are killed while their jobs fire. Each firing has then run at most once, and left a record.

use std::time::Duration;

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::harness::{Fixture, eventually};
use crate::http::Up;

/// Number of jobs between two kills.
const JOBS: usize = 4;

/// Returns the number of kills: 1,000 if `HANDFAST_EVERY_POINT` is set, else few.
fn kills() -> u64 {
    if std::env::var_os("HANDFAST_EVERY_POINT").is_some() { 1_000 } else { 6 }
}

/// Returns a number below `most`, the same for the same `seed` (`SplitMix64`).
fn chance(seed: u64, most: u64) -> u64 {
    let mut mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % most
}

fn history(fixture: &Fixture, name: &str) -> Vec<Value> {
    let run = fixture.run(&["schedule", "history", name, "--json"]);
    if run.stdout.is_empty() { Vec::new() } else { run.json().as_array().unwrap().clone() }
}

#[test]
fn a_killed_server_runs_each_firing_at_most_once_and_leaves_a_record_of_each() {
    let fixture = Fixture::new();
    let free = ["--mode", "full_auto"];
    let mut names = Vec::new();
    for kill in 0..kills() {
        let up = Up::start(&fixture, &free);
        for job in 0..JOBS {
            let name = format!("job{kill}x{job}");
            // The folder of the job tells how often its command has run, also if its changes were lost.
            let command = format!("echo ran >> {name}.txt");
            let made = up.call(
                "schedule_task",
                json!({"name": name, "command": command, "schedule": "after 1 second"}),
            );
            assert_eq!(made["ok"], true, "{made}");
            names.push(name);
        }
        std::thread::park_timeout(Duration::from_millis(700 + chance(kill, 700)));
        up.signal("KILL");
        drop(up);
    }
    // The leases of the killed servers end.
    let state = Connection::open(fixture.state().join("handfast.db")).unwrap();
    state.busy_timeout(Duration::from_secs(30)).unwrap();
    state.execute("UPDATE firings SET held_until_us = 0 WHERE state = 'claimed'", []).unwrap();
    let up = Up::start(&fixture, &free);
    let (mut done, mut interrupted) = (0, 0);
    for name in &names {
        let mut runs = Vec::new();
        eventually(&format!("the record of {name}"), || {
            runs = history(&fixture, name);
            runs.first().is_some_and(|run| ["done", "failed"].contains(&run["state"].as_str().unwrap()))
        });
        assert_eq!(runs.len(), 1, "one instant, one firing: {runs:?}");
        let ran =
            std::fs::read_to_string(fixture.workspace().join(format!("{name}.txt"))).unwrap_or_default();
        if runs[0]["state"] == "done" {
            assert_eq!(ran, "ran\n", "{name} is done: {runs:?}");
            done += 1;
        } else {
            assert!(ran.is_empty() || ran == "ran\n", "{name} ran more than once: {ran:?}");
            assert!(runs[0]["outcome"].as_str().unwrap().starts_with("interrupted"), "{runs:?}");
            interrupted += 1;
        }
    }
    assert!(done > 0, "the control: {done} were done, {interrupted} interrupted");
    assert_eq!(up.end(), Some(143));
}
