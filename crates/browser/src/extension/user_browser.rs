//! The user's browser in the use of one session.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cdp::Connection;
use futures_util::{SinkExt, StreamExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use crate::arguments::Settings;
use crate::browser::Browser;
use crate::error::BrowserError;
use crate::extension::admission::Expected;
use crate::extension::bridge::Bridge;
use crate::extension::listener::{Admitted, Listener};
use crate::extension::messages::ToExtension;
use crate::extension::{PING, SILENCE};
use crate::extension::{keys, pairing};

/// Time that a caller waits for the extension: it looks for this program at least every 30 seconds.
const ARRIVAL: Duration = Duration::from_secs(40);
/// Time in which the goodbye is sent, and the time between looks at whether it is.
const FAREWELL: Duration = Duration::from_millis(500);
const LOOK: Duration = Duration::from_millis(5);

/// The user's browser, and the listener that its extension connects to. When this is dropped, nothing
/// listens any more, and the extension detaches its debugger. The tabs stay.
#[derive(Debug)]
pub(crate) struct UserBrowser {
    pub(crate) browser: Browser,
    bridge: Arc<Bridge>,
    port: u16,
    _listener: Listener,
}

impl Drop for UserBrowser {
    fn drop(&mut self) {
        // The task that carries the connection sends the goodbye, and ends.
        self.bridge.leave();
        self.browser.shut();
    }
}

impl UserBrowser {
    /// Listens on a port, and waits until the paired extension is there.
    ///
    /// # Errors
    /// [`BrowserError::NotPaired`], [`BrowserError::PortInUse`], or [`BrowserError::NoExtension`] if it
    /// does not come in time.
    pub(crate) async fn connect(
        port: u16,
        state: &Path,
        wait: Option<Duration>,
    ) -> Result<Self, BrowserError> {
        let failed = |error: pairing::PairingProblem| BrowserError::Start { reason: error.to_string() };
        let key = pairing::key(state).map_err(failed)?.ok_or(BrowserError::NotPaired)?;
        let (sender, admitted) = mpsc::channel(1);
        let no_random = || failed(pairing::PairingProblem::Random);
        let expected = Expected::Paired { key, instance: keys::nonce().ok_or_else(no_random)? };
        let listening = Listener::start(port, expected, sender).await;
        let listener =
            listening.map_err(|error| BrowserError::PortInUse { port, reason: error.to_string() })?;
        let (bridge, reader, writer) = Bridge::new();
        // It ends with the listener.
        tokio::spawn(serve(admitted, Arc::clone(&bridge)));
        let port = listener.port();
        let arriving = tokio::time::timeout(wait.unwrap_or(ARRIVAL), bridge.until_connected());
        if arriving.await.is_err() {
            return Err(BrowserError::NoExtension { port });
        }
        // The user's window decides on the size of its pages.
        let settings = Settings { has_windows: true, ..Settings::new("") };
        let browser = Browser::over(Connection::start(reader, writer), settings).await?;
        Ok(Self { browser, bridge, port, _listener: listener })
    }

    /// Announces the tabs that are shared, after a session was made, and waits until it has them.
    pub(crate) async fn announce(&self) -> Result<(), BrowserError> {
        self.bridge.announce();
        self.browser.caught_up().await
    }

    /// Returns an error if the extension is not connected now, or is paused.
    pub(crate) fn check(&self) -> Result<(), BrowserError> {
        match self.bridge.hello() {
            None => Err(BrowserError::NoExtension { port: self.port }),
            Some(hello) if hello.paused => Err(BrowserError::Paused),
            Some(_) => Ok(()),
        }
    }

    /// Says goodbye, so that the extension detaches its debugger, and waits until that is sent. Blocks.
    pub(crate) fn end(&self) {
        self.bridge.leave();
        let until = std::time::Instant::now() + FAREWELL;
        while self.bridge.hello().is_some() && std::time::Instant::now() < until {
            std::thread::sleep(LOOK);
        }
    }

    /// Checks that the extension can be used, and waits a little while if its connection has just broken.
    pub(crate) async fn ready(&self) -> Result<(), BrowserError> {
        self.bridge.until_back().await;
        self.check()
    }
}

/// Carries the newest connection of the extension.
async fn serve(mut admitted: mpsc::Receiver<Admitted>, bridge: Arc<Bridge>) {
    let mut carrying: Option<JoinHandle<()>> = None;
    while let Some((number, socket)) = admitted.recv().await {
        // It comes back before its old connection is known to be broken.
        if let Some(old) = carrying.take() {
            old.abort();
        }
        carrying = Some(tokio::spawn(carry(socket, number, Arc::clone(&bridge))));
    }
    if let Some(last) = carrying {
        let _ = last.await;
    }
}

/// Carries one connection until it breaks.
async fn carry(mut socket: WebSocketStream<TcpStream>, number: u64, bridge: Arc<Bridge>) {
    let Some(Ok(Message::Text(first))) = socket.next().await else { return };
    let (out, mut queue) = mpsc::unbounded_channel();
    let bye = serde_json::to_string(&ToExtension::Bye).unwrap_or_default();
    if !bridge.connect(number, out, &first) {
        // The extension may have attached its debugger already. If it is gone, so is that.
        let _ = socket.send(Message::text(bye)).await;
        return;
    }
    let (mut writer, mut reader) = socket.split();
    let reading = async {
        let mut heard = Instant::now();
        loop {
            match tokio::time::timeout_at(heard + SILENCE, reader.next()).await {
                Ok(Some(Ok(Message::Text(text)))) => bridge.take_message(number, &text),
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                _ => return,
            }
            heard = Instant::now();
        }
    };
    let writing = async {
        let ping = serde_json::to_string(&ToExtension::Ping).unwrap_or_default();
        loop {
            let text = match tokio::time::timeout(PING, queue.recv()).await {
                Ok(Some(text)) => text,
                Ok(None) => return,
                Err(_) => ping.clone(),
            };
            let is_last = text == bye;
            if writer.send(Message::text(text)).await.is_err() || is_last {
                let _ = writer.close().await;
                return;
            }
        }
    };
    tokio::select! {
        () = reading => {}
        () = writing => {}
    }
    bridge.disconnect(number);
}
