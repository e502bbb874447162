//! A started server that speaks over a pair of streams: one message a line.
//!
//! The caller starts the process, in a cell, and hands in its streams. Nothing here starts or finds a process.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use tool::BoxFuture;

use crate::core::{Core, Outgoing, Wire};
use crate::error::{ClientError, CloseReason};
use crate::lines::{Line, Lines};
use crate::revision::Revision;

/// Number of messages that wait for a server to read. A server that reads nothing makes requests wait until
/// their deadline.
const QUEUE: usize = 16;

/// Maximum length of a message that is copied to be written at once, in bytes: the buffer of a pipe.
const LONGEST_COPY: usize = 64 * 1024;

/// Process of a server, which the caller owns.
pub trait ServerProcess: Send + Sync {
    /// Kills the process with everything that it started. Does not block, and may be called again.
    fn kill(&self);
}

/// Streams of a started server.
pub struct ProcessStreams {
    /// Standard output of the server.
    pub output: Box<dyn AsyncRead + Send + Unpin>,
    /// Standard input of the server.
    pub input: Box<dyn AsyncWrite + Send + Unpin>,
    /// Process of the server.
    pub process: Box<dyn ServerProcess>,
}

/// Wire of a pair of streams.
pub(crate) struct Stdio {
    /// Queue of the writer; absent after the end, which closes the server's input.
    queue: Mutex<Option<mpsc::Sender<Bytes>>>,
    process: Box<dyn ServerProcess>,
}

/// Streams that are not served yet.
pub(crate) struct StdioEnds {
    output: Box<dyn AsyncRead + Send + Unpin>,
    input: Box<dyn AsyncWrite + Send + Unpin>,
    messages: mpsc::Receiver<Bytes>,
}

impl Stdio {
    /// Creates the wire, and the ends that [`serve`] moves messages between.
    pub(crate) fn new(streams: ProcessStreams) -> (Self, StdioEnds) {
        let (queue, messages) = mpsc::channel(QUEUE);
        let ProcessStreams { output, input, process } = streams;
        (Self { queue: Mutex::new(Some(queue)), process }, StdioEnds { output, input, messages })
    }

    fn queue(&self) -> Result<mpsc::Sender<Bytes>, ClientError> {
        self.queue.lock().clone().ok_or(ClientError::Closed(CloseReason::ByCaller))
    }

    async fn enqueue(&self, message: Bytes) -> Result<(), ClientError> {
        let gone = |_| ClientError::Closed(CloseReason::ByServer);
        self.queue()?.send(message).await.map_err(gone)
    }
}

impl Wire for Stdio {
    fn request<'a>(&'a self, _: &'a Arc<Core>, request: Outgoing) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(self.enqueue(request.message))
    }

    fn send<'a>(&'a self, _: &'a Arc<Core>, message: Bytes) -> BoxFuture<'a, Result<(), ClientError>> {
        Box::pin(self.enqueue(message))
    }

    fn post(&self, _: &Arc<Core>, message: Bytes) {
        if let Ok(queue) = self.queue() {
            // A server that reads nothing misses it.
            let _ = queue.try_send(message);
        }
    }

    fn cancels_by_message(&self, _: Option<Revision>) -> bool {
        true
    }

    fn finish<'a>(&'a self, _: &'a Arc<Core>) -> BoxFuture<'a, ()> {
        drop(self.queue.lock().take());
        Box::pin(std::future::ready(()))
    }

    fn end(&self) {
        drop(self.queue.lock().take());
        self.process.kill();
    }
}

/// Starts the two tasks that read and write. They end with the connection.
pub(crate) fn serve(core: &Arc<Core>, ends: StdioEnds) {
    let StdioEnds { output, mut input, mut messages } = ends;
    let reader = core.clone();
    core.tasks.start(async move {
        let reason = read(&reader, output).await;
        reader.close(&reason);
    });
    let writer = core.clone();
    core.tasks.start(async move {
        while let Some(message) = messages.recv().await {
            if let Err(error) = write(&mut input, &message).await {
                let is_gone = error.kind() == std::io::ErrorKind::BrokenPipe;
                writer.close(&if is_gone {
                    CloseReason::ByServer
                } else {
                    CloseReason::Stream(error.to_string())
                });
                return;
            }
        }
    });
}

async fn write(input: &mut (dyn AsyncWrite + Send + Unpin), message: &Bytes) -> std::io::Result<()> {
    if message.len() <= LONGEST_COPY {
        // One write instead of two, so that the server wakes up once.
        input.write_all(&[message.as_ref(), b"\n"].concat()).await?;
    } else {
        input.write_all(message).await?;
        input.write_all(b"\n").await?;
    }
    input.flush().await
}

async fn read(core: &Arc<Core>, output: Box<dyn AsyncRead + Send + Unpin>) -> CloseReason {
    let limit = core.limits.message;
    let mut lines = Lines::new(output, limit);
    loop {
        let line = match lines.next().await {
            Ok(Some(Line::Whole(line))) => line,
            Ok(Some(Line::TooLong)) => return CloseReason::MessageTooLong { limit },
            Ok(None) => return CloseReason::ByServer,
            Err(error) => return CloseReason::Stream(error.to_string()),
        };
        let begin = line.trim_ascii_start();
        if begin.is_empty() {
            continue;
        }
        // Many servers print a greeting where only messages belong.
        let is_message = matches!(begin.first(), Some(b'{' | b'['));
        let taken = if is_message { core.take(&line).map(drop) } else { core.take_noise(&line) };
        if let Err(reason) = taken {
            return reason;
        }
    }
}
