//! The tests of the engine through its public interface.

mod gherkin;
mod rendered;
mod setup;
mod tck;
