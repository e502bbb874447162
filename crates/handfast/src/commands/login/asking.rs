//! Requests of the user's own commands to the servers of a login.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::{Web, WebRequest};
use fetch::{HeaderMap, HeaderName, HeaderValue};

use crate::cli::Global;
use crate::commands::Failure;

/// Maximum time for an answer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum size of an answer in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Status, headers and body of an answer.
pub(super) struct ReadAnswer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
}

/// Sends a request, and returns the status and the body of the answer.
///
/// # Errors
/// If there is no complete answer within 30 s and 1 MiB.
pub(super) async fn ask(
    web: &Web,
    method: fetch::Method,
    target: &Target,
    headers: HeaderMap,
    body: Vec<u8>,
) -> Result<(u16, Vec<u8>), Failure> {
    let answered = ask_with_headers(web, method, target, headers, body).await?;
    Ok((answered.status, answered.body))
}

/// Sends a request for the user's own command. The addresses come from the user's command line or
/// configuration, so any target is permitted. Redirections are not followed.
///
/// # Errors
/// If there is no complete answer within 30 s and 1 MiB.
pub(super) async fn ask_with_headers(
    web: &Web,
    method: fetch::Method,
    target: &Target,
    mut headers: HeaderMap,
    body: Vec<u8>,
) -> Result<ReadAnswer, Failure> {
    let agent = HeaderValue::from_static(concat!("handfast/", env!("CARGO_PKG_VERSION")));
    headers.insert(fetch::USER_AGENT, agent);
    let ask = WebRequest {
        target: target.clone(),
        method,
        headers,
        body: body.into(),
        permission: Permission::judged(|_| Some(true)),
        deadline: Instant::now() + TIMEOUT,
    };
    let mut answer = web.send(ask).await?;
    let (status, headers) = (answer.status, answer.headers.clone());
    let unread = || Failure::from("cannot read the answer");
    let decoder = tool_support::decoder(&answer, true, LARGEST).map_err(|_| unread())?;
    let body = tool_support::whole(&mut answer, decoder).await.map_err(|_| unread())?;
    Ok(ReadAnswer { status, headers, body })
}

/// Builds the header that presents a token (RFC 6750). Returns `None` if no header can contain it.
pub(super) fn bearer(token: &[u8]) -> Option<(HeaderName, HeaderValue)> {
    let mut value = HeaderValue::from_bytes(&[b"Bearer ", token].concat()).ok()?;
    value.set_sensitive(true);
    Some((HeaderName::from_static("authorization"), value))
}

/// Asks a question at the terminal. Without a terminal, only `yes` is one.
pub(super) fn confirmed(global: &Global, yes: bool, question: &str) -> Result<bool, Failure> {
    if yes {
        return Ok(true);
    }
    if global.no_input || !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(false);
    }
    write!(io::stderr(), "{question} [y/N] ")?;
    let mut line = String::new();
    io::stdin().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}
