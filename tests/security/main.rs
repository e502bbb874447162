//! What a call cannot do, tried on the whole binary. Each test carries a control that shows the attempt itself works.

#[path = "../harness.rs"]
mod harness;

mod cell;
mod reach;
