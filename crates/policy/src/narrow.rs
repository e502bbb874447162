//! Allow lists of an untrusted file: they count only where they allow less than the trusted files.

use std::sync::Arc;

use crate::merge::MergedSources;
use crate::{Ceiling, LeasePattern, List, Policy, PolicyError, Setup, Source, Trust};

/// The two policies that a narrowed one is made of.
#[derive(Debug)]
pub(crate) struct Narrowing {
    /// Policy of the trusted files.
    trusted: Policy,
    /// Policy that would result if the untrusted files were trusted.
    as_written: Arc<Policy>,
}

impl Policy {
    /// Narrows the policy of the trusted files: a call passes only if it also passes with the
    /// untrusted files as written. A file without an allow list changes nothing here.
    pub(crate) fn narrowed(mut self, setup: &Setup<'_>) -> Result<Self, PolicyError> {
        let (untrusted, trusted): (Vec<&Source>, Vec<&Source>) =
            setup.sources.iter().partition(|source| source.trust == Trust::Untrusted);
        if untrusted.is_empty() {
            return Ok(self);
        }
        let believed = untrusted.iter().map(|source| Source { trust: Trust::Trusted, ..(*source).clone() });
        // The untrusted files come first, so that no other file's list replaces theirs.
        let sources: Vec<Source> = believed.chain(trusted.into_iter().cloned()).collect();
        let lineage = MergedSources::new(&sources).lineage(setup.profile)?;
        let names_a_list = |profile: &String| {
            let mut written = untrusted.iter().filter_map(|source| source.profiles.get(profile));
            written.any(|profile| List::ALL.iter().any(|list| !list.denies() && list.of(profile).is_some()))
        };
        if !lineage.iter().any(names_a_list) {
            return Ok(self);
        }
        let mut as_written = Policy::of_trusted(&Setup { sources: &sources, ..setup.clone() })?;
        let within_the_workspace = self.reads.allowed.workspace
            && !as_written.reads.allowed.lists.iter().any(|list| list.leaves(setup.workspace));
        if within_the_workspace {
            // In this case no part of the list is ignored, so no warning is needed.
            let key = List::AllowedReadPaths.key();
            self.warnings.retain(|warning| warning.key != key || !lineage.contains(&warning.profile));
        }
        // The policy of the trusted files already contains these denials.
        as_written.reads.denied.clear();
        as_written.writes.denied.clear();
        // It also contains the isolation, if that is stricter.
        as_written.isolation = self.isolation.clone();
        Ok(self.within(Arc::new(as_written)))
    }

    fn within(self, as_written: Arc<Policy>) -> Policy {
        let mut narrowed = self.under(&Ceiling::default().with_policy(as_written.clone()));
        if as_written.undoable.0 > narrowed.undoable.0 {
            narrowed.undoable = as_written.undoable.clone();
        }
        narrowed.narrowing = Some(Arc::new(Narrowing { trusted: self, as_written }));
        narrowed
    }

    /// Adds leases to both policies of a narrowed one: a human's answer counts whatever an
    /// untrusted file says. Returns `None` for a policy that no file narrows.
    pub(crate) fn narrowed_with_leases(&self, leases: &[(Arc<str>, LeasePattern)]) -> Option<Policy> {
        let Narrowing { trusted, as_written } = self.narrowing.as_deref()?;
        let leased = trusted.with_leases(leases).within(Arc::new(as_written.with_leases(leases)));
        let mut ceiling = self.bounds.as_ref()?.ceiling.clone();
        ceiling.policies.retain(|policy| !Arc::ptr_eq(policy, as_written));
        Some(if ceiling.is_unbounded() { leased } else { leased.under(&ceiling) })
    }
}
