//! Arithmetic over many numbers at once, by the widest instructions that this machine has: products of matrices of bytes and of
//! floats, dot products, and the functions between the layers of a network.
//!
//! Every function takes the [`Level`] that it may use, and gives the same at each: exactly for bytes, and for floats but for the
//! rounding of fused additions. What is portable is written first, and tests hold the others to it.
//! It knows no model and no index, and starts no threads.

mod dot;
mod float;
mod level;
mod matrix;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use dot::{Line, SCALE_OF_QUERY, Split, dots};
pub use float::{Rows, attend, dense, dot, gelu, normalise, quantise};
pub use level::Level;
pub use matrix::{COLUMNS, Panels, Quantised, product};
