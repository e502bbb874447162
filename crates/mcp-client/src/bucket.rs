//! Rate of notifications that is accepted.

use std::time::Instant;

/// Allowance that refills over time. Counts thousandths of notifications.
pub(crate) struct Bucket {
    capacity: u64,
    per_second: u64,
    left: u64,
    filled: Instant,
    /// Number of notifications without allowance since the bucket was last full.
    dropped: u32,
}

const ONE: u64 = 1_000;

impl Bucket {
    pub(crate) fn new(at_once: u32, per_second: u32, now: Instant) -> Self {
        let capacity = u64::from(at_once) * ONE;
        Self { capacity, per_second: u64::from(per_second), left: capacity, filled: now, dropped: 0 }
    }

    /// Takes the allowance for one notification.
    ///
    /// # Errors
    /// The number of notifications without allowance since the bucket was last full.
    pub(crate) fn take(&mut self, now: Instant) -> Result<(), u32> {
        let elapsed = now.saturating_duration_since(self.filled).as_millis();
        let elapsed = u64::try_from(elapsed).unwrap_or(u64::MAX);
        if elapsed > 0 {
            // A thousandth of a second brings as many thousandths of a notification as a second brings notifications.
            self.left = self.left.saturating_add(elapsed.saturating_mul(self.per_second)).min(self.capacity);
            self.filled = now;
        }
        if self.left >= self.capacity {
            self.dropped = 0;
        }
        match self.left.checked_sub(ONE) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.dropped = self.dropped.saturating_add(1);
                Err(self.dropped)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_burst_passes_and_a_flood_is_counted_until_the_bucket_is_full_again() {
        let start = Instant::now();
        let mut bucket = Bucket::new(3, 2, start);
        assert_eq!([(); 5].map(|()| bucket.take(start)), [Ok(()), Ok(()), Ok(()), Err(1), Err(2)]);
        let later = start + Duration::from_millis(500);
        assert_eq!([(); 2].map(|()| bucket.take(later)), [Ok(()), Err(3)]);
        let full = later + Duration::from_mins(1);
        assert_eq!([(); 4].map(|()| bucket.take(full)), [Ok(()), Ok(()), Ok(()), Err(1)]);
    }
}
