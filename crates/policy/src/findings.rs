//! Search for rules that can never decide anything. A rule without effect is a mistake of its author.

use std::collections::HashMap;
use std::fmt;

use crate::command::{has_table, is_guarded};
use crate::path::outermost;
use crate::{Kind, List, Policy, PolicyError, Rule, Setup};

/// A rule that can never decide anything, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The rule without effect.
    pub rule: Rule,
    /// Reason, and advice what to do.
    pub problem: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Finding { rule: Rule { key, entry, profile, origin }, problem } = self;
        write!(formatter, "{origin}: profile `{profile}`: `{key}`: {entry:?} can never decide: {problem}")
    }
}

impl Policy {
    /// Returns the rules of this policy's profile that can never decide anything, with their places
    /// in the files.
    pub fn findings(&self, setup: &Setup<'_>) -> Vec<Finding> {
        let mut findings = Vec::new();
        for source in setup.sources {
            for list in List::ALL {
                let rules = source.entries(&self.profile, list).unwrap_or_default();
                let rules: Vec<Rule> = rules.into_iter().map(|(rule, _)| rule).collect();
                self.look_through(list, &rules, setup, &mut findings);
            }
        }
        findings
    }

    fn look_through(&self, list: List, rules: &[Rule], setup: &Setup<'_>, findings: &mut Vec<Finding>) {
        let paths = matches!(
            list,
            List::AllowedReadPaths
                | List::AllowedWritePaths
                | List::DenyReadPaths
                | List::DenyWritePaths
                | List::AutoRunPaths
        );
        let mut seen: HashMap<&str, &Rule> = HashMap::new();
        for (position, rule) in rules.iter().enumerate() {
            let repeated = seen
                .insert(&rule.entry, rule)
                .map(|first| format!("it is already listed at {}", first.origin));
            let without_effect = if paths { of_path(rules, position) } else { None };
            let problem = without_effect.or(repeated).or_else(|| match list {
                List::AllowedReadPaths | List::AllowedWritePaths => self.denied_path(list, rule, setup),
                List::AllowedExecCommand | List::ModerateExecCommand => self.denied_command(rule),
                List::AllowedHosts => {
                    let denied = self.denied_hosts.covers(&rule.entry)?;
                    Some(format!("{denied} denies all of it"))
                }
                List::AllowedSecrets => self.denied_secrets.covers(&rule.entry),
                List::BrowserSubmit => self.pages.covers(&rule.entry),
                List::AllowedGitPush => self.pushes.covers(&rule.entry),
                List::AllowedDatabaseStatements => self.denied_statements.covers(&rule.entry),
                _ => None,
            });
            if let Some(problem) = problem {
                findings.push(Finding { rule: rule.clone(), problem });
            }
        }
    }

    fn denied_path(&self, list: List, rule: &Rule, setup: &Setup<'_>) -> Option<String> {
        let rules = if list == List::AllowedReadPaths { &self.reads } else { &self.writes };
        let text = rule.entry.strip_prefix('!').map_or(Some(rule.entry.as_str()), |_| None)?;
        let outermost = outermost(text, setup.workspace, setup.home);
        if let (List::AllowedWritePaths, Some(own)) =
            (list, outermost.as_deref().and_then(|path| self.own_file(path)))
        {
            return Some(format!("it belongs to Handfast ({}), and no tool can write it", own.entry));
        }
        let denied = match outermost {
            Some(path) => rules.certainly_denied(&path, setup.workspace, Kind::Folder),
            None => rules.denied_as_written(text),
        }?;
        Some(format!("{denied} denies all of it"))
    }

    fn denied_command(&self, rule: &Rule) -> Option<String> {
        if let Some(denied) = self.commands.denies_all_of(&rule.entry) {
            return Some(format!("{denied} denies all of it"));
        }
        let mut words = rule.entry.split_whitespace();
        let program = words.next()?;
        let alone = words.next().is_none() && !program.contains('/');
        (alone && is_guarded(program) && !has_table(program)).then(|| {
            format!(
                "`{program}` can run or send anything, so its name alone has no effect; write a whole \
                 command"
            )
        })
    }
}

/// Returns the reason why a path entry has no effect next to the others of its list.
fn of_path(rules: &[Rule], position: usize) -> Option<String> {
    let entry = &rules.get(position)?.entry;
    let (before, after) = rules.split_at_checked(position)?;
    match entry.strip_prefix('!') {
        Some(_) => before
            .iter()
            .all(|rule| rule.entry.starts_with('!'))
            .then(|| "the list has no earlier entry that it could revoke".to_owned()),
        None => {
            let back = after
                .iter()
                .rev()
                .find(|rule| rule.entry.strip_prefix('!') == Some(entry) || rule.entry == *entry)?;
            back.entry.starts_with('!').then(|| format!("{back} revokes it"))
        }
    }
}

/// Returns the findings of every profile in the files. Those of the chosen profile equal
/// [`Policy::findings`].
///
/// # Errors
/// Returns an error if a profile cannot be compiled.
pub fn findings(setup: &Setup<'_>) -> Result<Vec<Finding>, PolicyError> {
    let mut names: Vec<&String> = setup.sources.iter().flat_map(|source| source.profiles.keys()).collect();
    names.sort();
    names.dedup();
    let mut all = Vec::new();
    for name in names {
        match Policy::compile(&Setup { profile: name, ..setup.clone() }) {
            Ok(policy) => all.extend(policy.findings(setup)),
            // A profile that only an untrusted file defines cannot be chosen.
            Err(PolicyError::UnknownProfile { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}
