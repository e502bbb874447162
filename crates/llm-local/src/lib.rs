//! A model of language that runs on this machine, from a file in the format GGUF.
//!
//! [`LocalModel`] is an [`llm::Model`]: networks of the Llama architecture, with a byte-level tokenizer and
//! conversations in `ChatML`. It answers with calls of tools and with JSON by constrained decoding: each
//! token must fit a grammar, which is made from the schema. So whatever the weights are, a call parses, and
//! it fits those parts of its schema that `grammar/schema.rs` lists; an answer is never cut within a call.
//!
//! It is meant for tests that need a real model and no service: the model of 135 million weights that they
//! use writes grammatical nonsense at length. The crate downloads nothing, knows no tools, and needs no
//! async runtime. Memory: the file's size, and for a full context as many floats as keys and values have.

mod answer;
mod error;
mod forward;
mod gguf;
mod grammar;
mod guide;
mod matrix;
mod model;
mod run;
mod sample;
mod template;
mod tokens;
mod wait;
mod weights;

pub use error::OpenError;
pub use model::LocalModel;
