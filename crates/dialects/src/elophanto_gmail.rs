//! Rows of EloPhanto's Gmail tools.

use tool::Example;

use crate::table::{AnswerField, ExternalTool, Field, Kind, Need, ValueSource, nothing};

const fn field(name: &'static str, kind: Kind, need: Need, says: &'static str) -> Field {
    Field { name, becomes: Some(name), kind, need, says }
}

const QUERY: Field = field("query", Kind::Text, Need::Required, "In Gmail's search syntax");

pub(crate) const SEARCH: ExternalTool = ExternalTool {
    name: "gmail_search",
    canonical: "gmail_search",
    title: "Search Gmail",
    description: "Searches Gmail using Gmail's search operators.",
    takes: &[
        QUERY,
        field("max_results", Kind::Integer(1, 200), Need::Optional, "Maximum number; default 10"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[AnswerField {
        name: "results",
        from: ValueSource::Items("results", SUMMARY),
        says: "Newest first.",
    }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com", "max_results": 5}"#,
        result: r#"{"results": [{"subject": "The compiler"}]}"#,
    },
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
    settled: nothing,
    adapt: None,
    gives: &[AnswerField {
        name: "messages",
        from: ValueSource::Items("messages", MESSAGE),
        says: "Newest first.",
    }],
    timeout: None,
    one_file: false,
    within: None,
    example: Example {
        files: &[],
        arguments: r#"{"query": "from:grace@example.com"}"#,
        result: r#"{"messages": [{"subject": "The compiler", "attachments": []}]}"#,
    },
};

pub(crate) const SEND: ExternalTool = ExternalTool {
    name: "gmail_send",
    canonical: "gmail_send",
    title: "Send mail by Gmail",
    description: "Sends an email via the user's Gmail account.",
    takes: &[
        field("to", Kind::Any, Need::Required, "An address, or a list of them"),
        field("subject", Kind::Text, Need::Required, "The subject"),
        field("body", Kind::Text, Need::Required, "The text"),
        field("cc", Kind::Texts, Need::Optional, "Copies"),
        field("bcc", Kind::Texts, Need::Optional, "Blind copies"),
        field("attachments", Kind::Texts, Need::Optional, "File paths"),
        field("reply_to_id", Kind::Text, Need::Optional, "Message to reply to"),
    ],
    settled: nothing,
    adapt: None,
    gives: &[
        AnswerField { name: "sent", from: ValueSource::Switch("sent"), says: "Whether it was sent." },
        AnswerField {
            name: "message_id",
            from: ValueSource::Text("message_id"),
            says: "Gmail's message id.",
        },
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

const ID: AnswerField = AnswerField { name: "id", from: ValueSource::Text("id"), says: "Gmail's." };
const SENDER: AnswerField = AnswerField { name: "from", from: ValueSource::Text("from"), says: "Sender." };
const TO: AnswerField = AnswerField { name: "to", from: ValueSource::Text("to"), says: "Recipients." };
const SUBJECT: AnswerField =
    AnswerField { name: "subject", from: ValueSource::Text("subject"), says: "Subject." };
const DATE: AnswerField = AnswerField { name: "date", from: ValueSource::Text("date"), says: "RFC 3339." };
const LABELS: AnswerField =
    AnswerField { name: "labels", from: ValueSource::Texts("labels"), says: "E.g. INBOX." };

const SUMMARY: &[AnswerField] = &[
    ID,
    SENDER,
    TO,
    SUBJECT,
    DATE,
    AnswerField { name: "snippet", from: ValueSource::Text("snippet"), says: "First words." },
    LABELS,
];

const MESSAGE: &[AnswerField] = &[
    ID,
    SENDER,
    TO,
    SUBJECT,
    DATE,
    AnswerField { name: "body", from: ValueSource::Text("body"), says: "Text." },
    LABELS,
    AnswerField {
        name: "attachments",
        from: ValueSource::Items("attachments", ATTACHMENT),
        says: "Attachments.",
    },
];

const ATTACHMENT: &[AnswerField] = &[
    AnswerField { name: "name", from: ValueSource::Text("name"), says: "Its name." },
    AnswerField {
        name: "mime_type",
        from: ValueSource::Text("mime_type"),
        says: "As stated in the message.",
    },
    AnswerField { name: "size_bytes", from: ValueSource::Integer("size_bytes"), says: "Its size." },
];
