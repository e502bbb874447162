//! x
pub mod config;
pub mod expand;
pub mod level;
pub mod names;
pub mod restart;
pub mod schema;
pub mod text;
