//! The HTTP interface as an `OpenAPI` document. A test of the composition
//! compares it with `docs/openapi.json`.

mod examples;

use serde_json::{Map, Value, json};

use self::examples::{Examples, examples};
use crate::credential::Role;
use crate::mount_point::{Content, MountPoint, Operation};
use crate::route::{Access, Route};

/// Description of one route.
struct RouteDescription {
    route: Route,
    method: &'static str,
    summary: &'static str,
    query: &'static [(&'static str, &'static str, &'static str)],
    body: Option<Value>,
    answer: Value,
}

/// Builds the document of a server with these mounts, in `OpenAPI` 3.1.
pub fn document(mounts: &[&'static MountPoint]) -> Value {
    let mut paths = Map::new();
    for said in all() {
        let path = paths.entry(said.route.path()).or_insert_with(|| json!({}));
        path[said.method] = operation(&said);
        path[said.method]["operationId"] = operation_id(said.route.path(), said.method).into();
    }
    for point in mounts {
        let path = paths.entry(point.path).or_insert_with(|| json!({}));
        for said in (point.operations)() {
            path[said.method] = mounted(point, &said);
            path[said.method]["operationId"] = operation_id(point.path, said.method).into();
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Handfast",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "The status tells whether the request was accepted; `ok` in the body tells \
             whether the tool worked. Requests are refused unless `Host` is an address or a known name \
             of this server, and `Origin`, if present, is its own.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": Role::ALL.iter().map(|role| {
                let words = match role {
                    Role::Agent => "The agents' token: calls.",
                    Role::User => "The user's token: answers to questions, and the audit.",
                    Role::Observer => "The observers' token: metrics.",
                };
                let scheme = json!({ "type": "http", "scheme": "bearer", "description": words });
                (role.as_str().to_owned(), scheme)
            }).collect::<Map<_, _>>(),
            "schemas": schemas(),
        },
    })
}

fn operation(said: &RouteDescription) -> Value {
    let named = said.route.path().split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = named
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = said.query.iter().map(|(name, kind, words)| {
        json!({ "name": name, "in": "query", "description": words, "schema": { "type": kind } })
    });
    let parameters: Vec<Value> = in_path.chain(in_query).collect();
    let mut operation = json!({
        "summary": said.summary,
        "responses": {
            "200": said.answer,
            "default": answer("The request was not accepted.", reference("Failure")),
        },
    });
    if !parameters.is_empty() {
        operation["parameters"] = Value::from(parameters);
    }
    let Examples { asked, answered } = examples(&said.route, said.method);
    if let Some(body) = &said.body {
        let content = json!({ "schema": body, "example": asked });
        operation["requestBody"] = json!({ "content": { "application/json": content } });
    }
    let contents = operation["responses"]["200"]["content"].as_object_mut();
    let first = contents.and_then(|contents| contents.values_mut().next());
    if let Some(content) = first {
        content["example"] = answered;
    }
    operation["security"] = security(said.route.access());
    operation
}

/// Describes one method of a mounted path.
fn mounted(point: &'static MountPoint, said: &Operation) -> Value {
    let content =
        |content: &Content| json!({ content.kind: { "schema": content.schema, "example": content.example } });
    let mut operation = json!({
        "summary": said.summary,
        "responses": {
            "200": { "description": said.answer_summary, "content": content(&said.answer) },
            "default": answer("The request was not accepted.", reference("Failure")),
        },
    });
    if let Some(body) = &said.body {
        operation["requestBody"] = json!({ "content": content(body) });
    }
    operation["security"] = security(Route::Mount(point).access());
    operation
}

fn security(access: Access) -> Value {
    match access {
        Access::Open => json!([]),
        Access::Only(roles) => roles.iter().map(|role| json!({ role.as_str(): [] })).collect(),
    }
}

