//! A message in the form for upload: a body of two parts, of which the first names the conversation
//! and the second is the message.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use fetch::{Bytes, HeaderValue};
use jiff::Timestamp;
use mail_builder::MessageBuilder;
use mail_builder::headers::address::{Address, EmailAddress};
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::mime::make_boundary;
use roots::Roots;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use tool::{Code, Context, ToolError};

use crate::failure::of_roots;
use crate::gmail::addresses::Mailbox;

/// Maximum number of bytes of a message (Google's discovery document, `maxSize` of
/// `gmail.users.messages.send`).
const LARGEST: usize = 36_700_160;
/// Number of random bytes in a message's own id.
const RANDOM: usize = 16;
/// Host of that id if the mailbox is unknown: a host that nobody owns (RFC 2606).
const NOBODYS: &str = "handfast.invalid";

/// A file to be sent with a message.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AttachedFile {
    /// File name.
    pub(crate) name: String,
    /// Media type, derived from the name.
    pub(crate) mime_type: String,
    /// Size in bytes.
    pub(crate) size_bytes: u64,
    #[serde(skip)]
    content: Vec<u8>,
}

/// A message to be written.
pub(crate) struct Draft<'a> {
    pub(crate) from: Option<&'a str>,
    pub(crate) to: &'a [Mailbox],
    pub(crate) cc: &'a [Mailbox],
    pub(crate) bcc: &'a [Mailbox],
    pub(crate) subject: &'a str,
    pub(crate) body: &'a str,
    pub(crate) html: Option<&'a str>,
    pub(crate) in_reply_to: Option<&'a str>,
    pub(crate) references: &'a [String],
    pub(crate) thread_id: Option<&'a str>,
    pub(crate) at: Timestamp,
}

/// A message that is ready to be sent.
pub(crate) struct Ready {
    /// Message-ID without angle brackets.
    pub(crate) message_id: String,
    /// Size of the message in bytes.
    pub(crate) size_bytes: usize,
    /// Body of the request.
    pub(crate) body: Bytes,
    /// Content type of the request.
    pub(crate) kind: HeaderValue,
}

/// Reads the files to be sent with the message.
pub(crate) fn attach(context: &Context, paths: &[String]) -> Result<Vec<AttachedFile>, ToolError> {
    let roots = context.service::<Roots>()?;
    let mut total = 0;
    let mut attached = Vec::with_capacity(paths.len());
    for (index, path) in paths.iter().enumerate() {
        context.stop.check()?;
        let resolved = context.place.resolve(&field(index), path)?;
        let opened = roots.open_file(&resolved).map_err(of_roots(context))?;
        total += opened.metadata.size_bytes;
        // Base64 adds a third, and line breaks.
        if usize::try_from(total / 3 * 4).is_ok_and(|encoded| encoded <= LARGEST) {
            let mut content = Vec::new();
            let most = u64::try_from(LARGEST).unwrap_or(u64::MAX);
            let read = opened.file.take(most + 1).read_to_end(&mut content);
            read.map_err(|error| ToolError::io("read", Path::new(&context.place.show(&resolved)), error))?;
            let name = file_name(index, &resolved)?;
            attached.push(AttachedFile {
                mime_type: media_type(&name),
                name,
                size_bytes: u64::try_from(content.len()).unwrap_or(u64::MAX),
                content,
            });
        } else {
            return Err(too_large(&format!("{total} bytes up to {path}")));
        }
    }
    Ok(attached)
}

/// Returns the name of the argument at this index.
pub(crate) fn field(index: usize) -> String {
    format!("attachments[{index}]")
}

/// Returns the name under which the file is sent.
pub(crate) fn file_name(index: usize, path: &Path) -> Result<String, ToolError> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| ToolError::validation(&field(index), "names no file"))?;
    super::addresses::plain(&field(index), &name)?;
    Ok(name)
}

/// Returns the media type for the file's name. A type that mail programs would treat as a part of
/// the message becomes plain bytes.
fn media_type(name: &str) -> String {
    let guessed = mime_guess::from_path(name).first_or_octet_stream();
    match guessed.type_().as_str() {
        "message" | "multipart" => "application/octet-stream".to_owned(),
        _ => guessed.essence_str().to_owned(),
    }
}

