//! `fetch_url`: one request to a web server, with secrets that the caller never sees.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fetch::address::Target;
use roots::Roots;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tool::{
    Class, Context, Effect, Example, Lane, Level, Place, Plan, Presentation, Spec, TextCap, Timeout, Tool,
    ToolError,
};
use tool_support::unless_stopped;

use crate::answer::{self, Kind};
use crate::page;
use crate::placeholders::CallerHeaders;
use crate::request::Exchange;
use crate::saving::{self, Goal, SaveOutcome};
use crate::secret_template::FilledParts;

/// The `fetch_url` tool.
pub struct FetchUrl;

/// Bytes of a body in an answer: default and maximum, which is the size of a message to a front
/// end.
const BYTES: u64 = 4 * 1024 * 1024;
const MAX_BYTES: u64 = 32 * 1024 * 1024;
/// Bytes of a body that is saved to a file: default and maximum.
const SAVED_BYTES: u64 = 1024 * 1024 * 1024;
const MAX_SAVED_BYTES: u64 = 64 * 1024 * 1024 * 1024;

/// Arguments of `fetch_url`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// http or https URL.
    pub(crate) url: String,
    /// HTTP method; default GET.
    #[serde(default)]
    pub(crate) method: Method,
    /// Headers. `$NAME` in a value is replaced by the secret NAME, sent only to its own hosts; `$$` is `$`.
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// JSON, or a string that is sent unchanged.
    pub(crate) body: Option<Value>,
    /// Names of secrets, at most 20, to replace as `$NAME` in the query and body too. Other `$` stay.
    #[serde(default)]
    #[schemars(length(max = 20))]
    pub(crate) secrets: Vec<String>,
    /// Timeout in seconds, default 30.
    #[schemars(range(min = 0.001, max = 3600.0))]
    pub(crate) timeout: Option<f64>,
    /// Format of an HTML page in `data`; default raw.
    #[serde(default)]
    pub(crate) format: Format,
    /// Path of a file for the body, instead of `data`.
    pub(crate) save_to: Option<String>,
    /// Maximum bytes, default 4 MiB, at most 32 MiB; with `save_to` 1 GiB and 64 GiB. A larger body is refused.
    #[schemars(range(min = 1))]
    pub(crate) max_bytes: Option<u64>,
    /// Follow redirects, at most 10; default true.
    #[serde(default = "yes")]
    pub(crate) follow_redirects: bool,
}

fn yes() -> bool {
    true
}

// The variants have no doc comments: without them the schema is a plain list of names, which every
// provider accepts.
/// An HTTP method.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
#[schemars(inline)]
pub(crate) enum Method {
    #[default]
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
}

impl Method {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Returns true if the method only reads (RFC 9110, section 9.2.1), so that it can be retried.
    pub(crate) fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head)
    }

    pub(crate) fn level(self) -> Level {
        match self {
            Self::Get | Self::Head => Level::Safe,
            Self::Post | Self::Put | Self::Patch => Level::Moderate,
            Self::Delete => Level::Destructive,
        }
    }
}

/// A format of an HTML page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Format {
    #[default]
    Raw,
    Text,
    Markdown,
}

/// Result of `fetch_url`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Output {
    /// HTTP status code, such as 200.
    status: u16,
    /// HTTP reason, such as OK.
    status_text: String,
    /// Response headers by lower-case name; several with one name are joined with commas.
    headers: BTreeMap<String, String>,
    /// Body, unless it was saved: parsed if it is JSON, else text, else base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
    /// Kind of `data`.
    data_kind: Kind,
    /// Bytes of the body, decompressed.
    size_bytes: u64,
    /// URL of the response, after redirects.
    url: String,
    /// URLs that redirected, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    redirected_from: Vec<String>,
    /// Path of the file with the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    saved_to: Option<String>,
}

impl Args {
    pub(crate) fn target(&self) -> Result<Target, ToolError> {
        Target::parse(&self.url).map_err(|error| {
            let refused = ToolError::validation("url", &error);
            match error {
                fetch::address::AddressError::UserInformation => {
                    refused.hint("send credentials in the header Authorization, with `$NAME` for a secret")
                }
                _ => refused
                    .hint("use https://HOST/PATH; write an IPv4 address as four decimal numbers, an IPv6 address in brackets"),
            }
        })
    }

    fn most_bytes(&self) -> u64 {
        let (default, most) =
            if self.save_to.is_some() { (SAVED_BYTES, MAX_SAVED_BYTES) } else { (BYTES, MAX_BYTES) };
        self.max_bytes.unwrap_or(default).min(most)
    }
}

