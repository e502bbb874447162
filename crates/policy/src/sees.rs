//! What the cell of a command shows of the workspace, where the profile says `commands_see: listed`.
//!
//! The lists decide about single paths here; finding the paths is for whoever builds the cell.

use std::path::{Component, Path, PathBuf};

use shell_syntax::Word;
use tool::{Access, CommandLine, Effect};

use crate::command::{Reached, possible_paths};
use crate::path::Spot;
use crate::spell::resolve;
use crate::suggest::Missing;
use crate::{CommandsSee, Kind, Part, Policy};

/// How much of an entry commands see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sees {
    /// The entry with all that lies in it.
    All,
    /// The names in a folder; what they lead to is asked about by itself.
    Part,
    /// Nothing.
    Nothing,
}

/// Folders of a project in which its programs and what they need are installed.
const ENVIRONMENTS: [&str; 2] = [".venv", "node_modules"];

/// Files that say how the programs of a project run: without them no command that builds or tests could.
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
    /// Whether commands see less of the workspace than all of it, but for what is denied.
    pub fn hides_unlisted(&self) -> bool {
        self.commands_see.0 == CommandsSee::Listed
    }

    /// Tells how much of an entry, absolute, commands see. What is denied is not asked about here.
    pub fn sees(&self, path: &Path, is_folder: bool) -> Sees {
        let is_environment = |part: Component<'_>| ENVIRONMENTS.iter().any(|name| part.as_os_str() == *name);
        let spot = Spot::of(path, &self.workspace);
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

    /// The policy whose cell also shows what a call is about beyond the list; none where that is nothing. A line of git alone sees
    /// all, where `git` is listed: it takes for removed what it does not see. A command that a human approved sees what its line
    /// names.
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
                    Missing::Path(Access::Read, path) => Some(path),
                    _ => None,
                }));
            }
        }
        // The workspace is named by what names a folder above it, and everything else outside is shown by other rules.
        also_seen.retain(|path| path.starts_with(&self.workspace));
        (!also_seen.is_empty()).then(|| Policy { also_seen, ..self.clone() })
    }
}

fn is_manifest(path: &Path) -> bool {
    path.file_name().is_some_and(|name| MANIFESTS.iter().any(|manifest| name == *manifest))
}

fn is_of_git_alone(command: &CommandLine) -> bool {
    let reached = Reached::by(command);
    let mut starts = reached.programs().peekable();
    reached.hidden.is_none() && starts.peek().is_some() && starts.all(|program| program == "git")
}

/// The paths that the words of a line may name, as they lead from where it starts.
fn named(command: &CommandLine, directory: &Path) -> Vec<PathBuf> {
    let reached = Reached::by(command);
    let of_start = |words: &[String]| {
        let words: Vec<Word> = words.iter().map(Word::literal).collect();
        let paths = possible_paths(&words).filter(|path| !path.starts_with('-'));
        paths.map(|path| resolve(directory, path).path).collect::<Vec<_>>()
    };
    reached.starts_in_words().flat_map(of_start).collect()
}
