//! Beginning of a connection, in either era of the protocol.

use std::sync::Arc;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::core::{Core, Request};
use crate::error::{ClientError, invalid, line};
use crate::revision::{Era, Revision};
use crate::server::ServerFacts;

/// Code for a revision that the server does not speak (2026-07-28).
const UNSUPPORTED_REVISION: i64 = -32022;

/// Codes of the stateless era: a server that uses them speaks it.
const STATELESS_CODES: std::ops::RangeInclusive<i64> = -32099..=-32020;

/// First message of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FirstContact {
    /// Asks for the revisions (`server/discover`), and begins a handshake if the server is older. A server that
    /// ends at an unknown message needs a new start with [`FirstContact::Handshake`].
    #[default]
    Discover,
    /// Begins a handshake. Right for servers that are known to be older.
    Handshake,
}

/// Name and version of this client, as servers see them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName {
    /// Name of the program.
    pub name: String,
    /// Version of the program.
    pub version: String,
}

/// Begins the connection, and returns the facts about the server.
pub(crate) async fn begin(
    core: &Arc<Core>,
    first: FirstContact,
    name: &ClientName,
) -> Result<ServerFacts, ClientError> {
    if first == FirstContact::Discover
        && let Some(facts) = discover(core, name).await?
    {
        return Ok(facts);
    }
    initialize(core, name).await
}

/// Asks for the revisions; `None` if the server is older.
async fn discover(core: &Arc<Core>, name: &ClientName) -> Result<Option<ServerFacts>, ClientError> {
    let method = "server/discover";
    let revision = Revision::V20260728;
    core.speak(Some(revision), meta(core, revision, name));
    let ask = async || core.request(Request::new(method, Map::new(), core.limits.discover)).await;
    let mut answer = ask().await;
    if let Some(offered) = refused_revision(&answer)
        && shared_revision(offered, Era::Stateless).is_some()
    {
        // A server may have changed between the two, behind one address.
        answer = ask().await;
    }
    let is_older = match &answer {
        // A server that answers everything does not know the question.
        Ok(answer) => {
            value(method, answer)?.get("supportedVersions").is_none_or(|offered| !offered.is_array())
        }
        Err(ClientError::Refused { code, .. }) => match refused_revision(&answer) {
            Some(offered) => {
                shared_revision(offered, Era::Sessions).map(|_| true).ok_or_else(|| none_known(offered))?
            }
            None => !STATELESS_CODES.contains(code),
        },
        // An older server may ignore what it does not know.
        Err(ClientError::Timeout { .. }) => true,
        // An older endpoint has no session for this request, or does not know its revision.
        Err(ClientError::Http { status, .. }) => (400..500).contains(status) && *status != 429,
        Err(_) => false,
    };
    if is_older {
        core.speak(None, Map::new());
        return Ok(None);
    }
    let result = value(method, &answer?)?;
    let offered = result.get("supportedVersions").unwrap_or(&Value::Null);
    if shared_revision(offered, Era::Stateless).is_none() {
        core.speak(None, Map::new());
        return if shared_revision(offered, Era::Sessions).is_some() {
            Ok(None)
        } else {
            Err(none_known(offered))
        };
    }
    let info =
        result.pointer("/_meta/io.modelcontextprotocol~1serverInfo").or_else(|| result.get("serverInfo"));
    Ok(Some(ServerFacts::read(revision, &result, info)))
}

/// Returns the revisions that a server names when it refuses the one of a request.
fn refused_revision(answer: &Result<Box<RawValue>, ClientError>) -> Option<&Value> {
    match answer {
        Err(ClientError::Refused { code: UNSUPPORTED_REVISION, data, .. }) => {
            Some(data.as_ref().and_then(|data| data.get("supported")).unwrap_or(&Value::Null))
        }
        _ => None,
    }
}

async fn initialize(core: &Arc<Core>, name: &ClientName) -> Result<ServerFacts, ClientError> {
    let method = "initialize";
    let mut params = Map::new();
    params.insert("protocolVersion".to_owned(), json!(Revision::NEWEST_WITH_HANDSHAKE.as_str()));
    params.insert("capabilities".to_owned(), core.requests.abilities().declared());
    params.insert("clientInfo".to_owned(), json!({"name": name.name, "version": name.version}));
    let answer = core.request(Request::new(method, params, core.limits.handshake)).await?;
    let result = value(method, &answer)?;
    let offered = result.get("protocolVersion").unwrap_or(&Value::Null);
    let revision = offered.as_str().and_then(Revision::parse).filter(|found| found.era() == Era::Sessions);
    let revision = revision.ok_or_else(|| none_known(offered))?;
    core.speak(Some(revision), Map::new());
    core.notify("notifications/initialized", json!({})).await?;
    Ok(ServerFacts::read(revision, &result, result.get("serverInfo")))
}

/// Returns the `_meta` of every request in the stateless era.
fn meta(core: &Core, revision: Revision, name: &ClientName) -> Map<String, Value> {
    let key = |key: &str| format!("io.modelcontextprotocol/{key}");
    let mut meta = Map::new();
    meta.insert(key("protocolVersion"), json!(revision.as_str()));
    meta.insert(key("clientInfo"), json!({"name": name.name, "version": name.version}));
    meta.insert(key("clientCapabilities"), core.requests.abilities().declared());
    meta
}

fn value(method: &str, answer: &RawValue) -> Result<Value, ClientError> {
    let value: Value = serde_json::from_str(answer.get()).map_err(|error| invalid(method, error))?;
    if value.is_object() { Ok(value) } else { Err(invalid(method, "it is no object")) }
}

/// Returns the newest revision of an era in a list.
fn shared_revision(offered: &Value, era: Era) -> Option<Revision> {
    let offered = offered.as_array()?;
    let is_offered = |revision: &Revision| offered.iter().any(|own| own.as_str() == Some(revision.as_str()));
    Revision::ALL.into_iter().find(|revision| revision.era() == era && is_offered(revision))
}

fn none_known(offered: &Value) -> ClientError {
    ClientError::NoCommonRevision { offered: line(&offered.to_string()) }
}