impl Tool for FetchUrl {
    type Args = Args;
    type Output = Output;

    const SPEC: Spec = Spec {
        name: "fetch_url",
        title: "Fetch a URL",
        description: "Send an HTTP request and return the response. Secrets go into headers as $NAME and stay hidden. \
                      Pages as text or markdown; large or binary bodies to a file.",
        example: Example {
            files: &[],
            arguments: r#"{"url": "https://api.example.com/issues/1", "headers": {"Accept": "application/json"}}"#,
            result: r#"{"status": 200, "status_text": "OK", "data": {"id": 1}, "data_kind": "json"}"#,
        },
        level: Level::Safe,
        class: Class { reads_only: false, destructive: true, idempotent: false, open_world: true },
        timeout: Timeout { default: Duration::from_secs(30), max: Duration::from_hours(1) },
        lane: Lane::Read,
        text: TextCap::Default,
        presentation: Presentation::Record,
    };

    fn plan(&self, args: &Args, place: &Place) -> Result<Plan, ToolError> {
        let target = args.target()?;
        if args.method.is_safe() && args.body.is_some() {
            return Err(ToolError::validation("body", "is allowed only with POST, PUT, PATCH and DELETE"));
        }
        let host = target.host().to_string();
        let given = CallerHeaders::read(&args.headers)?;
        let mut effects = vec![Effect::Connect {
            host: host.clone(),
            port: target.port(),
            method: Some(args.method.as_str().to_owned()),
            only_asks: false,
        }];
        let filling = FilledParts::read(args, &target)?;
        let names: BTreeSet<&str> = given.names().chain(filling.names()).collect();
        if !names.is_empty() && (given.has(&fetch::RANGE) || given.has(&fetch::IF_RANGE)) {
            let problem = "a request with a secret must fetch the whole body: part of a secret in a partial body would not be \
                           recognized";
            return Err(ToolError::validation("headers.Range", problem)
                .hint("omit Range and If-Range; use `save_to` for large bodies"));
        }
        effects.extend(
            names.into_iter().map(|name| Effect::UseSecret { name: name.to_owned(), host: host.clone() }),
        );
        if let Some(path) = &args.save_to {
            effects.push(Effect::Write { path: place.resolve("save_to", path)? });
        }
        Ok(Plan { level: Some(args.method.level()), ..Plan::of(effects) })
    }

    fn timeout(&self, args: &Args) -> Option<Duration> {
        args.timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    }

    fn answer_bytes(&self, args: &Args) -> u64 {
        // Base64 adds a third, and the answer has headers too.
        if args.save_to.is_some() { 256 * 1024 } else { args.most_bytes() / 3 * 4 + 256 * 1024 }
    }

    /// Returns false if the call does other work: it reads a secret from a file, writes a body to
    /// one, or parses a page.
    fn only_waits(&self, args: &Args) -> bool {
        let is_plain = args.save_to.is_none() && args.format == Format::Raw && args.most_bytes() <= BYTES;
        is_plain
            && args.secrets.is_empty()
            && CallerHeaders::read(&args.headers).is_ok_and(|given| given.names().next().is_none())
    }

    /// Returns the request as it will be sent, with secrets by name.
    fn preview(&self, _context: &Context, args: &Args) -> Option<String> {
        let mut shown = format!("{} {}\n", args.method.as_str(), args.target().ok()?);
        for (name, value) in &args.headers {
            shown.push_str(&format!("{name}: {value}\n"));
        }
        match &args.body {
            None => {}
            Some(Value::String(text)) => shown.push_str(&format!("\n{text}\n")),
            Some(json) => shown.push_str(&format!("\n{json:#}\n")),
        }
        Some(shown)
    }

    async fn run(&self, context: &Context, args: Args) -> Result<Output, ToolError> {
        let limit = args.most_bytes();
        let mut exchange = Exchange::begin(context, &args)?;
        let began = exchange.began();
        let work = Box::pin(async {
            let answer = if let Some(path) = &args.save_to {
                let path = context.place.resolve("save_to", path)?;
                let roots = context.service::<Roots>()?;
                let goal = Goal { roots: &roots, path: &path, limit };
                match Box::pin(saving::save(context, &mut exchange, goal)).await? {
                    SaveOutcome::File { head, size_bytes } => {
                        let mut output = output(&exchange, head, None, Kind::File, size_bytes);
                        output.saved_to = Some(context.place.show(&path));
                        return Ok(output);
                    }
                    SaveOutcome::Not(answer) => *answer,
                }
            } else {
                exchange.answer(&fetch::HeaderMap::new()).await?
            };
            let (head, body) = exchange.body(answer, limit.min(MAX_BYTES)).await?;
            let size_bytes = body.len() as u64;
            let (kind, mut data) = answer::data(head.content_type(), body);
            if args.format != Format::Raw && kind == Kind::Text && head.is_html() {
                data =
                    Value::String(page::converted(context, data.as_str().unwrap_or_default(), args.format)?);
            }
            Ok(output(&exchange, head, Some(data), kind, size_bytes))
        });
        unless_stopped(&context.stop, &began, work).await
    }
}

