//! Requests to servers behind a URL, over the checked dialling of every tool: no address is dialled that the policy
//! does not allow, and no redirection is followed.

use std::sync::Arc;

use fetch::address::Target;
use fetch::dial::Permission;
use fetch::web::Web;
use fetch::{HeaderMap, HeaderName, HeaderValue};
use mcp_client::config::{HttpConfig, ServerConfig};
use mcp_client::{HttpAnswer, HttpFailure, HttpRequest, HttpTransport};
use parking_lot::Mutex;
use tool::{BoxFuture, Context, Effect, Level, Plan, ToolError};
use tool_support::RequestPart;

use crate::login_use::LoginUse;
use crate::plain_transport::{add_headers, read, sent};
use crate::stored_login::StoredLogin;

/// Sender of the requests to one endpoint.
pub(crate) struct CheckedTransport {
    web: Arc<Web>,
    target: Target,
    rights: Mutex<Option<Rights>>,
}

/// Rights of the call that used the connection last. Every call of a connection has the same ceiling.
#[derive(Clone)]
struct Rights {
    permission: Permission,
    headers: HeaderMap,
    login: Option<Arc<LoginUse>>,
}

/// Returns the URL of an endpoint. Its variables have their defaults.
///
/// # Errors
/// `EVALIDATION` if it is no URL to which a secret may be sent.
pub(crate) fn target(config: &HttpConfig) -> Result<Target, ToolError> {
    let url = config.url.expand(|_| None).map_err(|error| ToolError::validation("url", error))?;
    tool_support::endpoint(&url).map_err(|error| ToolError::validation("url", error))
}

/// Returns the names of the secrets that the headers of an endpoint name.
fn secrets(config: &HttpConfig) -> Vec<String> {
    let mut names: Vec<String> =
        config.headers.values().flat_map(|value| value.variables().map(str::to_owned)).collect();
    names.sort();
    names.dedup();
    names
}

/// Adds the effects of a request to an endpoint to a plan.
///
/// # Errors
/// `EVALIDATION` if the endpoint is no URL.
fn plan(
    config: &HttpConfig,
    level: Level,
    mut plan: Plan,
    login: Option<&StoredLogin>,
) -> Result<Plan, ToolError> {
    let target = target(config)?;
    let host = target.host().to_string();
    if let Some(login) = login {
        login.add_to(&mut plan, &host);
    }
    plan.effects.push(Effect::Connect {
        host: host.clone(),
        port: target.port(),
        method: Some("POST".to_owned()),
        only_asks: level == Level::Safe,
    });
    for name in secrets(config) {
        plan.effects.push(Effect::UseSecret { name: name.clone(), host: host.clone() });
        plan.login.push(name);
    }
    Ok(plan)
}

/// Adds the effects of reaching a server to a plan. A program of this machine has none.
///
/// # Errors
/// `EVALIDATION` if the endpoint is no URL.
pub(crate) fn plan_of(
    config: &ServerConfig,
    level: Level,
    so_far: Plan,
    login: Option<&StoredLogin>,
) -> Result<Plan, ToolError> {
    match config {
        ServerConfig::Stdio(_) => Ok(so_far),
        ServerConfig::Http(config) | ServerConfig::EventStream(config) => plan(config, level, so_far, login),
    }
}

impl CheckedTransport {
    pub(crate) fn new(web: Arc<Web>, target: Target) -> Arc<Self> {
        Arc::new(Self { web, target, rights: Mutex::default() })
    }

    /// Makes the following requests those of a call, with the login of the server if there is one.
    ///
    /// # Errors
    /// The error of a secret that may not be sent, or is not stored, or of a login that cannot be renewed.
    pub(crate) async fn act_for(
        &self,
        context: &Context,
        config: &HttpConfig,
        login: Option<LoginUse>,
    ) -> Result<(), ToolError> {
        let host = self.target.host().to_string();
        let mut values = std::collections::BTreeMap::new();
        for name in secrets(config) {
            let value = tool_support::secret(context, &name, &host, RequestPart::Header)?;
            values.insert(name, String::from_utf8_lossy(&value).into_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, template) in &config.headers {
            let wrong =
                |problem: &dyn std::fmt::Display| ToolError::validation(&format!("headers.{name}"), problem);
            let value = template.expand(|name| values.get(name).cloned()).map_err(|error| wrong(&error))?;
            let name = HeaderName::try_from(name.as_str()).map_err(|error| wrong(&error))?;
            let mut value = HeaderValue::try_from(value).map_err(|error| wrong(&error))?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let holds_secret = !headers.is_empty() || login.is_some();
        let permission = tool_support::permission(context, &self.target, holds_secret)?;
        if let Some(login) = &login {
            // A renewal that fails is an error of the call, with its own code.
            login.access(None).await?;
        }
        *self.rights.lock() = Some(Rights { permission, headers, login: login.map(Arc::new) });
        Ok(())
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpAnswer, HttpFailure> {
        let failed = |message: String| HttpFailure { message };
        let target = Target::parse(&request.url).map_err(|error| failed(error.to_string()))?;
        if !target.has_origin_of(&self.target) {
            return Err(failed("the server named another host, which is not followed".to_owned()));
        }
        let rights = self.rights.lock().clone();
        let Rights { permission, mut headers, login } =
            rights.ok_or_else(|| failed("no call uses the connection".to_owned()))?;
        add_headers(&mut headers, &request.headers)?;
        let Some(login) = login else {
            return Ok(read(sent(&self.web, target, headers, &request, permission).await?));
        };
        let token = login.access(None).await.map_err(|error| failed(error.message))?;
        let with_token = bearer(headers.clone(), &token)?;
        let answer = sent(&self.web, target.clone(), with_token, &request, permission.clone()).await?;
        if answer.status != 401 {
            return Ok(read(answer));
        }
        // The server has not carried out the request. Its token is renewed once.
        let Ok(token) = login.access(Some(&token)).await else { return Ok(read(answer)) };
        let answer = sent(&self.web, target, bearer(headers, &token)?, &request, permission).await?;
        Ok(read(answer))
    }
}

/// Adds a token to headers (RFC 6750).
///
/// # Errors
/// [`HttpFailure`] for a token that no header can contain.
fn bearer(mut headers: HeaderMap, token: &[u8]) -> Result<HeaderMap, HttpFailure> {
    let value = HeaderValue::try_from([b"Bearer ", token].concat());
    let mut value = value.map_err(|error| HttpFailure { message: error.to_string() })?;
    value.set_sensitive(true);
    headers.insert(HeaderName::from_static("authorization"), value);
    Ok(headers)
}

impl HttpTransport for CheckedTransport {
    fn send(&self, request: HttpRequest) -> BoxFuture<'_, Result<HttpAnswer, HttpFailure>> {
        Box::pin(self.exchange(request))
    }
}
