//! The limits of a running query: time, memory, depth and cancellation. Every loop of an execution asks here.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::{Detail, Error, Result};
use crate::value::Value;

/// Number of steps between two looks at the clock.
const STEPS_PER_LOOK: u32 = 256;

/// Maximum number of operators within each other at one time. Each takes a frame of the stack.
const MAXIMUM_FRAMES: u32 = 300;

/// Size in bytes from which a value counts while a row holds it.
pub(crate) const HEAVY: usize = 4096;

/// The state of the limits of one query.
#[derive(Debug)]
pub(crate) struct Meter<'a> {
    deadline: Option<Instant>,
    time: Duration,
    cancel: Option<&'a AtomicBool>,
    memory: usize,
    used: Cell<usize>,
    steps: Cell<u32>,
    frames: Cell<u32>,
    cap_mattered: Cell<bool>,
}

/// Memory that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    used: &'a Cell<usize>,
    bytes: usize,
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.used.set(self.used.get().saturating_sub(self.bytes));
    }
}

impl Hold<'_> {
    /// Counts more bytes until this is dropped, without a check.
    pub(crate) fn grow(&mut self, bytes: usize) {
        self.used.set(self.used.get().saturating_add(bytes));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts these bytes in place of those before.
    pub(crate) fn reset(&mut self, bytes: usize) {
        self.used.set(self.used.get().saturating_sub(self.bytes));
        self.bytes = 0;
        self.grow(bytes);
    }
}

/// One operator on the stack, until this is dropped.
#[derive(Debug)]
pub(crate) struct Frame<'a>(&'a Cell<u32>);

impl Drop for Frame<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

impl<'a> Meter<'a> {
    /// Starts the clock. `memory` is in bytes.
    pub(crate) fn new(time: Duration, memory: usize, cancel: Option<&'a AtomicBool>) -> Self {
        Self {
            deadline: Instant::now().checked_add(time),
            time,
            cancel,
            memory,
            used: Cell::new(0),
            steps: Cell::new(0),
            frames: Cell::new(0),
            cap_mattered: Cell::new(false),
        }
    }

    /// Counts one step of work, and now and then looks at the clock and at the flag of the caller.
    #[inline]
    pub(crate) fn tick(&self) -> Result<()> {
        let steps = self.steps.get() + 1;
        if steps < STEPS_PER_LOOK {
            self.steps.set(steps);
            return Ok(());
        }
        self.steps.set(0);
        self.look()
    }

    /// Looks at the clock and at the flag of the caller, for work on a value that may be large.
    pub(crate) fn look_for(&self, value: &Value) -> Result<()> {
        if value.weight() > HEAVY { self.look() } else { Ok(()) }
    }

    /// Looks at the clock and at the flag of the caller.
    #[cold]
    pub(crate) fn look(&self) -> Result<()> {
        if self.cancel.is_some_and(|cancel| cancel.load(Ordering::Relaxed)) {
            return Err(Error::limit(Detail::Cancelled, "The caller cancelled the query."));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            let message = format!(
                "The query took longer than {:?}: add a label or a property to its pattern, or a bound to `*`.",
                self.time
            );
            return Err(Error::limit(Detail::DeadlineExceeded, message));
        }
        Ok(())
    }

    /// Counts an operator on the stack.
    pub(crate) fn frame(&self) -> Result<Frame<'_>> {
        if self.frames.get() >= MAXIMUM_FRAMES {
            let message =
                format!("The query needs more than {MAXIMUM_FRAMES} operators at one time: split it.");
            return Err(Error::limit(Detail::QueryTooComplex, message));
        }
        self.frames.set(self.frames.get() + 1);
        Ok(Frame(&self.frames))
    }

    /// Counts bytes until the result is dropped.
    pub(crate) fn hold(&self, bytes: usize) -> Result<Hold<'_>> {
        self.check(bytes)?;
        let mut hold = Hold { used: &self.used, bytes: 0 };
        hold.grow(bytes);
        Ok(hold)
    }

    /// Returns an error if these bytes would be too many.
    pub(crate) fn check(&self, bytes: usize) -> Result<()> {
        if bytes <= self.left() {
            return Ok(());
        }
        let message = format!(
            "The query needs more than {} MiB of memory: aggregate, use `LIMIT`, or narrow its pattern.",
            self.memory >> 20
        );
        Err(Error::limit(Detail::MemoryExceeded, message))
    }

    /// Returns the bytes that are left.
    pub(crate) fn left(&self) -> usize {
        self.memory.saturating_sub(self.used.get())
    }

    /// Notes that a path could have been longer than the cap of unbounded patterns.
    pub(crate) fn note_cap(&self) {
        self.cap_mattered.set(true);
    }

    /// Returns true if a longer path was left out.
    pub(crate) fn cap_mattered(&self) -> bool {
        self.cap_mattered.get()
    }
}
