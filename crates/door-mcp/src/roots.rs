//! Questions for a client's roots before there is an engine: the first root can choose the workspace.
//!
//! The handshake is answered here, and the messages that came meanwhile are given to the server
//! afterwards. The server's own answer to the handshake is left out then.

use std::io::{self, Cursor};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::handler::early_answer;
use crate::options::Options;

/// Id of the request for the roots. The server's own requests have numbers.
const ID: &str = "handfast-roots";

/// Time that a client has to name its roots.
const PATIENCE: Duration = Duration::from_secs(10);

/// The messages of a client from before the server started.
#[derive(Debug, Default)]
pub struct FirstMessages {
    /// URIs of the client's roots, in the client's order.
    pub roots: Vec<String>,
    read: Vec<u8>,
    /// Id of the handshake that was answered.
    answered: Option<Value>,
}

impl FirstMessages {
    /// Returns streams for the server, which begin where the client began.
    pub(crate) fn before<R: AsyncRead + Unpin, W>(
        self,
        reader: R,
        writer: W,
    ) -> (impl AsyncRead + Unpin, WithoutAnswer<W>) {
        let writer = WithoutAnswer { writer, left_out: self.answered, line: Vec::new(), due: Vec::new() };
        (Cursor::new(self.read).chain(reader), writer)
    }
}

/// Answers the handshake of a client that has roots, and asks for them. Of other clients, only the first
/// message is read.
///
/// # Errors
/// If a stream cannot be read or written.
pub async fn ask_for_roots<R, W>(
    options: &Options,
    reader: &mut R,
    writer: &mut W,
) -> io::Result<FirstMessages>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut first = FirstMessages::default();
    let Some(length) = line(&mut first.read, 0, reader, options.message_limit).await? else {
        return Ok(first);
    };
    let Some((id, version)) = handshake(&first.read[..length]) else { return Ok(first) };
    let answer = json!({"jsonrpc": "2.0", "id": id, "result": early_answer(options, &version)});
    send(writer, &answer).await?;
    first.answered = Some(id);
    // A client that does not answer is served as one without roots.
    let _late = tokio::time::timeout(PATIENCE, roots(&mut first, length, options, reader, writer)).await;
    Ok(first)
}

/// Reads until the client has named its roots, which are requested as soon as the handshake is over.
async fn roots<R, W>(
    first: &mut FirstMessages,
    mut at: usize,
    options: &Options,
    reader: &mut R,
    writer: &mut W,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while let Some(end) = line(&mut first.read, at, reader, options.message_limit).await? {
        let message: Value = serde_json::from_slice(&first.read[at..end]).unwrap_or_default();
        if message["method"] == "notifications/initialized" {
            send(writer, &json!({"jsonrpc": "2.0", "id": ID, "method": "roots/list"})).await?;
        } else if message["id"] == ID && message["method"].is_null() {
            let listed = message["result"]["roots"].as_array().into_iter().flatten();
            first.roots = listed.filter_map(|root| root["uri"].as_str().map(str::to_owned)).collect();
            first.read.drain(at..end);
            return Ok(());
        }
        at = end;
    }
    Ok(())
}

/// Returns the end of the line that begins at `at`, after reading it. Returns `None` at the end of the
/// input, and if more than `limit` bytes were read.
async fn line<R: AsyncRead + Unpin>(
    read: &mut Vec<u8>,
    at: usize,
    reader: &mut R,
    limit: usize,
) -> io::Result<Option<usize>> {
    loop {
        if let Some(length) = read[at..].iter().position(|byte| *byte == b'\n') {
            return Ok(Some(at + length + 1));
        }
        if read.len() > limit || reader.read_buf(read).await? == 0 {
            return Ok(None);
        }
    }
}

/// Returns the id and the version of a handshake in which the client says that it has roots.
fn handshake(line: &[u8]) -> Option<(Value, ProtocolVersion)> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let is_known = message["id"].is_string() || message["id"].is_u64();
    let has_roots =
        message["method"] == "initialize" && message["params"]["capabilities"]["roots"].is_object();
    let version = serde_json::from_value(message["params"]["protocolVersion"].clone()).ok()?;
    // The server itself refuses a handshake without the name of the client.
    let names_client = message["params"]["clientInfo"]["name"].is_string();
    (is_known && has_roots && names_client).then(|| (message["id"].clone(), version))
}

async fn send<W: AsyncWrite + Unpin>(writer: &mut W, message: &Value) -> io::Result<()> {
    writer.write_all(format!("{message}\n").as_bytes()).await?;
    writer.flush().await
}

