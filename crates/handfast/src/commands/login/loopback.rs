//! Loopback listener that receives the answer of a login from the browser, while the login waits.
//!
//! Other visitors get an error page and change nothing: only a request with the state of the
//! attempt is an answer.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use url::form_urlencoded::parse;

/// Maximum size of a request's head in bytes.
const LARGEST_HEAD: usize = 16 * 1024;
/// Maximum time for a browser to send the head.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections read at once. Browsers open a few in advance.
const MOST: usize = 32;

/// The open port.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

/// The answer from the browser, and the query of its request.
pub(super) struct BrowserAnswer {
    pub(super) answer: Answer,
    pub(super) query: String,
}

/// The meaning of an answer.
pub(super) enum Answer {
    /// Authorization code that is exchanged for tokens.
    Code(String),
    /// Refusal, with its reason.
    Denied(String),
}

impl Loopback {
    /// Listens on this port, or on any free port if `port` is 0.
    pub(super) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on port {port} of this machine: {error}"))
        })?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Returns the redirect address.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Waits for the answer with a state for which `is_own` is true, regardless of other requests before it.
    pub(super) async fn answer(self, is_own: impl Fn(&str) -> bool) -> BrowserAnswer {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept(), if under_way.len() < MOST => {
                    under_way.spawn(tokio::time::timeout(TIMEOUT, head(stream)));
                }
                Some(read) = under_way.join_next() => {
                    let Ok(Ok(Some((head, stream)))) = read else { continue };
                    let found = self.read(&head, &is_own);
                    let (status, text) = match found.as_ref().map(|found| &found.answer) {
                        Some(Answer::Code(_)) => ("200 OK", "Handfast has the answer. The terminal shows the result."),
                        Some(Answer::Denied(_)) => ("200 OK", "Nobody was logged in."),
                        None => ("404 Not Found", "There is nothing here."),
                    };
                    // A browser that disconnects does not change the answer.
                    let saying = async move { drop(tokio::time::timeout(TIMEOUT, respond(stream, status, text)).await) };
                    if let Some(answer) = found {
                        saying.await;
                        return answer;
                    }
                    under_way.spawn(async move {
                        saying.await;
                        Ok(None)
                    });
                }
            }
        }
    }

    /// Parses the answer from a request, or returns `None` if the request is not an answer.
    fn read(&self, head: &str, is_own: impl Fn(&str) -> bool) -> Option<BrowserAnswer> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        // A page of another site that reaches this port under its own name sends a different host.
        let own = format!("127.0.0.1:{}", self.port);
        let host = lines.filter_map(|line| line.split_once(':'));
        let mut host =
            host.filter(|(name, _)| name.eq_ignore_ascii_case("host")).map(|(_, value)| value.trim());
        if method != "GET" || host.next() != Some(&own) || host.next().is_some() {
            return None;
        }
        let query = path.strip_prefix("/?")?;
        let one = |wanted: &str| {
            let mut all = parse(query.as_bytes()).filter(|(name, _)| name == wanted).map(|(_, value)| value);
            all.next().filter(|_| all.next().is_none())
        };
        if !is_own(&one("state")?) {
            return None;
        }
        let answer = match (one("code"), one("error")) {
            (Some(code), None) if !code.is_empty() => Answer::Code(code.into_owned()),
            (_, error) => Answer::Denied(
                error.map_or_else(|| "no reason was given".to_owned(), std::borrow::Cow::into_owned),
            ),
        };
        Some(BrowserAnswer { answer, query: query.to_owned() })
    }
}

/// Reads the head of a request.
async fn head(mut stream: TcpStream) -> Option<(String, TcpStream)> {
    let mut bytes = Vec::new();
    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read_buf(&mut bytes).await.ok()?;
        if read == 0 || bytes.len() > LARGEST_HEAD {
            return None;
        }
    }
    Some((String::from_utf8(bytes).ok()?, stream))
}

async fn respond(mut stream: TcpStream, status: &str, text: &str) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
