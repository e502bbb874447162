//! A source of one cell for a program that outlives the call that starts it.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

use crate::isolation::CellHost;
use crate::spec::CellSpec;

/// Error of a source of cells.
pub type CellSourceError = Box<dyn Error + Send + Sync>;

/// Function behind a [`CellSource`]: from the request to the cell.
type MakeCell = dyn Fn(CellRequest) -> Result<(CellSpec, CellHost), CellSourceError> + Send + Sync;

/// Source of a cell for a program that serves many calls of one session, such as a browser.
///
/// Each call gets one, because a call cannot know whether the program runs. Only the call that starts
/// the program takes the cell.
pub struct CellSource {
    owner: String,
    may_share: bool,
    make: Box<MakeCell>,
}

/// Properties of such a cell that the configuration of its program decides about. No argument of a call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellRequest {
    /// Folder of the program itself, which the cell shows read-write.
    pub folder: PathBuf,
    /// Further files and folders to show, read-only and without denied files.
    pub shows: Vec<PathBuf>,
    /// View of the user's workspace.
    pub workspace: WorkspaceView,
    /// True if the program serves every session: its network then belongs to the runtime and reaches listed
    /// hosts only.
    pub is_shared: bool,
}

/// View of the user's workspace in the cell of a long-lived program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WorkspaceView {
    /// Neither the workspace nor another folder of the user.
    Hidden,
    /// Folders and files that a command sees, read-only.
    #[default]
    ReadOnly,
    /// Folders and files that a background command sees and writes.
    Writable,
}

impl CellRequest {
    /// Creates a request for a cell that shows nothing of the user.
    pub fn apart(folder: PathBuf) -> Self {
        Self { folder, shows: Vec::new(), workspace: WorkspaceView::Hidden, is_shared: false }
    }
}

impl CellSource {
    /// Creates a source from the function that builds the cell.
    pub fn new(
        owner: String,
        make: impl Fn(CellRequest) -> Result<(CellSpec, CellHost), CellSourceError> + Send + Sync + 'static,
    ) -> Self {
        Self { owner, may_share: false, make: Box::new(make) }
    }

    /// Lets the call use programs that serve every session.
    #[must_use]
    pub fn sharing(self, may_share: bool) -> Self {
        Self { may_share, ..self }
    }

    /// Returns the name under which the owner's long-lived resources are known.
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns true if the call may use programs that serve every session. A caller under a ceiling may not, since
    /// such a program reaches more than that caller does.
    pub fn may_share(&self) -> bool {
        self.may_share
    }

    /// Builds the cell. Blocks for some milliseconds.
    ///
    /// # Errors
    /// Returns an error if the policy's isolation is not available on this machine.
    pub fn cell(&self, request: CellRequest) -> Result<(CellSpec, CellHost), CellSourceError> {
        (self.make)(request)
    }
}

impl fmt::Debug for CellSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CellSource")
    }
}
