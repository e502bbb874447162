//! Who may start now: commands are bounded in number, answers in bytes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tool::{Code, Held, Lane, Retry, Stop, ToolError};

use crate::stopping::requested;

/// Commands that run at once (CSP/1 source: max concurrent 5).
const COMMANDS_RUNNING: usize = 5;
/// Commands that wait for a place (CSP/1 source: queue overflow 10 max); one more is refused.
const COMMANDS_WAITING: usize = 10;
/// When a refused command may be tried again: a typical command is done by then.
const COMMAND_RETRY_MS: u64 = 1_000;
/// Bytes of answers that may exist at once, from the start of a call until its door has delivered the answer. Two of the
/// largest reads (32 MiB each) fit.
const BYTES_IN_FLIGHT: u64 = 64 * 1024 * 1024;
/// Semaphore permits count in this unit, so that their number fits.
const UNIT: u64 = 1024;

pub(crate) struct Lanes {
    commands: Arc<Semaphore>,
    waiting: AtomicUsize,
    bytes: Arc<Semaphore>,
}

/// A call's place. The part for its bytes outlives the run: it goes along with the answer.
pub(crate) struct Admitted {
    _command: Option<OwnedSemaphorePermit>,
    bytes: OwnedSemaphorePermit,
}

impl Admitted {
    /// Ends the command's place, keeps the answer's.
    pub(crate) fn into_held(self) -> Held {
        Held(Some(Box::new(self.bytes)))
    }
}

impl Default for Lanes {
    fn default() -> Self {
        Self {
            commands: Arc::new(Semaphore::new(COMMANDS_RUNNING)),
            waiting: AtomicUsize::new(0),
            bytes: Arc::new(Semaphore::new(permits(BYTES_IN_FLIGHT) as usize)),
        }
    }
}

impl Lanes {
    /// Waits for a place.
    ///
    /// # Errors
    /// `EQUOTA` where the queue of commands is full, with the time after which to retry; `ECANCELLED` or `ETIMEOUT` where
    /// a stop is requested while waiting.
    pub(crate) async fn admit(
        &self,
        lane: Lane,
        answer_bytes: u64,
        stop: &Stop,
    ) -> Result<Admitted, ToolError> {
        let command = match lane {
            Lane::Command => Some(self.command(stop).await?),
            Lane::Read | Lane::Write => None,
        };
        let wanted = permits(answer_bytes.min(BYTES_IN_FLIGHT));
        let bytes = tokio::select! {
            permit = self.bytes.clone().acquire_many_owned(wanted) => permit.map_err(|_| closed())?,
            reason = requested(stop) => return Err(reason.into()),
        };
        Ok(Admitted { _command: command, bytes })
    }

    async fn command(&self, stop: &Stop) -> Result<OwnedSemaphorePermit, ToolError> {
        if let Ok(permit) = self.commands.clone().try_acquire_owned() {
            return Ok(permit);
        }
        let _place = WaitingPlace::take(&self.waiting)?;
        tokio::select! {
            permit = self.commands.clone().acquire_owned() => permit.map_err(|_| closed()),
            reason = requested(stop) => Err(reason.into()),
        }
    }
}

struct WaitingPlace<'a>(&'a AtomicUsize);

impl<'a> WaitingPlace<'a> {
    fn take(waiting: &'a AtomicUsize) -> Result<Self, ToolError> {
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::SeqCst) < COMMANDS_WAITING {
            return Ok(place);
        }
        Err(ToolError::new(
            Code::Quota,
            format!(
                "{COMMANDS_RUNNING} commands run and {COMMANDS_WAITING} wait already; this one was refused"
            ),
        )
        .hint("wait for a running command to end, then try again")
        .retry(Retry::AfterMs(COMMAND_RETRY_MS)))
    }
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn permits(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX).max(1)
}

fn closed() -> ToolError {
    ToolError::internal("the lanes were closed while a call waited")
}

#[cfg(test)]
mod tests {
    use tool::StopReason;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().unwrap()
    }

    #[test]
    fn the_sixteenth_command_is_refused_at_once_with_a_retry_hint() {
        runtime().block_on(async {
            let lanes = Arc::new(Lanes::default());
            let stop = Stop::default();
            let mut running = Vec::new();
            for _ in 0..COMMANDS_RUNNING {
                running.push(lanes.admit(Lane::Command, 1, &stop).await.unwrap());
            }
            let waiters: Vec<_> = (0..COMMANDS_WAITING)
                .map(|_| {
                    let (lanes, stop) = (lanes.clone(), stop.clone());
                    tokio::spawn(async move { lanes.admit(Lane::Command, 1, &stop).await.map(drop) })
                })
                .collect();
            tokio::task::yield_now().await;
            let refused = lanes.admit(Lane::Command, 1, &stop).await.err().unwrap();
            assert_eq!(refused.code, Code::Quota);
            assert_eq!(refused.retry, Retry::AfterMs(COMMAND_RETRY_MS));
            // A read is admitted all the same.
            lanes.admit(Lane::Read, 1, &stop).await.unwrap();
            drop(running);
            for waiter in waiters {
                waiter.await.unwrap().unwrap();
            }
            assert_eq!(lanes.waiting.load(Ordering::SeqCst), 0);
        });
    }

    #[test]
    fn a_cancelled_waiter_leaves_its_place() {
        runtime().block_on(async {
            let lanes = Lanes::default();
            let stop = Stop::default();
            let mut running = Vec::new();
            for _ in 0..COMMANDS_RUNNING {
                running.push(lanes.admit(Lane::Command, 1, &stop).await.unwrap());
            }
            let cancelled = Stop::default();
            cancelled.request(StopReason::Cancelled);
            let error = lanes.admit(Lane::Command, 1, &cancelled).await.err().unwrap();
            assert_eq!(error.code, Code::Cancelled);
            assert_eq!(lanes.waiting.load(Ordering::SeqCst), 0);
        });
    }

    #[test]
    fn bytes_stay_taken_until_the_answer_is_delivered() {
        runtime().block_on(async {
            let lanes = Lanes::default();
            let stop = Stop::default();
            let answer = lanes.admit(Lane::Read, BYTES_IN_FLIGHT * 2, &stop).await.unwrap().into_held();
            let waiting = lanes.admit(Lane::Read, 1, &stop);
            tokio::pin!(waiting);
            tokio::select! {
                biased;
                _ = &mut waiting => unreachable!("admitted beside an answer that takes everything"),
                () = tokio::task::yield_now() => {}
            }
            drop(answer);
            waiting.await.unwrap();
        });
    }
}
