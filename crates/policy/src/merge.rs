//! From the profiles of several files to one: precedence, inheritance, and what an untrusted file may add.

use std::collections::BTreeSet;

use crate::{DEFAULT_PROFILE, Limits, Mode, Origin, PolicyError, ProfileSource, Profiles};

/// The profiles of one file. Sources are handed over in the order of precedence: managed, user, workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The file.
    pub origin: Origin,
    /// Whether the user trusts it.
    pub trust: Trust,
    /// Its `sandbox_config`.
    pub profiles: Profiles,
}

/// Whether a file may loosen anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// All its keys count.
    Trusted,
    /// A workspace's file that the user has not trusted: it can only tighten.
    Untrusted,
}

/// A key that was ignored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "profile `{profile}`: `{key}` is ignored, because {origin} is not trusted; `handfast trust` trusts it"
)]
pub struct Warning {
    /// The profile.
    pub profile: String,
    /// The key.
    pub key: &'static str,
    /// The file.
    pub origin: String,
}

/// Splits what an untrusted file says into what may count, because it can only tighten, and a warning for each other key.
///
/// `deny_*` lists, `deny_ignore_case: true` and `strict: true` are kept as they are; `mode` and `limits` are kept, and whoever merges them takes the
/// stricter value.
pub fn tighten(profiles: &Profiles, origin: &Origin) -> (Profiles, Vec<Warning>) {
    let mut kept = Profiles::new();
    let mut warnings = Vec::new();
    for (name, source) in profiles {
        let tightening = ProfileSource {
            deny_read_paths: source.deny_read_paths.clone(),
            deny_write_paths: source.deny_write_paths.clone(),
            deny_ignore_case: source.deny_ignore_case.filter(|ignored| *ignored),
            deny_exec_command: source.deny_exec_command.clone(),
            deny_hosts: source.deny_hosts.clone(),
            mode: source.mode,
            strict: source.strict.filter(|strict| *strict),
            limits: source.limits,
            ..ProfileSource::default()
        };
        let ignored = [
            ("inherit", source.inherit.is_some()),
            ("allowed_read_paths", source.allowed_read_paths.is_some()),
            ("allowed_write_paths", source.allowed_write_paths.is_some()),
            ("allowed_exec_command", source.allowed_exec_command.is_some()),
            ("allowed_hosts", source.allowed_hosts.is_some()),
            ("dangerous", source.dangerous.is_some()),
            ("undoable", source.undoable.is_some()),
            ("strict", source.strict == Some(false)),
            ("deny_ignore_case", source.deny_ignore_case == Some(false)),
        ];
        warnings.extend(ignored.into_iter().filter(|(_, named)| *named).map(|(key, _)| Warning {
            profile: name.clone(),
            key,
            origin: origin.to_string(),
        }));
        kept.insert(name.clone(), tightening);
    }
    (kept, warnings)
}

/// One list as one file writes it, with the profile it stands in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) profile: String,
    pub(crate) origin: Origin,
    pub(crate) entries: Vec<String>,
}

/// What an allow list comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Allowed {
    /// Some profile along the parents names no list, so that the default stands.
    pub(crate) default: bool,
    pub(crate) lists: Vec<Written>,
}

/// What a deny list comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeniedLists {
    /// A trusted file names the list, so that the built-in entries do not count.
    pub(crate) named: bool,
    pub(crate) lists: Vec<Written>,
}

/// Every source with its untrusted keys taken out.
#[derive(Debug)]
pub(crate) struct Merged<'a> {
    trusted: Vec<&'a Source>,
    untrusted: Vec<(&'a Origin, Profiles)>,
    pub(crate) warnings: Vec<Warning>,
}