/// Writes the message.
pub(crate) fn written(
    draft: &Draft<'_>,
    attached: Vec<AttachedFile>,
) -> Result<(Ready, Vec<AttachedFile>), ToolError> {
    let message_id = own_id(draft.from)?;
    let mut message = MessageBuilder::new()
        .message_id(message_id.as_str())
        .date(Date::new(draft.at.as_second()))
        .to(addresses(draft.to))
        .subject(draft.subject)
        .text_body(draft.body);
    if let Some(from) = draft.from {
        message = message.from(Address::new_address(None::<&str>, from));
    }
    for (name, list) in [("Cc", draft.cc), ("Bcc", draft.bcc)] {
        if !list.is_empty() {
            message = message.header(name, addresses(list));
        }
    }
    if let Some(id) = draft.in_reply_to {
        message = message.in_reply_to(id);
    }
    if !draft.references.is_empty() {
        message = message.references(MessageId::from(draft.references));
    }
    if let Some(html) = draft.html {
        message = message.html_body(html);
    }
    let mut told = Vec::with_capacity(attached.len());
    for AttachedFile { name, mime_type, size_bytes, content } in attached {
        message = message.attachment(mime_type.clone(), name.clone(), content);
        told.push(AttachedFile { name, mime_type, size_bytes, content: Vec::new() });
    }
    let about = draft.thread_id.map_or_else(|| json!({}), |id| json!({ "threadId": id }));
    let boundary = make_boundary("_");
    let head = format!(
        "--{boundary}\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n{about}\r\n--{boundary}\r\n\
         Content-Type: message/rfc822\r\n\r\n"
    );
    let mut body = head.into_bytes();
    let before = body.len();
    message.serialize(&mut body);
    let size_bytes = body.len() - before;
    if size_bytes > LARGEST {
        return Err(too_large(&format!("{size_bytes} bytes")));
    }
    body.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
    let kind = HeaderValue::try_from(format!("multipart/related; boundary=\"{boundary}\""));
    let kind =
        kind.map_err(|error| ToolError::internal("the boundary is not a header value").because(error))?;
    Ok((Ready { message_id, size_bytes, body: body.into(), kind }, told))
}

/// Returns the error for a message that exceeds Gmail's limit.
fn too_large(what: &str) -> ToolError {
    let message = format!("`attachments`: the message has {what}, but Gmail allows {LARGEST} in all");
    ToolError::new(Code::Validation, message).hint("send less, or send a link")
}

fn addresses(mailboxes: &[Mailbox]) -> Address<'_> {
    let one = |mailbox: &'_ Mailbox| {
        Address::Address(EmailAddress {
            name: mailbox.name.clone().map(Cow::Owned),
            email: Cow::Owned(mailbox.address.clone()),
        })
    };
    Address::new_list(mailboxes.iter().map(one).collect())
}

/// Returns a unique id, at the host of the mailbox.
fn own_id(from: Option<&str>) -> Result<String, ToolError> {
    let mut bytes = [0_u8; RANDOM];
    getrandom::fill(&mut bytes)
        .map_err(|error| ToolError::internal("the system returned no random bytes").because(error))?;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let host = from.and_then(|address| address.rsplit_once('@')).map_or(NOBODYS, |(_, host)| host);
    Ok(format!("{hex}@{host}"))
}

#[cfg(test)]
mod tests {
    use mail_parser::{Message, MessageParser, MimeHeaders};

    use super::*;
    use crate::gmail::addresses::read;

    const AT: Timestamp = Timestamp::UNIX_EPOCH;

