//! x
pub mod config;
pub mod definition;
pub mod error;
pub mod expand;
pub mod level;
pub mod limits;
pub mod names;
pub mod restart;
pub mod schema;
pub mod text;
