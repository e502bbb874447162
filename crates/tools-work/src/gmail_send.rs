//! `gmail_send`: one message, sent once.

use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tool::{
    Class, Context, Effect, EffectState, Example, Lane, Level, Place, Plan, Presentation, Retry, Spec,
    TextCap, Timeout, Tool, ToolError,
};

use crate::gmail::addresses::{self, Mailbox};
use crate::gmail::api::{ApiCalls, ApiRefusal};
use crate::gmail::compose::{self, AttachedFile, Draft};
use crate::gmail::message::{Wire, WireList};
use crate::gmail::oauth::Login;
use crate::gmail::place::Gmail;
use crate::gmail::reply::RepliedMessage;

/// The `gmail_send` tool.
pub struct GmailSend {
    /// Services of the mailbox.
    pub(crate) gmail: Gmail,
}

/// Maximum number of characters of a subject (RFC 5322, section 2.1.1), and of files of a message.
const LONGEST_SUBJECT: usize = 998;
const MAX_ATTACHED: usize = 100;
/// Maximum number of bytes of a text.
const LONGEST_BODY: usize = 8 * 1024 * 1024;

/// Arguments of `gmail_send`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Address, or list of addresses; also as Name <name@example.com>.
    to: Value,
    /// Subject; default with `reply_to_id`: that of the conversation.
    subject: Option<String>,
    /// Plain text of the message.
    body: String,
    /// HTML version of the text, for recipients who see HTML.
    html: Option<String>,
    /// Addresses that get a copy.
    #[serde(default)]
    cc: Vec<String>,
    /// Addresses that get a copy without the others' knowledge.
    #[serde(default)]
    bcc: Vec<String>,
    /// Paths of files to attach.
    #[serde(default)]
    #[schemars(length(max = 100))]
    attachments: Vec<String>,
    /// Id of the message to which this one replies.
    reply_to_id: Option<String>,
    /// Show the message without sending it; default false.
    #[serde(default)]
    dry_run: bool,
}

/// Result of `gmail_send`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// False in a dry run.
    sent: bool,
    /// Gmail's id of the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    message_id: Option<String>,
    /// Id of the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    /// Message of a dry run.
    #[serde(skip_serializing_if = "Option::is_none")]
    would_send: Option<DraftPreview>,
}

/// A message that would be sent.
#[derive(Debug, Serialize, JsonSchema)]
struct DraftPreview {
    /// Address of the sender, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Recipients.
    to: Vec<String>,
    /// Recipients of copies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cc: Vec<String>,
    /// Recipients of blind copies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bcc: Vec<String>,
    /// Subject.
    subject: String,
    /// Id of the conversation that the message continues.
    #[serde(skip_serializing_if = "Option::is_none")]
    thread_id: Option<String>,
    /// Sender of the message to which this one replies.
    #[serde(skip_serializing_if = "Option::is_none")]
    in_reply_to: Option<String>,
    /// Attached files.
    attachments: Vec<AttachedFile>,
    /// Size of the whole message in bytes.
    size_bytes: usize,
}

/// The parsed arguments.
struct ParsedRecipients {
    to: Vec<Mailbox>,
    cc: Vec<Mailbox>,
    bcc: Vec<Mailbox>,
}

impl ParsedRecipients {
    /// Returns all recipients.
    fn everybody(&self) -> Vec<&Mailbox> {
        [&self.to, &self.cc, &self.bcc].into_iter().flatten().collect()
    }
}

impl Args {
    fn read(&self) -> Result<ParsedRecipients, ToolError> {
        let texts: Vec<&str> = match &self.to {
            Value::String(text) => vec![text],
            Value::Array(list) if list.iter().all(Value::is_string) => {
                list.iter().filter_map(Value::as_str).collect()
            }
            _ => return Err(ToolError::validation("to", "is neither an address nor a list of addresses")),
        };
        let read = ParsedRecipients {
            to: all("to", &texts)?,
            cc: all("cc", &self.cc)?,
            bcc: all("bcc", &self.bcc)?,
        };
        if read.to.is_empty() {
            return Err(ToolError::validation("to", "has no address"));
        }
        let everybody = read.everybody().len();
        if everybody > addresses::MOST {
            let problem = format!(
                "with `cc` and `bcc` there are {everybody} addresses, but Gmail allows {}",
                addresses::MOST
            );
            return Err(ToolError::validation("to", problem));
        }
        let subject = self.subject.as_deref().unwrap_or_default();
        addresses::plain("subject", subject)?;
        if subject.chars().count() > LONGEST_SUBJECT {
            return Err(ToolError::validation(
                "subject",
                format!("is longer than {LONGEST_SUBJECT} characters"),
            ));
        }
        if self.subject.is_none() && self.reply_to_id.is_none() {
            return Err(ToolError::validation("subject", "is missing"));
        }
        for (field, text) in [("body", Some(&self.body)), ("html", self.html.as_ref())] {
            if text.is_some_and(|text| text.len() > LONGEST_BODY) {
                let problem = format!("is longer than {LONGEST_BODY} bytes");
                return Err(ToolError::validation(field, problem).hint("send the text as a file"));
            }
        }
        if self.attachments.len() > MAX_ATTACHED {
            let problem = format!("names more than {MAX_ATTACHED} files");
            return Err(ToolError::validation("attachments", problem).hint("send the files as one archive"));
        }
        Ok(read)
    }
}

