//! Files of the workspace that the tools write.

use std::fs::File;

use roots::{Roots, StagedFile};
use tool::{Context, ToolError};

/// Writes a file of the workspace in one step. Folders that this created are removed if it fails.
///
/// # Errors
/// The refusal of the path, or the error of `write`.
pub(crate) fn save(
    context: &Context,
    save_path: &str,
    write: impl FnOnce(&mut File) -> Result<(), ToolError>,
) -> Result<(), ToolError> {
    let roots = context.service::<Roots>()?;
    let path = context.place.resolve("save_path", save_path)?;
    let folders = roots.create_parents(&path).map_err(tool_support::files::failure(context))?;
    let saved = (|| {
        let failed = tool_support::files::failure(context);
        let mut staging = roots.begin_staging(&path).map_err(failed)?;
        if let Some(file) = staging.file() {
            write(file)?;
        }
        let failed = tool_support::files::failure(context);
        staging.finish().and_then(StagedFile::commit).map_err(failed)
    })();
    match saved {
        Ok(_) => Ok(()),
        Err(error) => {
            folders.take_back();
            Err(error)
        }
    }
}
