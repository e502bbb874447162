//! The client against servers: scripted ones that break every rule, and the official ones.

mod fake;
mod hostile;
mod http;
mod names;
mod official;
mod sessions;
mod speed;
mod stateless;
