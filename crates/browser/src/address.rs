//! URLs that a tab may show, and URLs as they are reported.
//!
//! This is no network policy: it only keeps tabs out of files, scripts and the browser's own pages.

use url::Url;

use crate::error::BrowserError;
use crate::limits::{self, cut};

/// URL of an empty tab.
pub const BLANK: &str = "about:blank";

/// Parses a URL and checks that a tab may show it.
///
/// # Errors
/// [`BrowserError::Address`].
pub fn parse(text: &str) -> Result<Url, BrowserError> {
    let refused = |reason: String| BrowserError::Address { url: cut(text, limits::URL), reason };
    let url =
        Url::parse(text.trim()).map_err(|error| refused(format!("this is no absolute URL ({error})")))?;
    if is_allowed(&url) { Ok(url) } else { Err(refused(format!("the scheme `{}` is refused", url.scheme()))) }
}

/// Returns true if the main frame of a tab may show the URL.
pub(crate) fn may_be_shown(text: &str) -> bool {
    // A new tab has no URL yet, and the page of an error belongs to the browser.
    text.is_empty() || text.starts_with(ERROR_PAGE) || Url::parse(text).is_ok_and(|url| is_allowed(&url))
}

/// URL of the page that Chromium shows instead of a document that it could not load.
pub(crate) const ERROR_PAGE: &str = "chrome-error://";

fn is_allowed(url: &Url) -> bool {
    match url.scheme() {
        "http" | "https" => true,
        "about" => url.path() == "blank",
        _ => false,
    }
}

/// Returns a URL as it is kept and reported: cut, and without a user's name and password.
pub(crate) fn shown(text: &str) -> String {
    // A password needs an `@`; parsing every URL would cost more than it gives.
    if text.contains('@')
        && text.len() <= 64 * limits::URL
        && let Ok(mut url) = Url::parse(text)
        && (!url.username().is_empty() || url.password().is_some())
        && url.set_password(None).is_ok()
        && url.set_username("").is_ok()
    {
        return cut(url.as_str(), limits::URL);
    }
    cut(text, limits::URL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn web_pages_and_the_empty_page_are_allowed() {
        for url in
            ["http://a.test/", "https://a.test:8443/x?y#z", "about:blank", "about:blank#x", " HTTP://A.test "]
        {
            parse(url).unwrap();
        }
    }

    #[test]
    fn every_other_scheme_is_refused_by_name() {
        for url in [
            "file:///etc/passwd",
            "FILE:///etc/passwd",
            "javascript:alert(1)",
            "data:text/html,x",
            "chrome://version",
            "view-source:http://a.test/",
            "blob:http://a.test/1",
            "ftp://a.test/",
            "about:srcdoc",
            "java\tscript:1",
            "devtools://x",
            "chrome-extension://x/y",
            "ws://a.test/",
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains("is refused; only http, https and about:blank"), "{error}");
            assert!(!may_be_shown(url), "{url}");
        }
        for url in ["", "example.com", "/x", "http://"] {
            assert!(parse(url).unwrap_err().to_string().contains("no absolute URL"), "{url}");
        }
    }

    #[test]
    fn a_reported_url_has_no_password() {
        assert_eq!(shown("http://me:secret@a.test/x@y"), "http://a.test/x@y");
        assert_eq!(shown("http://a.test/x@y"), "http://a.test/x@y");
        assert!(shown(&format!("http://a.test/{}", "x".repeat(10_000))).len() <= limits::URL);
    }
}
