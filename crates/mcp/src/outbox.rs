//! The one way out: messages are written whole, in the order in which they were put here, each flushed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ErrorCode, ErrorData, ServerJsonRpcMessage, ServerResult};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tool::{Held, Written};

use crate::id::{Id, Naming};
use crate::notices::SUBSCRIPTION;

/// Messages that may wait to be written before no more are read.
///
/// A client may well write this many requests before it reads its first answer, so fewer would stop both for ever.
const MOST_WAITING: usize = 4096;

/// Structured content up to this size is copied, so that its message is written at once.
const COPIED: usize = 64 * 1024;

/// A buffer that grew beyond this is given back once its message was written.
const KEPT_BUFFER: usize = 1024 * 1024;

/// Where messages are put to be written.
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

/// The other end of an [`Outbox`].
pub(crate) struct Mail {
    receiver: mpsc::UnboundedReceiver<Outgoing>,
    shared: Arc<Shared>,
}

struct Outgoing {
    message: Message,
    held: Held,
    written: Option<oneshot::Sender<()>>,
}

/// What can be written.
pub(crate) enum Message {
    /// The answer to a request.
    Answer {
        /// The client's name for the request.
        id: Id,
        /// The answer.
        result: Box<ServerResult>,
        /// Its structured content, where that does not stand in it.
        structured: Option<Written>,
    },
    /// The answer to a request that failed as a request.
    Failure {
        /// The client's name for the request; none where it is not known.
        id: Option<Id>,
        /// What is wrong.
        error: ErrorData,
    },
    /// A request or notification of ours that rmcp made.
    Ours(Box<ServerJsonRpcMessage>),
    /// A whole message.
    Raw(Value),
    /// A whole message but for the id that belongs at this path.
    Naming {
        /// The message without the id.
        message: Value,
        /// The fields that lead to the id.
        path: &'static [&'static str],
        /// The client's name for what the message is about.
        id: Id,
    },
}

impl Message {
    /// Makes a notification that tells which request subscribed to it.
    pub(crate) fn of_a_subscription(message: Value, id: Id) -> Self {
        Self::Naming { message, path: &["params", "_meta", SUBSCRIPTION], id }
    }

    /// Makes a notification of progress under the client's name for it.
    pub(crate) fn of_progress(params: &Value, id: Id) -> Self {
        let message = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params});
        Self::Naming { message, path: &["params", "progressToken"], id }
    }
}

/// The messages of one connection: where they are put, and where they come out.
pub(crate) fn outbox() -> (Outbox, Mail) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let shared = Arc::<Shared>::default();
    (Outbox { sender, shared: shared.clone() }, Mail { receiver, shared })
}

impl Outbox {
    /// Puts a message at the end of the queue. What it holds is given back when it was written, or never can be.
    ///
    /// The receiver hears when it was written; it hears nothing where the client is gone.
    pub(crate) fn put(&self, message: Message, held: Held) -> oneshot::Receiver<()> {
        let (written, receiver) = oneshot::channel();
        self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        // Where nobody takes the mail any more, the message is dropped, and with it what it holds.
        let _ = self.sender.send(Outgoing { message, held, written: Some(written) });
        receiver
    }

    /// Puts a message that holds nothing and whose fate nobody waits for.
    pub(crate) fn post(&self, message: Message) {
        drop(self.put(message, Held::default()));
    }

    /// Waits until more may be read: the client has taken enough of what it was sent.
    pub(crate) async fn room(&self) {
        while self.shared.waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            self.shared.written.notified().await;
        }
    }

    /// Waits until nothing can be written any more.
    pub(crate) async fn failed(&self) {
        // An error means that the sender is gone; it lives as long as this outbox.
        let _ = self.shared.failed.subscribe().wait_for(|failed| *failed).await;
    }

    /// Gives a client that has closed its side this long to take what it was sent.
    pub(crate) fn give_up_after(&self, patience: Duration) {
        let shared = self.shared.clone();
        tokio::spawn(async move {
            tokio::time::sleep(patience).await;
            shared.give_up.notify_one();
        });
    }
}

/// A message that was taken out.
pub(crate) struct Letter {
    /// The whole message, on one line.
    pub(crate) text: Vec<u8>,
    /// Whether it answers a request.
    pub(crate) is_answer: bool,
    /// The code of a request that failed as a request.
    pub(crate) code: Option<ErrorCode>,
    /// What it occupies until it was sent.
    pub(crate) held: Held,
}

impl Mail {
    /// Whether nothing was put there so far.
    pub(crate) fn is_empty(&self) -> bool {
        self.receiver.is_empty()
    }

