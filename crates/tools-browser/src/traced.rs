//! Steps of a trace: what a call did, and how its page looks afterwards.

use browser::{Clip, Format, Running, Step};
use tool::{Context, ToolError};

use crate::picture;
use crate::session;

/// Maximum number of pixels of a picture.
const MAX_PIXELS: u32 = 1280 * 720;
/// Quality of a picture, from 0 to 100.
const QUALITY: u8 = 60;

/// Runs an action, and adds it to the trace of the session's browser, if one is being recorded. `tab` gives
/// the tab of the action from its result.
pub(crate) async fn traced<T>(
    context: &Context,
    title: String,
    action: impl Future<Output = Result<T, ToolError>>,
    tab: impl FnOnce(Option<&T>) -> Option<u32>,
) -> Result<T, ToolError> {
    let began = context.clock.now();
    let result = Box::pin(action).await;
    if let Ok(running) = session::open(context)
        && running.is_traced()
    {
        let error = result.as_ref().err().map(|error| format!("{}: {}", error.code.as_str(), error.message));
        let duration = context.clock.now().duration_since(began).as_millis();
        let duration_ms = u64::try_from(duration).unwrap_or_default();
        let (url, picture) = Box::pin(shown(&running, tab(result.as_ref().ok()))).await;
        running.add_step(Step { title, url, began, duration_ms, error, picture });
    }
    result
}

/// Returns the URL of a tab, and a picture of it.
async fn shown(running: &Running, tab: Option<u32>) -> (String, Result<Vec<u8>, String>) {
    match session::page(running, tab, None) {
        Ok(page) => (page.tab().url(), taken(&page).await.map_err(|error| error.message)),
        Err(error) => (String::new(), Err(error.message)),
    }
}

async fn taken(page: &browser::Page) -> Result<Vec<u8>, ToolError> {
    picture::require_no_secret(page).await?;
    let shot = page.tab().screenshot(Clip::Viewport, Format::Jpeg { quality: QUALITY }, MAX_PIXELS);
    let shot = shot.await.map_err(crate::errors::of_browser)?;
    picture::require_no_secret(page).await?;
    Ok(shot.bytes)
}
