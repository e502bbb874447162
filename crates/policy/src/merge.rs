//! From the profiles of several files to one: precedence, inheritance, and what an untrusted file may add.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    CommandsSee, DEFAULT_PROFILE, Dangerous, Limits, Lines, List, ListEntry, Mode, Origin, PolicyError,
    ProfileSource, Profiles, Rule, Undoable,
};

/// The profiles of one file. Sources are handed over in the order of precedence: managed, user, workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub origin: Origin,
    /// Whether the user trusts it.
    pub trust: Trust,
    /// Its `sandbox_config`.
    pub profiles: Profiles,
    /// Its own `mode`, for the whole run, with where it is written. Only that of a managed or an untrusted file counts; the
    /// user's is chosen by whoever compiles the policy.
    pub mode: Option<(Mode, Origin)>,
    /// Where in the file each key of it stands.
    pub lines: Lines,
}

impl Source {
    /// A file of which no lines are known.
    pub fn new(origin: Origin, trust: Trust, profiles: Profiles) -> Self {
        Self { origin, trust, profiles, mode: None, lines: Lines::default() }
    }

    /// Where a key of a profile is written.
    fn place(&self, profile: &str, key: &str) -> Origin {
        self.origin.at(self.lines.of_key(profile, key))
    }

    /// The entries of a list as rules, each with its examples; none where the profile does not name the list.
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

    /// The profile of this file that tightens the chosen one. What the administrator says of the default profile holds for
    /// every profile that the administrator's file does not write, so that naming another one is no way around it.
    fn tightening<'a>(&self, profile: &'a str) -> &'a str {
        if self.is_managed() && !self.profiles.contains_key(profile) { DEFAULT_PROFILE } else { profile }
    }
}

/// Whether a file may loosen anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All its keys count.
    Trusted,
    /// A workspace's file that the user has not trusted: it can only tighten.
    Untrusted,
}

/// A key that does not count as it is written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "profile `{profile}`: `{key}` {}, because {origin} is not trusted; `handfast trust` trusts it",
    if *narrows { "can only narrow what is allowed" } else { "is ignored" }
)]
pub struct Warning {
    /// The profile.
    pub profile: String,
    /// The key.
    pub key: &'static str,
    /// Where it is written.
    pub origin: Origin,
    /// Whether it counts where it is stricter than the trusted files.
    pub narrows: bool,
}

/// Splits what an untrusted file says into what may count, because it can only tighten, and a warning for each other key.
///
/// The lists that deny and the strict values of settings are kept as they are; `mode` and `limits` are kept, and whoever merges
/// them takes the stricter value. The lists that allow are left to [`Policy::narrowed`](crate::Policy), which heeds them where
/// they allow less.
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
            deny_database_statements: source.deny_database_statements.clone(),
            deny_handfast_changes: source.deny_handfast_changes.clone(),
            deny_tools: source.deny_tools.clone(),
            mode: source.mode,
            dangerous: source.dangerous.filter(|dangerous| *dangerous == Dangerous::Deny),
            undoable: source.undoable.filter(|undoable| *undoable == Undoable::Table),
            commands_see: source.commands_see.filter(|seen| *seen == CommandsSee::Listed),
            strict: source.strict.filter(|strict| *strict),
            limits: source.limits,
            ..ProfileSource::default()
        };
        let others = [
            ("inherit", source.inherit.is_some()),
            ("dangerous", source.dangerous == Some(Dangerous::Ask)),
            ("undoable", source.undoable == Some(Undoable::Pass)),
            ("commands_see", source.commands_see == Some(CommandsSee::Workspace)),
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

/// What an allow list comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Some profile along the parents names no list, so that the default stands.
    pub(crate) default: bool,
    /// For each profile of the lineage that names it, the list of the first file that does.
    pub(crate) lists: Vec<Vec<Rule>>,
}

/// What a deny list comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeniedLists {
    /// A trusted file names the list in this profile, so that the built-in entries do not count.
    pub(crate) named: bool,
    /// The list of each file.
    pub(crate) lists: Vec<Vec<Rule>>,
}

