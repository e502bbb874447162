//! A source of one cell for a program that outlives the call that starts it.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use crate::isolation::CellHost;
use crate::spec::CellSpec;

/// Error of a source of cells.
pub type CellSourceError = Box<dyn Error + Send + Sync>;

/// Function behind a [`CellSource`]: from the folder that serves as workspace to the cell.
type MakeCell = dyn Fn(PathBuf) -> Result<(CellSpec, CellHost), CellSourceError> + Send + Sync;

/// Source of a cell for a program that serves many calls of one session, such as a browser.
///
/// Each call gets one, because a call cannot know whether the program runs. Only the call that starts
/// the program takes the cell.
pub struct CellSource {
    owner: String,
    make: Box<MakeCell>,
}

impl CellSource {
    /// Creates a source from the function that builds the cell.
    pub fn new(
        owner: String,
        make: impl Fn(PathBuf) -> Result<(CellSpec, CellHost), CellSourceError> + Send + Sync + 'static,
    ) -> Self {
        Self { owner, make: Box::new(make) }
    }

    /// Returns the name under which the owner's long-lived resources are known.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Builds the cell. The program's own folder takes the place of the workspace, and no other
    /// folder of the user is shown. Blocks for some milliseconds.
    ///
    /// # Errors
    /// Returns an error if the policy's isolation is not available on this machine.
    pub fn cell(&self, folder: PathBuf) -> Result<(CellSpec, CellHost), CellSourceError> {
        (self.make)(folder)
    }
}

impl fmt::Debug for CellSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CellSource")
    }
}
