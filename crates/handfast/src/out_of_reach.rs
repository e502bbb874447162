//! Files of the user that a policy must keep out of reach of the tools: the configuration's folder
//! and the key of the vault.

use std::io::ErrorKind;
use std::path::Path;

use policy::Policy;

use crate::failure::Failure;
use crate::places::{create_as_its_parent, real};

/// Creates the folder of the user's configuration if it lies within reach of commands. A cell
/// freezes existing files, but a command that writes directly could create a missing folder for the
/// next run to obey.
pub(crate) fn keep_closed(folder: Option<&Path>, policy: &Policy) -> Result<(), Failure> {
    let Some(folder) = folder.map(real) else { return Ok(()) };
    if !policy.roots().iter().any(|root| folder.starts_with(&root.path)) {
        return Ok(());
    }
    match create_as_its_parent(&folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::ReadOnlyFilesystem => Ok(()),
        // If this user may not create the folder, commands may not either, since they run as this
        // user. For root, commands run as the owner of the workspace.
        Err(error)
            if error.kind() == ErrorKind::PermissionDenied && !rustix::process::geteuid().is_root() =>
        {
            Ok(())
        }
        Err(error) => Err(Failure::from(format!(
            "the folder of your configuration, {}, lies within reach of commands and cannot be \
             created ({error}), but a command could create it; create it yourself, or work in \
             another folder",
            folder.display()
        ))),
    }
}

/// Refuses a policy whose tools could read the key file of the vault.
pub(crate) fn keep_key_away(key_file: Option<&Path>, policy: &Policy) -> Result<(), Failure> {
    let reached = |path: &Path| policy.roots().iter().any(|root| path.starts_with(&root.path));
    match key_file.map(real).filter(|path| reached(path)) {
        Some(path) => Err(Failure::usage(format!(
            "the key file of the vault, {}, lies within reach of the tools; keep it elsewhere",
            path.display()
        ))),
        None => Ok(()),
    }
}
