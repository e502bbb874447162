//! Targets: what an action would act on, told before anything happens, for a human and the policy.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::elements::Reference;
use crate::keys::KeyPress;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

/// Action as far as a description depends on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedAction {
    /// A click.
    Click,
    /// Typing, and a key that is pressed afterwards.
    Type {
        /// Key after the text; Enter submits the form of a field.
        press: Option<KeyPress>,
    },
    /// A key that is pressed on an element.
    Press(KeyPress),
    /// Submission of the element's form.
    Submit,
    /// Anything else: it neither submits nor leaves the page by itself.
    Other,
}

impl PlannedAction {
    fn for_script(&self) -> [Value; 2] {
        match self {
            Self::Click => [json!("click"), Value::Null],
            Self::Type { press: Some(key) } | Self::Press(key) => [json!("type"), json!(key.name())],
            Self::Type { press: None } => [json!("type"), Value::Null],
            Self::Submit => [json!("submit"), Value::Null],
            Self::Other => [json!("other"), Value::Null],
        }
    }
}

/// Element that an action would act on. Texts of the page are one line each and cut.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Target {
    /// Reference of the element.
    pub reference: Reference,
    /// Sentence, if the element is another one than the reference was given for, or has another role or name now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Facts that the page states about the element.
    #[serde(flatten)]
    pub facts: TargetFacts,
}

/// Facts that a page states about an element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetFacts {
    /// Role; empty if it has none.
    pub role: String,
    /// Accessible name, or the beginning of its text.
    pub name: String,
    /// Name of the tag.
    pub tag: String,
    /// Type of an input or a button.
    #[serde(rename = "type")]
    pub kind: String,
    /// URL of the link that the action follows; empty if it follows none.
    pub href: String,
    /// True if the link opens in another tab.
    pub new_window: bool,
    /// True if the link downloads.
    pub is_download: bool,
    /// URL of the form that the action submits; empty if it submits none.
    pub form_action: String,
    /// Method of that form: `get`, `post` or `dialog`.
    pub form_method: String,
    /// True if the action submits a form.
    pub is_submit: bool,
    /// True if the action follows a link to another document.
    pub leaves_page: bool,
    /// True if the element is a field for a secret: its content is never read.
    pub is_password: bool,
    /// Value of `autocomplete`.
    pub autocomplete: String,
    /// Name of the field in its form, or its id.
    pub field_name: String,
    /// Origin of the element's document; empty if it has none of its own.
    pub origin: String,
    /// Box of the element in the viewport of the page.
    #[serde(rename = "box")]
    pub area: Area,
    /// Reason why nobody sees the element; empty if it is visible.
    pub hidden: String,
}

/// Rectangle in CSS pixels.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Width.
    pub width: f64,
    /// Height.
    pub height: f64,
}

impl Area {
    /// Returns the rectangle moved by an offset.
    pub(crate) fn moved(self, (x, y): (f64, f64)) -> Self {
        Self { x: self.x + x, y: self.y + y, ..self }
    }
}

/// Answer of the script.
#[derive(Debug, Deserialize)]
struct Described {
    target: Option<RawTarget>,
    #[serde(default)]
    detail: String,
}

#[derive(Debug, Deserialize)]
struct RawTarget {
    number: u32,
    before: String,
    #[serde(flatten)]
    facts: TargetFacts,
}

impl Page {
    /// Describes the element that an action would act on, and does nothing. The element must be
    /// there already.
    ///
    /// A page can change between the description and the action. The action checks the element again, but a
    /// caller that asked a human compares the target afterwards.
    ///
    /// # Errors
    /// [`PageError`], if the selector does not stand for exactly one element.
    pub async fn describe(&self, action: &PlannedAction, selector: &Selector) -> Result<Target, PageError> {
        let location = self.locate_now(selector).await?;
        let reference = location.frame.reference(location.number);
        let [name, key] = action.for_script();
        let values = [json!({ "number": location.number }), name, key];
        let described: Described = self.call(&location.frame, "describe", values).await?;
        let Some(RawTarget { number, before, mut facts }) = described.target else {
            return Err(PageError::Reference { reference, reason: described.detail });
        };
        if location.frame.number > 0 {
            let offset = location.frame.handle.offset_in_page().await?;
            facts.area = facts.area.moved(offset);
        }
        let note = match (location.is_new, before.is_empty()) {
            (true, _) => Some(passed_on(reference)),
            (false, false) => Some(format!("{reference} was {before} when it was read.")),
            (false, true) => None,
        };
        Ok(Target { reference: location.frame.reference(number), note, facts })
    }
}

/// Returns the sentence about a reference that belongs to another element now.
pub(crate) fn passed_on(reference: Reference) -> String {
    format!(
        "The element of {reference} has left the page; {reference} now is the one of the same role, name and place that replaced it."
    )
}