/// Parses the addresses in these texts.
fn all<T: AsRef<str>>(field: &str, texts: &[T]) -> Result<Vec<Mailbox>, ToolError> {
    let read: Result<Vec<_>, _> = texts.iter().map(|text| addresses::read(field, text.as_ref())).collect();
    read.map(|read| read.concat())
}

impl Tool for GmailSend {
    type Args = Args;
    type Output = Output;

    /// A mail may have an empty subject.
    const EMPTY_TEXTS: &'static [&'static str] = &["subject"];

    const SPEC: Spec = Spec {
        name: "gmail_send",
        title: "Send mail by Gmail",
        description: "Send an email from the user's Gmail, also as a reply and with files of the workspace. Never sent twice. \
                      The login stays hidden.",
        example: Example {
            files: &[("notes.txt", "A-0 is done.\n")],
            arguments: r#"{"to": "Grace Hopper <grace@example.com>", "subject": "Notes", "body": "Here they are.", "attachments": ["notes.txt"]}"#,
            result: r#"{"sent": true}"#,
        },
        level: Level::Destructive,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: Timeout::fixed(120),
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let read = args.read()?;
        // The call may search for a message whose answer was lost, and reads the message to which
        // it replies.
        let mut effects = self.gmail.effects(&["POST", "GET"]);
        effects.extend(self.gmail.sending(&read.everybody()));
        for (index, path) in args.attachments.iter().enumerate() {
            let path = place.resolve(&compose::field(index), path)?;
            compose::file_name(index, &path)?;
            effects.push(Effect::Read { path });
        }
        Ok(Plan::of(effects).only_tried(args.dry_run))
    }

    /// Returns all recipients and the whole message.
    fn preview(&self, context: &Context, args: &Args) -> Option<String> {
        let read = args.read().ok()?;
        let mut shown = String::new();
        for (field, list) in [("To", &read.to), ("Cc", &read.cc), ("Bcc", &read.bcc)] {
            for mailbox in list {
                shown.push_str(&format!("{field}: {mailbox}\n"));
            }
        }
        let subject = args.subject.as_deref().unwrap_or("(subject of the conversation)");
        shown.push_str(&format!("Subject: {subject}\n"));
        if let Some(id) = &args.reply_to_id {
            shown.push_str(&format!("In reply to: {id}\n"));
        }
        for path in &args.attachments {
            shown.push_str(&format!("Attachment: {path}{}\n", size_of(context, path)));
        }
        shown.push_str(&format!("\n{}\n", args.body));
        if let Some(html) = &args.html {
            shown.push_str(&format!("\nHTML version:\n\n{html}\n"));
        }
        Some(shown)
    }

    fn answer_bytes(&self, _args: &Args) -> u64 {
        128 * 1024
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let asking = ApiCalls::begin(context, &self.gmail)?;
        let began = asking.began();
        let work = Box::pin(async { send(&asking, context, args).await });
        tool_support::unless_stopped(&context.stop, &began, work).await
    }
}

/// Returns the size of a file before any decision; empty for a file that may not be read.
fn size_of(context: &Context, path: &str) -> String {
    let opened = || {
        let path = context.place.resolve("attachments", path).ok()?;
        context.service::<Roots>().ok()?.open_file(&path).ok()
    };
    opened().map(|file| format!(" ({} bytes)", file.metadata.size_bytes)).unwrap_or_default()
}

