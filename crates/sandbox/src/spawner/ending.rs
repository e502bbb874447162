//! Cells whose command is over and answered, and whose first process is still taking the mounts down.

use std::sync::{Mutex, PoisonError};

use crate::cgroup::Group;
use crate::late::Kept;
use crate::process::Process;

/// So many are kept at most before the ends of some are looked after where somebody waits.
const MOST: usize = 16;

/// One such cell.
///
/// INVARIANT: in this order. Dropping the process waits for its end, and while it lives its group cannot be removed.
#[derive(Debug)]
struct Cell {
    process: Process,
    _group: Option<Group>,
    _file_system: Option<Kept>,
}

/// All of them. When this is dropped their ends are waited for.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<Vec<Cell>>);

impl Ending {
    /// Takes a cell over.
    pub(super) fn add(&self, process: Process, group: Option<Group>, file_system: Option<Kept>) {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        cells.push(Cell { process, _group: group, _file_system: file_system });
        if cells.len() > MOST {
            drop(cells);
            self.look_after();
        }
    }

    /// Lets go of those that have ended meanwhile.
    pub(super) fn look_after(&self) {
        let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let ended: Vec<Cell> = cells.extract_if(.., |cell| cell.process.has_ended()).collect();
        // The kernel may take its time, and others are to add theirs meanwhile.
        drop(cells);
        drop(ended);
    }
}
