//! A trace collector that receives OTLP over HTTP and decodes it with the published types.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
pub(crate) use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;

/// Longest time to wait for a trace. No test's trace takes longer.
const PATIENCE: Duration = Duration::from_mins(1);

/// The collector's response to each request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Accepts the request with status 200.
    Takes,
    /// Answers every request with this status.
    Answers(u16),
    /// Reads the request and sends no response.
    Hangs,
}

/// One request that the collector received.
pub(crate) struct Sent {
    /// Lines of the request head.
    pub(crate) head: String,
    pub(crate) message: ExportTraceServiceRequest,
}

/// A collector that listens on a free port.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    sent: Receiver<Sent>,
}

impl Collector {
    pub(crate) fn start(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, sent) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                std::thread::spawn(move || serve(stream, manner, &sender));
            }
        });
        Self { address, sent }
    }

    /// Returns the environment variables that make a program send its traces to this collector.
    pub(crate) fn variables(&self) -> [(&'static str, String); 2] {
        let endpoint = format!("http://{}", self.address);
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "50".to_owned())]
    }

    /// Returns the next request. Panics after [`PATIENCE`].
    #[track_caller]
    pub(crate) fn next(&self) -> Sent {
        self.sent.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no traces arrived"))
    }

    /// Collects the spans that arrive until one has this name.
    #[track_caller]
    pub(crate) fn until(&self, name: &str) -> Vec<Span> {
        let end = Instant::now() + PATIENCE;
        let mut all: Vec<Span> = Vec::new();
        while !all.iter().any(|span| span.name == name) {
            let names: Vec<&str> = all.iter().map(|span| span.name.as_str()).collect();
            assert!(Instant::now() < end, "no span {name}: {names:?}");
            all.extend(self.next().message.spans());
        }
        all
    }

    /// Returns the number of requests that arrived since the last look, and discards them.
    pub(crate) fn arrived(&self) -> usize {
        self.sent.try_iter().count()
    }
}

/// The spans of a message.
pub(crate) trait Spans {
    fn spans(&self) -> Vec<Span>;
}

impl Spans for ExportTraceServiceRequest {
    fn spans(&self) -> Vec<Span> {
        let scopes = self.resource_spans.iter().flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

/// Returns the text of an attribute.
pub(crate) fn text<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        _ => None,
    }
}

/// Serves one connection, which a client may use for several requests.
fn serve(stream: TcpStream, manner: Manner, sent: &Sender<Sent>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            match reader.read_line(&mut head) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        let length = head
            .lines()
            .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        reader.read_exact(&mut body).unwrap();
        let message = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        // The test may have ended.
        let _ = sent.send(Sent { head, message });
        let status = match manner {
            Manner::Takes => 200,
            Manner::Answers(status) => status,
            Manner::Hangs => continue,
        };
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n"
        );
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