impl<'a> Merged<'a> {
    pub(crate) fn new(sources: &'a [Source]) -> Self {
        let mut merged = Merged { trusted: Vec::new(), untrusted: Vec::new(), warnings: Vec::new() };
        for source in sources {
            match source.trust {
                Trust::Trusted => merged.trusted.push(source),
                Trust::Untrusted => {
                    let (kept, warnings) = tighten(&source.profiles, &source.origin);
                    merged.untrusted.push((&source.origin, kept));
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

    /// The value of the first file that names the key.
    pub(crate) fn first<T>(
        &self,
        profile: &str,
        key: impl Fn(&ProfileSource) -> Option<T>,
    ) -> Option<(T, Origin)> {
        self.trusted
            .iter()
            .find_map(|source| Some((key(source.profiles.get(profile)?)?, source.origin.clone())))
    }

    /// The profile and its parents, nearest first.
    ///
    /// # Errors
    /// Where a parent is not defined or the chain is a circle.
    pub(crate) fn lineage(&self, profile: &str) -> Result<Vec<String>, PolicyError> {
        let mut chain = vec![profile.to_owned()];
        let mut child = profile.to_owned();
        while let Some((parent, origin)) = self.first(&child, |source| source.inherit.clone()) {
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

    /// An allow list: for each profile of the lineage, that of the first file that names it.
    pub(crate) fn allowed(
        &self,
        lineage: &[String],
        key: impl Fn(&ProfileSource) -> Option<&Vec<String>>,
    ) -> Allowed {
        let mut allowed = Allowed::default();
        for (position, profile) in lineage.iter().enumerate() {
            match self.first(profile, |source| key(source).cloned()) {
                Some((entries, origin)) => {
                    allowed.lists.push(Written { profile: profile.clone(), origin, entries });
                }
                // A profile with a parent takes the parent's default, not one of its own.
                None => allowed.default |= position + 1 == lineage.len(),
            }
        }
        allowed
    }

    /// A deny list: the lists of every file together, so that no file can take back what another one denies.
    pub(crate) fn denied(
        &self,
        profile: &str,
        key: impl Fn(&ProfileSource) -> Option<&Vec<String>>,
    ) -> DeniedLists {
        let written = |profiles: &Profiles, origin: &Origin| {
            let entries = key(profiles.get(profile)?)?.clone();
            Some(Written { profile: profile.to_owned(), origin: origin.clone(), entries })
        };
        let mut lists: Vec<Written> =
            self.trusted.iter().filter_map(|source| written(&source.profiles, &source.origin)).collect();
        let named = !lists.is_empty();
        lists.extend(self.untrusted.iter().filter_map(|(origin, profiles)| written(profiles, origin)));
        DeniedLists { named, lists }
    }

    /// The mode: the chosen one, else the profile's, else the built-in one; a stricter one of a managed or an untrusted file counts.
    pub(crate) fn mode(&self, profile: &str, chosen: Option<(Mode, Origin)>) -> (Mode, Origin) {
        let own = chosen
            .or_else(|| self.first(profile, |source| source.mode))
            .unwrap_or((Mode::default(), Origin::BuiltIn));
        let managed = self
            .trusted
            .iter()
            .filter(|source| matches!(source.origin, Origin::Managed(_)))
            .filter_map(|source| Some((source.profiles.get(profile)?.mode?, source.origin.clone())));
        let untrusted = self
            .untrusted
            .iter()
            .filter_map(|(origin, profiles)| Some((profiles.get(profile)?.mode?, (*origin).clone())));
        managed.chain(untrusted).fold(
            own,
            |strictest, other| {
                if other.0 > strictest.0 { other } else { strictest }
            },
        )
    }

    /// Whether a switch that only tightens is on: as the first trusted file says, or because an untrusted one turns it on.
    pub(crate) fn is_on(&self, profile: &str, key: impl Fn(&ProfileSource) -> Option<bool>) -> bool {
        self.first(profile, &key).is_some_and(|(on, _)| on)
            || self
                .untrusted
                .iter()
                .any(|(_, profiles)| profiles.get(profile).is_some_and(|source| key(source) == Some(true)))
    }

    /// Limit by limit, that of the first trusted file, or a lower one of an untrusted file.
    pub(crate) fn limits(&self, profile: &str) -> Limits {
        let of = |profiles: &Profiles| profiles.get(profile).map(|source| source.limits).unwrap_or_default();
        let trusted = self.trusted.iter().fold(Limits::default(), |all, source| all.or(of(&source.profiles)));
        self.untrusted.iter().fold(trusted, |all, (_, profiles)| all.lower(of(profiles)))
    }
}
