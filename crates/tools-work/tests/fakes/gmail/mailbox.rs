//! The messages of a mailbox, in the form in which Gmail returns them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE;
use mail_parser::{Message, MessageParser, MimeHeaders, PartType};
use serde_json::{Value, json};

/// Maximum number of results of a page, as in Gmail.
const MAX_OF_A_PAGE: usize = 500;
/// Time of the first message, in milliseconds since 1970. Each further message is one minute later.
const BEGAN: usize = 1_772_323_200_000;

pub(super) struct Mailbox {
    messages: Vec<StoredMessage>,
    pub(super) most_of_a_page: usize,
    /// True if sent messages get another `Message-ID`.
    pub(super) renames: bool,
}

struct StoredMessage {
    id: String,
    thread: String,
    labels: Vec<&'static str>,
    raw: Vec<u8>,
    payload: Value,
    /// Contents of attachments by their id.
    attachments: Vec<(String, Vec<u8>)>,
}

impl Mailbox {
    pub(super) fn new() -> Self {
        Self { messages: Vec::new(), most_of_a_page: MAX_OF_A_PAGE, renames: false }
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn add(&mut self, raw: &[u8], labels: &[&'static str], thread: Option<&str>) -> String {
        let message = MessageParser::new().parse(raw).expect("a message");
        let id = format!("18c{:013x}", self.messages.len() + 1);
        let mut attachments = Vec::new();
        let payload = part(&message, 0, "", &mut attachments);
        self.messages.push(StoredMessage {
            thread: thread.unwrap_or(&id).to_owned(),
            id: id.clone(),
            labels: labels.to_vec(),
            raw: raw.to_vec(),
            payload,
            attachments,
        });
        id
    }

    pub(super) fn add_parts(&mut self, payload: Value) -> String {
        let id = self.add(b"Subject: s\r\n\r\n", &["INBOX"], None);
        if let Some(stored) = self.messages.last_mut() {
            stored.payload = payload;
        }
        id
    }

    pub(super) fn send(&mut self, raw: &[u8], thread: Option<&str>) -> Result<String, String> {
        let message = MessageParser::new().parse(raw).ok_or("no message")?;
        let to = message
            .to()
            .is_some_and(|to| to.iter().all(|one| one.address().is_some_and(|at| at.contains('@'))));
        if !to {
            return Err("Invalid To header".to_owned());
        }
        let text = String::from_utf8_lossy(raw).into_owned();
        let text = match message.message_id().filter(|_| self.renames) {
            Some(id) => text.replacen(id, "CAF-renamed@mail.example.com", 1),
            None => text,
        };
        // Gmail's guide "Managing threads" requires that the message ids and the subject fit too.
        let fits = |thread: &&str| {
            let subject = |text: &str| text.trim_start_matches("Re: ").to_owned();
            let own = subject(message.subject().unwrap_or_default());
            let is_answer = message.in_reply_to().as_text().is_some()
                && !matches!(message.references(), mail_parser::HeaderValue::Empty);
            let first = self.messages.iter().find(|stored| stored.thread == **thread);
            is_answer && first.is_some_and(|first| subject(&first.header("Subject")) == own)
        };
        let thread = thread.filter(fits).map(str::to_owned);
        Ok(self.add(text.as_bytes(), &["SENT"], thread.as_deref()))
    }

    pub(super) fn sent(&self) -> Vec<String> {
        let sent = self.messages.iter().filter(|stored| stored.labels.contains(&"SENT"));
        sent.map(|stored| String::from_utf8_lossy(&stored.raw).into_owned()).collect()
    }

    pub(super) fn list(&self, query: &str, most: usize, page: &str) -> Result<Value, String> {
        let begin: usize = if page.is_empty() {
            0
        } else {
            page.strip_prefix("page-").and_then(|at| at.parse().ok()).ok_or("Invalid pageToken")?
        };
        let found: Vec<&StoredMessage> =
            self.messages.iter().rev().filter(|stored| stored.fits(query)).collect();
        let size = most.min(self.most_of_a_page);
        let ids: Vec<Value> = found
            .iter()
            .skip(begin)
            .take(size)
            .map(|stored| json!({"id": stored.id, "threadId": stored.thread}))
            .collect();
        let mut list = json!({"resultSizeEstimate": found.len()});
        if begin + ids.len() < found.len() {
            list["nextPageToken"] = json!(format!("page-{}", begin + ids.len()));
        }
        if !ids.is_empty() {
            list["messages"] = json!(ids);
        }
        Ok(list)
    }

    pub(super) fn message(&self, id: &str, format: &str, headers: &[String]) -> Option<Value> {
        let at = self.messages.iter().position(|stored| stored.id == id)?;
        Some(self.messages[at].shown(at, format, headers))
    }

    pub(super) fn thread(&self, id: &str, format: &str) -> Option<Value> {
        let all = self.messages.iter().enumerate().filter(|(_, stored)| stored.thread == id);
        let messages: Vec<Value> = all.map(|(at, stored)| stored.shown(at, format, &[])).collect();
        (!messages.is_empty()).then(|| json!({"id": id, "historyId": "7", "messages": messages}))
    }

    pub(super) fn attachment(&self, id: &str, attachment: &str) -> Option<Vec<u8>> {
        let stored = self.messages.iter().find(|stored| stored.id == id)?;
        let found = stored.attachments.iter().find(|(named, _)| named == attachment);
        found.map(|(_, content)| content.clone())
    }
}

impl StoredMessage {
    fn header(&self, name: &str) -> String {
        let headers = self.payload["headers"].as_array().into_iter().flatten();
        let mut found = headers
            .filter(|header| header["name"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(name)));
        found.next().and_then(|header| header["value"].as_str()).unwrap_or_default().to_owned()
    }

    fn fits(&self, query: &str) -> bool {
        let text = String::from_utf8_lossy(&self.raw).to_lowercase();
        let holds = |name: &str, word: &str| self.header(name).to_lowercase().contains(word);
        query.to_lowercase().split_whitespace().all(|word| match word.split_once(':') {
            Some(("from", word)) => holds("From", word),
            Some(("to", word)) => holds("To", word),
            Some(("subject", word)) => holds("Subject", word),
            Some(("rfc822msgid", word)) => holds("Message-ID", word),
            Some(("in" | "is", label)) => self.labels.contains(&label.to_uppercase().as_str()),
            Some(("has", "attachment")) => !self.attachments.is_empty(),
            _ => text.contains(word),
        })
    }

    fn shown(&self, at: usize, format: &str, headers: &[String]) -> Value {
        let mut shown = json!({
            "id": self.id, "threadId": self.thread, "labelIds": self.labels, "historyId": "7",
            "internalDate": (BEGAN + at * 60_000).to_string(), "sizeEstimate": self.raw.len(), "snippet": self.snippet(),
        });
        match format {
            "minimal" => {}
            "metadata" => {
                let wanted = |header: &&Value| {
                    let name = header["name"].as_str().unwrap_or_default();
                    headers.is_empty() || headers.iter().any(|wanted| wanted.eq_ignore_ascii_case(name))
                };
                let all = self.payload["headers"].as_array().into_iter().flatten();
                let kept: Vec<Value> = all.filter(wanted).cloned().collect();
                shown["payload"] = json!({"mimeType": self.payload["mimeType"], "headers": kept});
            }
            _ => shown["payload"] = self.payload.clone(),
        }
        shown
    }

    /// Returns the beginning of the text with HTML characters escaped, as Gmail does it.
    fn snippet(&self) -> String {
        let message = MessageParser::new().parse(&self.raw);
        let text = message.as_ref().and_then(|message| message.body_text(0)).unwrap_or_default();
        let text: String = text.trim().chars().take(100).collect();
        text.replace('&', "&amp;").replace('\'', "&#39;").replace('<', "&lt;")
    }
}

/// Converts a part and the parts in it. Text is included, and all other content becomes an
/// attachment with an id.
fn part(message: &Message<'_>, at: u32, path: &str, attachments: &mut Vec<(String, Vec<u8>)>) -> Value {
    let part_of = message.part(at).expect("a part that is there");
    let text = |from: u32, to: u32| {
        let bytes = message.raw_message.get(from as usize..to as usize).unwrap_or_default();
        String::from_utf8_lossy(bytes).replace("\r\n", "").trim().to_owned()
    };
    let headers: Vec<Value> = part_of
        .headers
        .iter()
        .map(|header| json!({"name": header.name(), "value": text(header.offset_start, header.offset_end)}))
        .collect();
    let kind = part_of.content_type();
    let mime = kind
        .map_or("text/plain".to_owned(), |kind| format!("{}/{}", kind.c_type, kind.subtype().unwrap_or("")));
    let name = part_of.attachment_name().unwrap_or_default();
    let mut shown = json!({"partId": path, "mimeType": mime, "filename": name, "headers": headers});
    match &part_of.body {
        PartType::Multipart(within) => {
            let numbered = within.iter().enumerate().map(|(number, at)| {
                let dot = if path.is_empty() { "" } else { "." };
                (format!("{path}{dot}{number}"), *at)
            });
            let parts: Vec<Value> =
                numbered.map(|(path, at)| part(message, at, &path, attachments)).collect();
            shown["body"] = json!({"size": 0});
            shown["parts"] = json!(parts);
        }
        PartType::Text(text) | PartType::Html(text) if name.is_empty() => {
            shown["body"] = json!({"size": text.len(), "data": URL_SAFE.encode(text.as_bytes())});
        }
        _ => {
            let id = format!("ANGjdJ-{at}");
            attachments.push((id.clone(), part_of.contents().to_vec()));
            shown["body"] = json!({"size": part_of.contents().len(), "attachmentId": id});
        }
    }
    shown
}
