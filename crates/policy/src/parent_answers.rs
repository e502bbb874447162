//! Questions of sub-agents that the agents above them may answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::Level;

/// Questions of a sub-agent that the agent above it may answer.
///
/// The order is meaningful: a later variant is stricter.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ParentAnswers {
    /// Questions of level `destructive` and below.
    Destructive,
    /// Questions of level `moderate` and below.
    Moderate,
    /// Questions of level `safe`.
    Safe,
    /// No question: a human answers all of them.
    #[default]
    Never,
}

impl ParentAnswers {
    /// Returns the value of the setting in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            ParentAnswers::Destructive => "destructive",
            ParentAnswers::Moderate => "moderate",
            ParentAnswers::Safe => "safe",
            ParentAnswers::Never => "never",
        }
    }

    /// Returns true if a question about a call of this level may be answered.
    pub fn cover(self, level: Level) -> bool {
        match self {
            ParentAnswers::Destructive => level <= Level::Destructive,
            ParentAnswers::Moderate => level <= Level::Moderate,
            ParentAnswers::Safe => level <= Level::Safe,
            ParentAnswers::Never => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_is_critical_is_answered_by_an_agent_and_each_stricter_value_covers_less() {
        use ParentAnswers::{Destructive, Moderate, Never, Safe};
        let levels = [Level::Safe, Level::Moderate, Level::Destructive, Level::Critical];
        let covered = |answers: ParentAnswers| levels.iter().filter(|level| answers.cover(**level)).count();
        assert_eq!([Destructive, Moderate, Safe, Never].map(covered), [3, 2, 1, 0]);
        assert!(Destructive < Moderate && Moderate < Safe && Safe < Never);
    }
}
