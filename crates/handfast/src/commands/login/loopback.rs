//! Where a browser brings the answer of a login: a port of this machine, for as long as the login is waited for.
//!
//! Whoever else comes to it is told so, and changes nothing: only what has the state of the attempt is an answer.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tools_work::oauth::Attempt;
use url::form_urlencoded::parse;

/// Bytes of a request's head at most.
const LARGEST_HEAD: usize = 16 * 1024;
/// How long a browser may take to send it.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that are read at once; browsers open a few in advance.
const MOST: usize = 32;

/// The open port.
pub(super) struct Loopback {
    listener: TcpListener,
    port: u16,
}

/// What the browser brought.
pub(super) enum Answer {
    /// What is turned into tokens.
    Code(String),
    /// It was not let, and why.
    Denied(String),
}

impl Loopback {
    /// Listens at this port; at any that is free where it is 0.
    pub(super) async fn listen(port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| {
            io::Error::new(
                error.kind(),
                format!("port {port} of this machine cannot be listened at: {error}"),
            )
        })?;
        let port = listener.local_addr()?.port();
        Ok(Self { listener, port })
    }

    /// Its address.
    pub(super) fn address(&self) -> String {
        format!("http://127.0.0.1:{}/", self.port)
    }

    /// Waits for the answer to this attempt, however many others come before it.
    pub(super) async fn answer(self, attempt: &Attempt) -> Answer {
        let mut under_way = JoinSet::new();
        loop {
            tokio::select! {
                Ok((stream, _)) = self.listener.accept(), if under_way.len() < MOST => {
                    under_way.spawn(tokio::time::timeout(PATIENCE, head(stream)));
                }
                Some(read) = under_way.join_next() => {
                    let Ok(Ok(Some((head, stream)))) = read else { continue };
                    let found = self.read(&head, attempt);
                    let (status, text) = match &found {
                        Some(Answer::Code(_)) => ("200 OK", "Handfast has the answer. How it ends stands in its terminal."),
                        Some(Answer::Denied(_)) => ("200 OK", "Nobody was logged in."),
                        None => ("404 Not Found", "There is nothing here."),
                    };
                    // A browser that has gone away does not change the answer.
                    let saying = async move { drop(tokio::time::timeout(PATIENCE, said(stream, status, text)).await) };
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

    /// The answer of a request, where it is one.
    fn read(&self, head: &str, attempt: &Attempt) -> Option<Answer> {
        let mut lines = head.split("\r\n");
        let mut words = lines.next()?.split(' ');
        let (method, path) = (words.next()?, words.next()?);
        // A page of another site that is led here by its name has another host.
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
        if !attempt.is_answered_by(&one("state")?) {
            return None;
        }
        match (one("code"), one("error")) {
            (Some(code), None) if !code.is_empty() => Some(Answer::Code(code.into_owned())),
            (_, error) => Some(Answer::Denied(
                error.map_or_else(|| "no reason is given".to_owned(), std::borrow::Cow::into_owned),
            )),
        }
    }
}

/// The head of a request.
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

async fn said(mut stream: TcpStream, status: &str, text: &str) -> io::Result<()> {
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {}\r\ncache-control: no-store\r\n\
         referrer-policy: no-referrer\r\nx-content-type-options: nosniff\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}
