//! The choices of one run that precede every configuration file.

use std::path::PathBuf;

use dialects::{CatalogueKind, Dialect};
use policy::{Ceiling, EffectKind, EffectKinds, Mode, Origin, Profiles, Source, Trust};

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
    /// Profiles that precede those of the user's files.
    pub(crate) profiles: Profiles,
    /// True if the user's and the workspace's configuration files are not read.
    pub(crate) ignores_files: bool,
    /// Author of these options, for errors and for the explanation of a decision.
    pub(crate) author: Author,
}

/// The author of the options of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Author {
    /// A human, on the command line.
    #[default]
    CommandLine,
    /// A program that embeds the runtime.
    Program,
}

impl Author {
    /// Returns the origin of rules and settings from this author.
    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::CommandLine => Origin::CommandLine,
            Self::Program => Origin::Program,
        }
    }

    /// Returns the author's name of an option: `--workspace`, or `Builder::workspace`.
    pub(crate) fn option(self, name: &str) -> String {
        match self {
            Self::CommandLine => format!("--{name}"),
            Self::Program => format!("Builder::{name}"),
        }
    }
}

impl RunOptions {
    /// Returns the ceiling that permits only the chosen kinds of effects. An empty list permits all kinds.
    pub(crate) fn ceiling(&self) -> Ceiling {
        match &self.permissions[..] {
            [] => Ceiling::default(),
            kinds => Ceiling { effects: EffectKinds::of(kinds), ..Ceiling::default() },
        }
    }

    /// Returns the profiles of these options as a source of rules, if there are any.
    pub(crate) fn source(&self) -> Option<Source> {
        let profiles = Some(self.profiles.clone()).filter(|profiles| !profiles.is_empty())?;
        Some(Source::new(self.author.origin(), Trust::Trusted, profiles))
    }
}
