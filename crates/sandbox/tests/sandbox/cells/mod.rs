//! The promises of a cell, tested from inside real ones.
//!
//! Every asserted refusal has a control next to it, which shows that the attempt itself works.

mod attacks;
mod development;
mod ending;
mod files;
mod homes;
mod late;
mod limits;
mod support;

use sandbox::run;
