//! `browser_cookies`: the cookies that a domain has set in the session's browser.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tool::{Class, Context, Example, Lane, Level, PageAccess, Place, Plan, Spec, Timeout, Tool, ToolError};

use crate::errors::of_browser;
use crate::origin;
use crate::session::open;

/// The `browser_cookies` tool.
pub struct BrowserCookies;

/// Arguments of `browser_cookies`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Domain, such as example.com; its subdomains are included.
    domain: String,
}

/// Result of `browser_cookies`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// Cookies.
    cookies: Vec<CookieEntry>,
}

/// A cookie.
#[derive(Debug, Serialize, JsonSchema)]
struct CookieEntry {
    /// Name.
    name: String,
    /// Value.
    value: String,
    /// Domain; with a dot in front if subdomains get it too.
    domain: String,
    /// Path.
    path: String,
    /// Seconds since 1970; absent for a cookie that ends with the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<f64>,
    /// True if scripts cannot read it.
    http_only: bool,
    /// True if only encrypted connections carry it.
    secure: bool,
}

impl Tool for BrowserCookies {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        title: "Read cookies",
        example: Example {
            files: &[],
            arguments: r#"{"domain": "example.com"}"#,
            result: r#"{"cookies": []}"#,
        },
        class: Class { open_world: true, ..Class::READ },
        timeout: Timeout::fixed(30),
        lane: Lane::Browser,
        level: Level::Destructive,
        ..Spec::reading(
            "browser_cookies",
            "Read the cookies of a domain in the session's browser. They may contain login tokens.",
        )
    };

    fn plan(&self, args: &Args, _place: &Place) -> Result<Plan, ToolError> {
        let url = format!("https://{}", args.domain.trim_start_matches('.'));
        let effect = origin::effect(&url, PageAccess::Submit, format!("read the cookies of {}", args.domain));
        let effect = effect.ok_or_else(|| ToolError::validation("domain", "is no domain"))?;
        Ok(Plan::of(vec![effect]))
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let running = open(context)?;
        let _turn = running.turn().await;
        let cookies = running.session().cookies(&args.domain).await.map_err(of_browser)?;
        let entry = |cookie: browser::Cookie| CookieEntry {
            name: cookie.name,
            value: cookie.value,
            domain: cookie.domain,
            path: cookie.path,
            expires: Some(cookie.expires).filter(|expires| *expires > 0.0),
            http_only: cookie.http_only,
            secure: cookie.secure,
        };
        Ok(Output { cookies: cookies.into_iter().map(entry).collect() })
    }
}

#[cfg(test)]
mod tests {
    use tool::ErasedTool;

    use super::*;

    #[test]
    fn each_call_refuses_wrong_arguments_with_the_field_at_fault() {
        let (tool, place) = (ErasedTool::tool(BrowserCookies), Place::at("/w".into()));
        for (arguments, field) in
            [(serde_json::json!({"domain": ""}), "domain"), (serde_json::json!({"domain": "a b"}), "domain")]
        {
            let error = tool.prepare(arguments, &place).err().unwrap();
            assert_eq!(error.code, tool::Code::Validation);
            assert!(error.message.contains(field), "{field}: {}", error.message);
        }
    }
}
