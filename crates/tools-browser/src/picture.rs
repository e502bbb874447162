//! Pictures of pages, within the sizes that clients show.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use browser::{Clip, Format, Page, Rectangle, Selector};
use tool::{Code, QuestionPicture, ToolError};

use crate::errors::{of_browser, of_page};

/// Maximum number of pixels. Providers of models scale larger pictures down.
const MAX_PIXELS: u32 = 1_568 * 1_568;
/// Largest PNG in bytes; above it, the picture becomes a JPEG.
const LARGEST_PNG: usize = 700 * 1024;
/// Quality of a JPEG, from 0 to 100.
const QUALITY: u8 = 70;
/// Bytes of a response with a picture.
pub(crate) const ANSWER_BYTES: u64 = 3 * 1024 * 1024;

/// A picture of a page.
pub(crate) struct PagePicture {
    pub(crate) base64: String,
    pub(crate) mime_type: &'static str,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Takes a picture of the viewport, the whole page or one element.
///
/// # Errors
/// `EPERMISSION` if the page shows a password in plain text.
pub(crate) async fn taken(
    page: &Page,
    selector: Option<&str>,
    full_page: bool,
) -> Result<PagePicture, ToolError> {
    require_no_secret(page).await?;
    let clip = match selector {
        Some(selector) => {
            let selector = Selector::parse(selector).map_err(of_page)?;
            let target = page.describe(&browser::PlannedAction::Other, &selector).await.map_err(of_page)?;
            let area = target.facts.area;
            Clip::Box(Rectangle { x: area.x, y: area.y, width: area.width, height: area.height })
        }
        None if full_page => Clip::FullPage,
        None => Clip::Viewport,
    };
    let shot = |format| page.tab().screenshot(clip, format, MAX_PIXELS);
    let png = shot(Format::Png).await.map_err(of_browser)?;
    let (picture, mime_type) = if png.bytes.len() > LARGEST_PNG {
        (shot(Format::Jpeg { quality: QUALITY }).await.map_err(of_browser)?, "image/jpeg")
    } else {
        (png, "image/png")
    };
    // The page may have changed meanwhile.
    require_no_secret(page).await?;
    let base64 = STANDARD.encode(&picture.bytes);
    Ok(PagePicture { base64, mime_type, width: picture.width, height: picture.height })
}

/// Takes a picture of the page with the element framed, for a human who decides about an action on it;
/// `None` if the page shows a password in plain text, or if it does not answer.
pub(crate) async fn for_question(page: &Page, selector: &Selector) -> Option<QuestionPicture> {
    require_no_secret(page).await.ok()?;
    let target = page.describe(&browser::PlannedAction::Other, selector).await.ok()?;
    let picture = page.tab().marked_picture(target.facts.area).await.ok()?;
    require_no_secret(page).await.ok()?;
    Some(QuestionPicture { png: picture.bytes, shows: "the page, with the element framed" })
}

/// Checks that no password can be read on the page. Browsers show dots, until the page turns the field
/// into a plain one or repeats what was typed.
///
/// # Errors
/// `EPERMISSION` if one can be read, or if the page could not be searched.
pub(crate) async fn require_no_secret(page: &Page) -> Result<(), ToolError> {
    let masks = page.masks(&[]).await.map_err(of_page)?;
    if masks.is_complete && !masks.is_readable {
        return Ok(());
    }
    let problem = if masks.is_readable {
        "the page shows a password in plain text, so no picture is taken"
    } else {
        "the page could not be searched for passwords as a whole, so no picture is taken"
    };
    let hint = "read the page as text, where secrets are covered, or leave the page";
    Err(ToolError::new(Code::Permission, problem).hint(hint))
}