/// A stream of messages that leaves out the answer to one request.
pub(crate) struct WithoutAnswer<W> {
    writer: W,
    /// Id of the request, until its answer was left out.
    left_out: Option<Value>,
    /// Beginning of a message.
    line: Vec<u8>,
    /// Bytes that are still to be written.
    due: Vec<u8>,
}

impl<W: AsyncWrite + Unpin> WithoutAnswer<W> {
    fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(piece);
            if !piece.ends_with(b"\n") {
                continue;
            }
            let line = std::mem::take(&mut self.line);
            let is_answer = self.left_out.as_ref().is_some_and(|id| {
                let message: Value = serde_json::from_slice(&line).unwrap_or_default();
                message["id"] == *id && message["method"].is_null()
            });
            if is_answer {
                self.left_out = None;
            } else {
                self.due.extend(line);
            }
        }
        if self.left_out.is_none() {
            self.due.append(&mut self.line);
        }
    }

    fn poll_due(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.due.is_empty() {
            let written = ready!(Pin::new(&mut self.writer).poll_write(context, &self.due))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.due.drain(..written);
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for WithoutAnswer<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_due(context))?;
        if self.left_out.is_none() {
            return Pin::new(&mut self.writer).poll_write(context, bytes);
        }
        self.take(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_due(context))?;
        Pin::new(&mut self.writer).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_due(context))?;
        Pin::new(&mut self.writer).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncBufReadExt, BufReader, duplex, split};

    use super::*;

    fn initialize(capabilities: &Value) -> String {
        let params = json!({"protocolVersion": "2025-06-18", "capabilities": capabilities, "clientInfo": {"name": "c", "version": "1"}});
        format!("{}\n", json!({"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": params}))
    }

    #[tokio::test]
    async fn a_client_with_roots_is_asked_once_the_handshake_is_over_and_nothing_else_is_lost() {
        let (server, client) = duplex(4096);
        let (mut reader, mut writer) = split(server);
        let options = Options::new("handfast", "1", tool::SessionId("s".to_owned()));
        let asked = tokio::spawn(async move {
            let first = ask_for_roots(&options, &mut reader, &mut writer).await.unwrap();
            (first, reader, writer)
        });
        let (lines, mut to_server) = split(client);
        let mut lines = BufReader::new(lines).lines();
        to_server.write_all(initialize(&json!({"roots": {}})).as_bytes()).await.unwrap();
        let answer: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(7), &json!("2025-06-18")));
        let meanwhile = "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/list\"}\n";
        let initialized = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
        to_server.write_all(format!("{initialized}{meanwhile}").as_bytes()).await.unwrap();
        let request: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(request["method"], "roots/list");
        let roots = json!({"roots": [{"uri": "file:///a%20b", "name": "a"}, {"uri": "file:///c"}]});
        let answer = json!({"jsonrpc": "2.0", "id": request["id"], "result": roots});
        to_server.write_all(format!("{answer}\nrest").as_bytes()).await.unwrap();
        let (first, reader, writer) = asked.await.unwrap();
        assert_eq!(first.roots, ["file:///a%20b", "file:///c"]);

        let (mut reader, mut writer) = first.before(reader, writer);
        to_server.shutdown().await.unwrap();
        let mut read = String::new();
        reader.read_to_string(&mut read).await.unwrap();
        assert_eq!(read, format!("{}{initialized}{meanwhile}rest", initialize(&json!({"roots": {}}))));
        // The server answers the handshake a second time, in pieces, and that answer is left out.
        for piece in ["{\"id\":1}\n{\"id\"", ":7,\"result\":{}}\n{\"id\":8", "}\n{\"id\":7}\n"] {
            writer.write_all(piece.as_bytes()).await.unwrap();
        }
        writer.shutdown().await.unwrap();
        let mut left = Vec::new();
        while let Some(line) = lines.next_line().await.unwrap() {
            left.push(line);
        }
        assert_eq!(left, ["{\"id\":1}", "{\"id\":8}", "{\"id\":7}"]);
    }

    #[tokio::test]
    async fn of_other_clients_every_byte_stays() {
        let options = Options::new("handfast", "1", tool::SessionId("s".to_owned()));
        for input in [
            initialize(&json!({})),
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\"}\n".to_owned(),
            "no JSON\nmore".to_owned(),
            String::new(),
        ] {
            let mut written = Vec::new();
            let mut reader = input.as_bytes();
            let first = ask_for_roots(&options, &mut reader, &mut written).await.unwrap();
            assert!(first.roots.is_empty() && written.is_empty() && first.answered.is_none(), "{input}");
            assert_eq!([&first.read[..], reader].concat(), input.as_bytes());
        }
    }
}
