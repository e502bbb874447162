//! A policy of one profile.

use std::path::Path;

use policy::{
    DEFAULT_PROFILE, Dialect, Mode, Origin, Policy, PolicyError, Profiles, Programs, Setup, Source, Trust,
};
use serde_json::{Value, json};

/// Compiles the policy of a user whose configuration has `profile` as its only profile, in this
/// workspace.
///
/// # Errors
/// Returns the errors of [`Policy::compile`].
pub fn policy_of(workspace: &Path, mode: Option<Mode>, profile: &Value) -> Result<Policy, PolicyError> {
    let profiles: Profiles = serde_json::from_value(json!({ DEFAULT_PROFILE: profile })).expect("a profile");
    Policy::compile(&Setup {
        sources: &[Source::new(Origin::User(Path::new("/config.yaml").into()), Trust::Trusted, profiles)],
        profile: DEFAULT_PROFILE,
        mode: mode.map(|mode| (mode, Origin::CommandLine)),
        dialect: Dialect::default(),
        workspace,
        home: None,
        protected: &[],
        closed: &[],
        programs: Programs::Presumed,
        tools: &[],
    })
}
