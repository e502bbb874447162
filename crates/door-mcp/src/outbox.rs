//! Output queue: messages are written completely, in the order of arrival, and each is flushed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData, ServerJsonRpcMessage, ServerResult};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, watch};
use tool::{ByteReservation, RawJson};

use crate::id::{Id, IdInsertion};
use crate::notice::SUBSCRIPTION;

/// Maximum number of queued messages before reading pauses.
///
/// A client may write this many requests before it reads its first response. A lower limit would
/// block both sides forever.
const MAX_WAITING: usize = 4096;

/// Size up to which structured content is copied, in bytes, so that its message is written in one piece.
const COPIED: usize = 64 * 1024;

/// Capacity above which the buffer is released after its message was written.
const KEPT_BUFFER: usize = 1024 * 1024;

/// Sending end of the queue.
#[derive(Clone)]
pub(crate) struct Outbox {
    sender: mpsc::UnboundedSender<Outgoing>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: AtomicUsize,
    written: Notify,
    failed: watch::Sender<bool>,
    give_up: Notify,
}

/// Receiving end of an [`Outbox`].
pub(crate) struct OutboxReceiver {
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    shared: Arc<Shared>,
}

struct Outgoing {
    message: Message,
    held: ByteReservation,
}

/// A message to write.
pub(crate) enum Message {
    /// Response to a request.
    Answer {
        /// The client's id of the request.
        id: Id,
        /// Result of the request.
        result: Box<ServerResult>,
        /// Structured content, if it is not part of the result.
        structured: Option<RawJson>,
    },
    /// Error response to a request.
    Failure {
        /// The client's id of the request; `None` if unknown.
        id: Option<Id>,
        /// Error of the request.
        error: ErrorData,
    },
    /// Request of the server.
    Request(Box<ServerJsonRpcMessage>),
    /// Complete message.
    Raw(Value),
    /// Complete message except for an id, which is inserted at a path.
    Naming {
        /// Message without the id.
        message: Value,
        /// Field names that lead to the id.
        path: &'static [&'static str],
        /// The client's id of the subject of the message.
        id: Id,
    },
}

impl Message {
    /// Builds a notification that names its subscribing request.
    pub(crate) fn of_a_subscription(message: Value, id: Id) -> Self {
        Self::Naming { message, path: &["params", "_meta", SUBSCRIPTION], id }
    }

    /// Builds a progress notification with the client's token.
    pub(crate) fn of_progress(params: &Value, id: Id) -> Self {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        Self::Naming { message, path: &["params", "progressToken"], id }
    }
}

/// Creates both ends of the queue of one connection.
pub(crate) fn outbox() -> (Outbox, OutboxReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::<Shared>::default();
    (Outbox { sender, shared: shared.clone() }, OutboxReceiver { receiver, shared })
}

impl Outbox {
    /// Queues a message. `held` is dropped when the message was written, or never can be.
    pub(crate) fn put(&self, message: Message, held: ByteReservation) {
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Without a receiver, the message is dropped together with `held`.
        let _ = self.sender.send(Outgoing { message, held });
    }

    /// Queues a message that holds no resources.
    pub(crate) fn post(&self, message: Message) {
        self.put(message, ByteReservation::default());
    }

    /// Waits until the queue has room, so that more input may be read.
    pub(crate) async fn room(&self) {
        while self.shared.waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            self.shared.written.notified().await;
        }
    }

    /// Waits until writing has failed.
    pub(crate) async fn failed(&self) {
        // An error would mean that the sender is gone, but it lives as long as this outbox.
        let _ = self.shared.failed.subscribe().wait_for(|failed| *failed).await;
    }

    /// Ends the delivery after `patience`: the time for a client that has closed its side to read
    /// the remaining messages.
    pub(crate) fn give_up_after(&self, patience: Duration) {
        let shared = self.shared.clone();
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            shared.give_up.notify_one();
        });
    }
}

/// A message that was taken from the queue.
pub(crate) struct QueuedMessage {
    /// Complete message, on one line.
    pub(crate) text: Vec<u8>,
    /// True for the response to a request.
    pub(crate) is_answer: bool,
    /// Code of an error response.
    pub(crate) code: Option<ErrorCode>,
    /// Resources that the message occupies until it was sent.
    pub(crate) held: ByteReservation,
}

impl OutboxReceiver {
    /// Returns true if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// Takes the next message; `None` when every [`Outbox`] was dropped.
    pub(crate) async fn next(&mut self) -> Option<QueuedMessage> {
        let Outgoing { message, held } = self.receiver.recv().await?;
        let mut text = Vec::new();
        // Encoding cannot fail, because every message consists of valid JSON values.
        let _ = encode(&message, &mut text);
        let (is_answer, code) = match &message {
            Message::Answer { structured, .. } => {
                if let Some(structured) = structured {
                    text.extend_from_slice(structured.as_str().as_bytes());
                    text.extend_from_slice(b"}}\n");
                }
                (true, None)
            }
            Message::Failure { error, .. } => (true, Some(error.code)),
            Message::Request(_) | Message::Raw(_) | Message::Naming { .. } => (false, None),
        };
        // The line end is only for byte streams.
        text.pop();
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        Some(QueuedMessage { text, is_answer, code, held })
    }

