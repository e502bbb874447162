//! The host that a TLS hello names.
//!
//! The hello is read by the library that speaks TLS elsewhere here, so it may come in any number of records and pieces; what that
//! refuses goes nowhere.

use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::AsyncRead;
use tokio::time::timeout;

use crate::ahead::Ahead;

/// The first byte of a connection that begins with a handshake of TLS (RFC 8446, section 5.1).
pub(crate) const HANDSHAKE: u8 = 22;

/// The most that a hello may have, in bytes: several times what keys after quantum computers take.
const LARGEST: usize = 64 * 1024;

/// How long a hello, or the head of a request, may take to come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// An alert that ends a connection: access denied, fatal (RFC 8446, section 6.2).
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Reads a hello ahead and gives the name in it, in lower case; none where it has none. All of it stays to be read.
///
/// # Errors
/// Why it is none, in words for who sent it.
pub(crate) async fn read(client: &mut Ahead<impl AsyncRead + Unpin>) -> Result<Option<String>, String> {
    timeout(PATIENCE, read_whole(client))
        .await
        .map_err(|_| "the TLS hello did not come in time".to_owned())?
}

async fn read_whole(client: &mut Ahead<impl AsyncRead + Unpin>) -> Result<Option<String>, String> {
    let mut acceptor = Acceptor::default();
    let mut given = 0;
    loop {
        while given < client.bytes.len() {
            let mut rest = client.bytes.get(given..).unwrap_or_default();
            let taken = acceptor.read_tls(&mut rest).map_err(|error| format!("no TLS hello: {error}"))?;
            given += taken;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) if taken == 0 => return Err("no TLS hello".to_owned()),
                Ok(None) => {}
                Err((error, _)) => return Err(format!("no TLS hello: {error}")),
            }
        }
        if client.bytes.len() >= LARGEST {
            return Err(format!("the TLS hello has more than {LARGEST} bytes"));
        }
        if client.fill().await.map_err(|error| error.to_string())? == 0 {
            return Err("the connection ended within the TLS hello".to_owned());
        }
    }
}
