//! Facts about the product that every format states, read from the workspace and its commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, Result, capture, read};

/// Name of the package and of the program.
pub(crate) const NAME: &str = "handfast";
/// Name of the program with further languages for the code graph, and of its package.
pub(crate) const LANGUAGES: &str = "handfast-languages";
/// Maintainer of the packages. The address is the forge's, which delivers nothing.
pub(crate) const MAINTAINER: &str = "Handfast contributors <handfast@users.noreply.github.com>";
/// Variable that states the time of every entry, as reproducible builds of other projects have it.
const TIME_VARIABLE: &str = "SOURCE_DATE_EPOCH";

/// The checkout and what its manifest says.
pub(crate) struct Product {
    pub(crate) root: PathBuf,
    pub(crate) build_folder: PathBuf,
    pub(crate) version: String,
    pub(crate) description: String,
    pub(crate) licence: String,
    pub(crate) repository: String,
    /// Time of the commit, in seconds since 1970.
    pub(crate) time: u64,
}

impl Product {
    /// Reads the facts of the checkout that this program was compiled in.
    pub(crate) fn of_this_checkout() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let root = root.ok_or_else(|| Failure::new("xtask-dist lies in no workspace"))?.to_owned();
        let metadata = capture(&mut cargo(&root, &["metadata", "--format-version", "1", "--no-deps"]))?;
        let metadata: Value = serde_json::from_str(&metadata)
            .map_err(|error| Failure(format!("cargo metadata is not JSON: {error}")))?;
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let package = packages.into_iter().find(|package| package["name"] == NAME);
        let package = package.ok_or_else(|| Failure::new("the workspace has no package handfast"))?;
        let text = |value: &Value, field: &str| {
            let text = value[field].as_str().map(str::to_owned);
            text.ok_or_else(|| Failure(format!("cargo metadata states no `{field}`")))
        };
        Ok(Self {
            build_folder: text(&metadata, "target_directory")?.into(),
            version: text(package, "version")?,
            description: text(package, "description")?,
            licence: text(package, "license")?,
            repository: text(package, "repository")?,
            time: time(&root)?,
            root,
        })
    }

    /// Returns a cargo command in this checkout.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        cargo(&self.root, arguments)
    }

    /// Reads a file of the checkout.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        read(&self.root.join(path))
    }

    /// Refuses a checkout whose files differ from its commit: nobody could make the same artefacts.
    pub(crate) fn check_committed(&self) -> Result<()> {
        let changed = capture(git(&self.root).args(["status", "--porcelain"]))?;
        match changed.lines().next() {
            None => Ok(()),
            Some(first) => Err(Failure(format!(
                "the checkout differs from its commit ({}); commit it, or use --allow-dirty",
                first.trim()
            ))),
        }
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root).args(arguments);
    command
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(root);
    command
}

/// Returns the time of every entry: the variable's, or that of the commit.
fn time(root: &Path) -> Result<u64> {
    let stated = std::env::var(TIME_VARIABLE).ok();
    let text = match stated {
        Some(text) => text,
        None => capture(git(root).args(["log", "-1", "--format=%ct"])).map_err(|failure| {
            Failure(format!("{failure}; outside of a git checkout, set {TIME_VARIABLE}"))
        })?,
    };
    text.trim().parse().map_err(|_| Failure(format!("`{}` is no time in seconds since 1970", text.trim())))
}
