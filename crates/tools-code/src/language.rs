//! The languages of scripts, and the files with which each runs.

use std::ffi::OsString;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// Language of a script.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Language {
    #[default]
    Python,
    JavaScript,
}

impl Language {
    /// Returns the names of the file that runs the script, and of the script.
    pub(crate) fn files(self) -> (&'static str, &'static str) {
        match self {
            Self::Python => ("run.py", "script.py"),
            Self::JavaScript => ("run.mjs", "script.mjs"),
        }
    }

    pub(crate) fn bootstrap(self) -> &'static str {
        match self {
            Self::Python => include_str!("scripts/python.py"),
            Self::JavaScript => include_str!("scripts/javascript.mjs"),
        }
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Python => "python3",
            Self::JavaScript => "node",
        }
    }

    /// Returns the command line by which `program` runs the script.
    pub(crate) fn words(self, program: PathBuf, runner: PathBuf) -> Vec<OsString> {
        // Python takes no module from the folder or the environment, and looks for installed packages when a script
        // imports one.
        let options: &[&str] = match self {
            Self::Python => &["-I", "-S"],
            Self::JavaScript => &["--no-warnings"],
        };
        let options = options.iter().map(OsString::from);
        std::iter::once(program.into()).chain(options).chain([runner.into()]).collect()
    }
}
