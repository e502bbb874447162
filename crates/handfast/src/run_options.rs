//! The choices of one run that precede every configuration file.

use std::path::PathBuf;

use dialects::{CatalogueKind, Dialect};
use policy::{EffectKind, Mode};

/// The choices that the command line, or the program that embeds the runtime, makes for one run.
/// Each absent choice is left to the configuration files, then to the built-in default.
#[derive(Debug, Default, Clone)]
pub(crate) struct RunOptions {
    /// Folder that the tools work in. Default: the current directory.
    pub(crate) workspace: Option<PathBuf>,
    /// Folder of all durable state. Default: the host environment's.
    pub(crate) state: Option<PathBuf>,
    /// Profile of `sandbox_config` that the policy uses.
    pub(crate) profile: Option<String>,
    /// Label of the model's provider, in place of a profile.
    pub(crate) label: Option<String>,
    /// Mode of asking a human.
    pub(crate) mode: Option<Mode>,
    /// Names and schemas of the tools.
    pub(crate) dialect: Option<Dialect>,
    /// Selection of tools to list.
    pub(crate) catalogue: Option<CatalogueKind>,
    /// True if only tools that read are offered.
    pub(crate) read_only: bool,
    /// True if calls change nothing.
    pub(crate) dry_run: bool,
    /// Permitted kinds of effects. Empty: all kinds.
    pub(crate) permissions: Vec<EffectKind>,
}
