//! Examples of rules: each rule is tried alone on texts that it must and must not match.

use std::path::{Path, PathBuf};

use shell_syntax::Node;
use tool::{CommandLine, Effect};

use crate::command::ReachedCommands;
use crate::path::{LocatedPath, PathRules};
use crate::push;
use crate::spell::resolve;
use crate::{
    Kind, List, ListEntry, Origin, Part, PathVerdict, Policy, PolicyError, ProfileSource, Profiles, Programs,
    Rule, Setup, Source, Trust,
};

/// Result of one example of one rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Rule that contains the example.
    pub rule: Rule,
    /// Text of the example.
    pub example: String,
    /// True if the rule must match the example.
    pub must_match: bool,
    /// True if the rule matches the example.
    pub matches: bool,
}

impl Example {
    /// Returns true if the result is as required.
    pub fn holds(&self) -> bool {
        self.must_match == self.matches
    }
}

/// Tries all examples of all profiles of all files.
///
/// # Errors
/// Returns an error for a rule that cannot be read, or for an example that is not a path, host or name.
pub fn examples(setup: &Setup<'_>) -> Result<Vec<Example>, PolicyError> {
    let mut tried = Vec::new();
    for source in setup.sources {
        for (profile, written) in &source.profiles {
            let ignore_case = written.deny_ignore_case;
            for list in List::ALL {
                let entries = source.entries(profile, list).unwrap_or_default();
                for (rule, entry) in entries.into_iter().filter(|(_, entry)| entry.has_examples()) {
                    try_rule(&RuleExamples { rule: &rule, list, entry, ignore_case }, setup, &mut tried)?;
                }
            }
        }
    }
    Ok(tried)
}

/// Returns the first failed example as an error.
pub(crate) fn require_examples(setup: &Setup<'_>) -> Result<(), PolicyError> {
    let failed = examples(setup)?.into_iter().find(|example| !example.holds());
    failed.map_or(Ok(()), |Example { rule, example, must_match, .. }| {
        let (under, does) = if must_match { ("match", "does not match") } else { ("not_match", "matches") };
        let problem = format!("{example:?} is listed under `{under}`, but the rule {does} it");
        Err(PolicyError::of_entry(&rule, problem))
    })
}

/// A rule with its examples.
struct RuleExamples<'a> {
    rule: &'a Rule,
    list: List,
    entry: &'a ListEntry,
    ignore_case: Option<bool>,
}

fn try_rule(one: &RuleExamples<'_>, setup: &Setup<'_>, tried: &mut Vec<Example>) -> Result<(), PolicyError> {
    let RuleExamples { rule, list, entry, .. } = *one;
    let alone = IsolatedRule { policy: policy_of(one, setup)?, list };
    let examples = entry.matches.iter().map(|example| (example, true));
    for (example, must_match) in examples.chain(entry.not_matches.iter().map(|example| (example, false))) {
        let matches = alone.matches(example, setup).map_err(|problem| {
            PolicyError::of_entry(rule, format!("the example {example:?} cannot be tried: {problem}"))
        })?;
        tried.push(Example { rule: rule.clone(), example: example.clone(), must_match, matches });
    }
    Ok(())
}

/// A policy of one rule.
struct IsolatedRule {
    policy: Policy,
    list: List,
}

fn policy_of(one: &RuleExamples<'_>, setup: &Setup<'_>) -> Result<Policy, PolicyError> {
    let RuleExamples { rule, list, ignore_case, .. } = *one;
    // An entry with `!` takes back the paths that it would match without the `!`.
    let text = match list {
        List::AllowedReadPaths
        | List::AllowedWritePaths
        | List::DenyReadPaths
        | List::DenyWritePaths
        | List::AutoRunPaths => rule.entry.strip_prefix('!').unwrap_or(&rule.entry),
        _ => &rule.entry,
    };
    let entries = Some(vec![ListEntry::from(text)]);
    let mut profile = ProfileSource {
        deny_read_paths: Some(Vec::new()),
        deny_ignore_case: ignore_case,
        ..ProfileSource::default()
    };
    *list.of_mut(&mut profile) = entries;
    let profiles = Profiles::from([(rule.profile.to_string(), profile)]);
    // The rule is tried as one of the user's, because the trust of its file does not matter here.
    let origin = match &rule.origin {
        Origin::Managed(place) | Origin::User(place) | Origin::Workspace(place) => {
            Origin::User(place.clone())
        }
        other => other.clone(),
    };
    Policy::compile(&Setup {
        sources: &[Source::new(origin, Trust::Trusted, profiles)],
        profile: &rule.profile,
        mode: None,
        protected: &[],
        // An example must give the same result on every machine, whatever programs are installed there.
        programs: Programs::Presumed,
        ..setup.clone()
    })
    .map_err(|error| match error {
        // Add the line number, which the policy of one rule does not know.
        PolicyError::Entry { problem, .. } => PolicyError::of_entry(rule, problem),
        other => other,
    })
}

