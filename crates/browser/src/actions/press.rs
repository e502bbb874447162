//! Keys.

use std::time::Duration;

use serde::Deserialize;
use serde_json::json;
use tokio::time::Instant;

use crate::actionability::Need;
use crate::actions::ActionOutcome;
use crate::error::BrowserError;
use crate::keys::KeyPress;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

#[derive(Debug, Deserialize)]
struct Focus {
    focused: bool,
}

impl Page {
    /// Presses a key, on an element or where the page has its focus.
    ///
    /// # Errors
    /// [`PageError`].
    pub async fn press(
        &self,
        selector: Option<&Selector>,
        key: &KeyPress,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let mut outcome = ActionOutcome::default();
        if let Some(selector) = selector {
            let element = self.ready(selector, Need::Select, Instant::now() + limit).await?;
            let focus: Focus =
                self.call_on(&element.frame, "focusOn", [json!(element.number)], selector).await?;
            if !focus.focused {
                let reason = "it does not take the focus, so no key was pressed".to_owned();
                return Err(PageError::Unfit { selector: selector.to_string(), reason });
            }
            outcome = ActionOutcome::new(element.frame.reference(element.number), element.is_new);
        }
        self.press_key(key).await?;
        Ok(outcome)
    }

    pub(super) async fn press_key(&self, key: &KeyPress) -> Result<(), PageError> {
        let [down, up] = key.events();
        let client = self.tab().client();
        client.run(down).await.map_err(BrowserError::from)?;
        client.run(up).await.map_err(BrowserError::from)?;
        Ok(())
    }
}
