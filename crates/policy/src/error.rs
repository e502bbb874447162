use thiserror::Error;

use crate::Rule;

/// Why profiles cannot be compiled into a policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The chosen profile is not defined by any file that counts.
    #[error("no profile `{name}` is defined; there are: {defined}{}", did_you_mean(near.as_deref()))]
    UnknownProfile {
        /// The chosen name.
        name: String,
        /// The names that could be chosen.
        defined: String,
        /// The one of them that was most likely meant.
        near: Option<String>,
    },
    /// A profile inherits from one that is not defined.
    #[error("profile `{profile}`: `inherit` names `{parent}`, which is not defined ({origin})")]
    UnknownParent {
        /// The profile that inherits.
        profile: String,
        /// What it names.
        parent: String,
        /// The file that says so.
        origin: String,
    },
    /// A profile inherits from itself, perhaps through others.
    #[error("profile `{profile}`: `inherit` leads back to it: {chain} ({origin})")]
    InheritCycle {
        /// The profile where the circle closes.
        profile: String,
        /// The names along the circle.
        chain: String,
        /// The file that closes it.
        origin: String,
    },
    /// An entry of a list cannot be understood.
    #[error("profile `{profile}`: `{key}`: {entry:?}: {problem} ({origin})")]
    Entry {
        /// The profile.
        profile: String,
        /// The list.
        key: &'static str,
        /// The entry as it is written.
        entry: String,
        /// What is wrong with it.
        problem: String,
        /// The file it is in.
        origin: String,
    },
    /// The patterns of a list are too large together.
    #[error("profile `{profile}`: `{key}`: the patterns cannot be compiled")]
    List {
        /// The profile.
        profile: String,
        /// The list.
        key: &'static str,
        /// What the pattern compiler says.
        #[source]
        source: globset::Error,
    },
    /// The workspace or the home folder is no absolute path.
    #[error("the {what} is not an absolute, normal path: {path}")]
    NotAbsolute {
        /// Which one.
        what: &'static str,
        /// The path.
        path: String,
    },
}

fn did_you_mean(near: Option<&str>) -> String {
    near.map(|near| format!(" (did you mean `{near}`?)")).unwrap_or_default()
}

impl PolicyError {
    pub(crate) fn of_entry(rule: &Rule, problem: String) -> Self {
        Self::Entry {
            profile: rule.profile.to_string(),
            key: rule.key,
            entry: rule.entry.clone(),
            problem,
            origin: rule.origin.to_string(),
        }
    }
}
