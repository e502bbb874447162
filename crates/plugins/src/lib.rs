//! Plugins: folders with a program that is a tool.
//!
//! A plugin is a folder with a [`Manifest`] (`plugin.yaml`) and a program in any language. The program reads
//! one [request](request_line) as a line of JSON and writes one [answer](Answer) as a line of JSON.
//!
//! A plugin counts only in the form that its user allowed: [`PluginFolder`] hashes the names and contents of all
//! files, [`PluginStore`] keeps the allowed hash with a copy of the files, and calls run the copy. So nobody can
//! change the program between the check and the run.
//!
//! The crate knows no engine, no policy and no cell, and it starts no program.

mod answer;
mod difference;
mod discovery;
mod fields;
mod folder;
mod known_hashes;
mod manifest;
mod name;
mod portable;
mod scaffold;
mod store;
mod trial;

pub use answer::{Answer, AnswerFault, LARGEST_ANSWER, read_answer, request_line};
pub use difference::{FolderDifference, difference};
pub use discovery::{FoundPlugin, PluginSource, SourceKind, found_in};
pub use fields::ManifestError;
pub use folder::{FolderError, LARGEST_FOLDER, MANIFEST_FILE, MOST_FILES, PluginFile, PluginFolder};
pub use manifest::{DeclaredEffects, Manifest, PluginTest, RunMode, TestOutcome, WorkspaceUse};
pub use name::is_plugin_name;
pub use scaffold::{Language, scaffold};
pub use store::{
    FAILURES_BEFORE_QUARANTINE, FIRST_RUNS, PluginState, PluginStore, Quarantine, StoreFault, StoredPlugin,
};
pub use trial::{PluginTexts, PluginTrials, TrialPlace, WaitingPlugin};