fn output(
    exchange: &Exchange,
    head: answer::Head,
    data: Option<Value>,
    data_kind: Kind,
    size_bytes: u64,
) -> Output {
    Output {
        status: head.status,
        status_text: head.reason,
        headers: head.headers,
        data,
        data_kind,
        size_bytes,
        url: exchange.url(),
        redirected_from: exchange.redirected_from().to_vec(),
        saved_to: None,
    }
}

/// Returns the body, and the content type that applies if the caller names none.
pub(crate) fn body_and_type(body: Option<&Value>) -> Result<(fetch::Bytes, Option<&'static str>), ToolError> {
    match body {
        None => Ok((fetch::Bytes::new(), None)),
        Some(Value::String(text)) => Ok((text.clone().into(), Some("text/plain; charset=utf-8"))),
        Some(json) => serde_json::to_vec(json)
            .map(|bytes| (bytes.into(), Some("application/json")))
            .map_err(|error| ToolError::validation("body", error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use testkit::Workspace;
    use tool::{Code, ErasedTool};

    use super::*;

    #[test]
    fn the_plan_names_host_method_secrets_and_file_in_one_form() {
        let place = Workspace::new().place();
        let plan = |arguments: Value| {
            ErasedTool::tool(FetchUrl).prepare(arguments, &place).map(|prepared| prepared.plan)
        };
        let connect = |host: &str, port, method: &str| Effect::Connect {
            host: host.to_owned(),
            port,
            method: Some(method.to_owned()),
            only_asks: false,
        };
        let all = json!({
            "url": "https://API.Example.com./x", "headers": {"Authorization": "Bearer $b$a$a"}, "save_to": "d/f"
        });
        let secret =
            |name: &str| Effect::UseSecret { name: name.to_owned(), host: "api.example.com".to_owned() };
        let all = plan(all).unwrap();
        assert_eq!(
            all.effects,
            [
                connect("api.example.com", 443, "GET"),
                secret("a"),
                secret("b"),
                Effect::Write { path: place.workspace.join("d/f") }
            ]
        );
        for (method, level) in [
            ("GET", Level::Safe),
            ("HEAD", Level::Safe),
            ("POST", Level::Moderate),
            ("PUT", Level::Moderate),
            ("PATCH", Level::Moderate),
            ("DELETE", Level::Destructive),
        ] {
            let plan = plan(json!({"url": "http://[::FFFF:127.0.0.1]:81", "method": method})).unwrap();
            assert_eq!((plan.level, plan.effects), (Some(level), vec![connect("127.0.0.1", 81, method)]));
        }
    }

    #[test]
    fn a_human_who_is_asked_is_shown_the_request_and_no_secret() {
        let context = Workspace::new().context();
        let shown = |arguments: Value| {
            let prepared = ErasedTool::tool(FetchUrl).prepare(arguments, &context.place).unwrap();
            prepared.preview(&context).unwrap()
        };
        let post = json!({
            "url": "https://A.example./x?y", "method": "POST", "headers": {"Authorization": "$KEY"}, "body": {"a": 1}
        });
        assert_eq!(shown(post), "POST https://a.example/x?y\nAuthorization: $KEY\n\n{\n  \"a\": 1\n}\n");
        let text = json!({"url": "http://a.example", "method": "PUT", "body": "b"});
        assert_eq!(shown(text), "PUT http://a.example/\n\nb\n");
    }

    #[test]
    fn refuses_a_url_that_looks_like_another_and_names_no_password() {
        let place = Workspace::new().place();
        for url in
            ["https://api.example.com@evil.example/", "https://user:passw0rd@a.example/", "http://0x7f.1/"]
        {
            let refused = ErasedTool::tool(FetchUrl).prepare(json!({"url": url}), &place);
            let error = refused.err().unwrap_or_else(|| panic!("{url}"));
            assert_eq!(error.code, Code::Validation);
            assert!(!error.message.contains("passw0rd"), "{}", error.message);
        }
    }
}