/// Returns a unique name of the operation, for generated clients.
fn operation_id(path: &str, method: &str) -> String {
    let parts = path.split(['/', '.', '-']).filter(|part| !part.is_empty());
    let parts = parts.map(|part| part.trim_matches(['{', '}']));
    std::iter::once(method).chain(parts).collect::<Vec<_>>().join("_")
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

fn answer(words: &str, schema: impl Into<Value>) -> Value {
    json!({ "description": words, "content": { "application/json": { "schema": schema.into() } } })
}

fn list_of(schema: impl Into<Value>) -> Value {
    json!({ "type": "array", "items": schema.into() })
}

fn all() -> Vec<RouteDescription> {
    let id = String::new;
    let get = |route, summary, answer| RouteDescription {
        route,
        method: "get",
        summary,
        query: &[],
        body: None,
        answer,
    };
    let status = || answer("A JSON object.", json!({ "type": "object" }));
    let anything = || json!({ "type": "object" });
    let mut call = answer("The result of the call.", reference("Result"));
    call["content"]["text/event-stream"] = json!({ "schema": {
        "type": "string",
        "description": "If only this type is accepted: events `progress` (done, total, message), \
         `approval` (approval_id, effects, reason) and finally `result`.",
    } });
    let all_of_them: &[_] = &[("all", "boolean", "Also those that can no longer be answered or used.")];
    vec![
        get(Route::Health, "Whether the process is alive.", status()),
        get(Route::Ready, "Whether it accepts calls.", status()),
        get(
            Route::Metrics,
            "Metrics for Prometheus.",
            json!({ "description": "Figures.", "content": { "text/plain": { "schema": { "type": "string" } } } }),
        ),
        get(
            Route::Resource,
            "Where to get tokens for this server (RFC 9728); absent without an identity provider.",
            answer("The metadata of this protected resource.", anything()),
        ),
        get(Route::OpenApi, "This document.", answer("This document.", anything())),
        get(Route::Tools, "Every tool, with its schemas.", answer("The tools.", list_of(reference("Tool")))),
        RouteDescription {
            route: Route::Call,
            method: "post",
            summary: "Makes a call, which is cancelled if the client disconnects.",
            query: &[],
            body: Some(reference("Call")),
            answer: call,
        },
        RouteDescription {
            route: Route::Check,
            method: "post",
            summary: "The policy's decision on a call, with reasons. Nothing runs.",
            query: &[],
            body: Some(reference("Question")),
            answer: answer("The decision.", reference("Decision")),
        },
        RouteDescription {
            query: &[
                ("tool", "string", "Only of this tool."),
                ("session", "string", "Only of this session."),
                ("since", "string", "Only from this time on (RFC 3339)."),
                ("before", "integer", "Only rows before this one: `before` of the previous page."),
                ("limit", "integer", "Maximum number of calls; default 50, at most 1,000."),
            ],
            ..get(
                Route::Audit,
                "Recorded calls, newest first.",
                answer(
                    "A page.",
                    json!({ "type": "object", "properties": { "calls": list_of(anything()), "before": { "type": ["integer", "null"] } } }),
                ),
            )
        },
        get(Route::AuditOf(id()), "Every row of one call.", answer("The rows.", list_of(anything()))),
        RouteDescription {
            query: all_of_them,
            ..get(
                Route::Approvals,
                "Questions, newest first.",
                answer("The questions.", list_of(reference("Approval"))),
            )
        },
        get(Route::Approval(id()), "One question.", answer("The question.", reference("Approval"))),
        RouteDescription {
            route: Route::Approve(id()),
            method: "post",
            summary: "Approves the call.",
            query: &[],
            body: Some(reference("Yes")),
            answer: answer(
                "The question's current state, the lease, and the number of changed paths.",
                anything(),
            ),
        },
        RouteDescription {
            route: Route::Deny(id()),
            method: "post",
            summary: "Denies the call.",
            query: &[],
            body: Some(reference("No")),
            answer: answer("The question's current state.", reference("Approval")),
        },
        RouteDescription {
            query: all_of_them,
            ..get(Route::Leases, "The leases in force.", answer("The leases.", list_of(anything())))
        },
        RouteDescription {
            method: "delete",
            ..get(Route::Lease(id()), "Revokes a lease.", answer("The revoked lease.", anything()))
        },
        get(
            Route::Events,
            "Questions as they are asked and answered. While a client listens, calls wait for the answers.",
            json!({ "description": "Events `approval`, each with the question.",
                "content": { "text/event-stream": { "schema": { "type": "string" } } } }),
        ),
        get(
            Route::Agents,
            "The agents that work here: all for the user, and for a caller those of its own sessions.",
            answer(
                "The agents, oldest first.",
                json!({ "type": "object", "properties": { "agents": list_of(anything()) } }),
            ),
        ),
        get(
            Route::AgentEvents,
            "What these agents do, as it happens.",
            json!({ "description": "Events `agent`, each with an agent as `/v1/agents` shows it, and then `event`: \
                the id of the `agent`, the `event` (`started`, `answered`, `call`, `result`, `message`, `summarised`, \
                `state`) and its facts. `missed` tells how many events a slow client has not got.",
                "content": { "text/event-stream": { "schema": { "type": "string" } } } }),
        ),
    ]
}

fn object(required: &[&str], properties: &Value) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

fn schemas() -> Value {
    let text = |words: &str| json!({ "type": "string", "description": words });
    let arguments = json!({ "type": "object", "description": "The tool's arguments." });
    let error = object(
        &["code", "message", "effect", "retry"],
        &json!({
            "code": { "type": "string", "enum": tool::Code::ALL.map(tool::Code::as_str) },
            "message": text("The problem, with the field, path or limit."),
            "hint": text("What to do."),
            "effect": { "type": "string", "enum": ["none", "maybe", "done"], "description": "Whether anything changed." },
            "retry": { "description": "`never`, `now`, or an object with `after_ms`." },
            "approval_id": text("With EAPPROVAL: the question."),
        }),
    );
    let yes = json!({
        "scope": { "type": "string", "enum": ["once", "session", "project", "always"], "default": "once" },
        "pattern": text("The pattern to allow instead of the offered one."),
        "seconds": { "type": "integer", "description": "How long the approval is valid." },
    });
    json!({
        "Call": object(&["tool"], &json!({
            "tool": text("The tool's name."),
            "arguments": arguments,
            "cache": { "type": "boolean", "default": false, "description": "Whether the cache may \
             answer a read." },
        })),
        "Question": object(&["tool"], &json!({ "tool": text("The tool's name."), "arguments": arguments })),
        "Result": object(&["ok", "meta"], &json!({
            "ok": { "type": "boolean", "description": "Whether the tool worked." },
            "data": { "description": "The tool's output." },
            "error": reference("Error"),
            "meta": { "type": "object", "description": "Facts about the call from the layers around \
             the tool." },
        })),
        "Error": error,
        "Failure": object(&["ok", "error"], &json!({ "ok": { "const": false }, "error": reference("Error") })),
        "Decision": object(&["decision", "level", "mode", "profile", "rule", "line", "reason", "hint", "effects"], &json!({
            "decision": { "type": "string", "enum": ["pass", "check", "deny"] },
            "level": text("The level of the call."),
            "mode": text("The mode: when humans are asked."),
            "profile": text("The profile that decided."),
            "rule": text("The rule that decided, with its origin."),
            "reason": text("Why."),
            "line": { "type": "integer", "minimum": 1, "maximum": 9, "description": "The line of the decision list that applied." },
            "hint": { "type": ["string", "null"], "description": "How to change the decision; null if \
             the call passes." },
            "part": text("The effect or command that decided."),
            "passes_with": {
                "type": "array",
                "items": { "type": "object" },
                "description": "List entries with which the call would pass.",
            },
            "denied_commands": {
                "type": "array",
                "items": { "type": "string" },
                "description": "For a command: how each rule of `deny_exec_command` is enforced, and \
                 its limits.",
            },
            "preview": text("The diff or the command, as a human would see it. Only for the user."),
            "preview_more_lines": { "type": "integer", "description": "Number of lines left out at the \
             end of the preview." },
            "effects": { "type": "array", "description": "All effects of the call." },
        })),
        "Tool": object(&["name", "description", "level", "input_schema", "output_schema"], &json!({
            "name": text("Its name."),
            "description": text("The description for the model."),
            "level": text("The level of its effects."),
            "input_schema": { "type": "object" },
            "output_schema": { "type": "object" },
        })),
        "Approval": object(&["id", "tool", "effects", "state", "expires_at"], &json!({
            "id": text("Its id."),
            "tool": text("The tool that would be called."),
            "effects": { "type": "array", "items": { "type": "string" } },
            "preview": { "type": ["string", "null"], "description": "Further details." },
            "offers": { "type": "array", "description": "Possible scopes of an approval." },
            "state": text("waiting, approved, denied, used or expired."),
            "caller_waits": {
                "type": "boolean",
                "description": "Whether the call waits for the answer. If not, the same call passes \
                 once after an approval.",
            },
            "expires_at": text("Time after which it can be neither answered nor used."),
        })),
        "Yes": object(&[], &yes),
        "No": object(&[], &json!({ "message": text("A message to the agent.") })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    static MOUNTED: MountPoint = MountPoint {
        path: "/v1/mounted",
        roles: &[Role::Agent],
        methods: "POST",
        operations: || {
            let content = || Content { kind: "text/plain", schema: json!({}), example: json!("x") };
            let (body, answer) = (Some(content()), content());
            vec![Operation { method: "post", summary: "s", body, answer_summary: "a", answer }]
        },
    };

    #[test]
    fn every_route_and_method_is_in_the_document_and_nothing_else() {
        let document = document(&[&MOUNTED]);
        let mut known: Vec<(String, String)> = Vec::new();
        for route in Route::all().into_iter().chain([Route::Mount(&MOUNTED)]) {
            for method in route.methods().split(", ").filter(|method| *method != "HEAD") {
                known.push((route.path().to_owned(), method.to_ascii_lowercase()));
            }
        }
        let mut said: Vec<(String, String)> = Vec::new();
        for (path, methods) in document["paths"].as_object().unwrap() {
            said.extend(methods.as_object().unwrap().keys().map(|method| (path.clone(), method.clone())));
        }
        known.sort();
        said.sort();
        assert_eq!(known, said);
    }
}
