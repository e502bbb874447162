//! A local server that behaves like Gmail and Google's logins, for the part of both that Handfast
//! uses: consent, tokens, messages, pages, limits, and lost answers.
//!
//! `gmail/discovery.json` describes that part. Every request is checked against it before anything
//! is done, and every answer before it is sent. The mailbox is in memory.

mod discovery;
mod logins;
mod mailbox;

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) use discovery::{Discovery, ValidRequest};
use logins::Logins;
use mailbox::Mailbox;
use testkit::web::{Reply, Request, Server};

/// Address of the mailbox's owner.
pub(crate) const ACCOUNT: &str = "ada@example.com";
/// Client id that the logins know.
pub(crate) const CLIENT_ID: &str = "0123456789-handfast.apps.example.com";
/// Secret of that client.
pub(crate) const CLIENT_SECRET: &str = "GOCSPX-0123456789abcdefgh";

/// The server.
pub(crate) struct Gmail {
    /// Underlying web server, which records the requests.
    pub(crate) server: Server,
    state: Arc<Mutex<State>>,
}

struct State {
    discovery: Discovery,
    mailbox: Mailbox,
    logins: Logins,
    trouble: Vec<Trouble>,
}

/// A failure of one of the next API requests. A failure waits for the first request that it applies
/// to.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// A message is sent, and the connection ends before the answer.
    LosesAnswer,
    /// A message is not sent, and the connection ends.
    LosesQuestion,
    /// A message is sent, and a gateway answers with this status.
    Gateway(u16),
    /// A message gets no answer, and the connection stays open.
    Hangs,
    /// Any request is refused: status, reason, message, and the header `Retry-After` unless it is
    /// empty.
    Refuses(u16, &'static str, String, &'static str),
    /// A read request is answered with this text, regardless of its content.
    Answers(String),
}

impl Trouble {
    fn meets(&self, is_send: bool) -> bool {
        match self {
            Self::Refuses(..) => true,
            Self::Answers(_) => !is_send,
            _ => is_send,
        }
    }
}

impl Default for Gmail {
    fn default() -> Self {
        Self::new()
    }
}

impl Gmail {
    /// Starts a server with the mailbox of Ada, which has one message, from Grace. Nobody is logged
    /// in.
    pub(crate) fn new() -> Self {
        let state = Arc::new(Mutex::new(State {
            discovery: Discovery::own(),
            mailbox: Mailbox::new(),
            logins: Logins::new(),
            trouble: Vec::new(),
        }));
        let answering = state.clone();
        let server = Server::http(move |request| answering.lock().answer(request));
        let gmail = Self { server, state };
        gmail.deliver(
            "From: Grace Hopper <grace@example.com>\r\nTo: ada@example.com\r\nSubject: The compiler\r\n\
             Message-ID: <a-0@example.com>\r\n\r\nIt works.\r\n",
        );
        gmail
    }

    /// Returns the server's URL.
    pub(crate) fn endpoint(&self) -> String {
        self.server.url("/")
    }

    /// Adds failures, which happen once each, in this order.
    pub(crate) fn trouble(&self, trouble: impl IntoIterator<Item = Trouble>) {
        self.with(|state| state.trouble.extend(trouble));
    }

    /// Puts a message into the mailbox and returns its id.
    pub(crate) fn deliver(&self, raw: impl AsRef<[u8]>) -> String {
        self.with(|state| state.mailbox.add(raw.as_ref(), &["INBOX", "UNREAD"], None))
    }

    /// Puts a message with this payload into the mailbox and returns its id. The payload has the
    /// form in which Gmail returns it.
    pub(crate) fn deliver_parts(&self, payload: Value) -> String {
        self.with(|state| state.mailbox.add_parts(payload))
    }

    /// Returns every sent message, whole, the oldest first.
    pub(crate) fn sent(&self) -> Vec<String> {
        self.with(|state| state.mailbox.sent())
    }

    /// Returns the number of requests to send a message.
    pub(crate) fn sends(&self) -> usize {
        self.server
            .seen()
            .iter()
            .filter(|request| request.method == "POST" && request.path.contains("/send"))
            .count()
    }

    /// Gives each sent message another `Message-ID`, as some servers do.
    pub(crate) fn renames(&self) {
        self.with(|state| state.mailbox.renames = true);
    }

    /// Limits the number of results of a page.
    pub(crate) fn bound_pages(&self, most: usize) {
        self.with(|state| state.mailbox.most_of_a_page = most);
    }

    /// Logs in like a person who grants these scopes. Returns the access token and the refresh
    /// token.
    pub(crate) fn log_in(&self, scopes: &[&str]) -> (String, String) {
        self.with(|state| state.logins.give(&scopes.join(" ")))
    }

    /// Acts as a browser at this address whose user accepts or refuses. Returns the URL that it is
    /// redirected to.
    ///
    /// # Errors
    /// Returns a description of the fault in the address.
    pub(crate) fn consent(&self, address: &str, says_yes: bool) -> Result<String, String> {
        self.with(|state| state.logins.consent(address, says_yes))
    }

    /// Forgets every access token, as if it had expired after its hour.
    pub(crate) fn forget_access(&self) {
        self.with(|state| state.logins.access.clear());
    }

    /// Revokes the refresh token and every access token.
    pub(crate) fn revoke(&self) {
        self.with(|state| state.logins.revoke());
    }