impl IsolatedRule {
    fn matches(&self, example: &str, setup: &Setup<'_>) -> Result<bool, String> {
        let policy = &self.policy;
        match self.list {
            List::AllowedReadPaths | List::DenyReadPaths => matches_path(&policy.reads, example, setup),
            List::AllowedWritePaths | List::DenyWritePaths => matches_path(&policy.writes, example, setup),
            List::AutoRunPaths => matches_path(&policy.auto_run, example, setup),
            List::AllowedExecCommand => Ok(self.allows_command(example, setup.workspace)),
            List::ModerateExecCommand => {
                let policy = self.policy.with_moderate_listed();
                Ok(IsolatedRule { policy, list: self.list }.allows_command(example, setup.workspace))
            }
            List::DenyExecCommand => {
                let line = CommandLine::Shell(example.to_owned());
                Ok(policy.commands.denied_by(&ReachedCommands::by(&line)).is_some())
            }
            List::AllowedHosts => policy.allowed_hosts.matches(example),
            List::DenyHosts => policy.denied_hosts.matches(example),
            List::AllowedSecrets => Ok(policy.allowed_secrets.matches(example)),
            List::DenySecrets => Ok(policy.denied_secrets.matches(example)),
            List::BrowserSubmit => Ok(policy.pages.submitted_by(example).is_some()),
            List::BrowserDeny => Ok(policy.pages.denied_by(example).is_some()),
            List::AllowedGitPush => Ok(policy.pushes.allowed_by(&push::full_name(example)).is_some()),
            List::DenyGitPush => Ok(policy.pushes.denied_by(&push::full_name(example)).is_some()),
            List::AllowedDatabaseStatements => Ok(policy.allowed_statements.matches(example)),
            List::DenyDatabaseStatements => Ok(policy.denied_statements.matches(example)),
            List::DenyHandfastChanges => Ok(policy.denied_changes.matches(example)),
            List::DenyTools => Ok(policy.denied_tools.matches(example)),
        }
    }

    /// Returns true if the rule allows the line: the rule matches one of its commands, and the
    /// whole line is listed or only reads.
    fn allows_command(&self, line: &str, workspace: &Path) -> bool {
        let command = CommandLine::Shell(line.to_owned());
        let judged = self.policy.judge(&Part::from(Effect::Run { command, directory: workspace.to_owned() }));
        let Some(cause) = judged.allowed else { return false };
        cause.rule.key == self.list.key()
            || shell_syntax::read(line).is_ok_and(|script| {
                script.steps.iter().any(|step| match &step.node {
                    Node::Command(command) => self.policy.commands.allowed_by(&command.words).is_some(),
                    _ => false,
                })
            })
    }
}

/// Tries a path spelled as in a rule: relative to the workspace, or with the home folder. A folder
/// ends in a slash.
fn matches_path(rules: &PathRules, example: &str, setup: &Setup<'_>) -> Result<bool, String> {
    let path = match example.strip_prefix("~/").or_else(|| example.strip_prefix("$HOME/")) {
        Some(rest) => setup.home.ok_or("the home folder is unknown")?.join(rest),
        None => PathBuf::from(example),
    };
    let path = resolve(setup.workspace, path.to_str().ok_or("it is not UTF-8")?).path;
    let kind = if example.ends_with('/') { Kind::Folder } else { Kind::File };
    let verdict = rules.verdict(&LocatedPath::of(&path, setup.workspace), kind);
    Ok(matches!(verdict, PathVerdict::Denied(_) | PathVerdict::Listed(_)))
}
