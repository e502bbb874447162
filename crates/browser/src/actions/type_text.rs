//! Typing into fields.

use std::time::Duration;

use cdp::protocol::input::InsertText;
use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::actionability::{Need, ReadyElement};
use crate::actions::click::ClickOptions;
use crate::actions::{ActionOutcome, FieldState};
use crate::error::BrowserError;
use crate::keys::KeyPress;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

/// Text to type, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typing {
    /// The text.
    pub text: String,
    /// Fate of the present content of the field.
    pub mode: TypingMode,
    /// True if each character is a key of its own, for pages that listen to keys.
    pub key_by_key: bool,
    /// Key that is pressed afterwards.
    pub press: Option<KeyPress>,
}

impl Typing {
    /// Creates the typing of a text in place of what the field holds.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), mode: TypingMode::Replace, key_by_key: false, press: None }
    }
}

/// Fate of the present content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TypingMode {
    /// The text takes its place.
    Replace,
    /// The text goes behind it.
    Append,
}

/// Answer of the script when it has prepared a field.
#[derive(Debug, Deserialize)]
struct Preparation {
    kind: FieldKind,
    focused: bool,
    is_empty: bool,
    /// True if the field has no room for line breaks, and takes one for the key Enter.
    is_one_line: bool,
}

/// Way in which a field takes its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum FieldKind {
    /// Input or text area.
    Text,
    /// Editable element.
    Rich,
    /// Input whose value is set as a whole: dates, times, colours, ranges.
    Set,
}

impl Page {
    /// Types into a field.
    ///
    /// # Errors
    /// [`PageError`]. The field may hold a part of the text if the page takes the focus away meanwhile.
    pub async fn type_text(
        &self,
        selector: &Selector,
        typing: &Typing,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let deadline = Instant::now() + limit;
        let (element, prepared) = loop {
            let element = self.ready(selector, Need::Type, deadline).await?;
            match self.prepare_field(&element, selector, typing, deadline).await {
                Ok(prepared) => break (element, prepared),
                // The page has rendered the field again since it was ready.
                Err(PageError::NotReady { .. }) if Instant::now() < deadline => {}
                Err(error) => return Err(error),
            }
        };
        let mut outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
        let state: FieldState = if prepared.kind == FieldKind::Set {
            let values = [json!(element.number), json!(typing.text)];
            self.call_on(&element.frame, "setValue", values, selector).await?
        } else {
            self.enter(typing, &prepared).await?;
            self.call_on(&element.frame, "fieldState", [json!(element.number)], selector).await?
        };
        if prepared.kind == FieldKind::Text {
            outcome.notes.extend(difference(&state, typing, prepared.is_empty));
        }
        if !state.message.is_empty() {
            outcome.notes.push(format!("The page says of the value: {}", state.message));
        }
        if let Some(key) = &typing.press {
            self.press_key(key).await?;
        }
        outcome.value = state.value;
        Ok(outcome)
    }

    /// Sets the value of a field for a password, or of the field of this name, in a document of this origin
    /// alone. The field is one for a secret from then on. The page never
    /// moves the value to another field or document: nothing is typed where the focus happens to be.
    /// Its events are those of a script.
    ///
    /// # Errors
    /// [`PageError`]. [`PageError::Unfit`] for another field, and for a document of another origin.
    pub async fn type_secret(
        &self,
        selector: &Selector,
        secret: &str,
        (origin, field): (&str, Option<&str>),
        press: Option<&KeyPress>,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let deadline = Instant::now() + limit;
        let element = self.ready(selector, Need::Type, deadline).await?;
        let values = [json!(element.number), json!(secret), json!(origin), json!(field.unwrap_or_default())];
        let state: FieldState = self.call_on(&element.frame, "setSecret", values, selector).await?;
        let mut outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
        outcome.notes.extend(difference(&state, &Typing::new(secret), true));
        if let Some(key) = press {
            self.press_key(key).await?;
        }
        Ok(outcome)
    }

    /// Gives the field the focus, with a click if it does not take it otherwise.
    async fn prepare_field(
        &self,
        element: &ReadyElement,
        selector: &Selector,
        typing: &Typing,
        deadline: Instant,
    ) -> Result<Preparation, PageError> {
        let values = [json!(element.number), json!(typing.mode == TypingMode::Append)];
        let prepared: Preparation =
            self.call_on(&element.frame, "prepareToType", values.clone(), selector).await?;
        if prepared.focused {
            return Ok(prepared);
        }
        self.click(selector, ClickOptions::default(), deadline.saturating_duration_since(Instant::now()))
            .await?;
        let prepared: Preparation = self.call_on(&element.frame, "prepareToType", values, selector).await?;
        if prepared.focused {
            return Ok(prepared);
        }
        let reason = "it does not take the focus, so nothing was typed".to_owned();
        Err(PageError::Unfit { selector: selector.to_string(), reason })
    }

    /// Types where the page has its focus.
    async fn enter(&self, typing: &Typing, prepared: &Preparation) -> Result<(), PageError> {
        if typing.mode == TypingMode::Append && !prepared.is_empty {
            self.press_key(&KeyPress::parse("Control+End")?).await?;
        }
        let text = if prepared.is_one_line { without_breaks(&typing.text) } else { typing.text.clone() };
        if text.is_empty() {
            if typing.mode == TypingMode::Replace && !prepared.is_empty {
                self.press_key(&KeyPress::parse("Delete")?).await?;
            }
            return Ok(());
        }
        if !typing.key_by_key {
            return self.insert(text).await;
        }
        for character in text.chars() {
            // A line break is inserted as such: the key Enter would send a message in many pages.
            let name = if character == ' ' { "Space".to_owned() } else { character.to_string() };
            match KeyPress::parse(&name) {
                Ok(key) => self.press_key(&key).await?,
                Err(_) => self.insert(character.to_string()).await?,
            }
        }
        Ok(())
    }

    async fn insert(&self, text: String) -> Result<(), PageError> {
        self.tab().client().run(InsertText { text }).await.map_err(BrowserError::from)?;
        Ok(())
    }
}

/// Returns the text with a space for each line break, which would submit the form of its field.
fn without_breaks(text: &str) -> String {
    text.replace("\r\n", " ").replace(['\r', '\n', '\u{2028}', '\u{2029}'], " ")
}

/// Returns a sentence if the field holds something else than what was typed.
fn difference(state: &FieldState, typing: &Typing, was_empty: bool) -> Option<String> {
    let is_whole = typing.mode == TypingMode::Replace || was_empty;
    let typed = typing.text.chars().count();
    if !is_whole || typed > 2000 {
        return None;
    }
    let is_same = match &state.value {
        Some(value) => *value == typing.text,
        None => state.length == typed,
    };
    if is_same {
        return None;
    }
    if let Some(limit) = state.max_length.filter(|limit| typed > *limit) {
        return Some(format!(
            "The field took {} of {typed} characters: its maxlength is {limit}.",
            state.length
        ));
    }
    Some(if state.is_secret {
        format!("The field holds {} characters, and {typed} were typed.", state.length)
    } else {
        "The field holds something else than what was typed.".to_owned()
    })
}
