//! Plain HTTP to this machine, one connection a request. Only tests use it: the product dials by its own checks.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use mcp_client::{HttpAnswer, HttpBody, HttpFailure, HttpMethod, HttpRequest, HttpTransport};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tool::BoxFuture;
use url::Url;

/// Transport to servers of this machine.
pub(crate) struct LocalTransport;

/// Body that keeps its connection open.
struct Body {
    body: Incoming,
    connection: JoinHandle<()>,
}

impl Drop for Body {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

fn failure(error: impl std::fmt::Display) -> HttpFailure {
    HttpFailure { message: error.to_string() }
}

impl HttpTransport for LocalTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        Box::pin(async move {
            let url = Url::parse(&request.url).map_err(failure)?;
            let host = url.host_str().filter(|host| matches!(*host, "localhost" | "127.0.0.1"));
            let host = host.ok_or_else(|| failure(format!("{url} is not on this machine")))?;
            let port = url.port_or_known_default().unwrap_or(80);
            let stream = TcpStream::connect((host, port)).await.map_err(failure)?;
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(failure)?;
            // A failure of the connection is also that of the request.
            let connection = tokio::spawn(async move { drop(connection.await) });
            let target =
                url.query().map_or_else(|| url.path().to_owned(), |query| format!("{}?{query}", url.path()));
            let method = match request.method {
                HttpMethod::Get => "GET",
                HttpMethod::Post => "POST",
                HttpMethod::Delete => "DELETE",
            };
            let mut builder = hyper::Request::builder().method(method).uri(target);
            builder = builder.header("host", format!("{host}:{port}"));
            for (name, value) in &request.headers {
                builder = builder.header(name, value);
            }
            let message = builder.body(Full::new(request.body)).map_err(failure)?;
            let answer = sender.send_request(message).await.map_err(failure)?;
            let header = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            };
            Ok(HttpAnswer {
                status: answer.status().as_u16(),
                headers: answer.headers().iter().map(header).collect(),
                body: Box::new(Body { body: answer.into_body(), connection }),
            })
        })
    }
}

impl HttpBody for Body {
    fn piece(&mut self) -> BoxFuture<'_, Result<Option<Bytes>, HttpFailure>> {
        Box::pin(async move {
            loop {
                match self.body.frame().await {
                    None => return Ok(None),
                    Some(frame) => {
                        if let Ok(data) = frame.map_err(failure)?.into_data() {
                            return Ok(Some(data));
                        }
                    }
                }
            }
        })
    }
}
