//! The checkout: its root, its text files, and its packages as cargo reports them.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::command::{Failure, Result, capture, read};

/// Folders without handwritten files, at any depth. `.git` is a file in a worktree.
const NOT_OURS: [&str; 5] = [".git", "target", "node_modules", ".venv", "__pycache__"];

/// The checkout that this build of xtask belongs to.
pub(crate) struct Repository {
    /// Path of the folder with the workspace's `Cargo.toml`.
    pub(crate) root: PathBuf,
}

/// One text file of the checkout.
pub(crate) struct File {
    /// Path relative to the root, with `/` between folders.
    pub(crate) path: String,
    /// The whole text.
    pub(crate) text: String,
}

/// One package of the workspace.
pub(crate) struct Package {
    /// Name of the package, and of its folder.
    pub(crate) name: String,
    /// Direct dependencies of any kind.
    pub(crate) dependencies: Vec<Dependency>,
}

/// One direct dependency of a package.
pub(crate) struct Dependency {
    /// Name of the dependency's package.
    pub(crate) name: String,
    /// True if only tests and examples use the dependency.
    pub(crate) for_tests: bool,
    /// True if the dependency is a package of this workspace.
    pub(crate) in_workspace: bool,
}

impl Repository {
    /// Returns the checkout that this program was compiled in. `cargo xtask` guarantees that it is
    /// called from the same checkout.
    pub(crate) fn of_this_build() -> Result<Self> {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = manifest.parent().ok_or_else(|| Failure::new("xtask lies in no workspace"))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Returns a cargo command in this checkout, with the cargo that runs this task.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(&self.root).args(arguments);
        command
    }

    /// Returns the folder of the test tools. The path is fixed, so that tests find the tools
    /// without a setting.
    pub(crate) fn test_tools(&self) -> PathBuf {
        self.root.join("target/test-tools")
    }

    /// Returns every UTF-8 file outside the folders of [`NOT_OURS`], sorted by path.
    pub(crate) fn files(&self) -> Result<Vec<File>> {
        let mut files = Vec::new();
        self.walk(&self.root, &mut files)?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(files)
    }

    fn walk(&self, folder: &Path, files: &mut Vec<File>) -> Result<()> {
        let failed = |error: std::io::Error| Failure(format!("cannot list {}: {error}", folder.display()));
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let path = entry.path();
            let not_ours = NOT_OURS.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() {
                if !not_ours {
                    self.walk(&path, files)?;
                }
            } else if kind.is_file() && !not_ours {
                let bytes = std::fs::read(&path)
                    .map_err(|error| Failure(format!("cannot read {}: {error}", path.display())))?;
                let relative = path.strip_prefix(&self.root).unwrap_or(&path).to_string_lossy().into_owned();
                // Files that are not text are subject to no rule.
                if let Ok(text) = String::from_utf8(bytes) {
                    files.push(File { path: relative, text });
                }
            }
        }
        Ok(())
    }

    /// Returns the packages of the workspace.
    pub(crate) fn packages(&self) -> Result<Vec<Package>> {
        packages_in(&self.metadata()?)
    }

    /// Returns cargo's build folder, which the user may have moved.
    pub(crate) fn build_folder(&self) -> Result<PathBuf> {
        let metadata = self.metadata()?;
        let folder = metadata.get("target_directory").and_then(Value::as_str);
        folder.map(PathBuf::from).ok_or_else(|| Failure::new("cargo metadata names no target_directory"))
    }

    /// Reads a file, relative to the root.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        read(&self.root.join(path))
    }

    fn metadata(&self) -> Result<Value> {
        let text = capture(&mut self.cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
        serde_json::from_str(&text).map_err(|error| Failure(format!("cargo metadata is not JSON: {error}")))
    }
}

fn packages_in(metadata: &Value) -> Result<Vec<Package>> {
    let packages = metadata.get("packages").and_then(Value::as_array);
    let packages = packages.ok_or_else(|| Failure::new("cargo metadata lists no packages"))?;
    packages.iter().map(package).collect()
}

fn package(package: &Value) -> Result<Package> {
    let name = text(package, "name")?;
    let dependencies = package.get("dependencies").and_then(Value::as_array);
    let dependencies =
        dependencies.ok_or_else(|| Failure(format!("package {name} has no dependencies field")))?;
    let dependencies = dependencies.iter().map(|dependency| {
        Ok(Dependency {
            name: text(dependency, "name")?,
            for_tests: dependency.get("kind").and_then(Value::as_str) == Some("dev"),
            in_workspace: dependency.get("path").is_some_and(Value::is_string),
        })
    });
    Ok(Package { name, dependencies: dependencies.collect::<Result<_>>()? })
}

fn text(value: &Value, field: &str) -> Result<String> {
    let text = value.get(field).and_then(Value::as_str);
    text.map(str::to_owned).ok_or_else(|| Failure(format!("cargo metadata: `{field}` is missing")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn packages_are_read_with_the_kind_of_each_dependency() {
        let metadata = json!({"packages": [{"name": "engine", "dependencies": [
            {"name": "tool", "kind": null, "path": "/x/crates/tool"},
            {"name": "insta", "kind": "dev"},
            {"name": "cc", "kind": "build"},
        ]}]});
        let packages = packages_in(&metadata).unwrap();
        let seen: Vec<_> =
            packages[0].dependencies.iter().map(|d| (d.name.as_str(), d.for_tests, d.in_workspace)).collect();
        assert_eq!(seen, [("tool", false, true), ("insta", true, false), ("cc", false, false)]);
    }

    #[test]
    fn the_files_of_this_checkout_include_this_one_and_nothing_built() {
        let files = Repository::of_this_build().unwrap().files().unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/repository.rs"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/") || file.path.starts_with(".git/")));
    }
}