async fn send(asking: &ApiCalls<'_>, context: &Context, args: Args) -> Result<Output, ToolError> {
    let read = args.read()?;
    // An unreadable file is detected before any request.
    let attached = compose::attach(context, &args.attachments)?;
    let answered = match &args.reply_to_id {
        Some(id) => Some(RepliedMessage::find(asking, id).await?),
        None => None,
    };
    let subject = match (&args.subject, &answered) {
        (Some(subject), Some(answered)) if subject.is_empty() => answered.subject(),
        (None, Some(answered)) => answered.subject(),
        (subject, _) => subject.clone().unwrap_or_default(),
    };
    // Another subject makes Gmail start a new conversation. The headers still name the message to
    // which this one replies.
    let thread_id = answered.as_ref().filter(|answered| answered.goes_on_with(&subject));
    let thread_id = thread_id.map(|answered| answered.thread_id.as_str());
    let account = Login::of(asking.vault()).ok().flatten().and_then(|login| login.account);
    let draft = Draft {
        from: account.as_deref(),
        to: &read.to,
        cc: &read.cc,
        bcc: &read.bcc,
        subject: &subject,
        body: &args.body,
        html: args.html.as_deref(),
        in_reply_to: answered.as_ref().and_then(|answered| answered.message_id.as_deref()),
        references: answered.as_ref().map_or(&[], |answered| answered.references.as_slice()),
        thread_id,
        at: context.clock.now(),
    };
    let (ready, attachments) = compose::written(&draft, attached)?;
    if args.dry_run {
        let shown = |list: &[Mailbox]| list.iter().map(ToString::to_string).collect();
        let would_send = DraftPreview {
            to: shown(&read.to),
            cc: shown(&read.cc),
            bcc: shown(&read.bcc),
            thread_id: thread_id.map(str::to_owned),
            in_reply_to: answered.as_ref().map(|answered| answered.from.clone()),
            from: account.clone(),
            subject: subject.clone(),
            attachments,
            size_bytes: ready.size_bytes,
        };
        return Ok(Output { sent: false, message_id: None, thread_id: None, would_send: Some(would_send) });
    }
    context.stop.check()?;
    let sent = |wire: Wire| Output {
        sent: true,
        message_id: Some(wire.id),
        thread_id: Some(wire.thread_id).filter(|id| !id.is_empty()),
        would_send: None,
    };
    let lost = match asking.upload(ready.body, ready.kind).await {
        Ok(wire) => return Ok(sent(wire)),
        Err(ApiRefusal::Undone(error, _)) => return Err(error),
        Err(ApiRefusal::Said(complaint)) if !complaint.may_pass() => return Err(complaint.into()),
        Err(ApiRefusal::Said(complaint)) => complaint.into(),
        Err(ApiRefusal::Lost(error)) => error,
    };
    // INVARIANT: a message that may have been sent is searched for, and never sent again.
    match look_for(asking, &ready.message_id).await {
        Some(wire) => Ok(sent(wire)),
        None => Err(unsure(lost, &ready.message_id)),
    }
}

/// Returns the message with this Message-ID, if Gmail has it.
async fn look_for(asking: &ApiCalls<'_>, message_id: &str) -> Option<Wire> {
    let query = format!("in:sent rfc822msgid:{message_id}");
    let list: WireList = asking.get("messages", &[("maxResults", "1"), ("q", &query)]).await.ok()?;
    let id = list.messages.into_iter().next()?.id;
    asking.message(&id, &[("format", "minimal")]).await.ok()
}

/// Returns the error for a message that may have been sent.
fn unsure(error: ToolError, message_id: &str) -> ToolError {
    let effect = if error.effect == EffectState::Done { EffectState::Done } else { EffectState::Maybe };
    error
        .effect(effect)
        .retry(Retry::Never)
        .data(json!({ "rfc822_message_id": message_id }))
        .hint("check with `gmail_search` for in:sent whether it was sent before you send it again")
}

#[cfg(test)]
mod tests {
    use testkit::{DenyNames, Workspace};
    use tool::{Code, ErasedTool};

    use super::*;
    use crate::gmail::place::Endpoints;

    fn tool() -> std::sync::Arc<dyn tool::AnyTool> {
        ErasedTool::tool(GmailSend { gmail: Gmail::at(Endpoints::default()).unwrap() })
    }

    fn plan(arguments: Value) -> Result<Plan, ToolError> {
        tool().prepare(arguments, &Place::at("/w".into())).map(|prepared| prepared.plan)
    }

