//! Arithmetic over many numbers at once, by the widest instructions of this machine. The crate has
//! products of matrices of bytes and of floats, dot products, and the functions between the layers
//! of a network.
//!
//! Every function takes the [`Level`] that it may use, and returns the same result at each. For
//! bytes this is exact, and for floats up to the rounding of fused additions. The portable code is
//! written first, and tests compare the other levels with it. The crate knows no model and no
//! index, and starts no threads.

mod float;
mod level;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use float::{Rows, attend, dense, dot, gelu, normalise, quantise};
pub use level::Level;
pub use matrix::{COLUMNS, Panels, Quantised, product};
