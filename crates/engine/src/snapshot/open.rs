//! Opening the folder of the changes at the start of a process.

use std::path::Path;
use std::sync::Arc;

use checkpoint::Area;
use database::Databases;
use jiff::Timestamp;
use parking_lot::Mutex;
use store_api::Store;

use super::Snapshots;
use super::recovery::tidy;
use crate::change_area::ChangeArea;

/// Opens the snapshots of an engine, if its cells have a folder for them.
pub(crate) fn open(
    folder: Option<&Path>,
    workspace: &Path,
    kept_in: (&Arc<dyn Store>, Option<&Databases>),
    now: Timestamp,
) -> Result<(Option<Arc<Snapshots>>, Vec<String>), checkpoint::Error> {
    let Some(folder) = folder else { return Ok((None, Vec::new())) };
    let (snapshots, told) = Snapshots::open(folder, workspace, kept_in, now)?;
    Ok((Some(Arc::new(snapshots)), told))
}

impl Snapshots {
    /// Opens the folder, completes or rolls back the commits of killed processes, and removes
    /// expired changes. Returns messages for the user.
    fn open(
        folder: &Path,
        workspace: &Path,
        kept_in: (&Arc<dyn Store>, Option<&Databases>),
        now: Timestamp,
    ) -> Result<(Self, Vec<String>), checkpoint::Error> {
        let area = Area::open(folder)?;
        // `tidy` removes the folders of dead processes, so their records are read first.
        let left = area.take_up_watched()?;
        let told = tidy(&area, kept_in, now)?;
        let snapshots = Self {
            area: Arc::new(ChangeArea::new(area, left)),
            workspace: workspace.to_owned(),
            ready_for_command: Mutex::default(),
            ready_in: Mutex::default(),
            ready_for_draft: Mutex::default(),
            making: Mutex::default(),
        };
        Ok((snapshots, told))
    }
}
