//! Cells whose command has ended and been reported, and whose first process is still taking the
//! mounts down.

use parking_lot::Mutex;

use crate::cgroup::Group;
use crate::late_mask::LateCover;
use crate::process::Process;

/// Number of cells above which the next caller removes the ended ones.
const MOST: usize = 16;

/// A cell that is ending.
///
/// INVARIANT: in this order. Dropping the process waits for its end, and while it lives its group
/// cannot be removed.
#[derive(Debug)]
struct Cell {
    process: Process,
    _group: Option<Group>,
    _file_system: Option<CellReferences>,
}

/// The references that keep alive the file system of an ended cell.
#[derive(Debug)]
pub(crate) struct CellReferences {
    pub(crate) _cell: Option<Box<dyn LateCover>>,
}

/// All ending cells. Dropping this waits for their ends.
#[derive(Debug, Default)]
pub(super) struct Ending(Mutex<Vec<Cell>>);

impl Ending {
    /// Takes a cell over.
    pub(super) fn add(&self, process: Process, group: Option<Group>, file_system: Option<CellReferences>) {
        let mut cells = self.0.lock();
        cells.push(Cell { process, _group: group, _file_system: file_system });
        if cells.len() > MOST {
            drop(cells);
            self.look_after();
        }
    }

    /// Drops the cells that have ended in the meantime.
    pub(super) fn look_after(&self) {
        let mut cells = self.0.lock();
        let ended: Vec<Cell> = cells.extract_if(.., |cell| cell.process.has_ended()).collect();
        // Release the lock first: the kernel may take time, and other threads must be able to add
        // cells.
        drop(cells);
        drop(ended);
    }
}
