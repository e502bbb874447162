//! Files for file inputs.

use std::time::Duration;

use cdp::protocol::dom::SetFileInputFiles;
use cdp::protocol::runtime::ReleaseObject;
use serde_json::json;
use tokio::time::Instant;

use crate::actionability::Need;
use crate::actions::{ActionOutcome, FieldState};
use crate::error::BrowserError;
use crate::page::Page;
use crate::page_error::PageError;
use crate::selector::Selector;

impl Page {
    /// Gives files to a file input. The paths are absolute, as the browser sees them; the caller has
    /// checked that the page may have these files.
    ///
    /// # Errors
    /// [`PageError::Unfit`] if the element is no file input.
    pub async fn set_files(
        &self,
        selector: &Selector,
        paths: Vec<String>,
        limit: Duration,
    ) -> Result<ActionOutcome, PageError> {
        let element = self.ready(selector, Need::Files, Instant::now() + limit).await?;
        let object = self.object(&element.frame, element.number).await?;
        let client = element.frame.handle.client()?;
        let set = client.run(SetFileInputFiles { files: paths, node: object.clone().into() }).await;
        client.post(ReleaseObject { object_id: object });
        match set {
            Err(error) if error.refusal().is_some() => {
                let reason = format!("it takes no files: {}", error.refusal().unwrap_or_default());
                return Err(PageError::Unfit { selector: selector.to_string(), reason });
            }
            other => other.map_err(BrowserError::from)?,
        };
        let state: FieldState =
            self.call_on(&element.frame, "fieldState", [json!(element.number)], selector).await?;
        Ok(ActionOutcome {
            value: state.value,
            ..ActionOutcome::new(element.frame.reference(element.number), element.is_new)
        })
    }
}
