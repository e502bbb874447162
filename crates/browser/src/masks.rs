//! Masks: the parts of a page that must not be seen in a picture of it.

use serde::Deserialize;
use serde_json::json;

use crate::page::Page;
use crate::page_error::PageError;
use crate::target::Area;

/// Parts of a page to paint over.
#[derive(Debug, Clone, PartialEq)]
pub struct Masks {
    /// Boxes in the viewport of the page. Add the scroll position for a picture of the whole page.
    pub areas: Vec<Area>,
    /// Pixels that the page is scrolled to the right and down.
    pub scroll: (f64, f64),
    /// False if there were too many, or a frame did not answer: the picture must not be shown then.
    pub is_complete: bool,
    /// True if one of the areas shows more than the dots of a password.
    pub is_readable: bool,
}

#[derive(Debug, Deserialize)]
struct FrameMasks {
    boxes: Vec<Area>,
    scroll_x: f64,
    scroll_y: f64,
    is_complete: bool,
    is_readable: bool,
}

impl Page {
    /// Returns the boxes of fields for secrets, and of fields and text that hold one of the values or a
    /// secret of [`Page::type_secret`].
    ///
    /// # Errors
    /// [`PageError`], if the page does not answer.
    pub async fn masks(&self, values: &[&str]) -> Result<Masks, PageError> {
        let mut masks =
            Masks { areas: Vec::new(), scroll: (0.0, 0.0), is_complete: true, is_readable: false };
        for frame in self.frames() {
            let found = self.call::<FrameMasks>(&frame, "masks", [json!(values)]).await;
            let found = match found {
                Err(error) if frame.number == 0 => return Err(error),
                Err(_) => {
                    masks.is_complete = false;
                    continue;
                }
                Ok(found) => found,
            };
            masks.is_complete &= found.is_complete;
            masks.is_readable |= found.is_readable;
            if frame.number == 0 {
                masks.scroll = (found.scroll_x, found.scroll_y);
                masks.areas.extend(found.boxes);
            } else if !found.boxes.is_empty() {
                match frame.handle.offset_in_page().await {
                    Ok(offset) => masks.areas.extend(found.boxes.into_iter().map(|area| area.moved(offset))),
                    Err(_) => masks.is_complete = false,
                }
            }
        }
        Ok(masks)
    }
}
