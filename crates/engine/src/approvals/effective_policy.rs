//! Rules for one call: those of the profile and those that humans have leased.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use policy::{LeasePattern, Policy};
use store_api::{Lease, LeaseKind};
use tool::{Place, ToolError};

use crate::denied::DeniedFiles;
use crate::reach::AccessScope;

/// A policy with leases, and the roots that result from it.
pub(crate) struct EffectivePolicy {
    pub(crate) policy: Arc<Policy>,
    pub(crate) reach: AccessScope,
}

/// Cache of the rules of the last call with leases, because leases seldom change.
#[derive(Default)]
pub(crate) struct Leases(Mutex<Option<CachedRules>>);

type Patterns = Vec<(Arc<str>, LeasePattern)>;

struct CachedRules {
    patterns: Patterns,
    rules: Arc<EffectivePolicy>,
}

impl Leases {
    /// Returns the rules with these leases, or `None` if no lease has a pattern.
    pub(crate) fn rules(
        &self,
        leases: &[Lease],
        base: &Policy,
        denied: &Arc<DeniedFiles>,
        place: &Place,
    ) -> Result<Option<Arc<EffectivePolicy>>, ToolError> {
        let patterns: Patterns = leases.iter().filter_map(pattern).collect();
        if patterns.is_empty() {
            return Ok(None);
        }
        let mut kept = self.0.lock();
        if let Some(kept) = kept.as_ref().filter(|kept| kept.patterns == patterns) {
            return Ok(Some(kept.rules.clone()));
        }
        let policy = Arc::new(base.with_leases(&patterns));
        let reach = AccessScope::open(policy.clone(), denied.clone(), place)
            .map_err(|error| ToolError::new(tool::Code::Runtime, error.to_string()).because(error))?;
        let rules = Arc::new(EffectivePolicy { policy, reach });
        *kept = Some(CachedRules { patterns, rules: rules.clone() });
        Ok(Some(rules))
    }
}

/// Converts the lease into a rule, if it has a pattern.
fn pattern(lease: &Lease) -> Option<(Arc<str>, LeasePattern)> {
    let text = lease.pattern.clone();
    let pattern = match lease.kind {
        LeaseKind::Exact | LeaseKind::Connection => return None,
        LeaseKind::Command => LeasePattern::Command(text),
        LeaseKind::Write => LeasePattern::Write(text),
        LeaseKind::Read => LeasePattern::Read(PathBuf::from(text)),
    };
    Some((lease.id.as_str().into(), pattern))
}
