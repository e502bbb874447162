//! A local server that behaves like Linear, for the part of its API that Handfast uses: keys,
//! errors, pages, limits, and lost answers.
//!
//! `linear/schema.graphql` describes that part. Every query is checked against it before anything
//! is done. The records are in `linear/records.rs` and stay in memory.

mod graph;
mod records;

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) use graph::Schema;
use records::Records;
use testkit::web::{Reply, Request, Server};

/// API key that the server accepts.
pub(crate) const KEY: &str = "lin_api_0123456789abcdefghij";
/// Maximum complexity of one query, and of all queries with one key in an hour (Linear's
/// documentation, "Rate limiting").
const MAX_COMPLEX: f64 = 10_000.0;

/// The server.
pub(crate) struct Linear {
    /// Underlying web server, which records the requests.
    pub(crate) server: Server,
    state: Arc<Mutex<State>>,
}

struct State {
    schema: Schema,
    records: Records,
    trouble: Vec<Trouble>,
    most_complex: f64,
}

/// A failure of one of the next queries. A failure waits for the first query that it applies to.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// A mutation is done, and the connection ends before the answer.
    LosesAnswer,
    /// A mutation is not done, and the connection ends.
    LosesQuestion,
    /// A mutation is done, and a gateway answers with this status.
    Gateway(u16),
    /// Any query is refused: the limit is reached until this time, in milliseconds since 1970.
    Limited(i64),
    /// Any query is refused: the limit is reached, without a time.
    LimitedForUnknown,
    /// Any query is refused with this error of Linear: status, type, code, message.
    Refuses(u16, &'static str, &'static str, &'static str),
    /// A mutation gets no answer, and the connection stays open.
    Hangs,
}

impl Default for Linear {
    fn default() -> Self {
        Self::new()
    }
}

impl Linear {
    /// Starts a server without issues. Its workspace has two teams (ENG and OPS), four people,
    /// states and labels. The key is Ada's, and one of the people is inactive.
    pub(crate) fn new() -> Self {
        let state = Arc::new(Mutex::new(State {
            schema: Schema::own(),
            records: Records::new(),
            trouble: Vec::new(),
            most_complex: MAX_COMPLEX,
        }));
        let answering = state.clone();
        let server = Server::http(move |request| {
            let mut state = answering.lock();
            state.answer(request)
        });
        Self { server, state }
    }

    /// Returns the URL for queries.
    pub(crate) fn endpoint(&self) -> String {
        self.server.url("/graphql")
    }

    /// Adds failures, which happen once each, in this order.
    pub(crate) fn trouble(&self, trouble: impl IntoIterator<Item = Trouble>) {
        self.with(|state| state.trouble.extend(trouble));
    }

    /// Limits the complexity of a query.
    pub(crate) fn bound_complexity(&self, most: f64) {
        self.with(|state| state.most_complex = most);
    }

    /// Adds an issue to the team ENG and returns its identifier.
    pub(crate) fn with_issue(&self, title: &str) -> String {
        self.with(|state| state.records.seed_issue(title))
    }

    /// Returns all issues.
    pub(crate) fn issues(&self) -> Vec<Value> {
        self.with(|state| state.records.issues().to_vec())
    }

    /// Returns all comments.
    pub(crate) fn comments(&self) -> Vec<Value> {
        self.with(|state| state.records.comments().to_vec())
    }

    /// Returns every query so far, in order: its document and its variables.
    pub(crate) fn questions(&self) -> Vec<(String, Value)> {
        let read = |request: &Request| {
            let question: Value = serde_json::from_slice(&request.body).expect("a question is JSON");
            (question["query"].as_str().expect("it has a document").to_owned(), question["variables"].clone())
        };
        self.server.seen().iter().map(read).collect()
    }

    /// Returns the number of mutations so far.
    pub(crate) fn mutations(&self) -> usize {
        self.questions().iter().filter(|(document, _)| is_mutation(document)).count()
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock())
    }
}

fn is_mutation(document: &str) -> bool {
    document.starts_with("mutation")
}

impl State {
    fn answer(&mut self, request: &Request) -> Reply {
        if request.method != "POST" || request.path != "/graphql" {
            return Reply::status(404);
        }
        if ![KEY.to_owned(), format!("Bearer {}", KEY.replace("api", "oauth"))]
            .contains(&request.header("authorization").to_owned())
        {
            return refusal(400, "authentication error", "AUTHENTICATION_ERROR", "Authentication required");
        }
        let Ok(question) = serde_json::from_slice::<Value>(&request.body) else {
            return refusal(400, "graphql error", "BAD_REQUEST", "no JSON");
        };
        let document = question["query"].as_str().unwrap_or_default();
        let trouble = self.trouble.iter().position(|trouble| is_mutation(document) || trouble.is_for_all());
        let trouble = trouble.map(|at| self.trouble.remove(at));
        match &trouble {
            Some(Trouble::LosesQuestion) => return Reply::raw(""),
            Some(Trouble::Hangs) => return Reply::hanging(""),
            Some(Trouble::Limited(reset)) => {
                let (reset, limit) = (reset.to_string(), [("x-ratelimit-requests-remaining", "0")]);
                let headers = [limit[0], ("x-ratelimit-requests-reset", reset.as_str())];
                return refused(400, &headers, "ratelimited", "RATELIMITED", "Rate limit exceeded");
            }
            Some(Trouble::LimitedForUnknown) => {
                return refusal(400, "ratelimited", "RATELIMITED", "Rate limit exceeded");
            }
            Some(Trouble::Refuses(status, kind, code, message)) => {
                return refusal(*status, kind, code, message);
            }
            Some(Trouble::LosesAnswer | Trouble::Gateway(_)) | None => {}
        }
        let reply =
            match self.schema.execute(document, &question["variables"], self.most_complex, &mut self.records)
            {
                Ok(data) => Reply::json(&json!({"data": data}).to_string()),
                Err(graph::Fault::Invalid(faults)) => {
                    refusal(400, "graphql error", "GRAPHQL_VALIDATION_FAILED", &faults)
                }
                Err(graph::Fault::TooComplex(worth)) => {
                    let said = format!("Query too complex: {worth:.0} of {:.0}", self.most_complex);
                    refusal(400, "invalid input", "QUERY_TOO_COMPLEX", &said)
                }
                Err(graph::Fault::Refused(said)) => refusal(200, "invalid input", "INPUT_ERROR", &said),
            };
        match trouble {
            Some(Trouble::LosesAnswer) => Reply::raw(""),
            Some(Trouble::Gateway(status)) => {
                Reply::of(status, &[("content-type", "text/html")], "<h1>Bad gateway</h1>")
            }
            _ => reply,
        }
    }
}

impl Trouble {
    fn is_for_all(&self) -> bool {
        matches!(self, Self::Limited(_) | Self::LimitedForUnknown | Self::Refuses(..))
    }
}

fn refusal(status: u16, kind: &str, code: &str, message: &str) -> Reply {
    refused(status, &[], kind, code, message)
}

fn refused(status: u16, headers: &[(&str, &str)], kind: &str, code: &str, message: &str) -> Reply {
    let extensions =
        json!({"type": kind, "code": code, "userError": true, "userPresentableMessage": message});
    let body = json!({"errors": [{"message": message, "extensions": extensions}], "data": null});
    let headers = [headers, &[("content-type", "application/json")]].concat();
    Reply::of(status, &headers, body.to_string())
}
