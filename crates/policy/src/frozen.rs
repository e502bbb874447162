//! A ceiling in a form that is stored, for work that goes on without its creator.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tool::Level;

use crate::{Ceiling, EffectKind, EffectKinds, Mode, Policy};

/// Ceiling of a caller at one time, with the profile that held then.
///
/// The policies of a ceiling have no such form, so a ceiling with policies of its own cannot be frozen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrozenCeiling {
    /// Highest level of a call.
    pub level: Level,
    /// Names of the kinds of effects that a call may have.
    pub effects: Vec<String>,
    /// Mode at that time.
    pub mode: Mode,
    /// True if a human may be asked.
    pub may_ask: bool,
    /// Time from which every call is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Canonical names of the tools that may be called; absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<BTreeSet<String>>,
    /// Name of the profile at that time.
    pub profile: String,
}

impl FrozenCeiling {
    /// Freezes a ceiling under a policy; `None` if the ceiling has policies of its own.
    pub fn of(ceiling: &Ceiling, policy: &Policy) -> Option<Self> {
        if ceiling.has_policies() {
            return None;
        }
        // The rules may have limits of their own, such as those of the command line.
        let ceiling = match &policy.bounds {
            Some(bounds) => &ceiling.meet(&bounds.ceiling),
            None => ceiling,
        };
        if ceiling.has_policies() {
            return None;
        }
        let allowed = EffectKind::ALL.into_iter().filter(|kind| ceiling.effects.has(*kind));
        Some(Self {
            level: ceiling.level,
            effects: allowed.map(|kind| kind.as_str().to_owned()).collect(),
            mode: ceiling.mode.max(policy.mode()),
            may_ask: ceiling.may_ask,
            expires_at: ceiling.expires_at,
            tools: ceiling.tools.as_deref().cloned(),
            profile: policy.profile().to_owned(),
        })
    }

    /// Limits it to a level and to the kinds of effects of one call.
    #[must_use]
    pub fn limited_to(mut self, level: Level, kinds: EffectKinds) -> Self {
        self.level = self.level.min(level);
        self.effects.retain(|name| kind(name).is_some_and(|kind| kinds.has(kind)));
        self
    }

    /// Returns the ceiling, without the policy of its profile. A name that is not known allows nothing.
    pub fn thawed(&self) -> Ceiling {
        let kinds: Vec<EffectKind> = self.effects.iter().filter_map(|name| kind(name)).collect();
        Ceiling {
            level: self.level,
            effects: EffectKinds::of(&kinds),
            mode: self.mode,
            may_ask: self.may_ask,
            expires_at: self.expires_at,
            tools: self.tools.clone().map(Arc::new),
            policies: Vec::new(),
        }
    }
}

fn kind(name: &str) -> Option<EffectKind> {
    EffectKind::ALL.into_iter().find(|kind| kind.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frozen() -> FrozenCeiling {
        FrozenCeiling {
            level: Level::Destructive,
            effects: ["read", "run", "connect"].map(str::to_owned).to_vec(),
            mode: Mode::SmartAuto,
            may_ask: true,
            expires_at: Some(Timestamp::UNIX_EPOCH),
            tools: Some(["file_read".to_owned()].into()),
            profile: "normal".to_owned(),
        }
    }

    #[test]
    fn a_frozen_ceiling_comes_back_from_its_text_as_it_was() {
        let text = serde_json::to_string(&frozen()).unwrap();
        let ceiling = serde_json::from_str::<FrozenCeiling>(&text).unwrap().thawed();
        assert_eq!(
            (ceiling.level, ceiling.mode, ceiling.may_ask),
            (Level::Destructive, Mode::SmartAuto, true)
        );
        assert_eq!(ceiling.expires_at, Some(Timestamp::UNIX_EPOCH));
        assert_eq!(ceiling.tools, Some(Arc::new(["file_read".to_owned()].into())));
        let allowed = EffectKind::ALL.map(|kind| ceiling.effects.has(kind));
        assert_eq!(allowed, [true, false, false, true, true, false, false, false, false]);
    }

    #[test]
    fn limits_only_narrow_and_unknown_kinds_allow_nothing() {
        let kinds = EffectKinds::of(&[EffectKind::Read, EffectKind::Write]);
        let limited = frozen().limited_to(Level::Moderate, kinds);
        assert_eq!((limited.level, limited.effects.as_slice()), (Level::Moderate, &["read".to_owned()][..]));
        assert_eq!(frozen().limited_to(Level::Critical, EffectKinds::ALL), frozen());
        let unknown = FrozenCeiling { effects: vec!["fly".to_owned()], ..frozen() };
        assert_eq!(unknown.thawed().effects, EffectKinds::NONE);
    }
}
