//! The promises of a cell, tested from inside real ones.
//!
//! Every asserted refusal has a control next to it, which shows that the attempt itself works.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]
#![expect(clippy::disallowed_methods, reason = "the controls run programs outside of any cell on purpose")]

mod attacks;
mod development;
mod ending;
mod files;
mod homes;
mod late;
mod limits;
mod support;

use sandbox::run;
