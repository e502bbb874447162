//! Cells whose command is over and answered, and whose first process is still taking the mounts down.

use std::sync::{Mutex, PoisonError};

use crate::cgroup::Group;
use crate::process::Process;

/// One such cell.
///
/// INVARIANT: in this order. Dropping the process waits for its end, and while it lives its group cannot be removed.
#[derive(Debug)]
struct Cell {
    process: Process,
    _group: Option<Group>,
}

/// All of them. When this is dropped their ends are waited for.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<Vec<Cell>>);

impl Ending {
    /// Takes a cell over, and lets go of those that have ended meanwhile.
    pub(super) fn add(&self, process: Process, group: Option<Group>) {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.retain(|cell| !cell.process.has_ended());
        cells.push(Cell { process, _group: group });
    }
}
