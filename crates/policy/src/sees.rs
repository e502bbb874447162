//! Part of the workspace that the cell of a command shows, if the profile says `commands_see: listed`.
//!
//! The lists decide about single paths here. The code that builds the cell finds the paths.

use std::path::{Component, Path, PathBuf};

use shell_syntax::Word;
use tool::{Access, CommandLine, Effect};

use crate::command::{ReachedCommands, possible_paths};
use crate::path::LocatedPath;
use crate::spell::resolve;
use crate::suggest::MissingEntry;
use crate::{CommandsSee, Kind, Part, Policy};

/// Amount of an entry that commands see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The entry with everything in it.
    All,
    /// The names in a folder; each entry in it is decided separately.
    Part,
    /// Hidden completely.
    Nothing,
}

/// Folders of a project in which its programs and their dependencies are installed.
const ENVIRONMENTS: [&str; 3] = [".venv", "venv", "node_modules"];

/// Files that configure how the programs of a project run. Without them no command could build or test.
const MANIFESTS: [&str; 44] = [
    ".node-version",
    ".nvmrc",
    ".python-version",
    ".ruff.toml",
    ".tool-versions",
    "Cargo.lock",
    "Cargo.toml",
    "GNUmakefile",
    "Gemfile",
    "Gemfile.lock",
    "Justfile",
    "Makefile",
    "Rakefile",
    "Taskfile.yaml",
    "Taskfile.yml",
    "build.gradle",
    "build.gradle.kts",
    "bun.lock",
    "composer.json",
    "composer.lock",
    "conftest.py",
    "deno.json",
    "go.mod",
    "go.sum",
    "jsconfig.json",
    "justfile",
    "makefile",
    "mypy.ini",
    "package-lock.json",
    "package.json",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "poetry.lock",
    "pom.xml",
    "pyproject.toml",
    "pytest.ini",
    "requirements.txt",
    "ruff.toml",
    "rust-toolchain.toml",
    "setup.cfg",
    "setup.py",
    "tox.ini",
    "tsconfig.json",
    "uv.lock",
];

impl Policy {
    /// Returns true if commands see less than the whole workspace, apart from denied paths.
    pub fn hides_unlisted(&self) -> bool {
        self.commands_see.0 == CommandsSee::Listed
    }

    /// Returns how much of an entry commands see. The path is absolute. Denials are not considered here.
    pub fn sees(&self, path: &Path, is_folder: bool) -> Sees {
        let is_environment = |part: Component<'_>| ENVIRONMENTS.iter().any(|name| part.as_os_str() == *name);
        let spot = LocatedPath::of(path, &self.workspace);
        if !self.hides_unlisted()
            || self.also_seen.iter().any(|seen| path.starts_with(seen))
            || spot.relative.is_some_and(|relative| relative.components().any(is_environment))
            || (!is_folder && is_manifest(path))
        {
            return Sees::All;
        }
        let kind = if is_folder { Kind::Folder } else { Kind::File };
        if self.reads.lists(&spot, kind) {
            return if is_folder && !self.reads.lists_all_below() { Sees::Part } else { Sees::All };
        }
        let leads_to_more = is_folder
            && (path == self.workspace
                || self.reads.may_list_below(&spot)
                || self.also_seen.iter().any(|seen| seen.starts_with(path)));
        if leads_to_more { Sees::Part } else { Sees::Nothing }
    }

    /// Returns a policy whose cell also shows paths of the call that the list does not name, or
    /// `None` if there are none.
    ///
    /// A line that runs only git sees everything if `git` is listed, because git treats hidden
    /// files as removed. A command that a human approved sees the paths that its line names.
    pub fn seeing_more(&self, parts: &[Part], approved: bool) -> Option<Policy> {
        if !self.hides_unlisted() {
            return None;
        }
        let mut also_seen = Vec::new();
        for part in parts {
            let Effect::Run { command, directory } = &part.effect else { continue };
            if self.commands.lists_commands_of("git") && is_of_git_alone(command) {
                also_seen.push(self.workspace.clone());
            } else if approved {
                also_seen.extend(named(command, directory));
                also_seen.extend(self.judge(part).missing.into_iter().filter_map(|missing| match missing {
                    MissingEntry::Path(Access::Read, path) => Some(path),
                    _ => None,
                }));
            }
        }
        // A line that names a folder above the workspace names the workspace too. Other rules show
        // paths outside.
        also_seen.retain(|path| path.starts_with(&self.workspace));
        (!also_seen.is_empty()).then(|| Policy { also_seen, ..self.clone() })
    }
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| MANIFESTS.iter().any(|manifest| name == *manifest))
}

fn is_of_git_alone(command: &CommandLine) -> bool {
    let reached = ReachedCommands::by(command);
    let mut starts = reached.programs().peekable();
    reached.hidden.is_none() && starts.peek().is_some() && starts.all(|program| program == "git")
}

/// Returns the paths that the words of a line may name, resolved from the directory in which it starts.
fn named(command: &CommandLine, directory: &Path) -> Vec<PathBuf> {
    let reached = ReachedCommands::by(command);
    let of_start = |words: &[String]| {
        let words: Vec<Word> = words.iter().map(Word::literal).collect();
        let paths = possible_paths(&words).filter(|path| !path.starts_with('-'));
        paths.map(|path| resolve(directory, path).path).collect::<Vec<_>>()
    };
    reached.starts_in_words().flat_map(of_start).collect()
}
