//! Processing of one request, from its head to its response.

use std::convert::Infallible;
use std::sync::Arc;

use hyper::header::{CACHE_CONTROL, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::http::request::Parts;
use hyper::{Method, Request, StatusCode};
use serde_json::json;

use crate::body::RequestBody;
use crate::credential::Role;
use crate::mount::{MountBody, MountRequest};
use crate::oauth::TokenRejection;
use crate::principal;
use crate::refusal;
use crate::reply::{self, Reply};
use crate::route::{Access, Route};
use crate::sender::Sender;
use crate::state::ServerState;
use crate::{agents, approvals, audit, call, events, metrics, openapi, origin};

/// Responds to a request.
pub(crate) async fn answer(
    shared: Arc<ServerState>,
    request: Request<RequestBody>,
) -> Result<Reply, Infallible> {
    let (head, body) = request.into_parts();
    let method = method_name(&head.method);
    let (route, mut reply) = match let_in(&shared, &head).await {
        Ok((route, sender)) => (route.path(), respond(&shared, route, &sender, head, body).await),
        Err((route, refusal)) => (route, refusal),
    };
    shared.answered.count(route, method, reply.status());
    // INVARIANT: every response passes through here, including refusals.
    reply.body_mut().cover(&shared.engine);
    let headers = reply.headers_mut();
    for value in headers.values_mut() {
        let covered = shared.engine.cover_message(value.as_bytes());
        if let Some(covered) = covered {
            *value = HeaderValue::from_bytes(&covered).unwrap_or(HeaderValue::from_static("-"));
        }
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    Ok(reply)
}

/// Returns the name of a method in the metrics. Unknown methods share one name, so that clients
/// cannot add further ones.
fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "DELETE"];
    known.into_iter().find(|known| method.as_str() == *known).unwrap_or("other")
}

/// Performs the checks that every request must pass. Returns the route and the sender, or the refusal.
async fn let_in(shared: &ServerState, head: &Parts) -> Result<(Route, Sender), (&'static str, Reply)> {
    let nowhere = |reply| ("none", reply);
    shared.guard.check(head).map_err(|stranger| nowhere(refusal::stranger(&shared.engine, &stranger)))?;
    let path = head.uri.path();
    let found = shared.routes.find(path).map_err(|error| nowhere(reply::failure(&error)))?;
    let Some(route) = found else {
        let sender = principal::of(&shared.options, &head.headers).await.ok();
        return Err(nowhere(refusal::unknown_path(&shared.engine, path, sender.map(|sender| sender.role))));
    };
    let nobody = || Sender { role: Role::Observer, session: shared.options.session.clone(), subject: None };
    let provider = shared.options.provider.as_ref();
    let sender = match route.access() {
        Access::Only(roles) => {
            let needs = |sender: Option<&Sender>| {
                let scope = provider.and_then(|provider| provider.scope_of(roles[0]));
                refusal::wrong_role(sender.map(|sender| sender.role), roles, provider, scope)
            };
            match principal::of(&shared.options, &head.headers).await {
                Ok(sender) if roles.contains(&sender.role) => sender,
                Ok(sender) => return Err((route.path(), needs(Some(&sender)))),
                Err(TokenRejection::Scope) => return Err((route.path(), needs(None))),
                Err(refused) => {
                    return Err((route.path(), refusal::no_credential(&shared.engine, &refused, provider)));
                }
            }
        }
        Access::Open => nobody(),
    };
    if !route.takes(&head.method) {
        return Err((route.path(), reply::wrong_method(route.methods())));
    }
    Ok((route, sender))
}

async fn respond(
    shared: &Arc<ServerState>,
    route: Route,
    sender: &Sender,
    head: Parts,
    body: RequestBody,
) -> Reply {
    let query = head.uri.query();
    match route {
        Route::Health => reply::json(StatusCode::OK, &json!({ "status": "ok" })),
        Route::Ready => ready(shared),
        Route::Metrics => metrics::show(shared),
        Route::OpenApi => reply::json(StatusCode::OK, &openapi::document(shared.routes.points())),
        Route::Tools => call::tools(shared),
        Route::Call => call::call(shared, sender, &head.headers, body).await,
        Route::Check => call::check(shared, body).await,
        Route::Audit => audit::list(shared, sender, query).await,
        Route::AuditOf(call) => audit::show(shared, sender, call).await,
        Route::Approvals => approvals::list(shared, query).await,
        Route::Approval(id) => approvals::show(shared, id).await,
        Route::Approve(id) => approvals::approve(shared, sender, id, body).await,
        Route::Deny(id) => approvals::deny(shared, sender, id, body).await,
        Route::Leases => approvals::leases(shared, query).await,
        Route::Lease(id) => approvals::revoke(shared, sender, id).await,
        Route::Events => events::follow(shared),
        Route::Agents => agents::list(shared, sender),
        Route::AgentEvents => agents::follow(shared, sender),
        Route::Resource => match &shared.options.provider {
            None => refusal::unknown_path(&shared.engine, head.uri.path(), None),
            Some(provider) => reply::json(StatusCode::OK, &provider.metadata()),
        },
        Route::Mount(point) => match shared.handler(point) {
            None => refusal::unknown_path(&shared.engine, head.uri.path(), Some(sender.role)),
            Some(handler) => {
                let request = MountRequest {
                    origin: origin::of(shared, &head.headers, point.path),
                    method: head.method,
                    headers: head.headers,
                    sender: sender.clone(),
                    body: MountBody::new(body, shared.room.clone()),
                    stopping: shared.stopping.subscribe(),
                };
                handler.respond(request).await
            }
        },
    }
}

fn ready(shared: &ServerState) -> Reply {
    if *shared.stopping.borrow() {
        return reply::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "stopping" }));
    }
    match shared.engine.approvals().watch() {
        Ok(_) => reply::json(StatusCode::OK, &json!({ "status": "ok" })),
        Err(error) => {
            let problem = error.to_string();
            reply::json(StatusCode::SERVICE_UNAVAILABLE, &json!({ "status": "state", "problem": problem }))
        }
    }
}
