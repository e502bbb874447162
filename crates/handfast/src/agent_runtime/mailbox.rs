//! The mailbox of an agent: durable messages, each delivered once.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agents::Inbox;
use jiff::SignedDuration;
use parking_lot::Mutex;
use store_api::{MailRow, NewMail, Priority, SendOutcome, Store};
use tool::{BoxFuture, Code, ToolError};

use crate::agent_runtime::record::blocking;
use crate::agent_runtime::runtime::AgentRuntime;
use crate::agent_runtime::tree::{AgentTree, now, shown_address};
use crate::report::{covered, warn};

/// Time for which a message is claimed. A process that dies within it takes its agents with it.
const CLAIM: SignedDuration = SignedDuration::from_hours(1);
/// Maximum number of messages that wait for one agent, and of those from one sender.
const MOST_WAITING: (u32, u32) = (200, 50);
/// Maximum number of messages that are taken at once.
const AT_ONCE: u32 = 20;

/// The mail of one workspace.
#[derive(Clone)]
pub(crate) struct Post {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) workspace: PathBuf,
    pub(crate) tree: Arc<AgentTree>,
}

/// Message that is sent.
pub(crate) struct Letter {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) text: String,
    pub(crate) priority: Priority,
    /// Time for which it can be delivered.
    pub(crate) valid: Option<Duration>,
}

fn failed(problem: &str) -> ToolError {
    ToolError::new(Code::Runtime, format!("the mailbox cannot be used: {problem}"))
}

impl Post {
    /// Returns the mail of a runtime's workspace.
    pub(crate) fn of(parts: &AgentRuntime, tree: &Arc<AgentTree>) -> Self {
        Self { store: parts.store.clone(), workspace: parts.workspace.clone(), tree: tree.clone() }
    }

    /// Sends a message, and wakes its receiver. Returns the number of the message.
    ///
    /// # Errors
    /// `EQUOTA` if the mailbox is full.
    pub(crate) async fn send(&self, letter: Letter) -> Result<i64, ToolError> {
        let sent_at = now();
        let valid = letter.valid.and_then(|valid| SignedDuration::try_from(valid).ok());
        let new = NewMail {
            workspace: self.workspace.clone(),
            from: letter.from,
            to: letter.to.clone(),
            priority: letter.priority,
            body: covered(&letter.text).into_owned(),
            in_reply_to: None,
            sent_at,
            deadline: valid.and_then(|valid| sent_at.checked_add(valid).ok()),
        };
        let store = self.store.clone();
        let sent = blocking(move || store.mail().send(&new, MOST_WAITING.0, MOST_WAITING.1));
        match sent.await.map_err(|problem| failed(&problem))? {
            SendOutcome::Sent(id) => {
                self.tree.wake_of(&letter.to).notify_one();
                Ok(id)
            }
            SendOutcome::Full => Err(ToolError::new(
                Code::Quota,
                "the mailbox of the agent is full: it has not read your earlier messages",
            )
            .hint("wait until it has worked them off; send fewer and longer messages")),
        }
    }

    /// Answers a message that was delivered, and wakes its sender.
    pub(crate) async fn answer(&self, mail: i64, from: &str, to: &str, text: &str) -> Result<(), ToolError> {
        let (store, from, text) = (self.store.clone(), from.to_owned(), covered(text).into_owned());
        // A message that was answered before is not answered again.
        blocking(move || store.mail().answer(mail, &from, &text, now()))
            .await
            .map_err(|problem| failed(&problem))?;
        self.tree.wake_of(to).notify_waiters();
        self.tree.wake_of(to).notify_one();
        Ok(())
    }

    /// Takes the answer to a message, if it is there.
    pub(crate) async fn take_answer(&self, mail: i64, to: &str) -> Result<Option<String>, ToolError> {
        let (store, to) = (self.store.clone(), to.to_owned());
        let reply =
            blocking(move || store.mail().take_reply(mail, &to)).await.map_err(|problem| failed(&problem))?;
        Ok(reply.map(|reply| reply.body))
    }

    /// Claims the messages for an address.
    async fn claim(&self, address: &str) -> Result<Vec<MailRow>, ToolError> {
        let (store, workspace, to) = (self.store.clone(), self.workspace.clone(), address.to_owned());
        blocking(move || store.mail().claim(&to, &workspace, now(), CLAIM, AT_ONCE))
            .await
            .map_err(|problem| failed(&problem))
    }

