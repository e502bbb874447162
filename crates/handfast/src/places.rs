//! The folders of a run: the workspace, the state, and the configuration under all its names.

use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use engine::Program;
use store_api::Store;
use store_sqlite::SqliteStore;
use tool::Place;

use crate::config::USER_FILE;
use crate::failure::Failure;
use crate::host_environment::HostEnvironment;
use crate::report::{Warn, secrets};
use crate::run_options::RunOptions;

/// Name of the vault's folder within the state folder.
pub(crate) const VAULT_FOLDER: &str = "vault";
/// Name of the folder within the state folder with a folder for each running browser.
pub(crate) const BROWSERS_FOLDER: &str = "browsers";

/// Folder of running scripts, in the state folder.
pub(crate) const SCRIPTS_FOLDER: &str = "scripts";
/// Name of the folder within the state folder with a folder for each running process of a plugin.
pub(crate) const PLUGIN_PROCESSES_FOLDER: &str = "plugin-processes";
/// Folder of the pictures of questions in the state.
pub(crate) const PICTURES_FOLDER: &str = "pictures";
/// Name of the folder within the state folder that earlier versions used for interrupted downloads.
pub(crate) const DOWNLOADS_FOLDER: &str = "downloads";
/// Name of the folder with the facts of the code of each workspace.
pub(crate) const GRAPHS_FOLDER: &str = "graphs";

/// Creates a folder and its missing parents, each owned by the owner of its parent. As a result,
/// root creates no folder in a user's home that the user cannot use.
pub(crate) fn create_as_its_parent(folder: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    for path in missing.into_iter().rev() {
        create_private(path)?;
        let above = std::fs::metadata(path.parent().unwrap_or(path))?;
        std::os::unix::fs::lchown(path, Some(above.uid()), Some(above.gid()))?;
    }
    Ok(())
}

/// Returns the workspace, with the name by which the user refers to it if that name leads there
/// through links.
pub(crate) fn place(
    options: &RunOptions,
    host_environment: &HostEnvironment,
    warn: Warn,
) -> Result<Place, Failure> {
    let workspace = workspace(options, host_environment, warn)?;
    let leads_here =
        |name: &PathBuf| *name != workspace && name.canonicalize().is_ok_and(|real| real == workspace);
    let named = match &options.workspace {
        Some(given) if given.is_relative() => {
            host_environment.named_directory.as_ref().map(|from| from.join(given))
        }
        Some(given) => Some(given.clone()),
        None => host_environment.named_directory.clone(),
    };
    // A name with `..` may refer to another folder if it is resolved lexically.
    let also_called = named
        .filter(|name| name.components().all(|part| part != Component::ParentDir))
        .map(|name| name.components().collect())
        .filter(leads_here);
    Ok(Place { workspace, also_called })
}

/// Returns the workspace: an existing folder, absolute, without links.
pub(crate) fn workspace(
    options: &RunOptions,
    host_environment: &HostEnvironment,
    warn: Warn,
) -> Result<PathBuf, Failure> {
    let given = options.workspace.clone().or_else(|| host_environment.directory.clone());
    let given = given.ok_or_else(|| {
        Failure::usage(format!(
            "there is no current directory; name one with {}",
            options.author.option("workspace")
        ))
    })?;
    let real = given
        .canonicalize()
        .map_err(|error| Failure::usage(format!("cannot use the workspace {}: {error}", given.display())))?;
    if !real.is_dir() {
        return Err(Failure::usage(format!("the workspace {} is not a folder", given.display())));
    }
    if real == Path::new("/") {
        return Err(Failure::usage(format!(
            "the workspace cannot be the whole file system; name a folder with {}",
            options.author.option("workspace")
        )));
    }
    if host_environment.home.as_ref() == Some(&real) {
        warn("the workspace is your home folder, so the tools reach everything in it");
    }
    Ok(real)
}

pub(crate) fn state_folder(
    options: &RunOptions,
    host_environment: &HostEnvironment,
) -> Result<PathBuf, Failure> {
    let folder = match &options.state {
        Some(folder) => std::path::absolute(folder)?,
        None => host_environment.state.clone().ok_or_else(|| {
            Failure::usage(format!(
                "there is no home folder for the state; name a folder with {}",
                options.author.option("state")
            ))
        })?,
    };
    create_private(&folder)
        .map_err(|error| format!("cannot create the state folder {}: {error}", folder.display()))?;
    // Without links, because the folder is protected by its real name.
    Ok(folder.canonicalize()?)
}

/// Returns the program by which the user's commands reach this state folder. The folder is omitted
/// if it is the default one.
pub(crate) fn program(state: &Path, host_environment: &HostEnvironment) -> Program {
    let usual = host_environment.state.as_ref().is_some_and(|usual| real(usual) == state);
    if usual { Program::default() } else { Program::with_state(state) }
}

/// Creates a folder for arguments, output or the audit, which only its owner can enter, and its
/// missing parents.
pub(crate) fn create_private(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

pub(crate) fn open_store(
    options: &RunOptions,
    host_environment: &HostEnvironment,
) -> Result<Arc<dyn Store>, Failure> {
    let store: Arc<dyn Store> = Arc::new(SqliteStore::open(&state_folder(options, host_environment)?)?);
    cover_rows(store.as_ref());
    Ok(store)
}

/// Covers the secrets of this run in the rows that its own commands write.
pub(crate) fn cover_rows(store: &dyn Store) {
    store.cover_rows(Box::new(|text| {
        let covered = secrets().message(text.as_bytes())?;
        Some(String::from_utf8_lossy(&covered).into_owned())
    }));
}

/// Returns all names of a configuration folder: the given name, the real path, and the real path of
/// its file. Users often link to a repository, which may be the workspace.
pub(crate) fn under_every_name(folder: &Path) -> Vec<PathBuf> {
    let mut names = vec![folder.to_owned()];
    for real in [real(folder), real(&folder.join(USER_FILE))] {
        if !names.iter().any(|name| real.starts_with(name)) {
            names.push(real);
        }
    }
    names
}

/// Resolves links as far as the path exists. A link to a missing target is replaced by its target.
pub(crate) fn real(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    // The limit of the kernel on the number of links.
    for _ in 0..40 {
        let target = path.read_link().ok().filter(|_| path.canonicalize().is_err());
        let Some(target) = target else { break };
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    let whole = path.ancestors().find_map(|existing| {
        let rest = path.strip_prefix(existing).ok()?;
        existing.canonicalize().ok().map(|real| real.join(rest).components().collect())
    });
    whole.unwrap_or(path)
}
