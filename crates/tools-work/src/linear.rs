//! Linear: requests and answers.

pub(crate) mod answers;
pub(crate) mod api;
pub(crate) mod errors;
pub(crate) mod names;
pub(crate) mod params;
pub mod queries;
