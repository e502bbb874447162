//! `cargo xtask eval`: runs the example of the crate `knowledge` that measures a collection, with
//! the installed model.

use std::path::{Path, PathBuf};

use crate::command::{Result, run as run_command};
use crate::repository::Repository;

/// Path of the model that `handfast setup embeddings` installs, relative to the base folder of states.
const MODEL: &str = "handfast/models/all-MiniLM-L6-v2";

/// Runs the evaluation. Without a model, search uses words only.
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
