//! A fast hash of the numbers of nodes. It is for nothing else: values of a query could be chosen to collide.

use std::hash::{BuildHasherDefault, Hasher};

/// A hash of the numbers of nodes. They are given out by the graph, so nobody can choose them to collide.
#[derive(Debug, Default)]
pub(crate) struct NumberHasher(u64);

pub(crate) type ByNumber = BuildHasherDefault<NumberHasher>;

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}
