//! Rows of EloPhanto's Gmail tools.

use tool::Example;

use crate::table::{Field, From, Given, Kind, Need, Outside, nothing};

const fn field(name: &'static str, kind: Kind, need: Need, says: &'static str) -> Field {
    Field { name, becomes: Some(name), kind, need, says }
}

const QUERY: Field = field("query", Kind::Text, Need::Required, "In Gmail's search syntax");

pub(crate) const SEARCH: Outside = Outside {
    name: "gmail_search",
    canonical: "gmail_search",
    title: "Search Gmail",
    description: "Searches Gmail using Gmail's search operators.",
    takes: &[QUERY, field("max_results", Kind::Integer(1, 200), Need::Optional, "At most this many; 10")],
    settled: nothing,
    adapt: None,
    gives: &[Given { name: "results", from: From::Items("results", SUMMARY), says: "The newest first." }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com", "max_results": 5}"#,
        result: r#"{"results": [{"subject": "The compiler"}]}"#,
    },
};

pub(crate) const READ: Outside = Outside {
    name: "gmail_read",
    canonical: "gmail_read",
    title: "Read Gmail",
    description: "Reads emails from the user's Gmail account via the Gmail API.",
    takes: &[
        QUERY,
        field("max_results", Kind::Integer(1, 50), Need::Default("10"), "At most this many"),
        field("include_body", Kind::Switch, Need::Default("true"), "Their text"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[Given { name: "messages", from: From::Items("messages", MESSAGE), says: "The newest first." }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com"}"#,
        result: r#"{"messages": [{"subject": "The compiler", "attachments": []}]}"#,
    },
};

pub(crate) const SEND: Outside = Outside {
    name: "gmail_send",
    canonical: "gmail_send",
    title: "Send mail by Gmail",
    description: "Sends an email via the user's Gmail account.",
    takes: &[
        field("to", Kind::Any, Need::Required, "An address, or a list of them"),
        field("subject", Kind::Text, Need::Required, "The subject"),
        field("body", Kind::Text, Need::Required, "The text"),
        field("cc", Kind::Texts, Need::Optional, "Copies"),
        field("bcc", Kind::Texts, Need::Optional, "Copies that nobody else sees"),
        field("attachments", Kind::Texts, Need::Optional, "Paths of files"),
        field("reply_to_id", Kind::Text, Need::Optional, "The message that this answers"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        Given { name: "sent", from: From::Switch("sent"), says: "Whether it was sent." },
        Given { name: "message_id", from: From::Text("message_id"), says: "Gmail's id of it." },
    ],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"to": "grace@example.com", "subject": "Notes", "body": "Here they are."}"#,
        result: r#"{"sent": true}"#,
    },
};

const ID: Given = Given { name: "id", from: From::Text("id"), says: "Gmail's." };
const SENDER: Given = Given { name: "from", from: From::Text("from"), says: "Who sent it." };
const TO: Given = Given { name: "to", from: From::Text("to"), says: "To whom." };
const SUBJECT: Given = Given { name: "subject", from: From::Text("subject"), says: "Its subject." };
const DATE: Given = Given { name: "date", from: From::Text("date"), says: "RFC 3339." };
const LABELS: Given = Given { name: "labels", from: From::Texts("labels"), says: "Such as INBOX." };

const SUMMARY: &[Given] = &[
    ID,
    SENDER,
    TO,
    SUBJECT,
    DATE,
    Given { name: "snippet", from: From::Text("snippet"), says: "How it begins." },
    LABELS,
];

const MESSAGE: &[Given] = &[
    ID,
    SENDER,
    TO,
    SUBJECT,
    DATE,
    Given { name: "body", from: From::Text("body"), says: "Its text." },
    LABELS,
    Given { name: "attachments", from: From::Items("attachments", ATTACHMENT), says: "What came with it." },
];

const ATTACHMENT: &[Given] = &[
    Given { name: "name", from: From::Text("name"), says: "Its name." },
    Given { name: "mime_type", from: From::Text("mime_type"), says: "As the message says." },
    Given { name: "size_bytes", from: From::Integer("size_bytes"), says: "Its size." },
];
