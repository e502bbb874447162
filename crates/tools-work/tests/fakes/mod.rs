//! Local servers that behave like Linear and Gmail, for the tests of these tools and of the whole binary.

#![allow(clippy::expect_used, dead_code, reason = "each test program uses a part")]

pub(crate) mod gmail;
pub(crate) mod linear;
