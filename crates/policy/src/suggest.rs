//! Suggestions that would make a call pass: entries of lists, tried before they are named.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tool::{Access, CommandLine, Effect};

use crate::command::{is_guarded, is_interpreter};
use crate::judge::allow_key;
use crate::path::{Case, PathList, PatternReach, roots};
use crate::{Line, List, Origin, Part, Policy, Request, Rule, Verdict};

/// An entry that a list lacks for a part to pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MissingEntry {
    /// Path, missing from the list for this access.
    Path(Access, PathBuf),
    /// Command, by its words without wrappers, in this directory.
    Command(Vec<String>, PathBuf),
    /// Entry of a list.
    Entry(List, String),
}

/// An entry to add.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Key of the list.
    pub key: &'static str,
    /// Text of the entry.
    pub entry: String,
}

impl fmt::Display for Suggestion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:?} in `{}`", self.entry, self.key)
    }
}

/// Maximum number of rounds. Each round looks for entries that are missing after those of the round before.
const ROUNDS: usize = 4;

/// Subcommands after which a program does what its folder says, without further choice of the caller.
const PLAIN_SUBCOMMANDS: [&str; 9] =
    ["bench", "build", "check", "clippy", "doc", "fmt", "lint", "test", "vet"];

impl Policy {
    /// Returns the entries with which the call would pass under this profile: tried, not guessed.
    /// Returns `None` if the call passes already, or if no entry of a list would change the answer.
    pub fn would_pass_with(&self, request: &Request<'_>) -> Option<Vec<Suggestion>> {
        let mut trial = self.clone();
        let mut suggestions: Vec<Suggestion> = Vec::new();
        for _ in 0..ROUNDS {
            let decision = trial.decide(request);
            match decision.verdict {
                Verdict::Pass => return (!suggestions.is_empty()).then_some(suggestions),
                Verdict::Check if matches!(decision.line, Line::Unlisted | Line::Table) => {}
                Verdict::Check | Verdict::Deny => return None,
            }
            let missing: Vec<MissingEntry> =
                request.parts.iter().flat_map(|part| trial.judge(part).missing).collect();
            if missing.is_empty() {
                return None;
            }
            for missing in missing {
                let stands_for_the_workspace =
                    matches!(missing, MissingEntry::Path(Access::Read, _)) && self.reads.allowed.workspace;
                // A list with entries stands for these alone, and the workspace was readable
                // without a list.
                let workspace = stands_for_the_workspace
                    .then(|| Suggestion { key: allow_key(Access::Read), entry: ".".to_owned() });
                for suggestion in workspace.into_iter().chain([trial.add(&missing)?]) {
                    if !suggestions.contains(&suggestion) {
                        suggestions.push(suggestion);
                    }
                }
            }
        }
        None
    }

    /// Adds the missing entry.
    fn add(&mut self, missing: &MissingEntry) -> Option<Suggestion> {
        match missing {
            MissingEntry::Path(access, path) => {
                let (key, entry) = (allow_key(*access), path_entry(path, &self.workspace)?);
                let rule = self.rule(key, &entry);
                let (workspace, home) = (self.workspace.clone(), self.home.clone());
                let list = PathList::compile(
                    vec![rule],
                    PatternReach::Workspace,
                    Case::Counts,
                    &workspace,
                    home.as_deref(),
                )
                .ok()?;
                let rules = match access {
                    Access::Read => &mut self.reads,
                    Access::Write => &mut self.writes,
                };
                rules.allowed.lists.push(list);
                self.roots = roots(&workspace, &self.reads, &self.writes);
                Some(Suggestion { key, entry })
            }
            MissingEntry::Command(words, directory) => {
                let key = List::AllowedExecCommand.key();
                candidates(words).into_iter().find_map(|entry| {
                    let mut with = self.clone();
                    with.commands.allow(self.rule(key, &entry)).ok()?;
                    let command = CommandLine::Argv(words.clone());
                    let effect = Effect::Run { command, directory: directory.clone() };
                    let lists = with.judge(&Part::from(effect)).allowed.is_some();
                    lists.then(|| {
                        *self = with;
                        Suggestion { key, entry }
                    })
                })
            }
            MissingEntry::Entry(list, entry) => {
                let rule = self.rule(list.key(), entry);
                let added = match list {
                    List::AllowedHosts => self.allowed_hosts.add(rule),
                    List::AllowedSecrets => self.allowed_secrets.add(rule),
                    List::AllowedDatabaseStatements => self.allowed_statements.add(rule),
                    _ => return None,
                };
                added.ok()?;
                Some(Suggestion { key: list.key(), entry: entry.clone() })
            }
        }
    }

    fn rule(&self, key: &'static str, entry: &str) -> Rule {
        self.setting(key, entry, Origin::CommandLine)
    }
}

/// Returns the path as an entry: relative to the workspace if it lies there, with all pattern
/// characters escaped.
pub(crate) fn path_entry(path: &Path, workspace: &Path) -> Option<String> {
    let (start, rest) = match path.strip_prefix(workspace) {
        Ok(rest) => ("./", rest),
        Err(_) => ("", path),
    };
    let text = rest.to_str()?;
    if text.is_empty() {
        return Some(".".to_owned());
    }
    Some(format!("{start}{}", globset::escape(text).replace('$', "[$]")))
}

/// Returns prefixes of the command that could be listed, the best one first. A program that runs
/// other code on request is never suggested by its name alone.
fn candidates(words: &[String]) -> Vec<String> {
    let Some((program, arguments)) = words.split_first() else { return Vec::new() };
    let mut candidates = Vec::new();
    if !is_guarded(program) {
        candidates.push(program.clone());
    } else if !is_interpreter(program) && program != "git" {
        let plain = arguments.first().filter(|word| PLAIN_SUBCOMMANDS.contains(&word.as_str()));
        candidates.extend(plain.map(|word| format!("{program} {word}")));
    }
    candidates.push(words.join(" "));
    candidates
}
