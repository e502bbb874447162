//! Merge of the profiles of several files: precedence, inheritance, and the keys that an untrusted
//! file may add.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    BrowserRules, CallersOver, CommandsSee, DEFAULT_PROFILE, Dangerous, GitPush, Isolation, Limits, Lines,
    List, ListEntry, Mode, Origin, ParentAnswers, PolicyError, ProfileSource, Profiles, Rule, Undoable,
    UnlistedHosts,
};

/// Profiles of one file. Sources are passed in the order of precedence: managed, user, workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// File of the profiles.
    pub origin: Origin,
    /// Trust of the user in the file.
    pub trust: Trust,
    /// Content of the file's `sandbox_config`.
    pub profiles: Profiles,
    /// The file's `mode` for the whole run, with its place. It counts only for a managed or an
    /// untrusted file. The caller of `compile` chooses the user's mode.
    pub mode: Option<(Mode, Origin)>,
    /// Line numbers of the keys in the file.
    pub lines: Lines,
}

impl Source {
    /// Creates a source without line numbers.
    pub fn new(origin: Origin, trust: Trust, profiles: Profiles) -> Self {
        Self { origin, trust, profiles, mode: None, lines: Lines::default() }
    }

    /// Returns the place of a key of a profile.
    fn place(&self, profile: &str, key: &str) -> Origin {
        self.origin.at(self.lines.of_key(profile, key))
    }

    /// Returns the entries of a list as rules, each with its examples, or `None` if the profile
    /// does not name the list.
    pub(crate) fn entries(&self, profile: &str, list: List) -> Option<Vec<(Rule, &ListEntry)>> {
        let entries = list.of(self.profiles.get(profile)?)?;
        let name: Arc<str> = profile.into();
        let rule = |(position, entry): (usize, &ListEntry)| Rule {
            key: list.key(),
            entry: entry.rule.clone(),
            profile: name.clone(),
            origin: self.origin.at(self.lines.of_entry(profile, list.key(), position)),
        };
        Some(entries.iter().enumerate().map(|place| (rule(place), place.1)).collect())
    }

    fn rules(&self, profile: &str, list: List) -> Option<Vec<Rule>> {
        Some(self.entries(profile, list)?.into_iter().map(|(rule, _)| rule).collect())
    }

    fn is_managed(&self) -> bool {
        matches!(self.origin, Origin::Managed(_))
    }

    /// Returns the profile of this file that tightens the chosen one. The administrator's default
    /// profile applies to every profile that the administrator's file does not define, so that
    /// another profile name is no way around it.
    fn tightening<'a>(&self, profile: &'a str) -> &'a str {
        if self.is_managed() && !self.profiles.contains_key(profile) { DEFAULT_PROFILE } else { profile }
    }
}

/// Trust in a file, which decides whether the file may loosen rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All keys of the file count.
    Trusted,
    /// A workspace's file that the user has not trusted: it can only tighten rules.
    Untrusted,
}

/// A key that does not count as written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "profile `{profile}`: `{key}` {}, because {origin} is not trusted; run `handfast trust` to trust it",
    if *narrows { "can only narrow permissions" } else { "is ignored" }
)]
pub struct Warning {
    /// Name of the profile.
    pub profile: String,
    /// Name of the key.
    pub key: &'static str,
    /// Place of the key.
    pub origin: Origin,
    /// True if the key counts where it is stricter than the trusted files.
    pub narrows: bool,
}

