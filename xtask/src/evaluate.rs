//! `cargo xtask eval`: the example of the crate `knowledge` that measures a collection, with the model that is there.

use std::path::{Path, PathBuf};

use crate::command::{Result, run as run_command};
use crate::repository::Repository;

/// Where `handfast setup embeddings` puts the model, below the folder of states.
const MODEL: &str = "handfast/models/all-MiniLM-L6-v2";

/// Measures, by words alone where no model is there.
pub(crate) fn run(repository: &Repository, folder: &Path, model: Option<PathBuf>) -> Result<()> {
    let arguments =
        ["run", "--release", "--quiet", "--package", "knowledge", "--example", "retrieval_quality", "--"];
    run_command(repository.cargo(&arguments).arg(folder).args(model.or_else(set_up)))
}

fn set_up() -> Option<PathBuf> {
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(std::env::home_dir()?.join(".local/state")))?;
    Some(state.join(MODEL)).filter(|model| model.is_dir())
}
