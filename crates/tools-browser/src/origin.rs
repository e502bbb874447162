//! Origins of pages, and the effects of using them.

use tool::{Effect, PageAccess, ToolError};
use url::Url;

/// Returns the effect of an action on a page of this URL. A page without a server, such as
/// `about:blank`, has none.
pub(crate) fn effect(url: &str, access: PageAccess, what: impl Into<String>) -> Option<Effect> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let host = url.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned();
    let port = url.port_or_known_default()?;
    let origin = url.origin().ascii_serialization();
    Some(Effect::Browse { origin, host, port, access, what: what.into() })
}

/// Checks a URL that a caller names.
///
/// # Errors
/// `EVALIDATION` naming `url`.
pub(crate) fn checked(url: &str) -> Result<String, ToolError> {
    browser::address::parse(url).map(String::from).map_err(crate::errors::of_browser)
}