    /// The next message; none when every [`Outbox`] is gone.
    pub(crate) async fn next(&mut self) -> Option<Letter> {
        let Outgoing { message, held, written } = self.receiver.recv().await?;
        let mut text = Vec::new();
        // Every message is made of values that are JSON already.
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
            Message::Ours(_) | Message::Raw(_) | Message::Naming { .. } => (false, None),
        };
        // The line end belongs to streams.
        text.pop();
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some(written) = written {
            // Nobody waits for most messages.
            let _ = written.send(());
        }
        Some(Letter { text, is_answer, code, held })
    }

    /// Writes until every [`Outbox`] is gone, or writing fails. Every message goes through `cover` first, which gives what is to be
    /// written in its place where a secret is in it. Structured content stands aside because it is an answer's data, which the engine
    /// has covered.
    ///
    /// # Errors
    /// Where writing failed for another reason than that the client went away.
    pub(crate) async fn deliver<W: AsyncWrite + Unpin>(
        mut self,
        mut writer: W,
        cover: impl Fn(&[u8]) -> Option<Vec<u8>>,
    ) -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(mut outgoing) = self.receiver.recv().await {
            buffer.clear();
            let encoded = encode(&outgoing.message, &mut buffer);
            // The text of the message is in the buffer now; holding it twice would double the memory of a large answer.
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
                        // The answer is still open; its structured content is its last field.
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
            if let Some(written) = outgoing.written.take() {
                // Nobody waits for most messages.
                let _ = written.send(());
            }
            self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
            self.shared.written.notify_one();
            if buffer.capacity() > KEPT_BUFFER {
                buffer = Vec::new();
            }
        }
        Ok(())
    }
}

impl Drop for Mail {
    fn drop(&mut self) {
        // Whoever waits for the client waits for nothing.
        self.shared.failed.send_replace(true);
    }
}

/// Whether an error only says that the other side went away.
pub(crate) fn is_departure(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected};
    matches!(error.kind(), BrokenPipe | ConnectionReset | ConnectionAborted | NotConnected)
}

/// An answer as JSON-RPC has it.
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

/// Returns the answer to a request that failed as a request, as JSON.
pub(crate) fn failure(id: Option<&Id>, error: &ErrorData) -> Vec<u8> {
    // Every error is made of values that are JSON already.
    serde_json::to_vec(&Envelope::of_failure(id, error)).unwrap_or_default()
}

/// Writes a message down: whole, or up to where the structured content of an [`Answer`](Message::Answer) begins.
fn encode(message: &Message, buffer: &mut Vec<u8>) -> io::Result<()> {
    match message {
        Message::Answer { id, result, structured } => {
            buffer.reserve(size_of_text(result));
            if let ServerResult::SubscriptionsListenResult(result) = &**result {
                // rmcp has named the subscription by our number.
                let (object, path) = (serde_json::to_value(result)?, ["_meta", SUBSCRIPTION]);
                let result = Naming { object: Some(&object), path: &path, id };
                serde_json::to_writer(&mut *buffer, &Envelope::of_result(id, result))?;
            } else {
                serde_json::to_writer(&mut *buffer, &Envelope::of_result(id, result))?;
            }
            if structured.is_some() {
                // The result is the envelope's last field, and has fields itself: its content at least.
                buffer.truncate(buffer.len() - b"}}".len());
                buffer.extend_from_slice(br#","structuredContent":"#);
                return Ok(());
            }
            Ok(())
        }
        Message::Failure { id, error } => {
            serde_json::to_writer(&mut *buffer, &Envelope::of_failure(id.as_ref(), error))
        }
        Message::Ours(message) => serde_json::to_writer(&mut *buffer, message),
        Message::Raw(value) => serde_json::to_writer(&mut *buffer, value),
        Message::Naming { message, path, id } => {
            serde_json::to_writer(&mut *buffer, &Naming { object: Some(message), path, id })
        }
    }?;
    buffer.push(b'\n');
    Ok(())
}

/// About as many bytes as the answer's text will take, so that a large one is not moved while it is encoded.
fn size_of_text(result: &ServerResult) -> usize {
    let ServerResult::CallToolResult(result) = result else { return 0 };
    let text: usize =
        result.content.iter().filter_map(|block| block.as_text()).map(|block| block.text.len()).sum();
    // Line ends, quotes and the like become two bytes.
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
        let mut written =
            outbox.put(Message::Raw(json!("a text of some length")), Held(Some(Box::new(token.clone()))));
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&token), 2);
        assert!(written.try_recv().is_err());
        let mut read = vec![0; 24];
        client.read_exact(&mut read).await.unwrap();
        written.await.unwrap();
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
        let held = || Held(Some(Box::new(token.clone())));
        let first = outbox.put(Message::Raw(json!("a text of some length")), held());
        let second = outbox.put(Message::Raw(json!(2)), held());
        drop(client);
        outbox.failed().await;
        delivery.await.unwrap().unwrap();
        assert!(first.await.is_err() && second.await.is_err());
        assert!(outbox.put(Message::Raw(json!(3)), held()).await.is_err());
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_closed_its_side_and_does_not_read_is_not_waited_for_long() {
        let (outbox, mail) = outbox();
        let (_client, server) = tokio::io::duplex(8);
        let delivery = tokio::spawn(mail.deliver(server, |_| None));
        let stuck = outbox.put(Message::Raw(json!("a text of some length")), Held::default());
        outbox.give_up_after(Duration::from_secs(1));
        assert!(stuck.await.is_err());
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
            let structured = Some(Written::of(&data, 0).unwrap());
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
        for number in 0..MOST_WAITING {
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