    fn draft<'a>(to: &'a [Mailbox], subject: &'a str, body: &'a str) -> Draft<'a> {
        Draft {
            from: Some("ada@example.com"),
            to,
            cc: &[],
            bcc: &[],
            subject,
            body,
            html: None,
            in_reply_to: None,
            references: &[],
            thread_id: None,
            at: AT,
        }
    }

    /// Returns the message within the request.
    fn message(ready: &Ready) -> Message<'static> {
        let body = String::from_utf8(ready.body.to_vec()).unwrap();
        let (_, raw) = body.split_once("message/rfc822\r\n\r\n").unwrap();
        assert!(raw.lines().all(|line| line.len() <= 998), "a line is too long");
        MessageParser::new().parse(raw.as_bytes()).unwrap().into_owned()
    }

    fn attached(name: &str, content: &[u8]) -> AttachedFile {
        let size_bytes = u64::try_from(content.len()).unwrap();
        AttachedFile {
            name: name.to_owned(),
            mime_type: media_type(name),
            size_bytes,
            content: content.to_vec(),
        }
    }

    #[test]
    fn what_is_written_is_read_again_whatever_letters_it_has() {
        let to = read("to", "Jürgen Größe <j@example.com>, b@example.com").unwrap();
        let bcc = read("bcc", "c@example.com").unwrap();
        let subject = format!("Größe: {}", "sehr lang ".repeat(40));
        let html = "<p>Grüße – 🙂</p>";
        let references = ["a@x".to_owned(), "b@x".to_owned()];
        let whole = Draft {
            bcc: &bcc,
            html: Some(html),
            in_reply_to: Some("b@x"),
            references: &references,
            thread_id: Some("t1"),
            ..draft(&to, subject.trim(), "Grüße – 🙂\n.\nFrom here\n")
        };
        let name = "Résumé, \"final\" 2026 – sehr langer Name, der über eine Zeile hinausgeht und weiter.bin";
        let bytes = [b"a\nb\r\nc\rd\0".as_slice(), &[0xff; 100]].concat();
        let (ready, told) =
            written(&whole, vec![attached(name, &bytes), attached("x.eml", b"Subject: y")]).unwrap();
        let sent = message(&ready);
        let named: Vec<_> =
            sent.to().unwrap().iter().map(|one| (one.name(), one.address().unwrap())).collect();
        assert_eq!(named, [(Some("Jürgen Größe"), "j@example.com"), (None, "b@example.com")]);
        assert_eq!(sent.bcc().unwrap().first().unwrap().address(), Some("c@example.com"));
        assert_eq!(sent.subject(), Some(subject.trim()));
        assert_eq!(sent.body_text(0).unwrap().replace("\r\n", "\n").trim_end(), "Grüße – 🙂\n.\nFrom here");
        assert_eq!(sent.body_html(0).unwrap().trim_end(), html);
        assert_eq!(
            (sent.message_id(), sent.in_reply_to().as_text()),
            (Some(&*ready.message_id), Some("b@x"))
        );
        assert_eq!(sent.references().as_text_list().unwrap(), ["a@x", "b@x"]);
        assert_eq!(sent.date().unwrap().to_timestamp(), 0);
        let files: Vec<_> =
            sent.attachments().map(|part| (part.attachment_name().unwrap(), part.contents())).collect();
        assert_eq!(files, [(name, bytes.as_slice()), ("x.eml", b"Subject: y".as_slice())]);
        assert_eq!(told[1].mime_type, "application/octet-stream");
        let start = String::from_utf8_lossy(&ready.body[..200]).into_owned();
        assert!(start.contains(r#"{"threadId":"t1"}"#), "{start}");
    }

    #[test]
    fn a_text_file_that_goes_along_arrives_byte_for_byte() {
        for bytes in [
            b"a\nb\n".as_slice(),
            b"a\r\nb\rc",
            "Grüße\n".as_bytes(),
            b" \n.\n",
            b"x".repeat(3_000).as_slice(),
        ] {
            let to = read("to", "a@example.com").unwrap();
            let (ready, _) = written(&draft(&to, "s", "b"), vec![attached("a.txt", bytes)]).unwrap();
            assert_eq!(message(&ready).attachments().next().unwrap().contents(), bytes);
        }
    }

    #[test]
    fn a_message_beyond_the_limit_is_refused() {
        let to = read("to", "a@example.com").unwrap();
        let large = attached("a.bin", &vec![0; LARGEST / 4 * 3]);
        let error = written(&draft(&to, "s", "b"), vec![large]).err().unwrap();
        assert!(error.code == Code::Validation && error.message.contains("36700160"), "{}", error.message);
    }
}
