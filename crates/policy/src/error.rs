//! Errors of compiling a policy.

use thiserror::Error;

use crate::Rule;

/// The reason why profiles cannot be compiled into a policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PolicyError {
    /// The chosen profile is not defined by any file that counts.
    #[error("unknown profile `{name}`; defined profiles: {defined}{}", did_you_mean(near.as_deref()))]
    UnknownProfile {
        /// Chosen name.
        name: String,
        /// Names of the defined profiles.
        defined: String,
        /// Defined name that was most likely meant.
        near: Option<String>,
    },
    /// A profile inherits from an undefined one.
    #[error("profile `{profile}`: `inherit` names `{parent}`, which is not defined ({origin})")]
    UnknownParent {
        /// Profile that inherits.
        profile: String,
        /// Name of the undefined parent.
        parent: String,
        /// File that names the parent.
        origin: String,
    },
    /// A profile inherits from itself, possibly through others.
    #[error("profile `{profile}`: `inherit` leads back to it: {chain} ({origin})")]
    InheritCycle {
        /// Profile at which the cycle closes.
        profile: String,
        /// Names along the cycle.
        chain: String,
        /// File that closes the cycle.
        origin: String,
    },
    /// An entry of a list is malformed.
    #[error("profile `{profile}`: `{key}`: {entry:?}: {problem} ({origin})")]
    Entry {
        /// Name of the profile.
        profile: String,
        /// Key of the list.
        key: &'static str,
        /// Entry as written.
        entry: String,
        /// Description of the problem.
        problem: String,
        /// File that contains the entry.
        origin: String,
    },
    /// The patterns of a list are too large together.
    #[error("profile `{profile}`: `{key}`: the patterns cannot be compiled")]
    List {
        /// Name of the profile.
        profile: String,
        /// Key of the list.
        key: &'static str,
        /// Error of the pattern compiler.
        #[source]
        source: globset::Error,
    },
    /// The workspace or the home folder is not an absolute path.
    #[error("the {what} is not an absolute, normal path: {path}")]
    NotAbsolute {
        /// Name of the folder that is at fault.
        what: &'static str,
        /// Path that was given.
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
