//! Origins of pages, and the effects of using them.

use tool::{Effect, PageAccess, ToolError};
use url::Url;

/// Returns the effect of an action on a page of this URL. A page without a server, such as
/// `about:blank`, has none.
pub(crate) fn effect(url: &str, access: PageAccess, what: impl Into<String>) -> Option<Effect> {
    let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    let host = host_of(&url);
    let port = url.port_or_known_default()?;
    let origin = url.origin().ascii_serialization();
    Some(Effect::Browse { origin, host, port, access, what: what.into() })
}

/// Returns the origin of a URL as scripts see it; `null` if it has none.
pub(crate) fn of(url: &str) -> String {
    Url::parse(url).map_or_else(|_| "null".to_owned(), |url| url.origin().ascii_serialization())
}

/// Returns the host of a URL as policies name it, or an empty text.
pub(crate) fn host_of(url: &Url) -> String {
    url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned()
}

/// Checks a URL that a caller names.
///
/// # Errors
/// `EVALIDATION` naming `url`.
pub(crate) fn checked(url: &str) -> Result<String, ToolError> {
    browser::address::parse(url).map(String::from).map_err(crate::errors::of_browser)
}
