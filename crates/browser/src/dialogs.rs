//! Answers to the dialogs of pages: `alert`, `confirm`, `prompt` and `beforeunload`.
//!
//! A page stands still while a dialog is open, so every dialog is answered at once, by a policy that
//! was set before.

use serde::Serialize;

/// Kind of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DialogKind {
    /// A text with one button.
    Alert,
    /// A question with two buttons.
    Confirm,
    /// A question with a field for text.
    Prompt,
    /// A question whether the page may be left.
    Beforeunload,
}

impl DialogKind {
    /// Returns the kind of a dialog by its name in the protocol.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "confirm" => Self::Confirm,
            "prompt" => Self::Prompt,
            "beforeunload" => Self::Beforeunload,
            _ => Self::Alert,
        }
    }
}

/// Answer to a dialog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "answer", content = "text")]
pub enum DialogAnswer {
    /// Accepts it. The text is what a prompt gets; without it the prompt's own default.
    Accept(Option<String>),
    /// Dismisses it.
    Dismiss,
}

/// Answers for the dialogs of a tab.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DialogPolicy {
    /// Answer to `confirm`.
    pub confirm: DialogAnswer,
    /// Answer to `prompt`.
    pub prompt: DialogAnswer,
    /// Answer to `beforeunload`: accepting leaves the page.
    pub beforeunload: DialogAnswer,
}

impl Default for DialogPolicy {
    /// Dismisses questions, and leaves pages that ask to stay.
    fn default() -> Self {
        Self {
            confirm: DialogAnswer::Dismiss,
            prompt: DialogAnswer::Dismiss,
            beforeunload: DialogAnswer::Accept(None),
        }
    }
}

impl DialogPolicy {
    /// Returns the answer to a dialog. An `alert` has only one.
    pub fn answer(&self, kind: DialogKind) -> DialogAnswer {
        match kind {
            DialogKind::Alert => DialogAnswer::Accept(None),
            DialogKind::Confirm => self.confirm.clone(),
            DialogKind::Prompt => self.prompt.clone(),
            DialogKind::Beforeunload => self.beforeunload.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_dismissed_unless_the_caller_has_said_otherwise() {
        let policy = DialogPolicy::default();
        assert_eq!(policy.answer(DialogKind::of("alert")), DialogAnswer::Accept(None));
        assert_eq!(policy.answer(DialogKind::of("confirm")), DialogAnswer::Dismiss);
        assert_eq!(policy.answer(DialogKind::of("prompt")), DialogAnswer::Dismiss);
        assert_eq!(policy.answer(DialogKind::of("beforeunload")), DialogAnswer::Accept(None));
        let text = DialogAnswer::Accept(Some("x".to_owned()));
        let policy = DialogPolicy { prompt: text.clone(), ..policy };
        assert_eq!(policy.answer(DialogKind::Prompt), text);
    }
}