    /// Writes until every [`Outbox`] was dropped, or a write fails. `cover` redacts each message;
    /// it returns the replacement if the message contains a secret. Structured content is the data
    /// of a response, which the engine has already redacted, so it is written separately.
    ///
    /// # Errors
    /// A write error other than a disconnect of the client.
    pub(crate) async fn deliver<W: AsyncWrite + Unpin>(
        mut self,
        mut writer: W,
        cover: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(mut outgoing) = self.receiver.recv().await {
            buffer.clear();
            let encoded = encode(&outgoing.message, &mut buffer);
            // The text of the message is in the buffer now; a second copy would double the memory
            // of a large response.
            let mut aside = match std::mem::replace(&mut outgoing.message, Message::Raw(Value::Null)) {
                Message::Answer { structured, .. } => structured,
                _ => None,
            };
            if cover(&buffer).is_some() {
                if let Some(aside) = aside.take() {
                    buffer.extend_from_slice(aside.as_str().as_bytes());
                    buffer.extend_from_slice(b"}}\n");
                }
                if let Some(covered) = cover(buffer.trim_ascii_end()) {
                    buffer = covered;
                    buffer.push(b'\n');
                }
            }
            let result = tokio::select! {
                biased;
                result = async {
                    encoded?;
                    if let Some(aside) = &aside {
                        // The response is still open; its structured content is its last field.
                        if aside.as_str().len() > COPIED {
                            writer.write_all(&buffer).await?;
                            buffer.clear();
                            writer.write_all(aside.as_str().as_bytes()).await?;
                        } else {
                            buffer.extend_from_slice(aside.as_str().as_bytes());
                        }
                        buffer.extend_from_slice(b"}}\n");
                    }
                    writer.write_all(&buffer).await?;
                    writer.flush().await
                } => result,
                () = self.shared.give_up.notified() => Err(io::ErrorKind::BrokenPipe.into()),
            };
            if let Err(error) = result {
                self.shared.failed.send_replace(true);
                return if is_departure(&error) { Ok(()) } else { Err(error) };
            }
            drop(outgoing.held);
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.shared.written.notify_one();
            if buffer.capacity() > KEPT_BUFFER {
                buffer = Vec::new();
            }
        }
        Ok(())
    }
}

impl Drop for OutboxReceiver {
    fn drop(&mut self) {
        // Wake the tasks that wait for the client.
        self.shared.failed.send_replace(true);
    }
}

/// Returns true if an error only means that the other side disconnected.
pub(crate) fn is_departure(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected)
}

/// A JSON-RPC response.
#[derive(Serialize)]
struct Envelope<'a, R> {
    jsonrpc: &'static str,
    id: Option<&'a Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<R>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorData>,
}

impl<'a, R> Envelope<'a, R> {
    fn of_result(id: &'a Id, result: R) -> Self {
        Self { jsonrpc: "2.0", id: Some(id), result: Some(result), error: None }
    }
}

impl<'a> Envelope<'a, ()> {
    fn of_failure(id: Option<&'a Id>, error: &'a ErrorData) -> Self {
        Self { jsonrpc: "2.0", id, result: None, error: Some(error) }
    }
}

/// Encodes an error response as JSON.
pub(crate) fn failure(id: Option<&Id>, error: &ErrorData) -> Vec<u8> {
    // Serialization cannot fail, because every error consists of valid JSON values.
    serde_json::to_vec(&Envelope::of_failure(id, error)).unwrap_or_default()
}

