//! What a cell promises, tried from inside real ones.
//!
//! Every refusal that is asserted has a control beside it that shows that the attempt itself works.

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
