//! `handfast trust`: permits the workspace's own configuration to loosen rules, as long as it stays
//! unchanged.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use store_api::StoreError;
use tool::{Clock, Code};

use super::Failure;
use crate::cli::Global;
use crate::clock::SystemClock;
use crate::config::{ConfigFile, WORKSPACE_FILE};
use crate::host_environment::HostEnvironment;
use crate::mcp_servers;
use crate::places::{open_store, workspace};
use crate::report::{note, warn};

pub(super) fn run(global: &Global, file: Option<PathBuf>) -> Result<ExitCode, Failure> {
    let host_environment = HostEnvironment::of_this_process();
    let workspace = workspace(&global.run_options(), &host_environment, &warn)?;
    let path = match file {
        Some(file) => std::path::absolute(file)?,
        None => workspace.join(WORKSPACE_FILE),
    };
    let is_project_file = path.file_name().is_some_and(|name| name == mcp_servers::PROJECT_FILE);
    let hash = if is_project_file {
        mcp_servers::project_hash(&path)?
    } else {
        let read = ConfigFile::read(&path).map_err(|error| error.without_what_lies_outside(&workspace));
        read.map_err(Failure::usage)?.map(|file| file.hash)
    };
    let Some(hash) = hash else {
        return Err(Failure::usage(format!(
            "there is no {}; `handfast init` writes one with every setting explained",
            path.display()
        )));
    };
    let real = path.canonicalize()?;
    let store = open_store(&global.run_options(), &host_environment)?;
    let arguments = json!({"path": real.to_string_lossy(), "hash": hash.to_string()});
    let runtime = |_: &StoreError| Code::Runtime;
    engine::by_hand((store.as_ref(), &SystemClock), "trust", &arguments, runtime, || {
        store.trust().trust(&real, &hash, SystemClock.now())
    })?;
    note(&format!(
        "{} is trusted in its present form (BLAKE3 {}); any change to it ends the trust",
        real.display(),
        hash
    ));
    Ok(ExitCode::SUCCESS)
}
