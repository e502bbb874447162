//! `cargo xtask docs`: one page per tool under `docs/tools/`, an index, the page and the schema of
//! the configuration, and `docs/openapi.json`, generated from the binary's own descriptions.
//!
//! All text on the pages comes from the source of the tool or of the key. Edit it there.

mod configuration;
mod page;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, Result, capture, write};
use crate::repository::Repository;

const FOLDER: &str = "docs/tools";
/// Path of the `OpenAPI` document of the HTTP door. A unit test of that door compares it.
const OPENAPI: &str = "docs/openapi.json";
/// Path of the page of all configuration keys.
const CONFIGURATION: &str = "docs/CONFIGURATION.md";
/// Path of the JSON Schema of configuration files.
const SCHEMA: &str = "docs/handfast.schema.json";

/// Pages by file name.
type Pages = BTreeMap<String, String>;

/// Writes the pages. With `check`, only compares them.
pub(crate) fn run(repository: &Repository, check: bool) -> Result<()> {
    let wanted = pages(&described_tools(repository)?)?;
    let folder = repository.root.join(FOLDER);
    let there = pages_in(&folder)?;
    let differing = differing(&wanted, &there);
    let configuration = configuration_pages(repository)?;
    if check {
        let is_current = |(path, text): &&(&str, String)| {
            std::fs::read_to_string(repository.root.join(path)).is_ok_and(|there| there == *text)
        };
        let others =
            configuration.iter().filter(|page| !is_current(page)).map(|(path, _)| (*path).to_owned());
        let names: Vec<String> =
            differing.iter().map(|name| format!("{FOLDER}/{name}")).chain(others).collect();
        if names.is_empty() {
            eprintln!("docs: {} pages are up to date", wanted.len() + configuration.len());
            return Ok(());
        }
        let names = names.join(", ");
        return Err(Failure(format!("these differ: {names}\nTo write them: cargo xtask docs")));
    }
    for (path, text) in &configuration {
        write(&repository.root.join(path), text)?;
    }
    for name in &differing {
        match wanted.get(*name) {
            Some(page) => write(&folder.join(name), page)?,
            None => std::fs::remove_file(folder.join(name))
                .map_err(|error| Failure(format!("cannot remove {FOLDER}/{name}: {error}")))?,
        }
    }
    write(&repository.root.join(OPENAPI), &said(repository, &["openapi"])?)?;
    eprintln!("docs: {} of {} pages written, and {OPENAPI}", differing.len(), wanted.len());
    Ok(())
}

/// Returns the page and the schema of the configuration, each with its path.
fn configuration_pages(repository: &Repository) -> Result<[(&'static str, String); 2]> {
    let text = said(repository, &["config", "schema"])?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| Failure(format!("`handfast config schema` is not JSON: {error}")))?;
    Ok([(CONFIGURATION, configuration::page(&schema)?), (SCHEMA, text)])
}

fn described_tools(repository: &Repository) -> Result<Value> {
    let text = said(repository, &["tools", "--json"])?;
    serde_json::from_str(&text)
        .map_err(|error| Failure(format!("`handfast tools --json` is not JSON: {error}")))
}

/// Returns the output of the built binary. Configuration of the user is hidden from the binary.
fn said(repository: &Repository, arguments: &[&str]) -> Result<String> {
    // Build the whole workspace, because other features would build half of it a second time.
    let build = ["build", "--quiet", "--workspace", "--bins", "--examples"];
    crate::command::run(&mut repository.cargo(&build))?;
    let empty = repository.root.join("target/docs");
    std::fs::create_dir_all(empty.join("workspace"))
        .map_err(|error| Failure(format!("cannot create {}: {error}", empty.display())))?;
    capture(
        Command::new(repository.build_folder()?.join("debug/handfast"))
            .args(arguments)
            .arg("--workspace")
            .arg(empty.join("workspace"))
            .env("HOME", &empty)
            .env("XDG_CONFIG_HOME", empty.join("config"))
            .env("XDG_STATE_HOME", empty.join("state")),
    )
}

fn pages(tools: &Value) -> Result<Pages> {
    let tools = tools.as_array().filter(|tools| !tools.is_empty());
    let tools = tools.ok_or_else(|| Failure::new("`handfast tools --json` lists no tools"))?;
    let mut pages = Pages::new();
    pages.insert("README.md".to_owned(), page::index(tools)?);
    for tool in tools {
        pages.insert(format!("{}.md", page::field(tool, "name")?), page::page(tool)?);
    }
    Ok(pages)
}

fn pages_in(folder: &Path) -> Result<Pages> {
    let failed = |error: std::io::Error| Failure(format!("cannot read {}: {error}", folder.display()));
    let mut pages = Pages::new();
    if !folder.exists() {
        return Ok(pages);
    }
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let text = std::fs::read_to_string(entry.path()).map_err(failed)?;
        pages.insert(entry.file_name().to_string_lossy().into_owned(), text);
    }
    Ok(pages)
}

/// Returns the names of pages that are missing, changed, or obsolete.
fn differing<'a>(wanted: &'a Pages, there: &'a Pages) -> Vec<&'a str> {
    let changed = wanted.iter().filter(|(name, page)| there.get(*name) != Some(page)).map(|(name, _)| name);
    let stale = there.keys().filter(|name| !wanted.contains_key(*name));
    changed.chain(stale).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_changed_and_stale_pages_differ() {
        let pages =
            |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).into(), (*b).into())).collect::<Pages>();
        let wanted = pages(&[("a.md", "1"), ("b.md", "2"), ("c.md", "3")]);
        let there = pages(&[("a.md", "1"), ("b.md", "old"), ("z.md", "gone")]);
        assert_eq!(differing(&wanted, &there), ["b.md", "c.md", "z.md"]);
        assert_eq!(differing(&wanted, &wanted), Vec::<&str>::new());
    }

    #[test]
    fn an_empty_catalogue_is_refused_rather_than_documented() {
        assert!(pages(&serde_json::json!([])).is_err());
        assert!(pages(&serde_json::json!({"tools": []})).is_err());
    }
}
