//! The tests of the engine through its public interface.

mod gherkin;
mod hostile;
mod language;
mod plans;
mod rendered;
mod setup;
mod small;
mod tck;