/// Splits an untrusted file into the keys that may count, because they can only tighten, and a
/// warning for each other key.
///
/// Deny lists and strict values of settings pass. `mode` and `limits` pass too, and the merge takes
/// the stricter value. Allow lists are left to [`Policy::narrowed`](crate::Policy), which applies
/// them where they allow less.
fn tighten(file: &Source) -> (Profiles, Vec<Warning>) {
    let mut kept = Profiles::new();
    let mut warnings = Vec::new();
    for (name, source) in &file.profiles {
        let tightening = ProfileSource {
            deny_read_paths: source.deny_read_paths.clone(),
            deny_write_paths: source.deny_write_paths.clone(),
            auto_run_paths: source.auto_run_paths.clone(),
            deny_ignore_case: source.deny_ignore_case.filter(|ignored| *ignored),
            deny_exec_command: source.deny_exec_command.clone(),
            deny_hosts: source.deny_hosts.clone(),
            deny_secrets: source.deny_secrets.clone(),
            git_push: GitPush { allow: None, deny: source.git_push.deny.clone() },
            browser: BrowserRules { submit: None, deny: source.browser.deny.clone() },
            deny_database_statements: source.deny_database_statements.clone(),
            deny_handfast_changes: source.deny_handfast_changes.clone(),
            deny_tools: source.deny_tools.clone(),
            mode: source.mode,
            dangerous: source.dangerous.filter(|dangerous| *dangerous == Dangerous::Deny),
            undoable: source.undoable.filter(|undoable| *undoable == Undoable::Table),
            unlisted_hosts: source.unlisted_hosts.filter(|unlisted| *unlisted == UnlistedHosts::Deny),
            parent_may_answer: source.parent_may_answer.filter(|answers| *answers == ParentAnswers::Never),
            commands_see: source.commands_see.filter(|seen| *seen == CommandsSee::Listed),
            isolation: source.isolation.filter(|isolation| *isolation == Isolation::Namespaces),
            strict: source.strict.filter(|strict| *strict),
            impact: source.impact,
            limits: source.limits,
            ..ProfileSource::default()
        };
        let others = [
            ("inherit", source.inherit.is_some()),
            ("dangerous", source.dangerous == Some(Dangerous::Ask)),
            ("undoable", source.undoable == Some(Undoable::Pass)),
            ("unlisted_hosts", source.unlisted_hosts == Some(UnlistedHosts::Ask)),
            (
                "parent_may_answer",
                source.parent_may_answer.is_some_and(|answers| answers != ParentAnswers::Never),
            ),
            ("commands_see", source.commands_see == Some(CommandsSee::Workspace)),
            ("isolation", source.isolation.is_some_and(|isolation| isolation != Isolation::Namespaces)),
            ("strict", source.strict == Some(false)),
            ("deny_ignore_case", source.deny_ignore_case == Some(false)),
        ];
        let lists = List::ALL.into_iter().filter(|list| !list.denies());
        let lists = lists.map(|list| (list.key(), list.of(source).is_some(), true));
        let others = others.map(|(key, named)| (key, named, false));
        warnings.extend(lists.chain(others).filter(|(_, named, _)| *named).map(|(key, _, narrows)| {
            Warning { profile: name.clone(), key, origin: file.place(name, key), narrows }
        }));
        kept.insert(name.clone(), tightening);
    }
    (kept, warnings)
}

/// Merged allow list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// True if the last profile of the lineage names no list, so that the default applies.
    pub(crate) default: bool,
    /// The list of the first file that names it, for each profile of the lineage for which a file does.
    pub(crate) lists: Vec<Vec<Rule>>,
}

/// Merged deny list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeniedLists {
    /// True if a trusted file names the list in this profile, so that the built-in entries do not count.
    pub(crate) named: bool,
    /// The list of each file.
    pub(crate) lists: Vec<Vec<Rule>>,
}

