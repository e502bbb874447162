//! Login at a server behind HTTP: OAuth 2.1 as the protocol profiles it.
//!
//! The steps are: [`parse_challenge`] reads the server's refusal, [`discover`] finds its authorization server
//! (RFC 9728, RFC 8414), [`identify`] chooses or registers a client there (RFC 7591), [`Login::begin`] gives the URL that
//! a human opens (PKCE with S256, resource indicators of RFC 8707), [`Login::finish`] checks what came back (RFC 9207) and
//! exchanges the code, and [`refresh`] renews a token.
//!
//! Nothing is stored here: tokens go to the caller. Random bytes come from the caller too. Every URL that a server names
//! must use TLS or lead to this machine, and is dialled by the caller's checked transport.

mod challenge;
mod discovery;
mod exchange;
mod identity;
mod login;

pub use challenge::{Challenge, parse_challenge};
pub use discovery::{AuthorizationServer, Discovery, discover};
pub use exchange::{OAuthError, Reach};
pub use identity::{Identity, RegisteredClient, TokenEndpointAuth, identify};
pub use login::{Login, RANDOM_BYTES, Secret, Tokens, refresh};
