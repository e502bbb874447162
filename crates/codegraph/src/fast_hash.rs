//! Hash tables with a fast hash. Their keys are numbers and names of source code within one process, and their
//! order shows nowhere.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A hash table with a fast hash.
pub(crate) type FastMap<K, V> = HashMap<K, V, BuildHasherDefault<FastHasher>>;

/// An odd number with an irregular pattern of bits: 2^64 divided by the golden ratio.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// A hash that multiplies and rotates.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct FastHasher(u64);

/// Returns a short hash of a name. Different names may have the same.
pub(crate) fn short_hash(name: &str) -> u32 {
    let mut hasher = FastHasher::default();
    hasher.write(name.as_bytes());
    hasher.write_usize(name.len());
    let [a, b, c, d, ..] = hasher.finish().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

impl FastHasher {
    fn mix(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
    }
}

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        let mut chunks = bytes.chunks_exact(8);
        for chunk in &mut chunks {
            let mut word = [0; 8];
            word.copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        let rest = chunks.remainder();
        if !rest.is_empty() {
            let mut word = [0; 8];
            if let Some(place) = word.get_mut(..rest.len()) {
                place.copy_from_slice(rest);
            }
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, number: u8) {
        self.mix(u64::from(number));
    }

    fn write_u32(&mut self, number: u32) {
        self.mix(u64::from(number));
    }

    fn write_u64(&mut self, number: u64) {
        self.mix(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(u64::try_from(number).unwrap_or(u64::MAX));
    }
}