    #[test]
    fn the_plan_names_what_goes_along_and_a_dry_run_is_safe() {
        let send = json!({"to": ["a@example.com"], "subject": "s", "body": "b", "attachments": ["d/x.pdf"]});
        let planned = plan(send.clone()).unwrap();
        assert!(planned.effects.contains(&Effect::Read { path: "/w/d/x.pdf".into() }));
        let mut tried = send;
        tried["dry_run"] = json!(true);
        let tried = plan(tried).unwrap();
        assert_eq!((tried.level, tried.dry_run.is_some()), (Some(Level::Safe), true));
    }

    #[test]
    fn the_plan_names_everybody_who_gets_it_once_and_in_one_order() {
        let acts = |arguments: Value| {
            let effects = plan(arguments).unwrap().effects;
            let what = |effect: Effect| match effect {
                Effect::Act { host, what } => Some((host, what)),
                _ => None,
            };
            effects.into_iter().filter_map(what).collect::<Vec<_>>()
        };
        let one = acts(json!({"to": "Ada <ada@Example.com>, b@example.com", "subject": "s", "body": "b"}));
        assert_eq!(one[0].1, "send mail to ada@example.com");
        let same = json!({"to": ["b@EXAMPLE.com"], "cc": ["ada@example.com"], "bcc": ["b@example.com."], "subject": "t", "body": "c"});
        assert_eq!(one, acts(same));
        let others = [
            json!({"to": "ada@example.com", "subject": "s", "body": "b"}),
            // The part before the `@` is for the recipient's host to interpret, so its case
            // matters.
            json!({"to": "Ada@example.com, b@example.com", "subject": "s", "body": "b"}),
            json!({"to": "ada@example.com, b@example.com", "bcc": ["eve@example.com"], "subject": "s", "body": "b"}),
        ];
        for other in others {
            assert_ne!(one, acts(other));
        }
        let tried = json!({"to": "ada@example.com", "subject": "s", "body": "b", "dry_run": true});
        assert!(acts(tried).is_empty());
    }

    #[test]
    fn a_human_who_is_asked_is_shown_everybody_and_everything() {
        let workspace = Workspace::new().with_files(&[("a.txt", "12345"), (".env", "KEY=1")]);
        let workspace = workspace.guarded(DenyNames { read: &[".env"], write: &[] });
        let context = workspace.context();
        let send = json!({
            "to": "Ada <ada@example.com>, b@example.com", "bcc": ["Eve <eve@ex\u{430}mple.com>"], "subject": "Plan",
            "body": "Text.\nMore.", "html": "<p>Text.</p>", "attachments": ["a.txt", ".env", "gone"], "reply_to_id": "18c",
        });
        let shown = tool().prepare(send, &context.place).unwrap().preview(&context).unwrap();
        assert_eq!(
            shown,
            "To: Ada <ada@example.com>\nTo: b@example.com\nBcc: Eve <eve@xn--exmple-4nf.com>\nSubject: Plan\nIn reply to: 18c\n\
             Attachment: a.txt (5 bytes)\nAttachment: .env\nAttachment: gone\n\nText.\nMore.\n\nHTML version:\n\n<p>Text.</p>\n"
        );
    }

    #[test]
    fn refuses_what_is_no_message_and_what_would_put_headers_into_it() {
        let with = |field: &str, value: Value| {
            let mut arguments = json!({"to": "a@example.com", "subject": "s", "body": "b"});
            arguments[field] = value;
            arguments
        };
        for (field, value) in [
            ("to", json!([])),
            ("to", json!(7)),
            ("to", json!(["a@example.com", 7])),
            ("to", json!("a@example.com\r\nBcc: evil@example.com")),
            ("cc", json!(["a@example.com\nX-Evil: 1"])),
            ("cc", json!(["a@example.com\u{1f}b@example.com"])),
            ("bcc", json!(["a\0@example.com"])),
            ("bcc", json!([""])),
            ("subject", json!("s\r\nBcc: evil@example.com")),
            ("subject", json!("x".repeat(999))),
            ("subject", json!(null)),
            ("attachments[0]", json!("")),
            ("to", json!((0..501).map(|number| format!("a{number}@example.com")).collect::<Vec<_>>())),
        ] {
            let arguments = match field {
                "attachments[0]" => with("attachments", json!(["a\r\nb.txt"])),
                field => with(field, value),
            };
            let error = plan(arguments).unwrap_err();
            assert_eq!(error.code, Code::Validation);
            assert!(error.message.contains(&format!("`{field}`")), "{field}: {}", error.message);
        }
    }
}
