//! Tests of whole requests: a scripted server stands in for the providers, held to the schemas that they
//! publish (`schemas/`).

#![expect(clippy::unwrap_used, clippy::panic, reason = "a helper of a test fails it by panicking")]

mod anthropic;
mod damaged;
mod gemini;
mod hostile;
mod ollama;
mod openai;
mod routing;
mod schema;
mod server;
mod spending;
mod streams;