/// Every source with its untrusted keys taken out.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    trusted: Vec<&'a Source>,
    untrusted: Vec<Source>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(sources: &'a [Source]) -> Self {
        let mut merged = Merged { trusted: Vec::new(), untrusted: Vec::new(), warnings: Vec::new() };
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

    /// The names that can be chosen.
    pub(crate) fn names(&self) -> Vec<&str> {
        let written = self.trusted.iter().flat_map(|source| source.profiles.keys()).map(String::as_str);
        written.chain(std::iter::once(DEFAULT_PROFILE)).collect::<BTreeSet<&str>>().into_iter().collect()
    }

    /// Whether a trusted file writes the profile.
    pub(crate) fn is_written(&self, profile: &str) -> bool {
        self.trusted.iter().any(|source| source.profiles.contains_key(profile))
    }

    /// The profile and its parents, nearest first.
    ///
    /// # Errors
    /// Where a parent is not defined or the chain is a circle.
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

    /// The profile that this one names as its parent, and where.
    pub(crate) fn parent(&self, profile: &str) -> Option<(String, Origin)> {
        let key = |source: &ProfileSource| source.inherit.clone();
        self.trusted.iter().find_map(|source| written(source, profile, "inherit", key))
    }

    /// An allow list: for each profile of the lineage, that of the first file that names it.
    pub(crate) fn allowed(&self, lineage: &[String], list: List) -> Allowed {
        let mut allowed = Allowed::default();
        for (position, profile) in lineage.iter().enumerate() {
            match self.trusted.iter().find_map(|source| source.rules(profile, list)) {
                Some(rules) => allowed.lists.push(rules),
                // A profile with a parent takes the parent's default, not one of its own.
                None => allowed.default |= position + 1 == lineage.len(),
            }
        }
        allowed
    }

    /// A deny list: the lists of every file together, so that no file can take back what another one denies.
    pub(crate) fn denied(&self, profile: &str, list: List) -> DeniedLists {
        let of = |source: &Source| source.rules(source.tightening(profile), list);
        let named = self.trusted.iter().any(|source| source.rules(profile, list).is_some());
        let trusted = self.trusted.iter().filter_map(|source| of(source));
        DeniedLists { named, lists: trusted.chain(self.untrusted.iter().filter_map(of)).collect() }
    }

    /// The mode: the chosen one, else the profile's, else the built-in one; a stricter one of a managed or an untrusted file counts,
    /// of a profile and for the whole run. What such a file says of the whole run makes nothing laxer, the built-in mode neither.
    pub(crate) fn mode(&self, profile: &str, chosen: Option<(Mode, Origin)>) -> (Mode, Origin) {
        let managed = self.trusted.iter().copied().filter(|source| source.is_managed());
        let of_profiles = self.strictest(profile, "mode", |source| source.mode, chosen, Mode::default());
        managed
            .chain(&self.untrusted)
            .filter_map(|source| source.mode.clone())
            .fold(of_profiles, |strictest, other| if other.0 > strictest.0 { other } else { strictest })
    }

    /// What a dangerous pattern gets.
    pub(crate) fn dangerous(&self, profile: &str, default: Dangerous) -> (Dangerous, Origin) {
        self.strictest(profile, "dangerous", |source| source.dangerous, None, default)
    }

    /// What an undoable call gets.
    pub(crate) fn undoable(&self, profile: &str, default: Undoable) -> (Undoable, Origin) {
        self.strictest(profile, "undoable", |source| source.undoable, None, default)
    }

    /// What commands see of the workspace.
    pub(crate) fn commands_see(&self, profile: &str, default: CommandsSee) -> (CommandsSee, Origin) {
        self.strictest(profile, "commands_see", |source| source.commands_see, None, default)
    }

    /// Whether a switch that only tightens is on.
    pub(crate) fn is_on(
        &self,
        profile: &str,
        key: &str,
        value: impl Fn(&ProfileSource) -> Option<bool>,
    ) -> (bool, Origin) {
        self.strictest(profile, key, value, None, false)
    }

    /// A setting: the chosen value, else the user's, the workspace's, the administrator's, the default; the administrator's and
    /// an untrusted one count too where they are stricter.
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

    /// Where the limit of this value is written.
    pub(crate) fn limit_origin(&self, profile: &str, key: &str, value: u64) -> Origin {
        let names = |source: &&Source| {
            let limits = source.profiles.get(source.tightening(profile)).map(|written| written.limits);
            limits.is_some_and(|limits| limits.named().contains(&(key, value)))
        };
        let mut all = self.trusted.iter().copied().chain(&self.untrusted);
        all.find(names).map_or(Origin::BuiltIn, |source| source.place(source.tightening(profile), key))
    }

    /// Limit by limit, the user's, else the workspace's; and beside them the lowest of managed and untrusted files, which
    /// can lower a limit, a built-in one too, and never raise it.
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

/// The value of a key of a profile, where the file names it.
fn written<T>(
    source: &Source,
    profile: &str,
    key: &str,
    value: impl Fn(&ProfileSource) -> Option<T>,
) -> Option<(T, Origin)> {
    Some((value(source.profiles.get(profile)?)?, source.place(profile, key)))
}