/// All sources, without the keys that do not count in untrusted ones.
#[derive(Debug)]
pub(crate) struct MergedSources<'a> {
    trusted: Vec<&'a Source>,
    untrusted: Vec<Source>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> MergedSources<'a> {
    pub(crate) fn new(sources: &'a [Source]) -> Self {
        let mut merged = MergedSources { trusted: Vec::new(), untrusted: Vec::new(), warnings: Vec::new() };
        for source in sources {
            match source.trust {
                Trust::Trusted => merged.trusted.push(source),
                Trust::Untrusted => {
                    let (profiles, warnings) = tighten(source);
                    merged.untrusted.push(Source { profiles, ..source.clone() });
                    merged.warnings.extend(warnings);
                }
            }
        }
        merged
    }

    /// Returns the names that can be chosen.
    pub(crate) fn names(&self) -> Vec<&str> {
        let written = self.trusted.iter().flat_map(|source| source.profiles.keys()).map(String::as_str);
        written.chain(std::iter::once(DEFAULT_PROFILE)).collect::<BTreeSet<&str>>().into_iter().collect()
    }

    /// Returns the profile and its parents, nearest first.
    ///
    /// # Errors
    /// Returns an error if a parent is undefined or the chain is a cycle.
    pub(crate) fn lineage(&self, profile: &str) -> Result<Vec<String>, PolicyError> {
        let mut chain = vec![profile.to_owned()];
        let mut child = profile.to_owned();
        while let Some((parent, origin)) = self.parent(&child) {
            if !self.names().contains(&parent.as_str()) {
                return Err(PolicyError::UnknownParent {
                    profile: child,
                    parent,
                    origin: origin.to_string(),
                });
            }
            let closes = chain.contains(&parent);
            chain.push(parent.clone());
            if closes {
                let (chain, origin) = (chain.join(" -> "), origin.to_string());
                return Err(PolicyError::InheritCycle { profile: parent, chain, origin });
            }
            child = parent;
        }
        Ok(chain)
    }

    /// Returns the parent that this profile names, and its place.
    pub(crate) fn parent(&self, profile: &str) -> Option<(String, Origin)> {
        let key = |source: &ProfileSource| source.inherit.clone();
        self.trusted.iter().find_map(|source| written(source, profile, "inherit", key))
    }

    /// Merges an allow list: for each profile of the lineage, the list of the first file that names it.
    pub(crate) fn allowed(&self, lineage: &[String], list: List) -> Allowed {
        let mut allowed = Allowed::default();
        for (position, profile) in lineage.iter().enumerate() {
            match self.trusted.iter().find_map(|source| source.rules(profile, list)) {
                Some(rules) => allowed.lists.push(rules),
                // A profile with a parent takes the parent's default, not its own.
                None => allowed.default |= position + 1 == lineage.len(),
            }
        }
        allowed
    }

    /// Merges a deny list: the lists of all files together, so that no file can take back what
    /// another one denies.
    pub(crate) fn denied(&self, profile: &str, list: List) -> DeniedLists {
        let of = |source: &Source| source.rules(source.tightening(profile), list);
        let named = self.trusted.iter().any(|source| source.rules(profile, list).is_some());
        let trusted = self.trusted.iter().filter_map(|source| of(source));
        DeniedLists { named, lists: trusted.chain(self.untrusted.iter().filter_map(of)).collect() }
    }

    /// Returns the mode: the chosen one, else the profile's, else the built-in one.
    ///
    /// A stricter mode of a managed or an untrusted file counts too, both for a profile and for the
    /// whole run. A mode of these files for the whole run never loosens the result, not even the
    /// built-in mode.
    pub(crate) fn mode(&self, profile: &str, chosen: Option<(Mode, Origin)>) -> (Mode, Origin) {
        let managed = self.trusted.iter().copied().filter(|source| source.is_managed());
        let of_profiles = self.strictest(profile, "mode", |source| source.mode, chosen, Mode::default());
        managed
            .chain(&self.untrusted)
            .filter_map(|source| source.mode.clone())
            .fold(of_profiles, |strictest, other| if other.0 > strictest.0 { other } else { strictest })
    }

    /// Returns the treatment of a dangerous pattern.
    pub(crate) fn dangerous(&self, profile: &str, default: Dangerous) -> (Dangerous, Origin) {
        self.strictest(profile, "dangerous", |source| source.dangerous, None, default)
    }

    /// Returns the treatment of an undoable call.
    pub(crate) fn undoable(&self, profile: &str, default: Undoable) -> (Undoable, Origin) {
        self.strictest(profile, "undoable", |source| source.undoable, None, default)
    }

    /// Returns the treatment of a connection to a host on no list.
    pub(crate) fn unlisted_hosts(&self, profile: &str) -> (UnlistedHosts, Origin) {
        let value = |source: &ProfileSource| source.unlisted_hosts;
        self.strictest(profile, "unlisted_hosts", value, None, UnlistedHosts::default())
    }

    /// Returns the questions of sub-agents that agents above them may answer.
    pub(crate) fn parent_may_answer(&self, profile: &str) -> (ParentAnswers, Origin) {
        let value = |source: &ProfileSource| source.parent_may_answer;
        self.strictest(profile, "parent_may_answer", value, None, ParentAnswers::default())
    }

    /// Returns the setting for what commands see of the workspace.
    pub(crate) fn commands_see(&self, profile: &str, default: CommandsSee) -> (CommandsSee, Origin) {
        self.strictest(profile, "commands_see", |source| source.commands_see, None, default)
    }

    /// Returns the isolation of commands.
    pub(crate) fn isolation(&self, profile: &str) -> (Isolation, Origin) {
        self.strictest(profile, "isolation", |source| source.isolation, None, Isolation::default())
    }

    /// Returns the number of callers above which an edit is asked about.
    pub(crate) fn callers_over(&self, profile: &str) -> (CallersOver, Origin) {
        let value =
            |source: &ProfileSource| source.impact.callers_over.map(|most| CallersOver(Some(Reverse(most))));
        self.strictest(profile, "impact", value, None, CallersOver::default())
    }

    /// Returns true if a switch that only tightens is on.
    pub(crate) fn is_on(
        &self,
        profile: &str,
        key: &str,
        value: impl Fn(&ProfileSource) -> Option<bool>,
    ) -> (bool, Origin) {
        self.strictest(profile, key, value, None, false)
    }

    /// Returns a setting: the chosen value, else the user's, the workspace's, the administrator's,
    /// the default. The administrator's value and an untrusted one also count if they are stricter.
    fn strictest<T: Ord>(
        &self,
        profile: &str,
        key: &str,
        value: impl Fn(&ProfileSource) -> Option<T>,
        chosen: Option<(T, Origin)>,
        default: T,
    ) -> (T, Origin) {
        let of = |source: &Source| written(source, source.tightening(profile), key, &value);
        let mut own = self.trusted.iter().filter(|source| !source.is_managed());
        let mut managed = self.trusted.iter().filter(|source| source.is_managed());
        let own = chosen
            .or_else(|| own.find_map(|source| of(source)))
            .or_else(|| managed.find_map(|source| written(source, profile, key, &value)))
            .unwrap_or((default, Origin::BuiltIn));
        let managed =
            self.trusted.iter().filter(|source| source.is_managed()).filter_map(|source| of(source));
        managed
            .chain(self.untrusted.iter().filter_map(of))
            .fold(own, |strictest, other| if other.0 > strictest.0 { other } else { strictest })
    }

    /// Returns the place where the limit with this value is written.
    pub(crate) fn limit_origin(&self, profile: &str, key: &str, value: u64) -> Origin {
        let names = |source: &&Source| {
            let limits = source.profiles.get(source.tightening(profile)).map(|written| written.limits);
            limits.is_some_and(|limits| limits.named().contains(&(key, value)))
        };
        let mut all = self.trusted.iter().copied().chain(&self.untrusted);
        all.find(names).map_or(Origin::BuiltIn, |source| source.place(source.tightening(profile), key))
    }

    /// Returns, for each limit, the user's value, else the workspace's; and separately the lowest
    /// values of managed and untrusted files. Those can lower a limit, even a built-in one, and
    /// never raise it.
    pub(crate) fn limits(&self, profile: &str) -> (Limits, Limits) {
        let of = |source: &Source| {
            source.profiles.get(source.tightening(profile)).map(|source| source.limits).unwrap_or_default()
        };
        let own = self.trusted.iter().filter(|source| !source.is_managed());
        let own = own.fold(Limits::default(), |all, source| all.or(of(source)));
        let managed = self.trusted.iter().copied().filter(|source| source.is_managed());
        let most = managed.chain(&self.untrusted);
        (own, most.fold(Limits::default(), |all, source| all.lower(of(source))))
    }
}

/// Returns the value of a key of a profile, if the file names it.
fn written<T>(
    source: &Source,
    profile: &str,
    key: &str,
    value: impl Fn(&ProfileSource) -> Option<T>,
) -> Option<(T, Origin)> {
    Some((value(source.profiles.get(profile)?)?, source.place(profile, key)))
}
