//! Domain `Storage`: the cookies of a context.

use serde::{Deserialize, Serialize};

use crate::id::BrowserContextId;

/// Asks for all cookies of a context.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GetCookies {
    /// The context.
    pub browser_context_id: BrowserContextId,
}
command!(GetCookies, "Storage.getCookies", CookiesAnswer);

/// Cookies.
#[derive(Debug, Clone, Deserialize)]
pub struct CookiesAnswer {
    /// The cookies.
    pub cookies: Vec<Cookie>,
}

/// A cookie.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cookie {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Domain; with a dot in front if the cookie is for its subdomains too.
    pub domain: String,
    /// Path.
    pub path: String,
    /// Seconds since 1970; negative if the cookie ends with the session.
    pub expires: f64,
    /// True if scripts cannot read it.
    pub http_only: bool,
    /// True if it is sent over encrypted connections alone.
    pub secure: bool,
    /// Rule for requests from other sites: `Strict`, `Lax` or `None`.
    #[serde(default)]
    pub same_site: Option<String>,
}

/// Sets cookies of a context.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetCookies {
    /// The cookies.
    pub cookies: Vec<CookieParam>,
    /// The context.
    pub browser_context_id: BrowserContextId,
}
command!(SetCookies, "Storage.setCookies");

/// A cookie to set.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CookieParam {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Domain; with a dot in front if the cookie is for its subdomains too.
    pub domain: String,
    /// Path.
    pub path: String,
    /// Seconds since 1970; `None` if the cookie ends with the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<f64>,
    /// True if scripts cannot read it.
    pub http_only: bool,
    /// True if it is sent over encrypted connections alone.
    pub secure: bool,
    /// Rule for requests from other sites: `Strict`, `Lax` or `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_site: Option<String>,
}

impl From<Cookie> for CookieParam {
    fn from(cookie: Cookie) -> Self {
        Self {
            name: cookie.name,
            value: cookie.value,
            domain: cookie.domain,
            path: cookie.path,
            expires: Some(cookie.expires).filter(|expires| *expires > 0.0),
            http_only: cookie.http_only,
            secure: cookie.secure,
            same_site: cookie.same_site,
        }
    }
}