    /// Acknowledges claimed messages.
    async fn acknowledge(&self, claimed: Vec<(i64, u32)>) -> Result<(), ToolError> {
        if claimed.is_empty() {
            return Ok(());
        }
        let store = self.store.clone();
        let acknowledged = blocking(move || {
            for (id, epoch) in claimed {
                store.mail().delivered(id, epoch)?;
            }
            Ok(())
        });
        acknowledged.await.map_err(|problem| failed(&problem))
    }

    /// Takes the messages of a caller who reads them in an answer.
    pub(crate) async fn take_all(&self, address: &str) -> Result<Vec<MailRow>, ToolError> {
        let mut taken = Vec::new();
        loop {
            let rows = self.claim(address).await?;
            if rows.is_empty() || taken.len() >= 200 {
                return Ok(taken);
            }
            self.acknowledge(rows.iter().map(|row| (row.id, row.epoch)).collect()).await?;
            taken.extend(rows);
        }
    }

    /// Buries the messages to an agent that has ended.
    pub(crate) async fn bury(&self, address: &str) {
        let (store, workspace, to) = (self.store.clone(), self.workspace.clone(), address.to_owned());
        let buried =
            blocking(move || store.mail().kill_of(&workspace, &to, "the receiver has ended").map(drop));
        if let Err(problem) = buried.await {
            warn(&format!("the messages to an agent that has ended stay open: {problem}"));
        }
    }
}

/// The mailbox of an agent whose loop runs here.
pub(crate) struct Mailbox {
    pub(crate) post: Post,
    pub(crate) address: String,
    pub(crate) root: String,
    /// Claimed messages that are not yet part of the stored conversation.
    claimed: Mutex<Vec<(i64, u32)>>,
    /// Messages whose senders wait for an answer, with their senders.
    asked: Mutex<Vec<(i64, String)>>,
}

impl Mailbox {
    /// Opens the mailbox of an agent.
    pub(crate) fn new(post: Post, address: String, root: String) -> Self {
        Self { post, address, root, claimed: Mutex::default(), asked: Mutex::default() }
    }

    /// Acknowledges the messages that are part of the conversation.
    pub(crate) async fn acknowledge(&self) -> Result<(), ToolError> {
        let claimed = std::mem::take(&mut *self.claimed.lock());
        self.post.acknowledge(claimed).await
    }

    /// Answers everybody who has asked since the last answer.
    pub(crate) async fn answer_all(&self, text: &str) -> Result<(), ToolError> {
        self.acknowledge().await?;
        let asked = std::mem::take(&mut *self.asked.lock());
        for (mail, sender) in asked {
            self.post.answer(mail, &self.address, &sender, text).await?;
        }
        Ok(())
    }

    /// Returns true if messages wait.
    pub(crate) async fn has_messages(&self) -> bool {
        let (store, workspace) = (self.post.store.clone(), self.post.workspace.clone());
        let address = self.address.clone();
        // Messages that were handed out and are not yet acknowledged count as waiting too.
        let handed_out = u64::try_from(self.claimed.lock().len()).unwrap_or(u64::MAX);
        let waiting = blocking(move || store.mail().waiting(&workspace, &address)).await;
        waiting.is_ok_and(|waiting| waiting > handed_out)
    }

    async fn taken(&self) -> Result<Vec<String>, ToolError> {
        self.acknowledge().await?;
        let rows = self.post.claim(&self.address).await?;
        let mut texts = Vec::new();
        for row in rows {
            self.claimed.lock().push((row.id, row.epoch));
            let from = shown_address(&row.from, &self.root);
            let head = match row.in_reply_to {
                Some(_) => format!("[Late answer of agent {from}]"),
                None => format!("[Message from agent {from}]"),
            };
            // The main agent answers nobody.
            if row.in_reply_to.is_none() && self.address != self.root {
                self.asked.lock().push((row.id, row.from.clone()));
            }
            texts.push(format!("{head}\n{}", row.body));
        }
        Ok(texts)
    }
}

impl Inbox for Mailbox {
    fn take(&self) -> BoxFuture<'_, Vec<String>> {
        Box::pin(async move {
            self.taken().await.unwrap_or_else(|error| {
                warn(&format!("messages of agents are not delivered: {}", error.message));
                Vec::new()
            })
        })
    }
}
