//! Walks the chain from the first row to the last, and reports the first fault.
//!
//! The walk reads one row at a time, so only one row is in memory. One read transaction hides rows
//! that are added meanwhile. The walk finds every change by somebody who can write the database but
//! does not recompute all later hashes. If the hashes are recomputed, the head file reveals the
//! change. If the head file is rewritten too, a hash kept elsewhere does. A row with a correct hash
//! that another program appends is not found.

use std::path::Path;

use rusqlite::types::ValueRef;
use store_api::{Fault, Hash, HeadFileState, StoreError, Verification};

use crate::audit::encoding::{COLUMNS, digest};
use crate::audit::head::{Head, HeadFile, HeadRead, Point};
use crate::audit::recorded::select;
use crate::database::Database;

/// A point that the walk searches for.
struct VerificationPoint {
    point: Point,
    found: Option<Hash>,
}

impl VerificationPoint {
    fn new(point: Point) -> Self {
        Self { point, found: (point.rows == 0).then_some(Hash::GENESIS) }
    }

    fn see(&mut self, at: Point) {
        if at.rows == self.point.rows {
            self.found = Some(at.hash);
        }
    }

    fn fault(&self, rows: i64) -> Option<Fault> {
        match self.found {
            None => Some(Fault::CutTail { rows, recorded: self.point.rows }),
            Some(hash) if hash != self.point.hash => Some(Fault::Rewritten { sequence: self.point.rows }),
            Some(_) => None,
        }
    }
}

pub(crate) fn verify(
    database: &Database,
    head: &Path,
    expect: Option<Hash>,
) -> Result<Verification, StoreError> {
    // Read the head file before the log: a point written meanwhile could be ahead of this walk's
    // view.
    let found = HeadFile::look(head)?;
    let mut wanted: Vec<VerificationPoint> = match &found {
        HeadRead::Head(head) => {
            vec![VerificationPoint::new(head.flushed), VerificationPoint::new(head.committed)]
        }
        HeadRead::Broken | HeadRead::Missing => Vec::new(),
    };
    let mut expected_at = (expect == Some(Hash::GENESIS)).then_some(0);
    let (end, fault) = walk(database, |point| {
        for wanted in &mut wanted {
            wanted.see(point);
        }
        if expect == Some(point.hash) {
            expected_at = Some(point.rows);
        }
    })?;
    let mut verification =
        Verification { rows: end.rows, head: end.hash, head_file: None, expected_at, fault };
    if verification.fault.is_none() {
        match judge(&found, &wanted, end) {
            Ok(state) => verification.head_file = Some(state),
            Err(fault) => verification.fault = Some(fault),
        }
    }
    if let (None, Some(hash), None) = (&verification.fault, expect, expected_at) {
        verification.fault = Some(Fault::ExpectedAbsent { hash });
    }
    Ok(verification)
}

/// Compares the end of the log with the points that the head file names.
fn judge(found: &HeadRead, wanted: &[VerificationPoint], end: Point) -> Result<HeadFileState, Fault> {
    let head: &Head = match found {
        HeadRead::Head(head) => head,
        HeadRead::Broken => return Err(Fault::HeadFileBroken),
        HeadRead::Missing => return Err(Fault::HeadFileMissing),
    };
    let [flushed, committed] = wanted else { return Err(Fault::HeadFileBroken) };
    if let Some(fault) = flushed.fault(end.rows) {
        return Err(fault);
    }
    let last = match committed.fault(end.rows) {
        None => head.committed.rows.max(head.flushed.rows),
        Some(fault) if head.same_boot() => return Err(fault),
        Some(_) => {
            return Ok(HeadFileState::UnflushedLost { rows: (head.committed.rows - end.rows).max(1) });
        }
    };
    match end.rows - last {
        0 => Ok(HeadFileState::Current),
        rows => Ok(HeadFileState::Behind { rows }),
    }
}

/// Calls `see` for every verified row. Returns the last one, and the fault that ended the walk
/// early.
fn walk(database: &Database, mut see: impl FnMut(Point)) -> Result<(Point, Option<Fault>), StoreError> {
    database.with(|connection| {
        let wrap = |error| database.error(error);
        let mut statement = connection.prepare(&format!("{} ORDER BY sequence", select())).map_err(wrap)?;
        let mut rows = statement.query([]).map_err(wrap)?;
        let mut last = Point::START;
        while let Some(row) = rows.next().map_err(wrap)? {
            let value = |index| row.get_ref(index).unwrap_or(ValueRef::Null);
            let hash = |index| value(index).as_blob().ok().and_then(Hash::from_slice);
            let expected = last.rows + 1;
            let found = value(0).as_i64().unwrap_or(0);
            if found != expected {
                // In this order, a lower number than expected is possible only for the first row.
                let sequence = if found > expected { expected } else { found };
                let fault = if found > expected {
                    Fault::MissingRow { sequence }
                } else {
                    Fault::BrokenLink { sequence }
                };
                return Ok((last, Some(fault)));
            }
            let content =
                digest(&hash(COLUMNS.len()).unwrap_or(Hash::GENESIS), (0..COLUMNS.len()).map(value));
            if hash(COLUMNS.len() + 1) != Some(content) {
                return Ok((last, Some(Fault::ChangedRow { sequence: found })));
            }
            if hash(COLUMNS.len()) != Some(last.hash) {
                return Ok((last, Some(Fault::BrokenLink { sequence: found })));
            }
            last = Point { rows: found, hash: content };
            see(last);
        }
        Ok((last, None))
    })
}
