//! The recipes of `docs/POLICY.md`, each run with the lines below it.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Fixture, program, repository};

/// A recipe of the page.
struct Recipe {
    title: String,
    configuration: String,
    /// Commands with their results.
    commands: Vec<(String, String)>,
}

/// Reads the recipes of the page.
fn recipes() -> Vec<Recipe> {
    let text = std::fs::read_to_string(repository().join("docs/POLICY.md")).unwrap();
    let (_, recipes) = text.split_once("## Recipes\n").unwrap();
    let recipes = recipes.split("\n## ").next().unwrap();
    recipes
        .split("\n### ")
        .skip(1)
        .map(|recipe| {
            let block = |language: &str| {
                let (_, block) = recipe.split_once(&format!("```{language}\n")).unwrap();
                block.split_once("```").unwrap().0.to_owned()
            };
            let lines = block("sh");
            let commands = lines.lines().map(|line| {
                let (command, result) = line.rsplit_once("  # ").unwrap();
                (command.trim().to_owned(), result.to_owned())
            });
            let title = recipe.lines().next().unwrap().to_owned();
            Recipe { title, configuration: block("yaml"), commands: commands.collect() }
        })
        .collect()
}

/// Runs a line of a recipe in a shell that finds this program, and returns its decision in a word.
fn decision(fixture: &Fixture, folder: &Path, line: &str) -> String {
    let line = line.strip_prefix("handfast ").unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("exec \"$0\" --state \"$1\" --no-input {line}")])
        .args([program(), &fixture.state()])
        .current_dir(folder)
        .env_clear()
        .env("HOME", fixture.home())
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let decision = |checked: Value| checked["decision"].as_str().map(str::to_owned);
    let verdict = if line.contains(" -- ") {
        None
    } else {
        let verdict = serde_json::from_str(&stdout).ok().and_then(decision);
        Some(verdict.unwrap_or_else(|| panic!("{line}: {stdout}")))
    };
    let by_code = match output.status.code() {
        Some(0) => "pass",
        Some(3) => "deny",
        Some(4) => "check",
        other => panic!("{line}: {other:?} {}", String::from_utf8_lossy(&output.stderr)),
    };
    match verdict.as_deref().unwrap_or(by_code) {
        "pass" => "runs".to_owned(),
        "check" => "asks".to_owned(),
        _ => "denied".to_owned(),
    }
}

#[test]
fn every_recipe_does_what_its_lines_say() {
    let recipes = recipes();
    assert!(recipes.len() >= 10, "{}", recipes.len());
    for Recipe { title, configuration, commands } in recipes {
        let fixture = Fixture::with_files(&[("src/a.rs", ""), (".env.example", "")]);
        fixture.configure(&configuration);
        assert!(commands.len() >= 2, "{title}");
        for (command, expected) in commands {
            assert_eq!(decision(&fixture, &fixture.workspace(), &command), expected, "{title}: {command}");
        }
    }
}
