//! Linear: what is asked, how, and what is made of the answers.

pub(crate) mod answers;
pub(crate) mod api;
pub(crate) mod errors;
pub(crate) mod names;
pub(crate) mod params;
pub mod queries;