    /// Returns true if a refresh token is valid.
    pub(crate) fn is_logged_in(&self) -> bool {
        self.with(|state| state.logins.refresh.is_some())
    }

    /// Returns how often a token was requested or renewed.
    pub(crate) fn renewals(&self) -> usize {
        self.server.seen().iter().filter(|request| request.path == "/token").count()
    }

    /// Sets the answers to the next token requests, each used once, the last first.
    pub(crate) fn token_trouble(&self, trouble: impl IntoIterator<Item = Reply>) {
        self.with(|state| state.logins.trouble.extend(trouble));
    }

    /// Sets the lifetime of tokens that are issued from now on, in seconds.
    pub(crate) fn tokens_last(&self, seconds: u64) {
        self.with(|state| state.logins.lasts = seconds);
    }

    fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.state.lock())
    }
}

impl State {
    fn answer(&mut self, request: &Request) -> Reply {
        match request.path.split('?').next().unwrap_or_default() {
            "/token" => return self.logins.token(request),
            "/revoke" => return self.logins.revoked(request),
            _ => {}
        }
        let ValidRequest { method, parameters, body } = match self.discovery.asked(request) {
            Ok(asked) => asked,
            Err(fault) => return refusal(400, "invalidArgument", &fault, ""),
        };
        let is_send = method == "gmail.users.messages.send";
        let trouble = self.trouble.iter().position(|trouble| trouble.meets(is_send));
        let trouble = trouble.map(|at| self.trouble.remove(at));
        match &trouble {
            Some(Trouble::LosesQuestion) => return Reply::raw(""),
            Some(Trouble::Hangs) => return Reply::hanging(""),
            Some(Trouble::Refuses(status, reason, message, retry_after)) => {
                return refusal(*status, reason, message, retry_after);
            }
            Some(Trouble::Answers(text)) => return Reply::json(text),
            Some(Trouble::LosesAnswer | Trouble::Gateway(_)) | None => {}
        }
        let token = request.header("authorization").strip_prefix("Bearer ").unwrap_or_default();
        let Some(scopes) = self.logins.access.get(token) else {
            return refusal(401, "authError", "Request had invalid authentication credentials.", "");
        };
        if !self.discovery.lets(&method, scopes) {
            return refusal(
                403,
                "insufficientPermissions",
                "Request had insufficient authentication scopes.",
                "",
            );
        }
        let done = self.done(&method, &parameters, &body);
        let reply = match done {
            Ok(value) => {
                let fault = self.discovery.answer_fault(&method, &value);
                assert_eq!(fault, None, "the answer of {method}");
                Reply::json(&value.to_string())
            }
            Err((status, reason, message)) => refusal(status, reason, &message, ""),
        };
        match trouble {
            Some(Trouble::LosesAnswer) => Reply::raw(""),
            Some(Trouble::Gateway(status)) => {
                Reply::of(status, &[("content-type", "text/html")], "<h1>Bad gateway</h1>")
            }
            _ => reply,
        }
    }

    fn done(
        &mut self,
        method: &str,
        parameters: &HashMap<String, Vec<String>>,
        body: &(Value, Vec<u8>),
    ) -> Result<Value, (u16, &'static str, String)> {
        let one = |name: &str| parameters.get(name).and_then(|all| all.first()).map_or("", String::as_str);
        let format = if one("format").is_empty() { "full" } else { one("format") };
        let headers = parameters.get("metadataHeaders").map(Vec::as_slice).unwrap_or_default();
        let gone = || (404, "notFound", "Requested entity was not found.".to_owned());
        let mailbox = &mut self.mailbox;
        match method {
            "gmail.users.getProfile" => Ok(json!({
                "emailAddress": ACCOUNT, "messagesTotal": mailbox.len(), "threadsTotal": mailbox.len(), "historyId": "7",
            })),
            "gmail.users.messages.list" => {
                let most = one("maxResults").parse().unwrap_or(100);
                mailbox.list(one("q"), most, one("pageToken")).map_err(|said| (400, "invalidArgument", said))
            }
            "gmail.users.messages.get" => mailbox.message(one("id"), format, headers).ok_or_else(gone),
            "gmail.users.threads.get" => mailbox.thread(one("id"), format).ok_or_else(gone),
            "gmail.users.messages.attachments.get" => {
                let content = mailbox.attachment(one("messageId"), one("id")).ok_or_else(gone)?;
                Ok(json!({"size": content.len(), "data": URL_SAFE.encode(&content)}))
            }
            _ => {
                let (about, raw) = body;
                let thread = about["threadId"].as_str();
                if thread.is_some_and(|thread| mailbox.thread(thread, "minimal").is_none()) {
                    return Err(gone());
                }
                let id = mailbox.send(raw, thread).map_err(|said| (400, "invalidArgument", said))?;
                mailbox.message(&id, "minimal", &[]).ok_or_else(gone)
            }
        }
    }
}

fn refusal(status: u16, reason: &str, message: &str, retry_after: &str) -> Reply {
    let error = json!({"error": {
        "code": status, "message": message, "errors": [{"domain": "global", "reason": reason, "message": message}],
    }});
    let mut headers = vec![("content-type", "application/json; charset=UTF-8")];
    if !retry_after.is_empty() {
        headers.push(("retry-after", retry_after));
    }
    Reply::of(status, &headers, error.to_string())
}