/// Encodes a message: completely, or up to the structured content of an [`Answer`](Message::Answer).
fn encode(message: &Message, buffer: &mut Vec<u8>) -> io::Result<()> {
    match message {
        Message::Answer { id, result, structured } => {
            buffer.reserve(size_of_text(result));
            if let ServerResult::SubscriptionsListenResult(result) = &**result {
                // A 64-bit number stands for the client's id of the subscription.
                let (object, path) = (serde_json::to_value(result)?, ["_meta", SUBSCRIPTION]);
                let result = IdInsertion { object: Some(&object), path: &path, id };
                serde_json::to_writer(&mut *buffer, &Envelope::of_result(id, result))?;
            } else {
                serde_json::to_writer(&mut *buffer, &Envelope::of_result(id, result))?;
            }
            if structured.is_some() {
                // The result is the envelope's last field, and has fields itself: at least its content.
                buffer.truncate(buffer.len() - b"}}".len());
                buffer.extend_from_slice(br#","structuredContent":"#);
                return Ok(());
            }
            Ok(())
        }
        Message::Failure { id, error } => {
            serde_json::to_writer(&mut *buffer, &Envelope::of_failure(id.as_ref(), error))
        }
        Message::Request(message) => serde_json::to_writer(&mut *buffer, message),
        Message::Raw(value) => serde_json::to_writer(&mut *buffer, value),
        Message::Naming { message, path, id } => {
            serde_json::to_writer(&mut *buffer, &IdInsertion { object: Some(message), path, id })
        }
    }?;
    buffer.push(b'\n');
    Ok(())
}

/// Estimates the size of the response's text in bytes, so that a large one is not reallocated
/// during encoding.
fn size_of_text(result: &ServerResult) -> usize {
    let ServerResult::CallToolResult(result) = result else { return 0 };
    let text: usize =
        result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.len()).sum();
    // Line ends, quotes and similar characters become two bytes.
    text + text / 8 + 1024
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_a_message_holds_is_kept_until_it_was_written() {
        let (outbox, mail) = outbox();
        let (mut client, server) = tokio::io::duplex(8);
        let delivery = tokio::spawn(mail.deliver(server, |_| None));
        let token = Arc::new(());
        outbox.put(
            Message::Raw(json!("a text of some length")),
            ByteReservation(Some(Box::new(token.clone()))),
        );
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&token), 2);
        let mut read = vec![0; 24];
        client.read_exact(&mut read).await.unwrap();
        crate::fake::settle().await;
        assert_eq!(Arc::strong_count(&token), 1);
        assert_eq!(read, b"\"a text of some length\"\n");
        drop(outbox);
        delivery.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_goes_away_ends_the_delivery_and_frees_what_waits() {
        let (outbox, mail) = outbox();
        let (client, server) = tokio::io::duplex(8);
        let delivery = tokio::spawn(mail.deliver(server, |_| None));
        let token = Arc::new(());
        let held = || ByteReservation(Some(Box::new(token.clone())));
        outbox.put(Message::Raw(json!("a text of some length")), held());
        outbox.put(Message::Raw(json!(2)), held());
        drop(client);
        outbox.failed().await;
        delivery.await.unwrap().unwrap();
        outbox.put(Message::Raw(json!(3)), held());
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_closed_its_side_and_does_not_read_is_not_waited_for_long() {
        let (outbox, mail) = outbox();
        let (_client, server) = tokio::io::duplex(8);
        let delivery = tokio::spawn(mail.deliver(server, |_| None));
        outbox.post(Message::Raw(json!("a text of some length")));
        outbox.give_up_after(Duration::from_secs(1));
        delivery.await.unwrap().unwrap();
        outbox.failed().await;
    }

    #[tokio::test]
    async fn structured_content_beside_an_answer_becomes_its_last_field() {
        for size in [1, COPIED, 4 * COPIED] {
            let (outbox, mail) = outbox();
            let (mut client, server) = tokio::io::duplex(1000);
            let delivery = tokio::spawn(mail.deliver(server, |_| None));
            let data = json!({"text": "ä\n".repeat(size)});
            let text = rmcp::model::ContentBlock::text("short");
            let result = ServerResult::CallToolResult(rmcp::model::CallToolResult::success(vec![text]));
            let structured = Some(RawJson::of(&data, 0).unwrap());
            outbox.post(Message::Answer {
                id: Id::read(serde_json::value::to_raw_value(&7).unwrap()).unwrap().unwrap(),
                result: Box::new(result),
                structured,
            });
            outbox.post(Message::Raw(json!("next")));
            drop(outbox);
            let mut read = String::new();
            client.read_to_string(&mut read).await.unwrap();
            delivery.await.unwrap().unwrap();
            let lines: Vec<&str> = read.lines().collect();
            assert_eq!((lines.len(), lines[1]), (2, "\"next\""));
            let message: Value = serde_json::from_str(lines[0]).unwrap();
            assert!(message["result"]["structuredContent"] == data, "{:.200}", lines[0]);
            assert_eq!(
                (&message["id"], &message["result"]["content"][0]["text"]),
                (&json!(7), &json!("short"))
            );
        }
    }

    #[tokio::test]
    async fn reading_stops_while_too_much_waits() {
        let (outbox, mail) = outbox();
        for number in 0..MAX_WAITING {
            outbox.post(Message::Raw(json!(number)));
        }
        tokio::select! {
            biased;
            () = outbox.room() => panic!("there is no room"),
            () = tokio::task::yield_now() => {}
        }
        let delivery = tokio::spawn(mail.deliver(tokio::io::sink(), |_| None));
        outbox.room().await;
        drop(outbox);
        delivery.await.unwrap().unwrap();
    }
}
