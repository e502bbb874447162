//! Headers that tie a reply to its message (RFC 5322, section 3.6.4).

use tool::ToolError;

use crate::gmail::api::ApiCalls;
use crate::gmail::message::Wire;

/// Maximum number of ids that are passed on: the first of the conversation, and the newest.
const MAX_REFERENCES: usize = 50;
/// Maximum number of characters of an id.
const LONGEST_ID: usize = 500;
/// Prefixes of the subjects of replies, in lower case.
const PREFIXES: [&str; 6] = ["re:", "aw:", "fw:", "fwd:", "wg:", "sv:"];

/// Query parameters that request the needed headers.
const HEADERS: [(&str, &str); 6] = [
    ("format", "metadata"),
    ("metadataHeaders", "Message-ID"),
    ("metadataHeaders", "References"),
    ("metadataHeaders", "In-Reply-To"),
    ("metadataHeaders", "Subject"),
    ("metadataHeaders", "From"),
];

/// The message to which a reply belongs.
#[derive(Debug)]
pub(crate) struct RepliedMessage {
    pub(crate) thread_id: String,
    /// Message-ID without angle brackets.
    pub(crate) message_id: Option<String>,
    /// Ids of the conversation's messages; the last is the message's own.
    pub(crate) references: Vec<String>,
    subject: String,
    pub(crate) from: String,
}

impl RepliedMessage {
    /// Finds the message with this id.
    pub(crate) async fn find(asking: &ApiCalls<'_>, id: &str) -> Result<Self, ToolError> {
        let wire = asking.message(id, &HEADERS).await.map_err(|mut error| {
            if error.code == tool::Code::NotFound {
                error.message = format!("`reply_to_id`: {}", error.message);
            }
            error
        })?;
        Ok(Self::of(&wire))
    }

    fn of(wire: &Wire) -> Self {
        let message_id = wire.header("Message-ID").and_then(|text| ids(&text).into_iter().next());
        let mut references = ids(&wire.header("References").unwrap_or_default());
        if references.is_empty() {
            references = ids(&wire.header("In-Reply-To").unwrap_or_default());
            references.truncate(1);
        }
        if let Some(own) = &message_id {
            references.retain(|id| id != own);
            references.push(own.clone());
        }
        if references.len() > MAX_REFERENCES {
            references.drain(1..=references.len() - MAX_REFERENCES);
        }
        Self {
            thread_id: wire.thread_id.clone(),
            message_id,
            references,
            subject: wire.header("Subject").unwrap_or_default(),
            from: wire.header("From").unwrap_or_default(),
        }
    }

    /// Returns the subject of a reply that names none.
    pub(crate) fn subject(&self) -> String {
        match bare(&self.subject) {
            subject if subject.len() < self.subject.trim().len() => self.subject.trim().to_owned(),
            subject => format!("Re: {subject}"),
        }
    }

    /// Returns true if Gmail adds a reply with this subject to the conversation.
    pub(crate) fn goes_on_with(&self, subject: &str) -> bool {
        bare(subject).eq_ignore_ascii_case(bare(&self.subject))
    }
}

/// Returns a subject without the prefixes of replies and forwards.
fn bare(subject: &str) -> &str {
    let mut rest = subject.trim();
    while let Some(prefix) = PREFIXES
        .iter()
        .find(|prefix| rest.get(..prefix.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(prefix)))
    {
        rest = rest.get(prefix.len()..).unwrap_or_default().trim_start();
    }
    rest
}

/// Returns the ids in a header, without angle brackets. Any other text is ignored.
fn ids(text: &str) -> Vec<String> {
    let plain = |id: &&str| {
        id.contains('@')
            && id.len() <= LONGEST_ID
            && id.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"(),;".contains(&byte))
    };
    let between = text.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
    between.map(|(id, _)| id.trim()).filter(plain).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn answered(headers: &[(&str, &str)]) -> RepliedMessage {
        let headers: Vec<Value> =
            headers.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let wire = json!({"id": "1", "threadId": "t", "payload": {"headers": headers}});
        RepliedMessage::of(&serde_json::from_value(wire).unwrap())
    }

    #[test]
    fn references_go_on_where_the_message_left_them() {
        let of = |headers: &[(&str, &str)]| answered(headers).references;
        let own = ("Message-Id", "<c@x>");
        assert_eq!(of(&[own, ("References", "<a@x>\r\n <b@x>")]), ["a@x", "b@x", "c@x"]);
        assert_eq!(of(&[own, ("In-Reply-To", "<b@x> (yesterday) <z@x>")]), ["b@x", "c@x"]);
        assert_eq!(of(&[own]), ["c@x"]);
        assert_eq!(of(&[("References", "<a@x>")]), ["a@x"]);
        let many: String = (0..200).map(|number| format!("<{number}@x> ")).collect();
        let kept = of(&[own, ("References", &many)]);
        assert_eq!((kept.len(), &*kept[0], &*kept[1], &*kept[49]), (50, "0@x", "152@x", "c@x"));
    }

    #[test]
    fn a_hostile_header_puts_nothing_into_the_answer() {
        let evil = answered(&[
            ("Message-ID", "<a@x>\r\nBcc: evil@example.com\r\n<b\u{e9}@x>"),
            ("References", "<no at> <a b@x> <\"q\"@x> <ok@x> <<d@x>> <unclosed@x"),
        ]);
        assert_eq!(evil.message_id.as_deref(), Some("a@x"));
        assert_eq!(evil.references, ["ok@x", "d@x", "a@x"]);
    }

    #[test]
    fn the_subject_is_that_of_the_conversation() {
        let subject = |text: &str| answered(&[("Subject", text)]);
        for (text, expected) in [
            ("Plan", "Re: Plan"),
            ("RE: Plan", "RE: Plan"),
            ("Aw: Re: Plan", "Aw: Re: Plan"),
            ("", "Re: "),
            ("Größe", "Re: Größe"),
        ] {
            assert_eq!(subject(text).subject(), expected);
        }
        assert!(subject("Plan").goes_on_with("Re: plan") && subject("Re: Plan").goes_on_with("Plan"));
        assert!(!subject("Plan").goes_on_with("Another plan"));
    }
}
