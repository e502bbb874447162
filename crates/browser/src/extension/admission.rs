//! The first messages of a connection, after which it is the paired extension or ends.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role as SocketRole, WebSocketConfig};

use crate::extension::keys::{self, Exchange, Nonces, PairingKey, Role};
use crate::extension::messages::{Greeting, Refusal, Welcome};
use crate::extension::pairing::{self, PairingCode};
use crate::extension::{ORIGIN, PROTOCOL};

/// Time in which a connection must be admitted.
pub(super) const ADMISSION: Duration = Duration::from_secs(10);
/// Largest message before the admission, in bytes.
const LARGEST: usize = 4096;

/// Extension that a listener admits.
#[derive(Debug, Clone)]
pub(super) enum Expected {
    /// The one that has this key. `instance` is the name of the listener.
    Paired { key: PairingKey, instance: String },
    /// One whose user types this code. Its key is kept in the state folder.
    New { code: Arc<PairingCode>, state: Arc<Path> },
}

/// End of a connection that is not admitted. Its extension was told why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection;

/// Returns the limits of a connection that is not admitted.
pub(super) fn strict() -> WebSocketConfig {
    WebSocketConfig::default().max_message_size(Some(LARGEST)).max_frame_size(Some(LARGEST))
}

/// Returns the limits of an admitted connection.
fn admitted() -> WebSocketConfig {
    let limit = Some(cdp::MESSAGE_LIMIT);
    WebSocketConfig::default().max_message_size(limit).max_frame_size(limit)
}

/// Admits the extension that is expected. Others are told why they are not.
pub(super) async fn admit<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    expected: &Expected,
) -> Result<WebSocketStream<S>, Rejection> {
    let server = keys::nonce().ok_or(Rejection)?;
    say(&mut socket, &Welcome::Challenge { protocol: PROTOCOL, nonce: &server }).await?;
    match (hear(&mut socket).await?, expected) {
        (Greeting::Prove { nonce, proof }, Expected::Paired { key, instance }) if keys::is_nonce(&nonce) => {
            let nonces = Nonces { server: &server, extension: &nonce, origin: ORIGIN };
            if !nonces.is_proof(key, Role::Extension, &proof) {
                let message = "this browser is not the paired one: pair it again, or forget the other one";
                return refuse(&mut socket, Refusal::WrongProof, message).await;
            }
            // The extension has sent no byte behind its proof yet, so none is lost with the old limits.
            let mut socket =
                WebSocketStream::from_raw_socket(socket.into_inner(), SocketRole::Server, Some(admitted()))
                    .await;
            let proof = nonces.proof(key, Role::Server);
            say(&mut socket, &Welcome::Proved { proof: &proof, instance }).await?;
            Ok(socket)
        }
        (Greeting::Pair { .. }, Expected::Paired { .. }) => {
            let message = "another browser is paired: run `handfast browser unpair` first, and then `handfast browser pair`";
            refuse(&mut socket, Refusal::Paired, message).await
        }
        (Greeting::Prove { .. }, Expected::New { .. }) => {
            let message = "Handfast knows no paired browser: enter the code of `handfast browser pair`";
            refuse(&mut socket, Refusal::NotPaired, message).await
        }
        (Greeting::Pair { nonce, public }, Expected::New { code, state }) if keys::is_nonce(&nonce) => {
            let nonces = Nonces { server: &server, extension: &nonce, origin: ORIGIN };
            pair(socket, &nonces, &public, (code, state)).await
        }
        _ => refuse(&mut socket, Refusal::Message, "this message was not expected").await,
    }
}

/// Pairs with an extension. This program proves first that it has the code, so an extension never gives
/// a proof to a program that has not.
async fn pair<S: AsyncRead + AsyncWrite + Unpin>(
    mut socket: WebSocketStream<S>,
    nonces: &Nonces<'_>,
    other: &str,
    (code, state): (&PairingCode, &Path),
) -> Result<WebSocketStream<S>, Rejection> {
    let text = match code.attempt(Instant::now()) {
        Ok(text) => text.to_owned(),
        Err(why) => return refuse(&mut socket, Refusal::NoCode, why).await,
    };
    let exchange = Exchange::begin().ok_or(Rejection)?;
    let public = exchange.public.clone();
    let (server, extension) = (nonces.server.to_owned(), nonces.extension.to_owned());
    let other = other.to_owned();
    let agreeing = tokio::task::spawn_blocking(move || {
        let nonces = Nonces { server: &server, extension: &extension, origin: ORIGIN };
        exchange.agree(&nonces, &other, &text)
    });
    let Some(agreed) = agreeing.await.ok().flatten() else {
        return refuse(&mut socket, Refusal::Message, "the public key is none").await;
    };
    say(&mut socket, &Welcome::Offer { public: &public, proof: &agreed.proof(Role::Server) }).await?;
    let Greeting::Confirm { proof } = hear(&mut socket).await? else {
        return refuse(&mut socket, Refusal::Message, "this message was not expected").await;
    };
    if !agreed.is_proof(Role::Extension, &proof) {
        return refuse(&mut socket, Refusal::WrongProof, "the code is another one").await;
    }
    if !code.use_up() {
        return refuse(&mut socket, Refusal::NoCode, "the code was used already").await;
    }
    if let Err(problem) = pairing::keep(state, &agreed.key) {
        return refuse(&mut socket, Refusal::Paired, &problem.to_string()).await;
    }
    say(&mut socket, &Welcome::Paired).await?;
    Ok(socket)
}

async fn refuse<S: AsyncRead + AsyncWrite + Unpin, T>(
    socket: &mut WebSocketStream<S>,
    reason: Refusal,
    message: &str,
) -> Result<T, Rejection> {
    say(socket, &Welcome::Refused { reason, message }).await?;
    // The other side may be gone.
    let _ = socket.close(None).await;
    Err(Rejection)
}

async fn say<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
    message: &Welcome<'_>,
) -> Result<(), Rejection> {
    let text = serde_json::to_string(message).map_err(|_| Rejection)?;
    socket.send(Message::text(text)).await.map_err(|_| Rejection)
}

/// Returns the next message.
async fn hear<S: AsyncRead + AsyncWrite + Unpin>(
    socket: &mut WebSocketStream<S>,
) -> Result<Greeting, Rejection> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return match serde_json::from_str(&text) {
                    Ok(greeting) => Ok(greeting),
                    Err(_) => refuse(socket, Refusal::Message, "this message was not expected").await,
                };
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return Err(Rejection),
        }
    }
}

#[cfg(test)]
mod tests;
