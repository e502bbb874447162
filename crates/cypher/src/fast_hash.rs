//! A fast hash for nodes and for the values of groups.
//!
//! It does not withstand values that were chosen to collide. These make a query slow, and the limit of time
//! then ends it.

use std::hash::{BuildHasherDefault, Hasher};

/// A multiplier whose bits look random: 2 to the power of 64, divided by the golden ratio.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The state of a hash.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FastHasher(u64);

/// The builder of such hashes.
pub(crate) type FastHash = BuildHasherDefault<FastHasher>;

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        // Multiplication carries upwards only, so the upper half is mixed into the lower one.
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.write_u64(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        for (place, byte) in last.iter_mut().zip(rest) {
            *place = *byte;
        }
        if !rest.is_empty() {
            self.write_u64(u64::from_le_bytes(last));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.write_u64(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(MULTIPLIER);
    }
}
