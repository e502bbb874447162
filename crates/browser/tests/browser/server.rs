//! A server of pages on the loopback device.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// A server. Clones share it.
#[derive(Clone)]
pub(crate) struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    port: u16,
    last: AtomicUsize,
    answers: Mutex<HashMap<String, Answer>>,
    /// Heads of requests by their paths.
    requests: Mutex<HashMap<String, Vec<String>>>,
    asked: watch::Sender<()>,
}

/// Answer to a request.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Vec<u8>,
    /// Size that the head states, if it is not that of the body. The connection stays open then.
    pub(crate) stated_length: Option<usize>,
    /// Gate that the answer waits for.
    pub(crate) gate: Option<watch::Receiver<bool>>,
}

impl Default for Answer {
    fn default() -> Self {
        let headers = vec![("Content-Type", "text/html; charset=utf-8".to_owned())];
        Self { status: 200, headers, body: Vec::new(), stated_length: None, gate: None }
    }
}

/// Gate of an answer. It stays closed when this is dropped.
pub(crate) struct Gate(watch::Sender<bool>);

impl Gate {
    pub(crate) fn open(&self) {
        self.0.send_replace(true);
    }
}

impl Server {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let inner = Arc::new(Inner {
            port: listener.local_addr().unwrap().port(),
            last: AtomicUsize::new(0),
            answers: Mutex::new(HashMap::new()),
            requests: Mutex::new(HashMap::new()),
            asked: watch::Sender::new(()),
        });
        let server = Self { inner };
        let serving = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let server = serving.clone();
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        server
    }

    /// Returns a path that nothing else has.
    pub(crate) fn path(&self) -> String {
        format!("/{}", self.inner.last.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns the URL of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.inner.port)
    }

    /// Returns the URL of a path on another site, which is this server too.
    pub(crate) fn other_site(&self, path: &str) -> String {
        format!("http://localhost:{}{path}", self.inner.port)
    }

    /// Serves HTML at a new path, and returns its URL.
    pub(crate) fn page(&self, html: &str) -> String {
        self.answer(Answer { body: html.as_bytes().to_vec(), ..Answer::default() })
    }

    /// Serves an answer at a new path, and returns its URL.
    pub(crate) fn answer(&self, answer: Answer) -> String {
        let path = self.path();
        self.answer_at(&path, answer);
        self.url(&path)
    }

    pub(crate) fn answer_at(&self, path: &str, answer: Answer) {
        self.inner.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// Returns the URL of a redirect.
    pub(crate) fn redirect(&self, to: &str) -> String {
        self.answer(Answer { status: 302, headers: vec![("Location", to.to_owned())], ..Answer::default() })
    }

    /// Serves HTML behind a gate at a new path, and returns its URL.
    pub(crate) fn gated(&self, html: &str) -> (String, Gate) {
        let (sender, receiver) = watch::channel(false);
        let body = html.as_bytes().to_vec();
        let url = self.answer(Answer { body, gate: Some(receiver), ..Answer::default() });
        (url, Gate(sender))
    }

    /// Waits until a URL was asked for, and returns the head of the newest request.
    pub(crate) async fn asked(&self, url: &str) -> String {
        let path = path_of(url);
        let mut asked = self.inner.asked.subscribe();
        loop {
            let head = self.inner.requests.lock().unwrap().get(path).and_then(|heads| heads.last().cloned());
            if let Some(head) = head {
                return head;
            }
            asked.changed().await.unwrap();
        }
    }

    /// Returns how often a URL was asked for.
    pub(crate) fn count(&self, url: &str) -> usize {
        self.inner.requests.lock().unwrap().get(path_of(url)).map_or(0, Vec::len)
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let (reader, mut writer) = stream.into_split();
        let mut reader = BufReader::new(reader);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if reader.read_line(&mut head).await.ok()? == 0 {
                    return None;
                }
            }
            let target = head.split(' ').nth(1)?.to_owned();
            let path = target.split('?').next()?.to_owned();
            self.inner.requests.lock().unwrap().entry(path.clone()).or_default().push(head);
            self.inner.asked.send_replace(());
            let found = self.inner.answers.lock().unwrap().get(&path).cloned();
            let answer =
                found.unwrap_or_else(|| Answer { status: 404, body: b"no".to_vec(), ..Answer::default() });
            if let Some(mut gate) = answer.gate.clone()
                && gate.wait_for(|open| *open).await.is_err()
            {
                // A gate that was dropped never opens.
                std::future::pending::<()>().await;
            }
            let length = answer.stated_length.unwrap_or(answer.body.len());
            let mut text = format!("HTTP/1.1 {} X\r\nContent-Length: {length}\r\n", answer.status);
            for (name, value) in &answer.headers {
                text.push_str(&format!("{name}: {value}\r\n"));
            }
            writer.write_all(format!("{text}\r\n").as_bytes()).await.ok()?;
            writer.write_all(&answer.body).await.ok()?;
            if answer.stated_length.is_some() {
                std::future::pending::<()>().await;
            }
        }
    }
}

fn path_of(url: &str) -> &str {
    let after_host = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = after_host.find('/').map_or("/", |at| &after_host[at..]);
    path.split('?').next().unwrap_or_default()
}
