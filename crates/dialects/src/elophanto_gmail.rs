//! Rows of EloPhanto's Gmail tools.

use tool::Example;

use crate::table::{AnswerField, DEFAULTS, ExternalTool, Field, Kind, Need, ValueSource, field, gives, text};

const QUERY: Field = text("query", Need::Required, "In Gmail's search syntax");

pub(crate) const SEARCH: ExternalTool = ExternalTool {
    name: "gmail_search",
    canonical: "gmail_search",
    title: "Search Gmail",
    description: "Searches Gmail using Gmail's search operators.",
    takes: &[
        QUERY,
        field("max_results", Kind::Integer(1, 200), Need::Optional, "Maximum number; default 10"),
    ],
    gives: &[gives("results", ValueSource::Items("results", SUMMARY), "Newest first.")],
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com", "max_results": 5}"#,
        result: r#"{"results": [{"subject": "The compiler"}]}"#,
    },
    ..DEFAULTS
};

pub(crate) const READ: ExternalTool = ExternalTool {
    name: "gmail_read",
    canonical: "gmail_read",
    title: "Read Gmail",
    description: "Reads emails from the user's Gmail account via the Gmail API.",
    takes: &[
        QUERY,
        field("max_results", Kind::Integer(1, 50), Need::Default("10"), "Maximum number"),
        field("include_body", Kind::Switch, Need::Default("true"), "Include the text"),
    ],
    gives: &[gives("messages", ValueSource::Items("messages", MESSAGE), "Newest first.")],
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com"}"#,
        result: r#"{"messages": [{"subject": "The compiler", "attachments": []}]}"#,
    },
    ..DEFAULTS
};

pub(crate) const SEND: ExternalTool = ExternalTool {
    name: "gmail_send",
    canonical: "gmail_send",
    title: "Send mail by Gmail",
    description: "Sends an email via the user's Gmail account.",
    takes: &[
        field("to", Kind::Any, Need::Required, "An address, or a list of them"),
        text("subject", Need::Required, "The subject"),
        text("body", Need::Required, "The text"),
        field("cc", Kind::Texts, Need::Optional, "Copies"),
        field("bcc", Kind::Texts, Need::Optional, "Blind copies"),
        field("attachments", Kind::Texts, Need::Optional, "File paths"),
        text("reply_to_id", Need::Optional, "Message to reply to"),
    ],
    gives: &[
        gives("sent", ValueSource::Switch("sent"), "Whether it was sent."),
        gives("message_id", ValueSource::Text("message_id"), "Gmail's message id."),
    ],
    example: Example {
        files: &[],
        arguments: r#"{"to": "grace@example.com", "subject": "Notes", "body": "Here they are."}"#,
        result: r#"{"sent": true}"#,
    },
    ..DEFAULTS
};

const ID: AnswerField = gives("id", ValueSource::Text("id"), "Gmail's.");
const SENDER: AnswerField = gives("from", ValueSource::Text("from"), "Sender.");
const TO: AnswerField = gives("to", ValueSource::Text("to"), "Recipients.");
const SUBJECT: AnswerField = gives("subject", ValueSource::Text("subject"), "Subject.");
const DATE: AnswerField = gives("date", ValueSource::Text("date"), "RFC 3339.");
const LABELS: AnswerField = gives("labels", ValueSource::Texts("labels"), "E.g. INBOX.");

const SUMMARY: &[AnswerField] =
    &[ID, SENDER, TO, SUBJECT, DATE, gives("snippet", ValueSource::Text("snippet"), "First words."), LABELS];

const MESSAGE: &[AnswerField] = &[
    ID,
    SENDER,
    TO,
    SUBJECT,
    DATE,
    gives("body", ValueSource::Text("body"), "Text."),
    LABELS,
    gives("attachments", ValueSource::Items("attachments", ATTACHMENT), "Attachments."),
];

const ATTACHMENT: &[AnswerField] = &[
    gives("name", ValueSource::Text("name"), "Its name."),
    gives("mime_type", ValueSource::Text("mime_type"), "As stated in the message."),
    gives("size_bytes", ValueSource::Integer("size_bytes"), "Its size."),
];
