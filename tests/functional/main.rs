//! What the program does for the people and agents who use it, tried on the whole binary.

#[path = "../harness.rs"]
mod harness;

mod agent;
mod audit;
mod bad_input;
mod call;
mod configuration;
mod mcp;
