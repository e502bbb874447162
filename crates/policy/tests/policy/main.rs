//! What the policy promises, asked through its public interface.

mod commands;
mod compile;
mod lines;
mod msc_example;
mod paths;
mod properties;
mod setting;
