//! Serving of one connection over a pair of streams: each line is read, decoded and handled, and its
//! answer is written.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::active_request::Arrival;
use crate::calls::Calls;
use crate::connection::Connection;
use crate::dispatch::Dispatcher;
use crate::engine_server::EngineServer;
use crate::handler::Handler;
use crate::lines::{Line, Lines};
use crate::notices::Notices;
use crate::options::{McpError, Options};
use crate::outbox::{self, Outbox};

/// Time that a client that has closed its side has to read the last responses. The official clients
/// wait two seconds before they kill the process with a signal.
const FAREWELL: Duration = Duration::from_millis(1500);

/// Time that calls may still run after the client has closed its side. A client that pipes a few
/// messages in gets their responses. A longer command ends well before the official clients kill
/// the process.
const LAST_CALLS: Duration = Duration::from_secs(1);

/// Serves one connection until the client closes its side or disconnects, then ends every call.
///
/// # Errors
/// See [`McpError`]. A client that disconnects is not an error.
pub(crate) async fn connect<C, R, W>(
    calls: Arc<C>,
    options: Options,
    reader: R,
    writer: W,
) -> Result<(), McpError>
where
    C: Calls,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (options, notices) = (Arc::new(options), Arc::<Notices>::default());
    notices.follow(calls.as_ref());
    let backend = EngineServer::new(calls.clone(), options.clone(), notices.clone())?;
    let connection = Arc::<Connection>::default();
    let handler = Handler::new(Arc::new(backend), options.clone(), connection.clone(), &notices)?;
    let (outbox, mail) = outbox::outbox();
    let covering = calls.clone();
    let delivery = tokio::spawn(mail.deliver(writer, move |message| covering.cover_message(message)));
    connection.stand_by(outbox.clone());
    read(Lines::new(reader, options.message_limit), &handler, &outbox, &options).await;
    connection.close();
    outbox.give_up_after(FAREWELL);
    // Stopped calls still send their responses.
    tokio::join!(calls.shutdown(), connection.idle());
    // The delivery ends once every outbox was dropped and everything is written, or the client's
    // time to read is over.
    drop((outbox, handler, connection));
    delivery.await.map_err(McpError::Task)?.map_err(McpError::Write)
}

/// Reads and accepts messages until the client closes its side or disconnects.
async fn read<R: AsyncRead + Unpin>(
    mut lines: Lines<R>,
    handler: &Handler,
    outbox: &Outbox,
    options: &Options,
) {
    let limit = options.message_limit;
    let dispatcher = Dispatcher { handler, outbox, limit, arrival: Arrival::Line };
    loop {
        let line = tokio::select! {
            biased;
            () = outbox.failed() => return,
            line = async {
                outbox.room().await;
                lines.next().await
            } => line,
        };
        match line {
            Ok(Some(Line::Whole(line))) => dispatcher.accept(line),
            Ok(Some(Line::TooLong(skim))) => dispatcher.too_long(&skim),
            Ok(None) => break,
            Err(error) => {
                if !outbox::is_departure(&error) {
                    (options.on_warning)(&format!("cannot read the client's messages: {error}"));
                }
                return;
            }
        }
    }
    tokio::select! {
        () = outbox.failed() => {}
        // The calls that remain after this wait are stopped.
        _ = tokio::time::timeout(LAST_CALLS, handler.connection.idle()) => {}
    }
}
