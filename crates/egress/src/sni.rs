//! The host name in a TLS `ClientHello` (SNI).
//!
//! The hello is parsed by the TLS library, so it may arrive in any number of records and pieces. A
//! hello that the library refuses is not forwarded.

use std::time::Duration;

use rustls::server::Acceptor;
use tokio::io::AsyncRead;
use tokio::time::timeout;

use crate::peek::PeekedStream;

/// The first byte of a connection that begins with a handshake of TLS (RFC 8446, section 5.1).
pub(crate) const HANDSHAKE: u8 = 22;

/// Maximum size of a hello, in bytes: several times what post-quantum keys need.
const LARGEST: usize = 64 * 1024;

/// Maximum wait for a hello, or for the head of a request.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// TLS alert that ends a connection: access denied, fatal (RFC 8446, section 6.2).
pub(crate) const ACCESS_DENIED: [u8; 7] = [21, 3, 3, 0, 2, 2, 49];

/// Reads a hello ahead and returns its host name, in lower case; `None` if the hello has none. All
/// bytes stay in the buffer.
///
/// # Errors
/// A description for the client, if the bytes are not a TLS hello.
pub(crate) async fn read(
    client: &mut PeekedStream<impl AsyncRead + Unpin>,
) -> Result<Option<String>, String> {
    timeout(TIMEOUT, read_whole(client))
        .await
        .map_err(|_| "the TLS hello did not arrive in time".to_owned())?
}

async fn read_whole(client: &mut PeekedStream<impl AsyncRead + Unpin>) -> Result<Option<String>, String> {
    let mut acceptor = Acceptor::default();
    let mut given = 0;
    loop {
        while given < client.bytes.len() {
            let mut rest = client.bytes.get(given..).unwrap_or_default();
            let taken = acceptor.read_tls(&mut rest).map_err(|error| format!("not a TLS hello: {error}"))?;
            given += taken;
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok(accepted.client_hello().server_name().map(str::to_owned)),
                Ok(None) if taken == 0 => return Err("not a TLS hello".to_owned()),
                Ok(None) => {}
                Err((error, _)) => return Err(format!("not a TLS hello: {error}")),
            }
        }
        if client.bytes.len() >= LARGEST {
            return Err(format!("the TLS hello has more than {LARGEST} bytes"));
        }
        if client.fill().await.map_err(|error| error.to_string())? == 0 {
            return Err("the connection ended in the TLS hello".to_owned());
        }
    }
}
